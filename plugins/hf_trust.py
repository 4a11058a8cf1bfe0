"""What a model is trusted with: blocks of tokens, trees, rows laid end to end. What is not known is measured."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, StaticCache

from lookahead.plugins.hf_arguments import Call
from lookahead.plugins.hf_attention import takes_packed_rows
from lookahead.plugins.hf_cache import decoder_cache
from lookahead.plugins.hf_check import block_forward_error, block_forward_tolerance, packed_error, tree_error
from lookahead.plugins.hf_growth import keeps_every_position
from lookahead.plugins.hf_known import EXACT, TREES
from lookahead.plugins.hf_parts import foreign_parts
from lookahead.plugins.hf_state import state_of

# Their multi-token forward on a filled cache differs from token-by-token decoding (transformers 5.24): recurrent layers
# that forget the cached state, and (moshi) a window that is the cache's but not the attention mask's.
_INEXACT = frozenset({"mamba", "falcon_mamba", "jamba", "moshi", "recurrent_gemma", "zamba"})
# With a static cache they look up what a token may see by the size of the cache, not by its place in the text.
_INEXACT_WHEN_STATIC = frozenset({"gpt_neo", "led"})
_MASKED = frozenset({"sdpa", "eager"})  # attention that takes a mask of any shape


def block_forward_reason(model: Any, call: Call) -> str | None:
    """Return why the model's reading of several tokens at once can't be trusted, or None when it can.

    Known architectures are; of others, of recurrent layers, whose kernels differ between machines, and of models with
    parts that are not transformers' own it is measured once per model, its parts, mode, dtype and kind of cache.
    """
    kind, cache = model.config.model_type, decoder_cache(call.cache)
    static = isinstance(cache, StaticCache)
    if kind in _INEXACT or (static and kind in _INEXACT_WHEN_STATIC):
        return f"the multi-token forward of {kind} models is not exact in transformers"

    def error() -> float:
        names = ("encoder_outputs", "attention_mask") if model.config.is_encoder_decoder else ()
        return block_forward_error(model, {name: _first_row(call.model_kwargs.get(name)) for name in names}, static)

    recurrent = any(hasattr(layer, "recurrent_states") for layer in cache.layers)
    return _distrust(model, "multi-token forward", error, known=kind in EXACT and not recurrent, static=static)


def reads_trees(model: Any, cache: Cache) -> bool:
    """Return whether the model reads trees as it reads chains, with this attention, these parts and this cache.

    Every layer must keep all positions, and the attention must take a mask of its own for every token.
    """
    text = model.config.get_text_config(decoder=True)
    return (
        model.config.model_type in TREES
        and getattr(text, "_attn_implementation", None) in _MASKED
        and keeps_every_position(model, cache)
        and _distrust(model, "reading of trees", lambda: tree_error(model)) is None
    )


def packs_rows(model: Any, cache: Cache) -> bool:
    """Return whether the model reads rows laid end to end as it reads them side by side."""
    return (
        reads_trees(model, cache)
        and takes_packed_rows(model)
        and _distrust(model, "reading of packed rows", lambda: packed_error(model)) is None
    )


def _distrust(
    model: Any, what: str, error: Callable[[], float], *, known: bool = True, static: bool = False
) -> str | None:
    """Return why something a model does can't be trusted, None where it is known or measured to be exact.

    Only of transformers' own parts something is known. What can't be measured can't be trusted either.
    """
    foreign = foreign_parts(model)
    if known and not foreign:
        return None
    checked, measured = state_of(model).checked, (what, static, model.dtype, model.training, foreign)
    if measured not in checked:
        checked[measured] = _measured(model, f"the {what} of this {model.config.model_type} model", error)
    return checked[measured]


def _measured(model: Any, what: str, error: Callable[[], float]) -> str | None:
    try:
        found = error()
    except Exception as failure:
        return f"{what} could not be checked ({type(failure).__name__})"
    if found <= block_forward_tolerance(model.dtype):
        return None
    return f"{what} is not exact (relative error {found:.1e})"


def _first_row(read: Any) -> Any:
    """Return what the encoder has read for the first row of a batch: the check decodes one."""
    if isinstance(read, Tensor):
        return read[:1]
    if isinstance(read, Mapping):
        return type(read)(**{name: _first_row(value) for name, value in read.items()})
    return type(read)(map(_first_row, read)) if isinstance(read, list | tuple) else read
