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

from lookahead.plugins.hf_packed import PackedRows, packed_block


class StackedMasks:
    """The masks of a step for stacked heads, each made once for all layers that read it."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int, int, torch.dtype], tuple[Tensor, Tensor]] = {}

    def of(self, mask: Tensor, heads: int, groups: int, dtype: torch.dtype) -> Tensor:
        """Return :func:`stacked_mask` of these."""
        key = id(mask), heads, groups, dtype
        if key not in self._made:  # kept with the mask itself: its id is its own for as long as it lives
            self._made[key] = mask, stacked_mask(mask, heads, groups, dtype)
        return self._made[key][1]


_masks: ContextVar[StackedMasks | None] = ContextVar("lookahead_stacked_masks", default=None)
_UNKNOWN = ("softcap", "position_bias", "output_attentions")  # arguments that change what is computed


@contextmanager
def grouped_attention() -> Iterator[None]:
    """Let models that use ``sdpa`` attention read blocks of tokens without copying keys and values, in this thread.

    Example:
        >>> with grouped_attention():                              # doctest: +SKIP
        ...     model(input_ids=block, cache=cache)
    """
    token = _masks.set(StackedMasks() if _stands_in_front() else None)
    try:
        yield
    finally:
        _masks.reset(token)


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
        masks = _masks.get()
        if torch.compiler.is_compiling() or masks is None or attention_mask is None or not _is_block(query, key):
            return registered(module, query, key, value, attention_mask, **kwargs)
        if any(kwargs.get(name) is not None and kwargs[name] is not False for name in _UNKNOWN):
            return registered(module, query, key, value, attention_mask, **kwargs)
        mask = masks.of(attention_mask, query.shape[1], key.shape[1], query.dtype)
        block, options = packed_block(), (kwargs.get("scaling"), kwargs.get("dropout", 0.0))
        if block is None:
            return attend_stacked(query, key, value, mask, *options), None
        return _attend_by_rows(block, query, key, value, mask, *options), None

    attend.packs_groups = True  # type: ignore[attr-defined]
    return attend


def _is_block(query: Tensor, key: Tensor) -> bool:
    """Whether several tokens are read, by heads that share keys or in rows laid end to end."""
    heads, tokens = query.shape[1:3]
    shared = heads > key.shape[1] > 0 and heads % key.shape[1] == 0
    return tokens > 1 and (shared or packed_block() is not None)


def _attend_by_rows(
    block: PackedRows, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, *options: Any
) -> Tensor:
    """Return attention of rows laid end to end, ``[1, tokens, heads, size]``; what only long rows have row by row."""
    long = block.long
    if long is None:
        return block.together(attend_stacked(block.apart(query), key, value, mask, *options))
    near, width = long.near, long.near.width
    states = near.apart(query[:, :, long.tokens])
    first = near.together(attend_stacked(states, key, value, mask[:, :, :, :width], *options))
    output = first.new_empty(1, query.shape[2], *first.shape[2:])
    output[:, long.tokens] = first
    for row, start, end in long.spans:
        own, places = slice(row, row + 1), slice(width, width + end - start)
        output[:, start:end] = attend_stacked(
            query[:, :, start:end], key[own], value[own], mask[own, :, :, places], *options
        )
    return output


def stacked_mask(mask: Tensor, heads: int, groups: int, dtype: torch.dtype) -> Tensor:
    """Return a mask for query heads stacked in groups, additive: ``[rows or 1, groups or 1, shared, tokens, length]``.

    Args:
        mask: ``[rows or 1, heads or 1, tokens, length]``, boolean or additive.
        heads: Query heads.
        groups: Heads of keys and values.
        dtype: Of the queries.
    """
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)
    if mask.shape[1] == 1:
        return mask[:, :, None].repeat(1, 1, heads // groups, 1, 1)
    return mask.unflatten(1, (groups, heads // groups))


def attend_stacked(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None = None, dropout: float = 0.0
) -> Tensor:
    """Return masked attention of a block, the query heads of each group stacked as further tokens of one head.

    Args:
        query: ``[rows, heads, tokens, size]``.
        key: ``[rows, groups, length, size]``.
        value: ``[rows, groups, length, size]``.
        mask: ``[rows or 1, groups or 1, heads per group, tokens, length]``, as of :func:`stacked_mask`.
        scaling: Factor on the scores; None for ``size ** -0.5``.
        dropout: Share of weights dropped.

    Returns:
        ``[rows, tokens, heads, size]``.
    """
    rows, heads, tokens, size = query.shape
    stacked = query.reshape(rows, key.shape[1], -1, size)
    output = scaled_dot_product_attention(
        stacked, key, value, attn_mask=mask.flatten(2, 3), dropout_p=dropout, scale=scaling
    )
    return output.reshape(rows, heads, tokens, -1).transpose(1, 2).contiguous()
