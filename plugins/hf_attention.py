"""Grouped attention: the heads that share keys and values read them in place, for several tokens as for one.

transformers packs the heads of a group into one row of queries when it reads a single token, but copies keys and
values once per head when it reads several under a mask. A step of several tokens would then pay for the whole cache,
copied and read many times over; packed, the result is the same and the cache is read once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lookahead.plugins.hf_packed import packed_block

_packing: ContextVar[bool] = ContextVar("lookahead_packing", default=False)
_UNKNOWN = ("softcap", "position_bias", "output_attentions")  # arguments that change what is computed


@contextmanager
def grouped_attention() -> Iterator[None]:
    """Let models that use ``sdpa`` attention read blocks of tokens without copying keys and values, in this thread.

    Example:
        >>> with grouped_attention():                              # doctest: +SKIP
        ...     model(input_ids=block, cache=cache)
    """
    token = _packing.set(_stands_in_front())
    try:
        yield
    finally:
        _packing.reset(token)


def takes_packed_rows(model: Any) -> bool:
    """Return whether the model's attention goes through here, and is not compiled: then rows can be laid end to end."""
    attention = getattr(model.config.get_text_config(decoder=True), "_attn_implementation", None)
    return attention == "sdpa" and _stands_in_front() and not any(map(_is_compiled, model.modules()))


def _stands_in_front() -> bool:
    """Stand in front of transformers' own attention; False where somebody has registered another.

    Elsewhere than in our steps it is called as before.
    """
    if ALL_ATTENTION_FUNCTIONS["sdpa"] is sdpa_attention_forward:
        ALL_ATTENTION_FUNCTIONS.register("sdpa", _in_front_of(sdpa_attention_forward))
    return hasattr(ALL_ATTENTION_FUNCTIONS["sdpa"], "packs_groups")


def _is_compiled(module: torch.nn.Module) -> bool:
    compiled = getattr(module, "_compiled_call_impl", None) is not None
    return compiled or hasattr(module.forward, "_torchdynamo_orig_callable")


def _in_front_of(registered: Callable[..., Any]) -> Callable[..., Any]:
    def attend(
        module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, None]:
        if torch.compiler.is_compiling() or not _packing.get() or not _is_block(query, key, attention_mask):
            return registered(module, query, key, value, attention_mask, **kwargs)
        if any(kwargs.get(name) is not None and kwargs[name] is not False for name in _UNKNOWN):
            return registered(module, query, key, value, attention_mask, **kwargs)
        block, options = packed_block(), (kwargs.get("scaling"), kwargs.get("dropout", 0.0))
        if block is None:
            return attend_packed(query, key, value, attention_mask, *options), None
        return block.together(attend_packed(block.apart(query), key, value, attention_mask, *options)), None

    attend.packs_groups = True  # type: ignore[attr-defined]
    return attend


def _is_block(query: Tensor, key: Tensor, mask: Tensor | None) -> bool:
    """Whether several tokens are read under a mask, by heads that share keys or in rows laid end to end."""
    heads, tokens = query.shape[1:3]
    shared = heads > key.shape[1] > 0 and heads % key.shape[1] == 0
    return mask is not None and tokens > 1 and (shared or packed_block() is not None)


def attend_packed(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None = None, dropout: float = 0.0
) -> Tensor:
    """Return masked attention of a block, the query heads of each group stacked as further tokens of one head.

    Args:
        query: ``[rows, heads, tokens, size]``.
        key: ``[rows, groups, length, size]``.
        value: ``[rows, groups, length, size]``.
        mask: ``[rows or 1, heads or 1, tokens, length]``, boolean or additive.
        scaling: Factor on the scores; None for ``size ** -0.5``.
        dropout: Share of weights dropped.

    Returns:
        ``[rows, tokens, heads, size]``.
    """
    rows, heads, tokens, size = query.shape
    groups = key.shape[1]
    stacked = query.reshape(rows, groups, heads // groups * tokens, size)
    if mask.shape[1] == 1:
        mask = mask.expand(-1, heads // groups, -1, -1).reshape(mask.shape[0], 1, -1, mask.shape[-1])
    else:
        mask = mask.reshape(mask.shape[0], groups, -1, mask.shape[-1])
    output = scaled_dot_product_attention(stacked, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling)
    return output.reshape(rows, heads, tokens, -1).transpose(1, 2).contiguous()
