"""The trail of the copy under way: it survives insertions, deletions and replacements.

While the output follows its source, the trail moves along. When the output leaves it, the trail goes on beside it, one
place a token; the place that was left stays on offer until a copy goes on somewhere, and what was written meanwhile
is noted as a replacement of what was passed over. At the start of a prediction it waits for what may come before.
"""

import numpy as np

from lookahead.candidates import COMMON, LENGTH, MATCH, PREDICTION, SOURCE, SWAP, SWAP_AT
from lookahead.kernels import part
from lookahead.replacements import judge_swap, note_swap

# Entries: where the copy goes on; where it was left; the source's and the output's place at the last departure;
# whether the copy waits for its first token; and where the prediction goes on, whatever was copied since.
AT, LEFT, SOURCE_AT, OUTPUT_AT, WAITS, PREDICTED = range(6)
_SURE = 8  # tokens in a row that are no coincidence


def empty_trail(start: int = -1) -> np.ndarray:
    """Return the trail before anything was copied, int64 [6]; it waits at ``start``, if that is a place."""
    return np.array([start, -1, -1, -1, start >= 0, -1], np.int64)


@part
def follow(trail, text, swaps, candidates, row, emitted, stop):
    """Move behind the `emitted` tokens along the candidate that foresaw most of them; `row` was chosen.

    A token that often comes says nothing of where the copy is.
    """
    best, run = 0, -1
    for other in range(candidates.count[0]):
        if candidates.kinds[other, 0] == COMMON:
            continue
        right = _right(candidates, other, emitted)
        _judge(swaps, candidates.facts[other], right, len(emitted))
        tied = right == run and (other == row or candidates.places[best, 0] < 0)
        if right > run or tied:
            best, run = other, right
    if run > 0 and candidates.places[best, 0] < 0:
        _pass(trail, len(emitted))
    elif run > 0:
        if candidates.facts[best, MATCH] + run > 1:
            match = candidates.facts[best, MATCH]
            _note_return(trail, text, swaps, candidates.places[best, 0] - match, stop - match)
        place = candidates.places[best, run]
        trail[LEFT] = -1
        if run < len(emitted):
            trail[LEFT], trail[SOURCE_AT], trail[OUTPUT_AT] = place, place, stop + run
        trail[AT] = place + len(emitted) - run
        if candidates.facts[best, SOURCE] == PREDICTION and candidates.facts[best, MATCH] + run >= _SURE:
            trail[PREDICTED] = place
        trail[WAITS] = 0
    elif trail[WAITS] == 0:
        origin = trail[AT] if trail[AT] >= 0 else candidates.places[row, 0]
        if origin < 0:
            return
        if trail[LEFT] < 0:
            trail[LEFT] = origin
        if trail[SOURCE_AT] < 0:
            trail[SOURCE_AT], trail[OUTPUT_AT] = origin, stop
        trail[AT] = origin + len(emitted)
    if trail[AT] >= stop + len(emitted):
        trail[AT] = -1


@part
def _pass(trail, emitted):
    """Go on beside a copy that comes from outside the index."""
    trail[LEFT] = trail[SOURCE_AT] = -1
    if trail[AT] >= 0 and trail[WAITS] == 0:
        trail[AT] += emitted


@part
def _right(candidates, row, emitted):
    """How many tokens of a candidate came."""
    right, most = 0, min(len(emitted), candidates.facts[row, LENGTH])
    while right < most and candidates.tokens[row, right] == emitted[right]:
        right += 1
    return right


@part
def _judge(swaps, facts, right, emitted):
    """Trust the replacement that a candidate tried more or less."""
    if facts[SWAP] >= 0 and facts[SWAP_AT] <= right and facts[SWAP_AT] < emitted:
        judge_swap(swaps, facts[SWAP], right > facts[SWAP_AT])


@part
def _note_return(trail, text, swaps, source, output):
    """Note what stands between the last departure and these places, where the two agree again."""
    if trail[SOURCE_AT] >= 0:
        left, since = trail[SOURCE_AT], trail[OUTPUT_AT]
        note_swap(text, swaps, left, source - left, since, output - since)
        trail[SOURCE_AT] = -1
