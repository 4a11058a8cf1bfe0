"""Draft sources: where the text goes on, as far as the index and the trail of the last copy can tell.

The index offers what followed the longest match: at its latest and first occurrence, and what followed most often.
The trail offers the cursor of the copy under way, the place near it that matches best, and the place where the
output last left its source. All of them may stand in the prompt, the output, a prediction or a reference.
"""

from typing import NamedTuple

import numpy as np

from lookahead import automaton as sam
from lookahead.automaton import Automaton
from lookahead.candidates import (
    CURSOR,
    DISTANCE,
    FAR,
    FIRST,
    FREQUENT,
    GAP,
    LATEST,
    LENGTH,
    MATCH,
    MAX_CANDIDATES,
    NEAR,
    REPLACED,
    RESUMED,
    SOURCE,
    STATE,
    SWAP,
    SWAP_AT,
    Candidates,
)
from lookahead.kernels import part
from lookahead.replacements import NEW, NEW_LENGTH, OLD_LENGTH, swap_at

_BACK, _AHEAD, _NEAR_MATCH = 16, 64, 32
_LONGEST_MATCH, _LONGEST_GAP = 64, 32


class Ground(NamedTuple):
    """What candidates are looked for in.

    `documents` int64 [documents + 1, 2]: the position of each document's end (the last is that of the text under way
    and has none) and its source. `limits` int64 [tokens, 2]: tokens that a draft ends before (-1) or with (1).
    `swaps`: see `replacements`. `least`: the shortest agreement that is copied from. `vocabulary`: ids from here on are
    no tokens of the model. `deepest`: the most tokens of a continuation.
    """

    automaton: Automaton
    documents: np.ndarray
    limits: np.ndarray
    swaps: np.ndarray
    candidates: Candidates
    least: int
    vocabulary: int
    deepest: int


@part
def gather(ground, at, left):
    """Offer what the index knows, and what the trail does: the place where the copy is, and the one that it left."""
    automaton, wanted, count = ground.automaton, ground.candidates.wanted, 0
    registers = automaton.registers
    length, stop = registers[sam.MATCH], registers[sam.LENGTH]
    if length > 0:
        count = _want(wanted, count, registers[sam.MATCH + 1] + 1, LATEST)
        count = _want(wanted, count, registers[sam.MATCH + 2] + 1, FIRST)
    if at >= 0:
        count = _want(wanted, count, _nearest(automaton.text, stop, at, min(length, _NEAR_MATCH)), NEAR)
        count = _want(wanted, count, at, CURSOR)
    count = _want(wanted, count, left, RESUMED)
    if registers[sam.MATCH + 3] > 2:
        count = _want(wanted, count, sam.most_frequent(automaton, sam.matched_state(automaton)), FREQUENT)
    for i in range(count):
        place, kind = wanted[i, 0], wanted[i, 1]
        if not 0 <= place < stop or (kind == FREQUENT and starts_with(ground.candidates, automaton.text[place])):
            continue
        replaced = kind in (NEAR, CURSOR) and swap_at(automaton.text, stop, ground.swaps, place) >= 0
        for kept in range(1, -1 if replaced else 0, -1):
            if kept == 0 or not is_offered(ground.candidates, place):
                add(ground, place, kind, at, kept)


@part
def _want(wanted, count, place, kind):
    """Note a place to look at."""
    wanted[count, 0], wanted[count, 1] = place, kind
    return count + 1


@part
def is_offered(candidates, place):
    """Whether a candidate starts at the place."""
    row = 0
    while row < candidates.count[0] and candidates.places[row, 0] != place:
        row += 1
    return row < candidates.count[0]


@part
def add(ground, place, kind, at, kept):
    """Add the continuation at `place`, if there is one; its first `kept` tokens are not replaced."""
    automaton, candidates, row = ground.automaton, ground.candidates, ground.candidates.count[0]
    stop = automaton.registers[sam.LENGTH]
    if row == MAX_CANDIDATES:
        return False
    facts = candidates.facts[row]
    facts[MATCH], facts[GAP] = _agreement(automaton.text, stop, place)
    facts[DISTANCE] = place - at if at >= 0 else FAR
    if facts[MATCH] < ground.least or _copy(ground, row, place, kind, kept) == 0:
        return False
    facts[SOURCE] = ground.documents[np.searchsorted(ground.documents[:, 0], place), 1]
    facts[STATE] = _state_of_match(automaton, facts[MATCH])
    candidates.count[0] = row + 1
    return True


@part
def _copy(ground, row, place, kind, kept):
    """Copy the tokens from `place` on, over the end of the text in its period; returns how many there are."""
    text, stop, swaps, candidates = (
        ground.automaton.text,
        ground.automaton.registers[0],
        ground.swaps,
        ground.candidates,
    )
    tokens, places, facts = candidates.tokens[row], candidates.places[row], candidates.facts[row]
    replaces = -_BACK <= facts[DISTANCE] <= _AHEAD
    facts[SWAP] = -1
    source, depth, ends = place, 0, 0
    origin, left, behind = 0, 0, 0  # of a replacement under way: where its next token stands, and how many are left
    while depth < ground.deepest and ends == 0:
        if replaces and left == 0 and depth >= kept:
            swap = swap_at(text, stop, swaps, source)
            if swap >= 0:
                origin, left, behind = swaps[swap, NEW], swaps[swap, NEW_LENGTH], source + swaps[swap, OLD_LENGTH]
                if facts[SWAP] < 0:
                    facts[SWAP], facts[SWAP_AT] = swap, depth
        copied = origin if left > 0 else source
        if copied < stop:
            token = text[copied]
        elif facts[SWAP] < 0:
            token, copied = tokens[depth - (stop - place)], candidates.origins[row, depth - (stop - place)]
        else:
            break
        ends = -1 if token >= ground.vocabulary else _ends(ground.limits, token)
        if ends < 0:
            break
        tokens[depth], candidates.origins[row, depth], places[depth] = token, copied, source
        candidates.kinds[row, depth] = REPLACED if left > 0 else kind
        depth += 1
        if left == 0:
            source += 1
        else:
            origin += 1
            left -= 1
            if left == 0:
                source = behind
    places[depth] = source
    facts[LENGTH] = depth
    return depth


@part
def _ends(limits, token):
    """Whether a draft ends before the token (-1: a document's end does too) or with it (1)."""
    if token < 0:
        return -1
    for i in range(limits.shape[0]):
        if limits[i, 0] == token:
            return limits[i, 1]
    return 0


@part
def _agreement(text, stop, place):
    """How many tokens before `place` agree with the last ones, and how many more beyond one that differs."""
    match = _common(text, place - 1, stop - 1, _LONGEST_MATCH)
    return match, _common(text, place - 2 - match, stop - 2 - match, _LONGEST_GAP)


@part
def _common(text, one, other, most):
    """How many tokens agree from two places backwards, up to the start of either document."""
    length = 0
    while length < most and one >= length and text[one - length] >= 0:
        if text[one - length] != text[other - length]:
            break
        length += 1
    return length


@part
def _state_of_match(automaton, match):
    """The state of the last `match` tokens; -1 for none."""
    if match == 0:
        return -1
    state = sam.matched_state(automaton)
    if match >= min(automaton.registers[sam.MATCH], _LONGEST_MATCH):
        return state
    return sam.shortened(automaton, state, match)


@part
def _nearest(text, stop, at, longest):
    """The place about `at` before which most of the last tokens stand, the nearest of these; -1 for none."""
    best, found, nearest = 0, -1, 0
    for place in range(max(1, at - _BACK), min(stop - 1, at + _AHEAD) + 1):
        match = _common(text, place - 1, stop - 1, longest)
        distance = place - at if place >= at else 2 * (at - place)
        if match > best or (0 < match == best and distance < nearest):
            best, found, nearest = match, place, distance
    return found


@part
def starts_with(candidates, token):
    """Whether a candidate starts with the token."""
    row = 0
    while row < candidates.count[0] and candidates.tokens[row, 0] != token:
        row += 1
    return row < candidates.count[0]
