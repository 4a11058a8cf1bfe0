"""MemoryReader: what looks for matches in one namespace of a store, step by step of a generation."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lookahead.context_search import find
from lookahead.segment import Segment
from lookahead.suffix_array import Ints, Tokens

MAX_MATCH = 64
_NOTHING = np.empty(0, np.int32)


class MemoryMatch(NamedTuple):
    """The longest end of a text that goes on somewhere in the documents of a namespace.

    Attributes:
        length: Matched tokens, up to 64; 0 where there is no match.
        occurrences: How many places it occurs at and goes on.
        agreement: Of up to 16 occurrences, the share that goes on with the same token as the chosen one.
        position: Of the chosen occurrence's last token: the latest one that goes on as most do.
        segment: Where the position counts; None where there is no match.
    """

    length: int
    occurrences: int
    agreement: float
    position: int
    segment: Segment | None


NO_MATCH = MemoryMatch(0, 0, 0.0, -1, None)


class MemoryReader:
    """Looks for matches in one namespace of a store; several threads may share one.

    Args:
        segments: Returns the segments of the namespace as it is now.
        clock: Returns seconds since the epoch.
    """

    __slots__ = ("_clock", "_segments")

    def __init__(self, segments: Callable[[], tuple[Segment, ...]], clock: Callable[[], float]) -> None:
        self._segments, self._clock = segments, clock

    def longest_match(self, tokens: Tokens) -> MemoryMatch:
        """Return the longest end of a text that goes on in a document of the namespace.

        Args:
            tokens: The end of the text, ids; the last 64 are looked at, back to the last negative one.
        """
        suffix = np.array(tokens[-MAX_MATCH:], np.int32)
        best = NO_MATCH
        for segment in self._segments():
            length, count, position, votes, sampled = find(segment.tokens, segment.order, suffix)
            if length > 0 and length >= best.length:
                count += best.occurrences if length == best.length else 0
                best = MemoryMatch(length, count, votes / sampled, position, segment)
        return best

    def continuation(self, match: MemoryMatch, length: int, *, skip: int = 0) -> Ints:
        """Return what follows a match in its document, a read-only int32 array of up to `length` tokens.

        Args:
            match: What ``longest_match`` returned. If its document may have been removed since, nothing is returned.
            length: Tokens at most; never over the document's end.
            skip: How many tokens behind the match to begin, for who follows a document for several steps.

        Raises:
            ValueError: `length` or `skip` is negative.
        """
        if length < 0 or skip < 0:
            raise ValueError(f"length and skip must not be negative, got {length} and {skip}; use 0 for no tokens")
        segment = self._current(match)
        if segment is None:
            return _NOTHING
        start = match.position + 1 + skip
        return segment.tokens[start : min(start + length, segment.document_end(match.position))]

    def mark_useful(self, match: MemoryMatch) -> None:
        """Note that tokens of a match's document were accepted: it is among the last to make room for others."""
        segment = self._current(match)
        if segment is not None:
            segment.documents.useful[segment.document(match.position)] = self._clock()

    def document(self, match: MemoryMatch) -> str:
        """Return the name of a match's document; "" if it has none, or was removed."""
        segment = self._current(match)
        return "" if segment is None else segment.documents.names[segment.document(match.position)]

    def _current(self, match: MemoryMatch) -> Segment | None:
        """The segment of a match, if it still is one of this namespace."""
        live = self._segments()
        return match.segment if match.segment is not None and any(match.segment is one for one in live) else None
