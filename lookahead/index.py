"""SuffixIndex: the checked Python face of one suffix automaton."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookahead import automaton as kernels
from lookahead.automaton import ROOT, Automaton

Tokens = Sequence[int] | NDArray[np.integer[Any]]

MAX_TOKEN = 2**31 - 1
MAX_LENGTH = 2**30  # there are up to two states a token, and states are int32
_MAX_ROWS = 2**31 - 1
_MIN_ROWS = 64
_GROWTH, _TABLE_GROWTH = 1.25, 1.5  # a table is not copied but filled again, which costs more
_STATES_PER_TOKEN, _SLOTS_PER_TOKEN = 1.5, 1.0  # what source code and prose need, reserved for a long text at once
_SHORT = 64  # up to here a loop over a list beats its conversion to an array


class Match(NamedTuple):
    """The longest suffix of the current document that also ends at an earlier position.

    `length` in tokens (0: there is none, and then both ends are -1); `latest` and `first`: the position of its last
    token at the latest and at the first earlier occurrence; `count`: the number of earlier occurrences. A tuple,
    because one is made in every step, and a frozen dataclass takes a microsecond longer.

    >>> SuffixIndex([5, 6, 7, 5, 6]).longest_match()
    Match(length=2, latest=1, first=1, count=1)
    """

    length: int
    latest: int
    first: int
    count: int  # type: ignore[assignment]


class SuffixIndex:
    """An index over a growing token sequence that knows where its current suffix has occurred before.

    Tokens are ids from 0 to 2**31 - 1. Positions count them from 0; a document boundary takes one position too. There
    is room for 2**30 positions. Matches may overlap themselves, never cross a boundary, and are exact up to `max_match`
    tokens; longer ones are reported as `max_match` long, which bounds the work on text such as one token repeated.
    On natural text a token costs amortised constant time to add, and a query does not depend on the length.

    Raises ValueError and TypeError for anything but ids, and MemoryError when the arrays cannot grow; from then on it
    finds no match and refuses to be extended.

    >>> index = SuffixIndex([5, 6, 7, 8, 5, 6])
    >>> index.continuation(index.longest_match().latest, 3)
    array([7, 8, 5], dtype=int32)
    """

    def __init__(self, tokens: Tokens | None = None, *, max_match: int = 1024) -> None:
        _warm_up()
        self._arrays = _empty(_checked_max_match(max_match))
        self._length = 0
        self._boundaries = array("i")
        self._failed = False
        if tokens is not None:
            self.extend(tokens)

    def extend(self, tokens: Tokens) -> None:
        """Append ids to the current document: a list, tuple, array or CPU tensor of integers, 1-D and not empty.

        >>> index = SuffixIndex()
        >>> index.extend([5, 6, 5])
        >>> len(index)
        3
        """
        ids = tokens if _is_short_list_of_ids(tokens) else _checked_tokens(tokens)
        stop = self._length + len(ids)
        text = self._text_with_room(stop)
        text[self._length : stop] = ids
        taken = kernels.extend(self._arrays, stop)
        while taken < stop:
            self._grow(stop - taken)
            taken = kernels.extend(self._arrays, stop)
        self._length = stop

    def end_document(self) -> None:
        """Close the current document, if it has tokens: no match crosses the boundary, no continuation runs over it.

        >>> index = SuffixIndex([5, 6])
        >>> index.end_document()
        >>> index.extend([5])
        >>> index.continuation(index.longest_match().latest, 4)
        array([6], dtype=int32)
        """
        if self._length > (self._boundaries[-1] + 1 if self._boundaries else 0):
            self.skip(1)

    def skip(self, positions: int) -> None:
        """Let so many positions hold no token: what stands there is never matched nor continued, like a boundary.

        >>> index = SuffixIndex([5, 6])
        >>> index.skip(3)
        >>> index.extend([5])
        >>> index.longest_match(), len(index)
        (Match(length=1, latest=0, first=0, count=1), 6)
        """
        if positions < 1:
            raise ValueError(f"positions must be at least 1, got {positions}; where nothing is skipped, call nothing")
        stop = self._length + positions
        self._text_with_room(stop)
        kernels.end_document(self._arrays, positions)
        self._boundaries.extend(range(self._length, stop))
        self._length = stop

    def longest_match(self) -> Match:
        """The longest suffix of the current document, up to `max_match` tokens, that also ends earlier.

        >>> SuffixIndex([5, 5, 5]).longest_match()
        Match(length=2, latest=1, first=1, count=1)
        """
        return Match(*self._arrays[3][kernels.MATCH :].tolist())

    def matches(self) -> list[Match]:
        """The longest match and the shorter ones with more occurrences, each the longest with its occurrences.

        >>> SuffixIndex([6, 5, 6, 7, 5, 6]).matches()
        [Match(length=2, latest=2, first=2, count=1), Match(length=1, latest=2, first=0, count=2)]
        """
        automaton = Automaton(*self._arrays)
        found = self.longest_match()
        state = int(automaton.registers[kernels.TRACKED])
        matches = []
        while state != ROOT:
            length, state, first, latest, count = automaton.nodes[state, : kernels.TOKEN].tolist()
            if count > 0:
                matches.append(Match(min(length, found.length), latest, first, count))
        return matches

    def continuation(self, end: int, length: int) -> NDArray[np.int32]:
        """The tokens behind position `end`, up to `length` of them and up to the next document boundary.

        A copy that reaches the end of the text goes on with what it has copied, as in Ziv and Lempel (1977): with
        `end` d tokens before the last one it has the period d.

        >>> SuffixIndex([4, 5, 6]).continuation(0, 5)
        array([5, 6, 5, 6, 5], dtype=int32)
        """
        if not 0 <= end < self._length:
            raise ValueError(f"end must be a position from 0 to {self._length - 1}, got {end}")
        if length < 0:
            raise ValueError(f"length must not be negative, got {length}; use 0 for no tokens")
        text, start, stop = self._arrays[0], end + 1, end + 1 + length
        following = bisect_right(self._boundaries, end)
        if following < len(self._boundaries):
            stop = min(stop, self._boundaries[following])
        if stop <= self._length:
            return text[start:stop].copy()
        rest = text[start : self._length]
        return np.resize(rest, length if len(rest) else 0)

    @property
    def tokens(self) -> NDArray[np.int32]:
        """A read-only view of all positions, with -1 at the document boundaries."""
        view = self._arrays[0][: self._length]
        view.flags.writeable = False
        return view

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays of the automaton, as kernels take them; valid until the index is extended."""
        return self._arrays

    def catch_up(self) -> None:
        """Note that a kernel has taken in more of the text."""
        self._length = int(self._arrays[3][kernels.LENGTH])

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays, spare room included."""
        return sum(part.nbytes for part in self._arrays) + self._boundaries.itemsize * len(self._boundaries)

    def __len__(self) -> int:
        """Positions so far: tokens and document boundaries."""
        return self._length

    def __repr__(self) -> str:
        return f"SuffixIndex({self._length} positions, {len(self._boundaries)} boundaries)"

    def _text_with_room(self, stop: int) -> NDArray[np.int32]:
        """The text array, grown if `stop` positions do not fit."""
        text, nodes, edges, registers = self._arrays
        if self._failed:
            raise MemoryError("this index ran out of memory before and cannot be extended; build a new one")
        if stop <= len(text):
            return text
        if stop > MAX_LENGTH:
            raise ValueError(f"tokens would make {stop} positions, over the limit of {MAX_LENGTH}; start a new index")
        grown = np.empty(_grown(len(text), _GROWTH, stop), np.int32)
        grown[: self._length] = text[: self._length]
        self._arrays = grown, nodes, edges, registers
        return grown

    def _grow(self, tokens: int) -> None:
        """Make room for about `tokens` more tokens in whichever array is full."""
        text, nodes, edges, registers = self._arrays
        states = int(registers[kernels.STATES])
        try:
            if states + 2 > len(nodes):
                grown = _rows(_grown(len(nodes), _GROWTH, states + 2 + int(_STATES_PER_TOKEN * tokens)), 8)
                grown[:states] = nodes[:states]
                self._arrays = text, grown, edges, registers
            else:
                slots = int(registers[kernels.EDGES] / 0.75 + _SLOTS_PER_TOKEN * tokens)
                self._arrays = text, nodes, _rows(_grown(len(edges), _TABLE_GROWTH, slots), 4), registers
                kernels.rehash(self._arrays, edges)
        except MemoryError:
            self._failed = True
            registers[kernels.TRACKED] = ROOT
            registers[kernels.MATCH :] = 0, -1, -1, 0
            raise MemoryError(f"no memory to index {self._length + tokens} tokens; free some, or index fewer") from None


def _grown(rows: int, growth: float, wanted: int) -> int:
    """The next size of an array of `rows` that has to hold `wanted`."""
    size = max(wanted, int(rows * growth), rows + _MIN_ROWS)
    if size > _MAX_ROWS:
        raise MemoryError
    return size


def _rows(count: int, columns: int) -> NDArray[np.int32]:
    """Zeros of shape [count, columns] that start on a cache line, so that no row straddles two."""
    buffer = np.zeros(count * columns + 16, np.int32)
    skip = -buffer.ctypes.data % 64 // 4
    return buffer[skip : skip + count * columns].reshape(count, columns)


def _empty(max_match: int) -> tuple[NDArray[Any], ...]:
    """The arrays of the automaton of the empty text."""
    nodes, edges = _rows(_MIN_ROWS + 3, 8), _rows(_MIN_ROWS + 3, 4)
    nodes[ROOT] = 0, -1, -1, -1, 0, -1, 0, 0
    registers = np.array([0, 1, 0, ROOT, ROOT, 0, 0, -1, max_match, 0, -1, -1, 0], np.int64)
    return np.empty(_MIN_ROWS, np.int32), nodes, edges, registers


@cache
def _warm_up() -> None:
    """Compile the kernels, or load them from numba's cache, once in a process."""
    arrays = _empty(max_match=1)
    arrays[0][:2] = 0
    kernels.extend(arrays, 2)
    kernels.end_document(arrays, 1)
    kernels.rehash(arrays, _rows(1, 4))


def _checked_max_match(max_match: int) -> int:
    if isinstance(max_match, bool) or not isinstance(max_match, int | np.integer):
        raise TypeError(f"max_match must be an integer, got {max_match!r}; the default is 1024")
    if not 1 <= max_match <= MAX_LENGTH:
        raise ValueError(f"max_match must be from 1 to {MAX_LENGTH}, got {max_match}; the default is 1024")
    return int(max_match)


def _is_short_list_of_ids(tokens: Any) -> bool:
    """Whether `tokens` is what a decoding step hands over and right as it is."""
    if not isinstance(tokens, list) or not 0 < len(tokens) <= _SHORT:
        return False
    for token in tokens:  # noqa: SIM110 (twice as fast as all(), in every step)
        if type(token) is not int or not 0 <= token <= MAX_TOKEN:
            return False
    return True


def _checked_tokens(tokens: Any) -> NDArray[np.integer[Any]]:
    """`tokens` as a 1-D array of ids; says what is wrong with them otherwise."""
    try:
        ids = np.asarray(tokens)
    except ValueError:
        raise TypeError("tokens must be integers, got a ragged list; pass one flat list of ids") from None
    if ids.size == 0:
        raise ValueError("tokens must not be empty; skip the call when there is nothing to append")
    if ids.dtype.kind not in "iu":
        raise TypeError(f"tokens must be integers, got {_kind(tokens, ids)}; convert them to ids first")
    if ids.ndim != 1:
        raise ValueError(f"tokens must be one-dimensional, got shape {ids.shape}; pass one row, e.g. tokens[0]")
    if isinstance(tokens, list | tuple) and bool in set(map(type, tokens)):
        raise TypeError("tokens must be integers, got a list with booleans; convert them to ids first")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high > MAX_TOKEN:
        wrong = low if low < 0 else high
        raise ValueError(f"tokens must be from 0 to {MAX_TOKEN}, got {wrong}; remove padding and masked labels first")
    return ids


def _kind(tokens: Any, ids: NDArray[Any]) -> str:
    return f"a {type(tokens).__name__} of dtype {ids.dtype}" if ids.ndim else type(tokens).__name__
