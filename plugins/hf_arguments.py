"""Call: the arguments of one ``generate`` call, as they reach ``_sample``."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessorList
from transformers.generation.stopping_criteria import StoppingCriteriaList

ENCODER_TEXT = "_lookup_encoder_text"
"""Attribute of a call's generation config: the token ids that the encoder of an encoder-decoder model reads."""

_CACHE_NAMES = ("cache", "past_key_values", "cache_params")


@dataclass
class Call:
    """The arguments that transformers hands to ``_sample``, and whether the call's own ``lookup=`` asks for drafts."""

    input_ids: Tensor
    logits_processor: LogitsProcessorList
    stopping_criteria: StoppingCriteriaList
    generation_config: GenerationConfig
    synced_gpus: bool
    streamer: Any
    model_kwargs: dict[str, Any]
    asked: bool = False

    @property
    def cache(self) -> Any:
        """The model's cache, None where the call has none."""
        return self.model_kwargs.get(cache_name(self.model_kwargs))


def cache_name(names: Iterable[str]) -> str:
    """Return the one of ``names`` that is the cache's: before transformers 5.24 it depended on the kind of model.

    Example:
        >>> cache_name(["attention_mask", "past_key_values"])
        'past_key_values'
    """
    known = set(names)
    return next((name for name in _CACHE_NAMES if name in known), "cache")
