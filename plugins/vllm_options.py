"""ProposerOptions: what the proposer needs to know of a vLLM engine, read from its configuration."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lookahead.candidates import MAX_DEPTH
from lookahead.index import MAX_TOKEN

_INDEX_BYTES = 2**30
_GIVEN = ("max_draft", "min_match", "index_bytes")
_PLACEHOLDERS = ("image_token_id", "image_token_index", "video_token_id", "video_token_index", "audio_token_id")


@dataclass(frozen=True, slots=True)
class ProposerOptions:
    """Limits of the engine, and the options given with ``--additional-config '{"lookahead": {...}}'``.

    Attributes:
        max_draft: Most draft tokens of one request in one step: K, 64 or the option, whichever is least.
        min_match: Option; tokens before the copied place that must agree with the last ones.
        index_bytes: Option; bytes that the indexes of all requests may hold, 1 GiB unless given.
        max_model_len: Longest text of a request.
        max_batched_tokens: Widest step.
        vocabulary: Ids from here on are no tokens.
        stop_tokens: Ends of sequence.
        banned_tokens: Placeholders of images and the like, which are never drafted.
        alike: Whether several processes must come to the same drafts by themselves.

    Raises:
        ValueError: An option is unknown or out of range.
    """

    max_draft: int
    min_match: int = 0
    index_bytes: int = _INDEX_BYTES
    max_model_len: int = 2**31
    max_batched_tokens: int = 2**31
    vocabulary: int = MAX_TOKEN + 1
    stop_tokens: frozenset[int] = frozenset()
    banned_tokens: frozenset[int] = frozenset()
    alike: bool = False

    @classmethod
    def read(cls, vllm_config: Any) -> "ProposerOptions":
        """Read a ``VllmConfig``."""
        given = _given(vllm_config.additional_config)
        model, parallel = vllm_config.model_config, vllm_config.parallel_config
        most = min(vllm_config.speculative_config.num_speculative_tokens, MAX_DEPTH)
        return cls(
            max_draft=min(given.pop("max_draft", most), most),
            max_model_len=model.max_model_len,
            max_batched_tokens=vllm_config.scheduler_config.max_num_batched_tokens,
            vocabulary=model.get_vocab_size(),
            stop_tokens=_ids(getattr(model.hf_config, "eos_token_id", None)),
            banned_tokens=frozenset().union(*(_ids(getattr(model.hf_config, name, None)) for name in _PLACEHOLDERS)),
            alike=parallel.world_size > 1 and parallel.distributed_executor_backend == "external_launcher",
            **given,
        )


def _given(additional: Any) -> dict[str, int]:
    """Return the options of ours, checked."""
    given = additional.get("lookahead", {}) if isinstance(additional, Mapping) else {}
    if not isinstance(given, Mapping):
        raise ValueError(f'additional_config["lookahead"] must be an object of options, got {given!r}')
    for name, value in given.items():
        if name not in _GIVEN:
            near = difflib.get_close_matches(str(name), _GIVEN, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(_GIVEN)}"
            raise ValueError(f"unknown option {name!r} in additional_config['lookahead']: {hint}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(
                f"option {name} in additional_config['lookahead'] must be an integer from 0, got {value!r}"
            )
    return dict(given)


def _ids(value: Any) -> frozenset[int]:
    """Return an id or several as a set; nothing where there is none."""
    values = value if isinstance(value, list | tuple | set | frozenset) else [value]
    return frozenset(each for each in values if isinstance(each, int))
