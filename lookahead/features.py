"""Features: what the chance that a draft token is right is judged by, each a small table of weights."""

import numpy as np

from lookahead import automaton as sam
from lookahead.candidates import FAR, GAP, MATCH, SOURCE, SOURCES, STATE
from lookahead.kernels import part

MATCH_EDGES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 24, 32, 48)
GAP_EDGES = (1, 3, 8)
COUNT_EDGES = (1, 2, 3, 5, 10, 30)
SHARE_EDGES = (0.15, 0.4, 0.7, 0.95, 0.9999)
RATE_EDGES = (0.15, 0.35, 0.6, 0.85, 0.97)
DISTANCE_EDGES = (-64, -1, 0, 1, 2, 5, 17, 65, FAR)
SHORT_EDGES = (1, 2, 4)
_KINDS, _HASHES, _DEEPEST = 10, 1024, 64

MATCHES, GAPS, COUNTS = len(MATCH_EDGES) + 1, len(GAP_EDGES) + 1, len(COUNT_EDGES) + 1
SHARES = len(SHARE_EDGES) + 3  # unknown, never, and the shares between
DISTANCES, SHORTS, RATES = len(DISTANCE_EDGES) + 1, len(SHORT_EDGES) + 1, len(RATE_EDGES) + 1

FEATURES = 9
STATES = 3  # whose counts are features
# Where the table of each feature starts: agreement before the place; how often the index saw the candidate's match,
# the last two tokens, and the last one, and how often this token followed; distance to the cursor; running share of
# right tokens; kind and source of the candidate; the token itself and the one before it, hashed.
BY_MATCH = 0
BY_OWN = BY_MATCH + GAPS * MATCHES
BY_PAIR = BY_OWN + COUNTS * SHARES
BY_ONE = BY_PAIR + COUNTS * SHARES
BY_DISTANCE = BY_ONE + COUNTS * SHARES
BY_RATE = BY_DISTANCE + DISTANCES * SHORTS
BY_KIND = BY_RATE + RATES
BY_TOKEN = BY_KIND + _KINDS * len(SOURCES)
BY_TOKEN_BEFORE = BY_TOKEN + _HASHES
WEIGHTS = BY_TOKEN_BEFORE + _HASHES


def _buckets(edges: tuple[int, ...], count: int) -> np.ndarray:
    return np.searchsorted(np.array(edges), np.arange(count), side="right").astype(np.int64)


_MATCH_OF = _buckets(MATCH_EDGES, _DEEPEST + 1)
_GAP_OF = _buckets(GAP_EDGES, 33)
_COUNT_OF = _buckets(COUNT_EDGES, _DEEPEST)
_SHORT_OF = _buckets(SHORT_EDGES, _DEEPEST + 1)


@part
def encode(automaton, facts, kind, depth, distance, rate, token, before, states, codes):
    """Write the features of a candidate's token at `depth`; `before` is the token in front of it."""
    match = min(facts[MATCH] + depth, _DEEPEST)
    codes[0] = BY_MATCH + _GAP_OF[facts[GAP]] * MATCHES + _MATCH_OF[match]
    for i in range(3):
        codes[1 + i] = BY_OWN + i * COUNTS * SHARES + _counts(automaton, states[i], token)
    codes[4] = BY_DISTANCE + _bucket(DISTANCE_EDGES, distance) * SHORTS + _SHORT_OF[match]
    codes[5] = BY_RATE + _bucket(RATE_EDGES, rate)
    codes[6] = BY_KIND + int(kind) * len(SOURCES) + facts[SOURCE]
    codes[7] = BY_TOKEN + _hash(token)
    codes[8] = BY_TOKEN_BEFORE + _hash(before)


@part
def note_states(nodes, matched, states):
    """Note, once a step, the states of the last two tokens and of the last one, behind those under way."""
    states[STATES + 1], states[STATES + 2] = -1, -1
    state = matched
    while state > sam.ROOT:
        shortest, longest = nodes[nodes[state, sam.LINK], sam.LEN], nodes[state, sam.LEN]
        if shortest < 2 <= longest and nodes[state, sam.COUNT] > 0:
            states[STATES + 1] = state
        if shortest < 1 <= longest and nodes[state, sam.COUNT] > 0:
            states[STATES + 2] = state
        state = nodes[state, sam.LINK]


@part
def start_states(facts, states):
    """Set the states whose counts speak of the first token: of the candidate's match, of two tokens, and of one."""
    states[0], states[1], states[2] = facts[STATE], states[STATES + 1], states[STATES + 2]


@part
def next_states(automaton, token, unmatched, states):
    """Move the states on by a token; the candidate's match starts with it where nothing matched before."""
    if states[1] < 0:
        states[1] = states[2] if states[2] > sam.ROOT else -1
    if unmatched:
        states[0] = sam.ROOT
    states[2] = sam.ROOT
    for i in range(3):
        if states[i] >= 0:
            target = sam.goto(automaton, states[i], token)
            states[i] = target if target > 0 else -1
    states[1] = sam.shortened(automaton, states[1], 2)


@part
def _counts(automaton, state, token):
    """The bucket of how often the state occurred and of the share of times that it went on with the token."""
    if state <= 0:
        return 0
    nodes = automaton.nodes
    count, target = nodes[state, sam.COUNT], sam.goto(automaton, state, token)
    same = nodes[target, sam.COUNT] if target > 0 else 0
    if count <= 0:
        return 0
    share = 1 if same <= 0 else 2 + _bucket(SHARE_EDGES, same / count)
    return _COUNT_OF[min(count, _DEEPEST - 1)] * SHARES + share


@part
def _bucket(edges, value):
    """How many of the edges are at most `value`."""
    found = 0
    for edge in edges:
        if value >= edge:
            found += 1
    return found


@part
def _hash(token):
    return ((int(token) * 2654435761) >> 7) % _HASHES
