"""Tree: the continuations of several candidates as one draft, in which what they begin with in common stands once."""

from typing import NamedTuple

import numpy as np

from lookahead.automaton import Automaton
from lookahead.candidates import MAX_CANDIDATES, MAX_DEPTH, Candidates
from lookahead.kernels import kernel, part
from lookahead.long_shots import offer_long_shots
from lookahead.planning import FAINT, FOLLOWED, ROW, Plan, follow_candidate, look_at, step_worth
from lookahead.sources import Ground
from lookahead.survival import Survival

_CAUTION = 1.2  # beside the chosen candidate, the only one of which more than the first token was learned from
DEPTH, END, PARENT = range(3)


class Tree(NamedTuple):
    """A tree under construction.

    `nodes` int64 [depth, 4]: tokens, parents, origins and candidates, the likeliest first; `drafted` the same, those of
    the chosen candidate first; `places` int64 [depth + 1]: what the root and each node are called there. `climbs` int64
    [candidates, 3]: how many tokens of each candidate are in the tree, how many can be, and the node of the last (-1:
    the root); `alive` float64 [candidates, depth]: the candidates' survival; `left` float64 [depth + 1]: what the
    children of the root and of each node have left of its chance.
    """

    nodes: np.ndarray
    drafted: np.ndarray
    places: np.ndarray
    climbs: np.ndarray
    alive: np.ndarray
    left: np.ndarray


def empty_tree() -> Tree:
    """Return room for a tree."""
    return Tree(
        np.zeros((MAX_DEPTH, 4), np.int64),
        np.zeros((MAX_DEPTH, 4), np.int64),
        np.zeros(MAX_DEPTH + 1, np.int64),
        np.zeros((MAX_CANDIDATES, 3), np.int64),
        np.zeros((MAX_CANDIDATES, MAX_DEPTH)),
        np.zeros(MAX_DEPTH + 1),
    )


@kernel
def tree_step(
    index,
    documents,
    limits,
    swaps,
    trail,
    candidates,
    least,
    vocabulary,
    survival,
    plan,
    surprises,
    tree,
    curve,
    worth,
    most,
):
    """Write the tokens of a planned step that pay, at most `most`, to the tree's `drafted`; returns how many.

    Long shots join the planned candidates. The likeliest token of all that may come next is added again and again, and
    the tree is cut where its gain is the highest: expected tokens less the cost of the width, see `planning`.
    """
    offered, known, made, grown = Candidates(*candidates), Survival(*survival), Plan(*plan), Tree(*tree)
    automaton, scratch, planned = Automaton(*index), made.path[MAX_DEPTH:], offered.count[0]
    ground = Ground(automaton, documents, limits, swaps, offered, least, vocabulary, most)
    offer_long_shots(ground, trail, surprises)
    rows = offered.count[0]
    for row in range(planned, rows):
        look_at(automaton, offered, made, row)
    for row in range(rows):
        if row == made.chosen[ROW]:
            end = min(made.chosen[FOLLOWED], most)
            for depth in range(end):
                grown.alive[row, depth] = made.alive[depth]
        else:
            end = follow_candidate(automaton, offered, known, made, row, grown.alive[row], scratch, most)
        grown.climbs[row, DEPTH], grown.climbs[row, END], grown.climbs[row, PARENT] = 0, end, -1
    grown.left[0] = 1.0
    rate, expected, length = step_worth(made, curve, worth), 1.0, 0
    best = expected - rate * curve[1]
    for node in range(most):
        row, likely = _likeliest(grown, rows, made.chosen[ROW])
        if likely < FAINT:
            break
        _take(grown, offered, row, node, likely)
        expected += likely
        gain = expected - rate * curve[node + 2]
        if gain > best:
            best, length = gain, node + 1
    _order(grown, offered, made.chosen[ROW], length)
    return length


@part
def _likeliest(tree, rows, chosen):
    """The candidate whose next token is the likeliest, and how likely the draft is right up to it."""
    found, best = -1, 0.0
    for row in range(rows):
        depth, end, parent = tree.climbs[row]
        if depth < end:
            likely = min(tree.alive[row, depth], tree.left[parent + 1])
            if row != chosen:
                likely /= _CAUTION
            if likely > best:
                found, best = row, likely
    return found, best


@part
def _take(tree, candidates, row, node, likely):
    """Add a candidate's next token as a node, and move on all candidates that go on with it there."""
    depth, _, parent = tree.climbs[row]
    token = candidates.tokens[row, depth]
    tree.nodes[node, 0], tree.nodes[node, 1] = token, parent
    tree.nodes[node, 2], tree.nodes[node, 3] = candidates.origins[row, depth], row
    tree.left[node + 1] = likely
    tree.left[parent + 1] -= likely
    for other in range(candidates.count[0]):
        depth, end, at = tree.climbs[other]
        if at == parent and depth < end and candidates.tokens[other, depth] == token:
            tree.climbs[other, DEPTH], tree.climbs[other, PARENT] = depth + 1, node


@part
def _order(tree, candidates, chosen, length):
    """Order the nodes: first those of the chosen candidate, which need not be moved in a cache if they come true."""
    tree.places[0] = -1
    for node in range(length):
        tree.places[node + 1] = -1
    path, last = 0, -1
    for node in range(length):
        if tree.nodes[node, 1] == last and tree.nodes[node, 0] == candidates.tokens[chosen, path]:
            tree.places[node + 1], last, path = path, node, path + 1
    for node in range(length):
        if tree.places[node + 1] < 0:
            tree.places[node + 1], path = path, path + 1
        place = tree.places[node + 1]
        for column in range(tree.nodes.shape[1]):
            tree.drafted[place, column] = tree.nodes[node, column]
        tree.drafted[place, 1] = tree.places[tree.nodes[node, 1] + 1]
