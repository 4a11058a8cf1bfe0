"""One ``generate`` call, from the arguments of ``_sample`` to its result."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessorList
from transformers.generation.stopping_criteria import StoppingCriteria, StoppingCriteriaList
from transformers.generation.utils import GenerateDecoderOnlyOutput, GenerationMixin

from lookahead.config import LookupConfig
from lookahead.decoding import decode
from lookahead.plugins.hf_check import check_token_ids, multimodal_token_ids, plain_reason
from lookahead.plugins.hf_output import HFOutput
from lookahead.plugins.hf_state import state_of
from lookahead.plugins.hf_target import HFTarget
from lookahead.proposer import LookupProposer
from lookahead.stats import DecodingStats


@dataclass
class Call:
    """The arguments that transformers hands to ``_sample``."""

    input_ids: Tensor
    logits_processor: LogitsProcessorList
    stopping_criteria: StoppingCriteriaList
    generation_config: GenerationConfig
    synced_gpus: bool
    streamer: Any
    model_kwargs: dict[str, Any]


def run(model: Any, call: Call, config: LookupConfig | None) -> Any:
    """Decode with drafts where that is right, plainly elsewhere or when ``config`` is None.

    Returns:
        What ``_sample`` returns: token ids ``[1, length]``, or a GenerateDecoderOnlyOutput.
    """
    if config is None:
        return _run_plainly(model, call, "")
    check_token_ids(model, "input_ids", call.input_ids)
    reason = plain_reason(model, call.input_ids, call.generation_config, call.synced_gpus, call.model_kwargs)
    if reason is not None:
        state_of(model).log_plain(model, reason)
        return _run_plainly(model, call, reason)
    return _run_with_drafts(model, call, config)


def _run_plainly(model: Any, call: Call, reason: str) -> Any:
    """Run transformers' own loop, with a clock among the criteria that never stops it."""
    clock = _Clock(state_of(model).begin(reason), call.input_ids.shape[1])
    return GenerationMixin._sample(
        model,
        call.input_ids,
        logits_processor=call.logits_processor,
        stopping_criteria=StoppingCriteriaList([*call.stopping_criteria, clock]),
        generation_config=call.generation_config,
        synced_gpus=call.synced_gpus,
        streamer=call.streamer,
        **call.model_kwargs,
    )


def _run_with_drafts(model: Any, call: Call, config: LookupConfig) -> Any:
    proposer = _proposer(model, call, config)
    generation = call.generation_config
    stats = state_of(model).begin()
    stats.prompt_tokens = call.input_ids.shape[1]
    output = HFOutput(call.input_ids, call.logits_processor, call.stopping_criteria, generation, call.streamer)
    max_length = call.stopping_criteria.max_length or generation.max_length
    target = HFTarget(model, output, generation, call.model_kwargs, max_length)
    started = perf_counter()
    logits = target.prefill()
    returned = generation.return_dict_in_generate or getattr(target.cache, "_is_user_defined", False)
    with _closing(target, returned), _decode_mode(model):
        first = output.chooser(logits)(0)
        stopped = output.emit(first)
        stats.start_decoding(perf_counter() - started)
        if not stopped:
            proposer.extend([first])
            decode(target, proposer, output, stats)
    if call.streamer is not None:
        call.streamer.end()
    if not generation.return_dict_in_generate:
        return output.result()
    return GenerateDecoderOnlyOutput(
        sequences=output.result(), scores=output.scores, logits=output.logits, cache=target.cache
    )


def _proposer(model: Any, call: Call, config: LookupConfig) -> LookupProposer:
    """Index references, prediction and prompt, in this order: of equal matches the latest is drafted from."""
    end_tokens = getattr(call.generation_config, "_eos_token_tensor", None)
    texts = [(f"references[{i}]", text) for i, text in enumerate(config.references)]
    if config.prediction is not None:
        texts.append(("prediction", config.prediction))
    proposer = LookupProposer(
        config,
        documents=[_token_ids(model, name, text) for name, text in texts],
        stop_tokens=() if end_tokens is None else end_tokens.flatten().tolist(),
        banned_tokens=multimodal_token_ids(model.config),
    )
    proposer.extend(_prompt(call))
    return proposer


def _prompt(call: Call) -> list[int]:
    """Return the prompt's token ids without padding."""
    ids, mask = call.input_ids[0], call.model_kwargs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.shape == call.input_ids.shape:
        ids = ids[mask[0].to(ids.device) != 0]
    return ids.tolist()


def _token_ids(model: Any, name: str, text: Any) -> list[int]:
    if isinstance(text, str):
        tokenizer = state_of(model).tokenizer
        if tokenizer is None:
            raise ValueError(
                f"lookup option {name} is text, but no tokenizer is known: call hf.enable(model, tokenizer), or pass "
                "token ids"
            )
        return tokenizer(text, add_special_tokens=False)["input_ids"]
    ids = text.tolist() if hasattr(text, "tolist") else list(text)
    check_token_ids(model, f"lookup option {name}", ids)
    return ids


@contextmanager
def _closing(target: HFTarget, cache_is_returned: bool) -> Iterator[None]:
    """Leave the cache right, also when a streamer or a criterion raises or the user interrupts."""
    try:
        yield
    except BaseException:
        target.close(cache_is_returned=False)
        raise
    target.close(cache_is_returned)


def _decode_mode(model: Any) -> Any:
    """Switch mixture-of-experts kernels for decoding, as plain generation does."""
    optimize = getattr(model, "_optimize_model_for_decode", None)
    return nullcontext() if optimize is None else optimize()


class _Clock(StoppingCriteria):
    """Times plain generation from inside: asked once per token, it never stops."""

    def __init__(self, stats: DecodingStats, prompt_tokens: int) -> None:
        self._stats = stats
        self._started = perf_counter()
        stats.prompt_tokens = prompt_tokens

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        stats, elapsed = self._stats, perf_counter() - self._started
        stats.generated_tokens = input_ids.shape[1] - stats.prompt_tokens
        stats.steps = stats.generated_tokens - 1
        if stats.steps == 0:
            stats.prefill_s = elapsed
        stats.decode_s = elapsed - stats.prefill_s
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
