"""Candidates: the continuations that sources offer in one step, side by side."""

from typing import NamedTuple

import numpy as np

MAX_DEPTH = 64
MAX_CANDIDATES = 48

# Columns of `facts`; SWAP is the first replacement that the copy makes (-1: none), SWAP_AT its depth.
LENGTH, SOURCE, MATCH, GAP, DISTANCE, STATE, SWAP, SWAP_AT = range(8)
# Kinds: why a continuation is offered; the last two only beside others, in a tree.
LATEST, FIRST, NEAR, CURSOR, RESUMED, FREQUENT, REPLACED, OUTSIDE, PASSED, COMMON = range(10)
# Sources: where its tokens stand.
CONTEXT, PREDICTION, REFERENCE, MEMORY = range(4)
SOURCES = ("context", "prediction", "references", "memory")
FAR = 1 << 20  # a distance to a cursor that there is not


class Candidates(NamedTuple):
    """Arrays of up to :data:`MAX_CANDIDATES` continuations; `count[0]` of them are in use.

    `tokens` int32 [candidates, depth]; `kinds` int8 [candidates, depth]; `origins` int64 [candidates, depth], the
    position in the index that each token is copied from, -1 - p for position p of the memory; `places` int64
    [candidates, depth + 1], where the copy stands when it fails at a token, or behind the last (not the origin where a
    token was replaced); `facts` int64 [candidates, 8]; `wanted` int64 [kinds, 2], the places and kinds to look at.
    """

    tokens: np.ndarray
    kinds: np.ndarray
    origins: np.ndarray
    places: np.ndarray
    facts: np.ndarray
    wanted: np.ndarray
    count: np.ndarray  # type: ignore[assignment]


def empty_candidates() -> Candidates:
    """Return room for the candidates of a step."""
    return Candidates(
        np.zeros((MAX_CANDIDATES, MAX_DEPTH), np.int32),
        np.zeros((MAX_CANDIDATES, MAX_DEPTH), np.int8),
        np.zeros((MAX_CANDIDATES, MAX_DEPTH), np.int64),
        np.zeros((MAX_CANDIDATES, MAX_DEPTH + 1), np.int64),
        np.zeros((MAX_CANDIDATES, 8), np.int64),
        np.zeros((8, 2), np.int64),
        np.zeros(1, np.int64),
    )
