"""Call: the arguments of one ``generate`` call, as they reach ``_sample``."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessorList
from transformers.generation.stopping_criteria import StoppingCriteriaList

ENCODER_TEXT = "_lookup_encoder_text"
"""Attribute of a call's generation config: the token ids that the encoder of an encoder-decoder model reads."""


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
