"""The online suffix automaton: flat int32 arrays and the compiled kernels that grow it token by token.

A state is the class of all substrings with the same end positions, its link the longest suffix that has more of them
(Blumer et al., 1985, "The smallest automaton recognizing the subwords of a text"). At a :data:`SEPARATOR` the
automaton starts again from the root, so that no substring crosses it.

Kernels never allocate. They stop when an array is full and go on where they stopped once the caller has grown it.
They take the arrays as a plain tuple because numba types a tuple in C and a NamedTuple in Python (1 us a call).
"""

from typing import NamedTuple

import numpy as np

from lookahead.kernels import kernel, part

SEPARATOR = -1
ROOT = 0

# Columns of `nodes`. A state keeps its first transition (TOKEN -> NEXT) inline; the others are in `edges`.
LEN, LINK, FIRST, LATEST, COUNT, TOKEN, NEXT, HEAD = range(8)
# Columns of `edges`. TARGET is 0 in a free slot, for no transition leads to the root; SIBLING and HEAD are slot + 1.
STATE, LABEL, TARGET, SIBLING = range(4)
# Entries of `registers`; MATCH and the three after it are the answer to the last query (length, latest, first, count).
LENGTH, STATES, EDGES, LAST, TRACKED, START, COUNTED, PENDING, MAX_MATCH, MATCH = range(10)


class Automaton(NamedTuple):
    """The arrays of one automaton.

    `text` int32 [tokens]; `nodes` int32 [states, 8], half a cache line each; `edges` int32 [slots, 4], an
    open-addressed table from (state, token) to the next state; `registers` int64 [13].
    """

    text: np.ndarray
    nodes: np.ndarray
    edges: np.ndarray
    registers: np.ndarray


@part
def _slot(edges, state, token):
    """The slot of the transition of `state` on `token`, or the free one where it belongs."""
    size = edges.shape[0]
    mixed = (int(state) * 0x9E3779B1) ^ (int(token) * 0x85EBCA6B)
    slot = (((mixed ^ (mixed >> 32)) & 0xFFFFFFFF) * size) >> 32
    while edges[slot, TARGET] != 0 and (edges[slot, STATE] != state or edges[slot, LABEL] != token):
        slot += 1
        if slot == size:
            slot = 0
    return slot


@part
def _has_slots(automaton, wanted):
    """Whether the table stays at most three quarters full with `wanted` more transitions."""
    return 4 * (automaton.registers[EDGES] + wanted) <= 3 * automaton.edges.shape[0]


@part
def _fill(automaton, slot, state, token, target):
    """Write a new transition into its free slot and chain it to the others of its state."""
    nodes, edges = automaton.nodes, automaton.edges
    edges[slot, STATE] = state
    edges[slot, LABEL] = token
    edges[slot, TARGET] = target
    edges[slot, SIBLING] = nodes[state, HEAD]
    nodes[state, HEAD] = slot + 1
    automaton.registers[EDGES] += 1


@part
def goto(automaton, state, token):
    """Where `state` goes on `token`; 0 for nowhere."""
    nodes = automaton.nodes
    if nodes[state, TOKEN] == token:
        return nodes[state, NEXT]
    if nodes[state, HEAD] == 0:
        return 0
    return automaton.edges[_slot(automaton.edges, state, token), TARGET]


@part
def _connect(automaton, state, token, target):
    """Let `state` go to `target` on `token`: 0 when done, its present target when it has one, -1 when full."""
    nodes, edges = automaton.nodes, automaton.edges
    if nodes[state, TOKEN] == token:
        return int(nodes[state, NEXT])
    if nodes[state, TOKEN] < 0:
        nodes[state, TOKEN] = token
        nodes[state, NEXT] = target
        return 0
    slot = _slot(edges, state, token)
    if edges[slot, TARGET] != 0:
        return int(edges[slot, TARGET])
    if not _has_slots(automaton, 1):
        return -1
    _fill(automaton, slot, state, token, target)
    return 0


@part
def _redirect(automaton, state, token, old, new):
    """Turn the transitions on `token` of `state` and its suffixes from `old` to `new`."""
    nodes, edges = automaton.nodes, automaton.edges
    while state >= 0:
        if nodes[state, TOKEN] == token:
            if nodes[state, NEXT] != old:
                return
            nodes[state, NEXT] = new
        else:
            slot = _slot(edges, state, token)
            if edges[slot, TARGET] != old:
                return
            edges[slot, TARGET] = new
        state = nodes[state, LINK]


@part
def _degree(automaton, state):
    """How many transitions of `state` are in the table."""
    degree, entry = 0, automaton.nodes[state, HEAD]
    while entry != 0:
        degree += 1
        entry = automaton.edges[entry - 1, SIBLING]
    return degree


@part
def _clone(automaton, original, length):
    """Split off the substrings of `original` of up to `length` tokens into a new state."""
    nodes, edges, registers = automaton.nodes, automaton.edges, automaton.registers
    clone = registers[STATES]
    registers[STATES] += 1
    for column in range(HEAD):
        nodes[clone, column] = nodes[original, column]
    nodes[clone, LEN] = length
    nodes[original, LINK] = clone
    entry = nodes[original, HEAD]
    while entry != 0:
        token, target = edges[entry - 1, LABEL], edges[entry - 1, TARGET]
        _fill(automaton, _slot(edges, clone, token), clone, token, target)
        entry = edges[entry - 1, SIBLING]
    return clone


@part
def _home(automaton, state, token, target):
    """The state whose longest substring is that of `state` and `token`: `target` or a part of it; -1 when full."""
    length = automaton.nodes[state, LEN] + 1
    if automaton.nodes[target, LEN] == length:
        return int(target)
    if not _has_slots(automaton, _degree(automaton, target)):
        return -1
    clone = _clone(automaton, target, length)
    _redirect(automaton, state, token, target, clone)
    return clone


@part
def _new_state(automaton, length):
    """Add the state of the document so far and one token more: `length` tokens, never seen before."""
    nodes, registers = automaton.nodes, automaton.registers
    state = registers[STATES]
    registers[STATES] += 1
    nodes[state, LEN] = length
    nodes[state, FIRST] = registers[LENGTH]
    nodes[state, LATEST] = -1
    nodes[state, TOKEN] = -1
    return state


@part
def _follow(automaton, token):
    """The state of the document with `token` appended, which is added if need be; -1 when full."""
    nodes, registers = automaton.nodes, automaton.registers
    state, newest = registers[PENDING], registers[STATES] - 1
    if state < 0:
        state = registers[LAST]
        known = goto(automaton, state, token)
        if known != 0:  # only an earlier document can have gone on like this
            return _home(automaton, state, token, known)
        newest = _new_state(automaton, nodes[state, LEN] + 1)
    home = 0
    while state >= 0 and home == 0:
        registers[PENDING] = state
        home = _connect(automaton, state, token, newest)
        if home > 0:
            home = _home(automaton, state, token, home)
        state = nodes[state, LINK]
    if home < 0:
        return -1
    nodes[newest, LINK] = home
    registers[PENDING] = -1
    return newest


@part
def _count(automaton):
    """Count the newest position in every class that ends there.

    It is done one token late, so that until then LATEST, COUNT and FIRST tell of the earlier occurrences alone.
    """
    nodes, registers = automaton.nodes, automaton.registers
    state = registers[TRACKED]
    while state > ROOT and registers[COUNTED] < registers[LENGTH]:
        nodes[state, LATEST] = registers[LENGTH] - 1
        nodes[state, COUNT] += 1
        state = nodes[state, LINK]
    registers[COUNTED] = registers[LENGTH]


@part
def _tracked(automaton, last, token):
    """The class of the document's last MAX_MATCH tokens (of all, when there are fewer) after `token`.

    Paths start there: from `last` itself, text such as one token repeated would make them as long as the document.
    """
    nodes, limit = automaton.nodes, automaton.registers[MAX_MATCH]
    if nodes[nodes[last, LINK], LEN] < limit:
        return last
    state = goto(automaton, automaton.registers[TRACKED], token)
    while nodes[nodes[state, LINK], LEN] >= limit:
        state = nodes[state, LINK]
    return state


@part
def _append(automaton, token):
    """Take one token in; False when an array is full, and then to be called again with the same token."""
    registers = automaton.registers
    if registers[STATES] + 2 > automaton.nodes.shape[0]:
        return False
    _count(automaton)
    last = _follow(automaton, token)
    if last < 0:
        return False
    registers[TRACKED] = _tracked(automaton, last, token)
    registers[LAST] = last
    registers[LENGTH] += 1
    return True


@part
def _find_match(automaton):
    """Store the longest suffix of the document that also ends earlier."""
    nodes, registers = automaton.nodes, automaton.registers
    state = registers[TRACKED]
    length = min(registers[LENGTH] - registers[START], registers[MAX_MATCH])
    if state != ROOT and nodes[state, COUNT] == 0:
        state = nodes[state, LINK]
        length = int(nodes[state, LEN])
    registers[MATCH] = length
    registers[MATCH + 1] = nodes[state, LATEST]
    registers[MATCH + 2] = nodes[state, FIRST]
    registers[MATCH + 3] = nodes[state, COUNT]


@part
def matched_state(automaton):
    """The state of the longest match; the root when there is none."""
    state = automaton.registers[TRACKED]
    if state != ROOT and automaton.nodes[state, COUNT] == 0:
        state = automaton.nodes[state, LINK]
    return state


@part
def shortened(automaton, state, length):
    """The state of the last `length` tokens of a longer one."""
    nodes = automaton.nodes
    while state > ROOT and nodes[nodes[state, LINK], LEN] >= length:
        state = nodes[state, LINK]
    return state


@part
def most_frequent(automaton, state):
    """The latest place of the token that followed `state` most often; -1 for none."""
    nodes, edges = automaton.nodes, automaton.edges
    following = nodes[state, NEXT]
    count, place = nodes[following, COUNT], nodes[following, LATEST]
    entry = nodes[state, HEAD]
    while entry != 0:
        following = edges[entry - 1, TARGET]
        if nodes[following, COUNT] > count:
            count, place = nodes[following, COUNT], nodes[following, LATEST]
        entry = edges[entry - 1, SIBLING]
    return place


@kernel
def extend(arrays, stop):
    """Take in `text` up to `stop` and find the match there; returns how far it got before an array was full."""
    automaton = Automaton(*arrays)
    registers = automaton.registers
    while registers[LENGTH] < stop:
        if not _append(automaton, automaton.text[registers[LENGTH]]):
            return registers[LENGTH]
    _find_match(automaton)
    return registers[LENGTH]


@kernel
def end_document(arrays, positions):
    """Put so many separators behind the document and start again from the root; `text` has room for them."""
    automaton = Automaton(*arrays)
    registers = automaton.registers
    _count(automaton)
    for _ in range(positions):
        automaton.text[registers[LENGTH]] = SEPARATOR
        registers[LENGTH] += 1
    registers[START] = registers[COUNTED] = registers[LENGTH]
    registers[LAST] = registers[TRACKED] = ROOT
    _find_match(automaton)


@kernel
def rehash(arrays, old_edges):
    """Move the transitions in `old_edges` into the empty table of `arrays`."""
    automaton = Automaton(*arrays)
    for state in range(automaton.registers[STATES]):
        automaton.nodes[state, HEAD] = 0
    automaton.registers[EDGES] = 0
    for old in range(old_edges.shape[0]):
        state, token, target = old_edges[old, STATE], old_edges[old, LABEL], old_edges[old, TARGET]
        if target != 0:
            _fill(automaton, _slot(automaton.edges, state, token), state, token, target)
