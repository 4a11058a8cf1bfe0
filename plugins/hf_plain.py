"""Why a call takes the plain path: what can't be sped up runs as transformers runs it, and says so once."""

from typing import Any

import transformers
from torch import Tensor
from transformers import cache_utils
from transformers.cache_utils import Cache, DynamicLayer, QuantizedLayer
from transformers.generation import logits_process as lp
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria, StopStringCriteria

from lookahead.config import LookupConfig
from lookahead.plugins.hf_arguments import Call, cache_name
from lookahead.plugins.hf_cache import decoder_cache
from lookahead.plugins.hf_parts import hook_reason
from lookahead.plugins.hf_target import has_longrope, rescaling_length
from lookahead.plugins.hf_trust import block_forward_reason

# Processors that look at one row alone, so that rows may be processed one by one.
BY_ROW = tuple(
    getattr(lp, name)
    for name in (
        "EpsilonLogitsWarper",
        "EtaLogitsWarper",
        "ExponentialDecayLengthPenalty",
        "ForcedBOSTokenLogitsProcessor",
        "ForcedEOSTokenLogitsProcessor",
        "InfNanRemoveLogitsProcessor",
        "LogitNormalization",
        "MinLengthLogitsProcessor",
        "MinNewTokensLengthLogitsProcessor",
        "MinPLogitsWarper",
        "NoBadWordsLogitsProcessor",
        "NoRepeatNGramLogitsProcessor",
        "RepetitionPenaltyLogitsProcessor",
        "SequenceBiasLogitsProcessor",
        "SuppressTokensAtBeginLogitsProcessor",
        "SuppressTokensLogitsProcessor",
        "TemperatureLogitsWarper",
        "TopHLogitsWarper",
        "TopKLogitsWarper",
        "TopPLogitsWarper",
        "TypicalLogitsWarper",
    )
    if hasattr(lp, name)
)
_REALIGNABLE = {
    getattr(cache_utils, name)
    for name in ("DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer")
    if hasattr(cache_utils, name)
}
_REREADS = tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 24)
_BATCH_KWARGS = {"attention_mask", "position_ids", "use_cache", "logits_to_keep"}
_NOT_THE_MODELS = {"tokenizer", "assistant_tokenizer"}  # what criteria are made of, given to every loop
# Their attention looks at the distance between tokens, so they need no positions when rows move.
_BY_DISTANCE = frozenset({"bloom", "mpt"})
# Their cache is longer than the text: it begins with image tokens that have no place there.
_LONGER_CACHE = frozenset({"git"})


def plain_reason(model: Any, call: Call, config: LookupConfig) -> str | None:
    """Return why a call must be decoded plainly, as the rest of a sentence, or None when drafts are right."""
    reason = _call_reason(model, call) or _cache_reason(model, call) or _rope_reason(model, call)
    if reason is None and call.input_ids.shape[0] > 1:
        reason = _batch_reason(model, call)
    if reason is None and config.fixed_width:
        reason = _width_reason(model, call)
    return reason


def _call_reason(model: Any, call: Call) -> str | None:
    config = call.generation_config
    if call.input_ids.dim() != 2 or call.input_ids.is_floating_point() or not len(call.input_ids):
        return "the model does not write plain token sequences"
    if call.synced_gpus:
        return "synced_gpus keeps several devices in lockstep"
    if _prompt_learning(model) not in ("", "PREFIX_TUNING"):
        return "its adapter puts virtual tokens in front of every forward"
    if _draws_random_numbers(model):
        return "it is in training mode, where dropout or jitter draws random numbers in every forward"
    if config.return_dict_in_generate and (config.output_attentions or config.output_hidden_states):
        return "output_attentions and output_hidden_states are recorded token by token"
    return hook_reason(model, call.asked)


def _prompt_learning(model: Any) -> str:
    """Return the kind of PEFT adapter whose virtual tokens the model reads; empty where it reads none."""
    wrapper = getattr(model.prepare_inputs_for_generation, "__self__", model)
    adapter: Any = getattr(wrapper, "active_peft_config", None) if wrapper is not model else None
    if not getattr(adapter, "is_prompt_learning", False):
        return ""
    return str(getattr(adapter.peft_type, "value", adapter.peft_type))


def _draws_random_numbers(model: Any) -> bool:
    """Whether a part in training mode may drop, skip or jitter by chance: its own rates or the config's say so."""
    training = [module for module in model.modules() if module.training]
    return bool(training) and any(map(_has_rate, [model.config.get_text_config(decoder=True), *training]))


def _has_rate(part: Any) -> bool:
    """Whether a dropout layer, or a setting named for chance, has a rate above 0."""
    names = {name: f"{type(part).__name__}.{name}".lower() for name in vars(part)}
    rates = [vars(part)[name] for name, full in names.items() if "drop" in full or "jitter" in full]
    return any(type(rate) in (int, float) and rate > 0 for rate in rates)


def _cache_reason(model: Any, call: Call) -> str | None:
    if not call.model_kwargs.get("use_cache", True):
        return "use_cache is off"
    cache = call.cache
    if not isinstance(cache, Cache) or type(decoder_cache(cache)).__module__ != Cache.__module__:
        return f"its cache is no transformers Cache ({type(cache).__name__})"
    if any(isinstance(layer, QuantizedLayer) and layer.is_croppable for layer in decoder_cache(cache).layers):
        return "before transformers 5.24 a quantized cache loses tokens when it is cropped"
    if model._valid_auto_compile_criteria(call.model_kwargs, call.generation_config):
        return "a compiled static cache wants one token a step"
    return block_forward_reason(model, call)


def _batch_reason(model: Any, call: Call) -> str | None:
    """Return why the rows of a batch can't advance at different speeds."""
    if model.config.is_encoder_decoder:
        return "the rows of an encoder-decoder batch are not realigned"
    cache, mask = call.cache, call.model_kwargs.get("attention_mask")
    kinds = {type(layer) for layer in cache.layers}
    processor = next((p for p in call.logits_processor if type(p) not in BY_ROW), None)
    if not kinds <= _REALIGNABLE or getattr(cache, "offloading", False):
        names = sorted(kind.__name__ for kind in kinds - _REALIGNABLE) or ["an offloaded cache"]
        return f"the rows of a batch can't be realigned in {', '.join(names)}"
    if _prompt_learning(model):
        return "its adapter's virtual tokens stand in the cache before the rows of a batch"
    if "flash" in str(getattr(model.config, "_attn_implementation", "")):
        return "the rows of a batch are not realigned for flash attention"
    if call.generation_config.return_dict_in_generate or getattr(cache, "_is_user_defined", False):
        return "scores and caches of a batch are returned row-aligned"
    if processor is not None:
        return f"{type(processor).__name__} sees all rows of a batch at once"
    if not _stops_by_row(call):
        return "the stopping criteria see all rows of a batch at once"
    extra = (
        {name for name, value in call.model_kwargs.items() if not _is_empty(value)}
        - _BATCH_KWARGS
        - _NOT_THE_MODELS
        - {cache_name(call.model_kwargs)}
    )
    if extra:
        return f"{', '.join(sorted(extra))} can't be realigned in a batch"
    if isinstance(mask, Tensor) and not _padded_on_the_left(mask):
        return "the batch is not padded on the left"
    rescaled = _rescaled(model, call)
    if rescaled is not None:
        return f"rotary positions beyond {rescaled} depend on the longest row of a batch"
    if model.config.model_type in _LONGER_CACHE:
        return "the cache is longer than the text, so the rows of a batch can't be realigned"
    return _inputs_reason(model, call)


def _rope_reason(model: Any, call: Call) -> str | None:
    """Return why a text that grows beyond what longrope was trained for at first can't have drafts."""
    rescaled = _rescaled(model, call)
    if _REREADS or rescaled is None or not has_longrope(model.config):
        return None
    return f"before transformers 5.24 a text is not read anew where longrope changes, beyond {rescaled}"


def _rescaled(model: Any, call: Call) -> int | None:
    """Return the length from which on rotary positions depend on what a forward reads, if the text may get there."""
    rescaled, longest = rescaling_length(model.config), call.stopping_criteria.max_length
    return rescaled if rescaled is not None and (longest is None or longest > rescaled) else None


def _inputs_reason(model: Any, call: Call) -> str | None:
    """Return why what a forward after the prefill is given does not let rows move."""
    inputs = model.prepare_inputs_for_generation(call.input_ids, next_sequence_length=1, **call.model_kwargs)
    read, positions = inputs.get("input_ids"), inputs.get("position_ids")
    if inputs.get(cache_name(inputs)) is None or read is None or read.shape[1] != 1:
        return "the model reads its whole text in every forward"
    counted = isinstance(positions, Tensor) and positions.dim() == 2
    if not counted and model.config.model_type not in _BY_DISTANCE:
        return "the model counts positions in its cache, so the rows of a batch can't be realigned"
    return None


def _width_reason(model: Any, call: Call) -> str | None:
    """Return why steps of one fixed width are not to be had; plain decoding does not depend on drafts either."""
    rescaled = _rescaled(model, call)
    if rescaled is not None:
        return f"fixed_width reads tokens anew, for which rotary positions are others beyond {rescaled}"
    if call.input_ids.shape[0] > 1:
        return "fixed_width is for one row: rows that end change a batch's width"
    if not all(type(layer) is DynamicLayer for layer in decoder_cache(call.cache).layers):
        return "fixed_width needs a cache whose layers keep every position"
    return None


def _stops_by_row(call: Call) -> bool:
    """Whether every criterion ends each row by itself, and ended rows are padded."""
    kinds = {type(criterion) for criterion in call.stopping_criteria}
    pads = EosTokenCriteria in kinds or kinds <= {MaxLengthCriteria}
    return pads and kinds <= {MaxLengthCriteria, EosTokenCriteria, StopStringCriteria}


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(map(_is_empty, value.values())))


def _padded_on_the_left(mask: Tensor) -> bool:
    return mask.dim() == 2 and bool((mask[:, 1:] >= mask[:, :-1]).all()) and bool((mask[:, -1] != 0).all())
