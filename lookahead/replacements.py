"""Replacements: what the output wrote instead of its source, to be tried where the source says the same again."""

import numpy as np

from lookahead.kernels import part

# Columns of `swaps`: where the replaced tokens and the ones that came instead stand, and how well that served.
OLD, OLD_LENGTH, NEW, NEW_LENGTH, TRUST = range(5)
MAX_SWAPS = 8
_LONGEST, _MOST_TRUST = 12, 3


def empty_swaps() -> np.ndarray:
    """Return room for the replacements of one text, int64 [swaps, 5]."""
    return np.zeros((MAX_SWAPS, 5), np.int64)


@part
def swap_at(text, stop, swaps, place):
    """The trusted replacement whose old tokens stand at `place`, the longest of them; -1 for none."""
    found, longest = -1, 0
    for swap in range(swaps.shape[0]):
        length = swaps[swap, OLD_LENGTH]
        tried = swaps[swap, TRUST] > 0 and length > longest and place + length <= stop
        if tried and _same(text, swaps[swap, OLD], place, length):
            found, longest = swap, length
    return found


@part
def note_swap(text, swaps, old, old_length, new, new_length):
    """Note that the tokens at `old` were replaced by those at `new`, over the least trusted note."""
    if not (0 < old_length <= _LONGEST and 0 < new_length <= _LONGEST):
        return
    row = 0
    for swap in range(swaps.shape[0]):
        if swaps[swap, OLD_LENGTH] == old_length and _same(text, swaps[swap, OLD], old, old_length):
            row = swap
            break
        if swaps[swap, TRUST] < swaps[row, TRUST]:
            row = swap
    swaps[row, OLD], swaps[row, OLD_LENGTH] = old, old_length
    swaps[row, NEW], swaps[row, NEW_LENGTH] = new, new_length
    swaps[row, TRUST] = 1


@part
def judge_swap(swaps, swap, right):
    """Trust a replacement more after it came true, less after it did not."""
    change = 1 if right else -1
    swaps[swap, TRUST] = min(swaps[swap, TRUST] + change, _MOST_TRUST)


@part
def _same(text, one, other, length):
    """Whether the same tokens stand at two places."""
    same = 0
    while same < length and text[one + same] == text[other + same]:
        same += 1
    return same == length
