"""One step's plan: which candidate to draft from, how far, and what the tokens that come teach.

The candidate whose first token is the likeliest is followed. Its length k maximises
1 + S(1) + ... + S(k) - rate x C(k + 1), with S the survival, C the cost of a width in plain steps, and rate the tokens
that the time of a plain step is worth: the geometric mean of what it brought lately and of the most that this very
draft can bring.
"""

import math
from typing import NamedTuple

import numpy as np

from lookahead import automaton as sam
from lookahead.automaton import Automaton
from lookahead.candidates import DISTANCE, LENGTH, MATCH, MAX_CANDIDATES, MAX_DEPTH, Candidates
from lookahead.features import FEATURES, STATES, encode, next_states, note_states, start_states
from lookahead.kernels import kernel, part
from lookahead.sources import Ground, gather
from lookahead.survival import Survival, chance, learn_token
from lookahead.trail import AT, LEFT, follow

FAINT = 1e-3  # a candidate is not followed to where it hardly survives
_CAUTION = 1.1
_RATE_STEP, _FIRST_RATE = 0.1, 0.4
ROW, FOLLOWED, PLANNED = range(3)


class Plan(NamedTuple):
    """What a step considered.

    `first` int32 [candidates, features] of the candidates' first tokens; `path` int32 [depth + 1, features] of the
    chosen one's, and scratch; `alive` float64 [depth], its survival; `chosen` int64 [3], its row (-1 for none), how far
    it was followed, and whether nothing has come since; `rate` float64 [1], the running share of expected tokens that
    came; `states` int64 [6], scratch: states of the automaton under way, and those that they start from.
    """

    first: np.ndarray
    path: np.ndarray
    alive: np.ndarray
    chosen: np.ndarray
    rate: np.ndarray
    states: np.ndarray


def empty_plan() -> Plan:
    """Return the plan before the first step of a text."""
    return Plan(
        np.zeros((MAX_CANDIDATES, FEATURES), np.int32),
        np.zeros((MAX_DEPTH + 1, FEATURES), np.int32),
        np.zeros(MAX_DEPTH),
        np.array([-1, 0, 0], np.int64),
        np.full(1, _FIRST_RATE),
        np.zeros(2 * STATES, np.int64),
    )


@kernel
def plan_step(index, documents, limits, swaps, trail, candidates, least, vocabulary, survival, plan, room):
    """Gather the candidates and follow the likeliest, up to `room` tokens; those of other sources are there already."""
    deepest = min(room + 1, MAX_DEPTH)  # one token comes after the drafted ones
    ground = Ground(Automaton(*index), documents, limits, swaps, Candidates(*candidates), least, vocabulary, deepest)
    known, made = Survival(*survival), Plan(*plan)
    gather(ground, trail[AT], trail[LEFT])
    _choose(ground.automaton, ground.candidates, known, made)
    made.chosen[FOLLOWED], made.chosen[PLANNED] = 0, 1
    row = made.chosen[ROW]
    if row >= 0:
        followed = follow_candidate(ground.automaton, ground.candidates, known, made, row, made.alive, made.path, room)
        made.chosen[FOLLOWED] = followed


@kernel
def best_length(plan, curve, worth):
    """How many of the chosen tokens to draft, 0 included.

    `curve` float64 [widths]: cost in plain steps; `worth`: tokens that a plain step's time brought lately.
    """
    made = Plan(*plan)
    rate = step_worth(made, curve, worth)
    expected, best, length = 1.0, 1.0 - rate * curve[1], 0
    for depth in range(made.chosen[FOLLOWED]):
        expected += made.alive[depth]
        gain = expected - rate * curve[depth + 2]
        if gain > best:
            best, length = gain, depth + 1
    return length


@part
def step_worth(plan, curve, worth):
    """The tokens that the time of a plain step is worth."""
    expected, most = 1.0, 1.0
    for depth in range(plan.chosen[FOLLOWED]):
        expected += plan.alive[depth]
        most = max(most, expected / curve[depth + 2])
    return _CAUTION * math.sqrt(max(1.0, worth) * most)


@kernel
def learn_step(index, swaps, trail, candidates, survival, plan, emitted):
    """Learn from the tokens that came, before the index takes them in, and move the trail; once for every plan."""
    offered, known, made = Candidates(*candidates), Survival(*survival), Plan(*plan)
    row = made.chosen[ROW]
    if made.chosen[PLANNED] == 0:
        return
    made.chosen[PLANNED] = 0
    if row < 0:
        made.rate[0] -= _RATE_STEP * made.rate[0]
        return
    _learn_rivals(offered, known, made, row, emitted[0])
    _learn_chosen(offered, known, made, row, emitted)
    automaton = Automaton(*index)
    follow(trail, automaton.text, swaps, offered, row, emitted, automaton.registers[sam.LENGTH])


@part
def _choose(automaton, candidates, known, plan):
    """Score the first token of every candidate; the likeliest is chosen."""
    best = 0.0
    plan.chosen[ROW] = -1
    note_states(automaton.nodes, sam.matched_state(automaton), plan.states)
    for row in range(candidates.count[0]):
        look_at(automaton, candidates, plan, row)
        likely = chance(known.weights, plan.first[row])
        if likely > best:
            best, plan.chosen[ROW] = likely, row


@part
def look_at(automaton, candidates, plan, row):
    """Write the features of a candidate's first token."""
    facts, token, kind = candidates.facts[row], candidates.tokens[row, 0], candidates.kinds[row, 0]
    length = automaton.registers[sam.LENGTH]
    before = automaton.text[length - 1] if length > 0 else 0
    start_states(facts, plan.states)
    encode(automaton, facts, kind, 0, facts[DISTANCE], plan.rate[0], token, before, plan.states, plan.first[row])


@part
def follow_candidate(automaton, candidates, known, plan, row, alive_at, path, room):
    """Compute the survival along a candidate; returns how far it was followed."""
    facts, tokens, kinds, states = candidates.facts[row], candidates.tokens[row], candidates.kinds[row], plan.states
    start_states(facts, states)
    rate, alive, depth = plan.rate[0], 1.0, 0
    for i in range(FEATURES):
        path[0, i] = plan.first[row, i]
    while depth < min(room, facts[LENGTH]) and alive >= FAINT:
        token, codes = tokens[depth], path[min(depth, path.shape[0] - 1)]
        if depth > 0:
            encode(automaton, facts, kinds[depth], depth, 0, rate, token, tokens[depth - 1], states, codes)
        alive *= chance(known.weights, codes)
        alive_at[depth] = alive
        next_states(automaton, token, facts[MATCH] + depth == 0, states)
        rate += _RATE_STEP * (1.0 - rate)
        depth += 1
    return depth


@part
def _learn_rivals(candidates, known, plan, row, came):
    """Learn whether another first token would have been right; one that the chosen shares teaches nothing more."""
    for other in range(candidates.count[0]):
        token = candidates.tokens[other, 0]
        if token != candidates.tokens[row, 0]:
            learn_token(known, plan.first[other], 1.0 if token == came else 0.0)


@part
def _learn_chosen(candidates, known, plan, row, emitted):
    """Learn from the chosen candidate up to its first miss, drafted or not."""
    for depth in range(min(len(emitted), plan.chosen[FOLLOWED])):
        right = 1.0 if candidates.tokens[row, depth] == emitted[depth] else 0.0
        learn_token(known, plan.path[depth], right)
        plan.rate[0] += _RATE_STEP * (right - plan.rate[0])
        if right == 0.0:
            break
