"""Attention over a row of tokens in which several branches share a beginning."""

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

NAME = "branches"
_BLOCK = 192  # queries at once; those of a block do not look at the keys behind it


class Branches:
    """The attention of a packed row; transformers' own with a mask would compute what the mask hides.

    `spans` are to be set before every forward: first that of the shared beginning, then those of the branches.
    """

    def __init__(self, model: Any) -> None:
        self.spans: list[tuple[int, int]] = []
        AttentionInterface.register(NAME, self._attend)
        model.config._attn_implementation = NAME

    def _attend(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float, **_: Any
    ) -> tuple[Tensor, None]:
        _, heads, length, size = query.shape
        groups = key.shape[1]
        grouped = (query[0] * scaling).view(groups, heads // groups, length, size)
        # split, because the gradient of a slice is as large as what it is cut from
        blocks = [(first, min(first + _BLOCK, end)) for start, end in self.spans for first in range(start, end, _BLOCK)]
        sizes = [last - first for first, last in blocks]
        queries, keys, values = (x.split(sizes, dim=-2) for x in (grouped, key[0], value[0]))
        parts = []
        for number, (first, last) in enumerate(blocks):
            start = next(start for start, end in self.spans if start <= first < end)
            seen = [i for i, (f, e) in enumerate(blocks) if e <= last and (f >= start or e <= self.spans[0][1])]
            parts.append(_block(queries[number], [keys[i] for i in seen], [values[i] for i in seen]))
        merged = torch.cat(parts, dim=2).reshape(1, heads, length, size)
        return merged.transpose(1, 2).contiguous(), None


def _block(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Return the result for some queries, which see all keys, but of the last of these parts only their own past."""
    groups, heads, count, size = query.shape
    flat = query.reshape(groups, heads * count, size)
    later = torch.full((count, count), float("-inf"), dtype=query.dtype).triu(1)
    before = flat @ torch.cat(keys[:-1], dim=1).transpose(1, 2) if keys[:-1] else flat[..., :0]
    own = (flat @ keys[-1].transpose(1, 2)).view(groups, heads, count, count) + later
    scores = torch.cat([before, own.view(groups, heads * count, count)], dim=-1)
    result = scores.softmax(-1) @ torch.cat(values, dim=1)
    return result.view(groups, heads, count, size)
