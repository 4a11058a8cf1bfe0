"""Long shots: next tokens that seldom come true, which a tree has room for beside the likeliest continuation.

Where the output left its source, it may go on a few tokens further on in it: after a deletion, or after a replacement
that is not as long as what it replaces. A prediction may go on where it was left, whatever was copied from elsewhere
since. And a few tokens, those for brackets, commas or articles, come more often than all others where nothing foresaw
them; they are counted, and offered where the text has them.
"""

import numpy as np

from lookahead import automaton as sam
from lookahead.candidates import COMMON, LENGTH, PASSED, Candidates
from lookahead.kernels import kernel, part
from lookahead.sources import add, is_offered, starts_with
from lookahead.trail import AT, LEFT, PREDICTED

KNOWN = 128  # tokens that are counted
TOKEN, COUNT = range(2)
_BEYOND, _RESUMED, _SURPRISES = 8, 5, 24  # most long shots of each kind
_MOST_COUNT = 1 << 12


def no_surprises() -> np.ndarray:
    """Return the counts of the tokens that nothing foresaw, before there were any: int64 [KNOWN, 2], most first."""
    return np.full((KNOWN, 2), (-1, 0), np.int64)


@kernel
def note_surprise(surprises, candidates, token):
    """Count the token that came, if no candidate began with it.

    The least counted gives way to a new one, which takes over its count: what comes more often than the average of all
    counts is always known (Metwally et al., 2005, "Efficient computation of frequent and top-k elements in data
    streams"). All counts are halved from time to time, so that another kind of text soon has its own.
    """
    offered = Candidates(*candidates)
    for row in range(offered.count[0]):
        if offered.tokens[row, 0] == token and offered.kinds[row, 0] != COMMON:
            return
    row, last = 0, surprises.shape[0] - 1
    while row < last and surprises[row, TOKEN] != token and surprises[row, TOKEN] >= 0:
        row += 1
    count = surprises[row, COUNT] + 1
    while row > 0 and surprises[row - 1, COUNT] < count:
        surprises[row, TOKEN], surprises[row, COUNT] = surprises[row - 1, TOKEN], surprises[row - 1, COUNT]
        row -= 1
    surprises[row, TOKEN], surprises[row, COUNT] = token, count
    if surprises[0, COUNT] > _MOST_COUNT:
        for other in range(surprises.shape[0]):
            surprises[other, COUNT] //= 2


@part
def offer_long_shots(ground, trail, surprises):
    """Offer what a step's plan has no use for: places about which the trail knows little, and surprising tokens."""
    _offer_places(ground, trail[AT], trail[PREDICTED], _RESUMED)
    if trail[LEFT] >= 0:
        _offer_places(ground, trail[AT], trail[LEFT] + 1, _BEYOND)
    automaton, candidates = ground.automaton, ground.candidates
    for row in range(_SURPRISES):
        token = surprises[row, TOKEN]
        if token >= 0 and not starts_with(candidates, token):
            place = automaton.nodes[sam.goto(automaton, sam.ROOT, token), sam.LATEST]
            if place >= 0 and add(ground, place, COMMON, trail[AT], 0):
                candidates.facts[candidates.count[0] - 1, LENGTH] = 1


@part
def _offer_places(ground, at, first, count):
    """Offer so many places in a row."""
    if first >= 0:
        for place in range(first, min(first + count, ground.automaton.registers[sam.LENGTH])):
            if not is_offered(ground.candidates, place):
                add(ground, place, PASSED, at, 0)
