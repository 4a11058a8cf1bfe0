"""The suffix array: every context of a text in sorted order, built in linear time whatever the text.

Contexts are read backwards: the context of a position is its token, the one before it, and so on to the document's
start. So contexts with a common ending lie side by side, and one binary search finds the longest of them.

Construction sorts by induction (Nong, Zhang and Chan, 2009, "Linear suffix array construction by almost pure
induced-sorting"): suffixes that are smaller than both neighbours are sorted by recursion on a text at most half as
long, and the others follow from them in two passes. One token repeated ten million times costs no more than prose.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead.kernels import cached

SEPARATOR = -1
MAX_POSITIONS = 2**31 - 2
_TABLE_ROOM = 4  # ids up to this many times the text's length are used as they are, instead of being renumbered

Ints = NDArray[np.int32]
Tokens = Sequence[int] | NDArray[np.integer[Any]]


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function for Python to call; other threads run meanwhile."""
    return cached(function, nogil=True)


def sorted_contexts(tokens: Ints) -> Ints:
    """Return the positions of a text in the order of their contexts.

    A position counts if its token and the following one are of the same document: a match that ends there goes on.

    Args:
        tokens: int32 [positions]: each document with a separator, any negative number, before and after it.

    Example:
        >>> sorted_contexts(np.array([-1, 7, 5, 6, 5, -1], np.int32))
        array([2, 3, 1], dtype=int32)
    """
    if len(tokens) > MAX_POSITIONS:
        raise ValueError(f"tokens must have at most {MAX_POSITIONS} positions, got {len(tokens)}; split the text")
    ranks, alphabet = _ranked_backwards(tokens)
    order = np.empty(len(tokens), np.int32)
    _sort_suffixes(ranks, order, alphabet)
    return order[: _keep_contexts(tokens, order)].copy()


def _ranked_backwards(tokens: Ints) -> tuple[Ints, int]:
    """The text from its end to its start in small numbers, 0 for separators, and how many numbers there are."""
    highest = int(tokens.max(initial=0))
    if highest >= min(_TABLE_ROOM * len(tokens) + 256, 2**30):
        known, ranks = np.unique(np.maximum(tokens, SEPARATOR), return_inverse=True)
        first = 0 if known[0] == SEPARATOR else 1
        return np.ascontiguousarray(ranks[::-1] + first, np.int32), len(known) + first
    return np.maximum(tokens[::-1], SEPARATOR) + np.int32(1), highest + 2


def _sort_suffixes(text: Ints, order: Ints, alphabet: int) -> None:
    """Fill `order` with the starts of the suffixes of `text` (numbers below `alphabet`), smallest suffix first."""
    if len(text) == 0:
        return
    rises = np.empty(len(text), np.uint8)
    counts = np.zeros(alphabet, np.int32)
    room = np.empty(alphabet, np.int32)
    found, names = _name_valleys(text, order, rises, counts, room)
    reduced, valleys = order[len(order) - found :], order[:found]
    if names < found:
        _sort_suffixes(reduced, valleys, names)
    elif found:
        _invert(reduced, valleys)
    _place_valleys(text, order, rises, counts, room, found)


@kernel
def _name_valleys(text, order, rises, counts, room):
    """Sort the valleys (positions lower than both neighbours) by the text up to the next one, and number them so.

    The numbers, in text order, end up at the end of `order`. Returns how many valleys and how many numbers there are.
    """
    size = text.size
    _classify(text, rises, counts)
    order[:] = -1
    _bucket_ends(counts, room)
    for position in range(size - 1, 0, -1):
        if rises[position] == 1 and rises[position - 1] == 0:
            room[text[position]] -= 1
            order[room[text[position]]] = position
    _induce(text, order, counts, room)
    found = 0
    for rank in range(size):
        position = order[rank]
        if position > 0 and rises[position] == 1 and rises[position - 1] == 0:
            order[found] = position
            found += 1
    order[found:] = -1
    names, previous = 0, -1
    for rank in range(found):
        position = order[rank]
        if previous < 0 or not _same_valley(text, rises, previous, position):
            names += 1
        previous = position
        order[found + position // 2] = names - 1  # valleys are at least two apart
    last = size - 1
    for slot in range(size - 1, found - 1, -1):
        if order[slot] >= 0:
            order[last] = order[slot]
            last -= 1
    return found, names


@kernel
def _place_valleys(text, order, rises, counts, room, found):
    """Turn the sorted order of the valleys, at the start of `order`, into that of all suffixes."""
    size = text.size
    slot = size - found
    for position in range(1, size):
        if rises[position] == 1 and rises[position - 1] == 0:
            order[slot] = position
            slot += 1
    for rank in range(found):
        order[rank] = order[size - found + order[rank]]
    order[found:] = -1
    _bucket_ends(counts, room)
    for rank in range(found - 1, -1, -1):
        position = order[rank]
        order[rank] = -1
        room[text[position]] -= 1
        order[room[text[position]]] = position
    _induce(text, order, counts, room)


@kernel
def _classify(text, rises, counts):
    """Mark the suffixes that are smaller than the one behind them, and count the numbers."""
    size = text.size
    rises[size - 1] = 0
    counts[:] = 0
    counts[text[size - 1]] += 1
    for position in range(size - 2, -1, -1):
        here, after = text[position], text[position + 1]
        rises[position] = 1 if here < after or (here == after and rises[position + 1] == 1) else 0
        counts[here] += 1


@kernel
def _bucket_ends(counts, room):
    total = 0
    for number in range(counts.size):
        total += counts[number]
        room[number] = total


@kernel
def _induce(text, order, counts, room):
    """Place the falling suffixes from the left by the valleys, then the rising ones from the right by the falling."""
    size = text.size
    total = 0
    for number in range(counts.size):
        room[number] = total
        total += counts[number]
    final = text[size - 1]
    order[room[final]] = size - 1
    room[final] += 1
    for rank in range(size):
        position = order[rank]
        if position > 0 and text[position - 1] >= text[position]:
            before = text[position - 1]
            order[room[before]] = position - 1
            room[before] += 1
    _bucket_ends(counts, room)
    for rank in range(size - 1, -1, -1):
        position = order[rank]
        if position > 0:
            before, here = text[position - 1], text[position]
            if before < here or (before == here and rank >= room[here]):
                room[before] -= 1
                order[room[before]] = position - 1


@kernel
def _same_valley(text, rises, one, other):
    """Whether the text from one valley to the next is the same at two of them."""
    size = text.size
    for step in range(size):
        left, right = one + step, other + step
        if left >= size or right >= size or text[left] != text[right] or rises[left] != rises[right]:
            return False
        if step > 0 and rises[left] == 1 and rises[left - 1] == 0:
            return rises[right - 1] == 0
        if step > 0 and rises[right] == 1 and rises[right - 1] == 0:
            return False
    return False


@kernel
def _invert(names, order):
    for position in range(names.size):
        order[names[position]] = position


@kernel
def _keep_contexts(tokens, order):
    """Turn starts in the backward text into positions of the text, and keep those whose document goes on."""
    size = tokens.size
    kept = 0
    for rank in range(size):
        position = size - 1 - order[rank]
        if position + 1 < size and tokens[position] >= 0 and tokens[position + 1] >= 0:
            order[kept] = position
            kept += 1
    return kept
