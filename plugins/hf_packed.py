"""Packed rows: the blocks of a batch laid end to end, so that no row pays for another's longer draft.

The model reads one row of all tokens; only attention and cache see the rows. Keys and values of the block are put
where each row's belong, and queries are padded to the longest row for attention alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

_CALL = 12  # tokens whose attention costs what another call does


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Where the tokens of a packed block belong.

    Attributes:
        rows: Rows of the batch.
        width: Tokens of the longest row's block.
        places: Row times width plus place in the row's block, for every token, ``[tokens]``.
        long: What longer rows have beyond the tokens that attend together; None where all do.

    Example:
        >>> block = PackedRows.of([2, 1], torch.device("cpu"))
        >>> block.places.tolist()
        [0, 1, 2]
        >>> block.apart(torch.tensor([[[[5.0], [6.0], [7.0]]]])).tolist()
        [[[[5.0], [6.0]]], [[[7.0], [0.0]]]]
    """

    rows: int
    width: int
    places: Tensor
    long: "LongRows | None" = None

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> "PackedRows":
        """Return the layout of rows of these lengths."""
        width = max(lengths)
        places = [row * width + place for row, length in enumerate(lengths) for place in range(length)]
        near = near_width(lengths) if device.type == "cpu" else width  # elsewhere a call costs more than padding
        long = LongRows.beyond(lengths, near, device) if near < width else None
        return cls(len(lengths), width, torch.tensor(places, device=device), long)

    def apart(self, states: Tensor) -> Tensor:
        """Return ``[1, heads, tokens, size]`` as ``[rows, heads, width, size]``, zeros behind shorter rows."""
        _, heads, _, size = states.shape
        spread = states.new_zeros(heads, self.rows * self.width, size)
        spread[:, self.places] = states[0]
        return spread.view(heads, self.rows, self.width, size).transpose(0, 1)

    def together(self, states: Tensor) -> Tensor:
        """Return ``[rows, width, ...]`` as ``[1, tokens, ...]``."""
        return states.flatten(0, 1)[self.places][None]


@dataclass(frozen=True, slots=True)
class LongRows:
    """The part of a packed block in which only a few rows have tokens: these attend row by row.

    Padded to the longest, every row would attend as often as that one does.

    Attributes:
        near: The layout of the first tokens of every row, which attend together.
        tokens: Which of the block's tokens these are, ``[tokens of near]``.
        spans: Row, first token and end of the others, where a row has such.

    Example:
        >>> long = LongRows.beyond([1, 5, 1], 2, torch.device("cpu"))
        >>> long.tokens.tolist(), long.spans
        ([0, 1, 2, 6], ((1, 3, 6),))
    """

    near: PackedRows
    tokens: Tensor
    spans: tuple[tuple[int, int, int], ...]

    @classmethod
    def beyond(cls, lengths: Sequence[int], width: int, device: torch.device) -> "LongRows":
        """Return what rows of these lengths have beyond their first ``width`` tokens."""
        ends = list(accumulate(lengths))
        starts = [end - length for end, length in zip(ends, lengths, strict=True)]
        spans = [(row, start + width, end) for row, (start, end) in enumerate(zip(starts, ends, strict=True))]
        tokens = [
            token for start, end in zip(starts, ends, strict=True) for token in range(start, min(start + width, end))
        ]
        near = PackedRows.of([min(length, width) for length in lengths], device)
        return cls(near, torch.tensor(tokens, device=device), tuple(span for span in spans if span[1] < span[2]))


def near_width(lengths: Sequence[int]) -> int:
    """Return how many tokens of every row attend together at the least cost.

    A call for one row costs about as much as a dozen tokens, for its keys are read once more.

    Example:
        >>> near_width([3, 2, 30, 3, 1, 2, 2, 1]), near_width([9, 12])
        (3, 12)
    """

    def cost(width: int) -> float:
        beyond = [length - width for length in lengths if length > width]
        return len(lengths) * width + sum(beyond) + _CALL * len(beyond)

    return min(sorted(set(lengths), reverse=True), key=cost)


_block: ContextVar[PackedRows | None] = ContextVar("lookahead_packed_rows", default=None)


@contextmanager
def reading_packed(block: PackedRows | None) -> Iterator[None]:
    """Let attention and cache layers take the rows of a block apart, in this thread; None where none are packed."""
    token = _block.set(block)
    try:
        yield
    finally:
        _block.reset(token)


def packed_block() -> PackedRows | None:
    """Return the layout of the block that is being read, if it is a packed one."""
    return _block.get()


def packed_inputs(inputs: dict[str, Any], block: PackedRows, past: int) -> dict[str, Any]:
    """Return the arguments of a forward that reads the rows of a padded block without their padding.

    Args:
        inputs: As prepared for the padded block, ``[rows, width]``, with positions and a two-dimensional mask.
        block: The layout.
        past: Columns of the cache.
    """
    mask, device = inputs["attention_mask"], block.places.device
    columns = torch.arange(past + block.width, device=device)
    seen = columns <= past + torch.arange(block.width, device=device)[:, None]
    kept = {"logits_to_keep": len(block.places)} if "logits_to_keep" in inputs else {}
    return {
        **inputs,
        **kept,
        "input_ids": block.together(inputs["input_ids"]),
        "position_ids": block.together(inputs["position_ids"]),
        "attention_mask": (mask[:, None, None, :] != 0) & seen,
    }
