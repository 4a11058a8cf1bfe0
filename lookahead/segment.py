"""Segment: documents that never change, with the order of their contexts, searched in a few microseconds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookahead.context_search import find
from lookahead.suffix_array import MAX_POSITIONS, SEPARATOR, Ints, sorted_contexts

DOCUMENT_BYTES = 24  # start, time of addition and of last use


@dataclass(frozen=True, slots=True, eq=False)
class Documents:
    """The documents of a segment, in the order of their texts.

    Attributes:
        names: Their names, "" where none was given.
        starts: int64 [documents], the position of each first token.
        added: float64 [documents], seconds since the epoch.
        useful: float64 [documents], when one last gave accepted tokens, or was added. The one thing that changes.
        named: The names once more, to see without comparing them all that a name is none of them.
    """

    names: tuple[str, ...]
    starts: NDArray[np.int64]
    added: NDArray[np.float64]
    useful: NDArray[np.float64]
    named: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", frozenset(self.names))


class Found(NamedTuple):
    """What a segment knows of a suffix: see ``MemoryMatch``; `votes` of `sampled` occurrences go on alike."""

    length: int
    occurrences: int
    position: int
    votes: int
    sampled: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Segment:
    """Documents between separators, and the positions of their tokens in the order of their contexts.

    Attributes:
        tokens: int32 [positions], read-only: a separator, and each document with a separator behind it.
        order: int32 [contexts], read-only, as ``sorted_contexts`` returns it.
        documents: What is known of the documents.
        oldest: The earliest time of addition.
        nbytes: Bytes that all of it takes, in memory or on disk.
    """

    tokens: Ints
    order: Ints
    documents: Documents
    oldest: float = field(init=False)
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        for part in (self.tokens, self.order):
            part.flags.writeable = False  # one compiled kernel for what is in memory and what is mapped from a file
        object.__setattr__(self, "oldest", float(self.documents.added.min()))
        object.__setattr__(self, "nbytes", int(self.sizes.sum()))

    @classmethod
    def build(cls, names: Sequence[str], texts: Sequence[Ints], now: float) -> "Segment":
        """Index documents.

        Args:
            names: One a document.
            texts: int32 [tokens] each, none empty, no token negative.
            now: Their time of addition.

        Example:
            >>> Segment.build(["a"], [np.array([5, 6, 7], np.int32)], now=0.0).find(np.array([6], np.int32))
            Found(length=1, occurrences=1, position=2, votes=1, sampled=1)
        """
        lengths = np.array([len(text) for text in texts], np.int64)
        starts = 1 + np.concatenate([[0], np.cumsum(lengths + 1)[:-1]]).astype(np.int64)
        tokens = np.full(_checked_size(1 + int((lengths + 1).sum())), SEPARATOR, np.int32)
        for start, text in zip(starts.tolist(), texts, strict=True):
            tokens[start : start + len(text)] = text
        times = np.full(len(texts), now)
        return cls(tokens, sorted_contexts(tokens), Documents(tuple(names), starts, times, times.copy()))

    @classmethod
    def merge(cls, segments: "Sequence[Segment]") -> "Segment":
        """Return one segment with the documents of several, in order."""
        parts = [segments[0].tokens, *(segment.tokens[1:] for segment in segments[1:])]
        shifts = np.cumsum([0] + [len(part) for part in parts[:-1]])
        shifts[1:] -= 1
        tokens = np.concatenate(parts)
        known = [segment.documents for segment in segments]
        documents = Documents(
            tuple(name for table in known for name in table.names),
            np.concatenate([table.starts + shift for table, shift in zip(known, shifts, strict=True)]),
            np.concatenate([table.added for table in known]),
            np.concatenate([table.useful for table in known]),
        )
        return cls(tokens, sorted_contexts(tokens), documents)

    def keep(self, kept: NDArray[np.bool_]) -> "Segment | None":
        """Return the segment with some of its documents only; None when there are none.

        The order of contexts stays that of the whole, so this takes a fraction of the time of building.

        Args:
            kept: bool [documents].
        """
        if kept.all():
            return self
        if not kept.any():
            return None
        lengths = self.lengths
        stays = np.concatenate([[True], np.repeat(kept, lengths + 1)])
        moved = np.cumsum(stays, dtype=np.int32) - np.int32(1)
        try:
            order = self.order[stays[self.order]]
        except IndexError:
            raise ValueError("a document can't be removed, because the store is damaged: build it again") from None
        documents = Documents(
            tuple(name for name, stay in zip(self.documents.names, kept.tolist(), strict=True) if stay),
            moved[self.documents.starts[kept]].astype(np.int64),
            self.documents.added[kept],
            self.documents.useful[kept],
        )
        return Segment(self.tokens[stays], moved[order], documents)

    def find(self, suffix: Ints) -> Found:
        """Return the longest end of `suffix` that goes on somewhere in a document.

        Args:
            suffix: int32 [tokens], writable, the end of a text; what is before a negative token is not looked at.
        """
        return Found(*find(self.tokens, self.order, suffix))

    def document(self, position: int) -> int:
        """Return the number of the document that a position belongs to."""
        return int(np.searchsorted(self.documents.starts, position, "right")) - 1

    def document_end(self, position: int) -> int:
        """Return the position behind the last token of the document that a position belongs to."""
        following = self.document(position) + 1
        return int(self.documents.starts[following] - 1 if following < len(self) else len(self.tokens) - 1)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each document, int64 [documents]."""
        return np.diff(self.documents.starts, append=len(self.tokens)) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes that each document takes, int64 [documents]."""
        names = np.array([len(name) + 1 for name in self.documents.names], np.int64)
        return self.lengths * 8 + DOCUMENT_BYTES + names

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self.documents.starts)


def _checked_size(positions: int) -> int:
    if positions > MAX_POSITIONS:
        raise ValueError(f"documents must have at most {MAX_POSITIONS} tokens at once, got {positions}; add fewer")
    return positions


@cache
def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache, once in a process."""
    segment = Segment.build([""], [np.array([1, 2, 1, 3, 1, 2], np.int32)], now=0.0)
    segment.find(np.array([1], np.int32))
