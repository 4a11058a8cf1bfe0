"""The costs of a batch's steps by their width, measured, and the choice of draft tokens by them: compiled.

A table has a row for each width up to 64, and sixteen for each doubling from there on.
"""

import math
from typing import NamedTuple

import numpy as np

from lookahead.kernels import kernel, part

_EXACT, _PER_OCTAVE, _OCTAVES = 64, 16, 8
POINTS = _EXACT + _PER_OCTAVE * _OCTAVES + 1
WIDEST = 4096  # draft tokens of one step, at most
_SHARE = 0.02  # of a step without drafts, by which a draft token makes it dearer as long as nothing is measured
_CAUTION, _FAINT = 1.1, 1e-3
_AVERAGE, _DRIFT, _OUTLIER, _WEIGHT = 0.05, 0.1, 3.0, 8.0
_FORGET = 0.999
# Columns of a table: seconds of a step at about this width, how often it was seen, and the mean width.
SECONDS, COUNT, WIDTH = range(3)


class Room(NamedTuple):
    """Scratch: `levels` float64 [points, 3]; `rows` int64, `expected` and `curve` float64, each [draft tokens]; `order`
    int64 [requests], the next depth of each; and the result, `lengths` int64 [requests].
    """

    levels: np.ndarray
    rows: np.ndarray
    expected: np.ndarray
    curve: np.ndarray
    order: np.ndarray
    lengths: np.ndarray


def new_room(requests: int) -> Room:
    """Return scratch for so many requests."""
    per_request = np.zeros((2, max(requests, 1)), np.int64)
    return Room(np.zeros((POINTS, 3)), np.zeros(WIDEST, np.int64), *np.zeros((2, WIDEST)), *per_request)


@part
def _point(width):
    """The place of a width in a table: its own up to 64, then sixteen to each doubling."""
    if width <= _EXACT:
        return width
    return min(_EXACT + int(_PER_OCTAVE * math.log2(width / _EXACT)), POINTS - 1)


@kernel
def begin(table, width):
    """Assume that a step of this width costs 1."""
    table[_point(width), SECONDS], table[_point(width), WIDTH] = 1.0, width


@kernel
def observe(table, worth, levels, requests, width, seconds, tokens):
    """Move the cost of one width, and all others a little the same way: contexts grow, machines get slower."""
    point = _point(width)
    if not _is_measured(table):
        _scale(table, 0.0)
    mean, seen = table[point, SECONDS], table[point, COUNT]
    if seen == 0.0:
        moved = seconds
    elif seen == 1.0:
        moved = min(mean, seconds)  # a first time is often a cold one
    else:
        seconds = min(max(seconds, mean / _OUTLIER), mean * _OUTLIER)
        moved = mean + max(1.0 / (seen + 1.0), _AVERAGE) * (seconds - mean)
        _scale(table, (seconds / mean) ** _DRIFT)
    table[point, SECONDS] = moved
    wide = table[point, WIDTH] if seen > 0.0 else 0.0
    table[point, WIDTH] = wide + (width - wide) / min(seen + 1.0, 20.0)
    table[point, COUNT] = seen + 1.0
    count = _level(table, levels)
    plain, cost = _at(table, levels, count, requests), _at(table, levels, count, width)
    worth[0] = _FORGET * worth[0] + tokens / requests
    worth[1] = _FORGET * worth[1] + cost / plain


@part
def _scale(table, factor):
    """Multiply all costs."""
    for point in range(len(table)):
        table[point, SECONDS] *= factor


@part
def _is_measured(table):
    """Whether any width was seen."""
    point = 0
    while point < len(table) and table[point, COUNT] == 0.0:
        point += 1
    return point < len(table)


@part
def _level(table, levels):
    """Gather the points in use, width, seconds and weight of each; where seconds fall the points share their mean.

    Returns how many there are. (Pool adjacent violators: Ayer et al., 1955.)
    """
    count = 0
    for point in range(len(table)):
        if table[point, SECONDS] > 0.0:
            levels[count, 0], levels[count, 1] = table[point, WIDTH], table[point, SECONDS]
            levels[count, 2] = max(min(table[point, COUNT], _WEIGHT), 1.0)
            count += 1
    for last in range(1, count):
        first, total, weight = last, levels[last, 1] * levels[last, 2], levels[last, 2]
        while first > 0 and levels[first - 1, 1] > total / weight:
            first -= 1
            total, weight = total + levels[first, 1] * levels[first, 2], weight + levels[first, 2]
        if first < last:
            for point in range(first, last + 1):
                levels[point, 1] = total / weight
    return count


@part
def _at(table, levels, count, width):
    """The cost of a width: through the points, with a mild slope beyond them."""
    point = 0
    while point < count and levels[point, 0] < width:
        point += 1
    if point == 0:
        return levels[0, 1]
    before, seconds = levels[point - 1, 0], levels[point - 1, 1]
    if point < count:
        share = (width - before) / (levels[point, 0] - before)
        return seconds + share * (levels[point, 1] - seconds)
    slope = _SHARE * levels[0, 1]
    if count > 1 and _is_measured(table):
        slope = min(slope, (seconds - levels[0, 1]) / (before - levels[0, 0]))
    return seconds + slope * (width - before)


@kernel
def cost(table, levels, width):
    """The cost of one width."""
    return _at(table, levels, _level(table, levels), width)


@kernel
def choose(alive, table, worth, requests, most, room):
    """Set `room.lengths`, the draft tokens to verify of each request; returns how many these are in all.

    The likeliest next token of all requests is taken, again and again; each adds its chance to the tokens that the step
    is expected to emit, and one to its width. As many are taken as bring most, compared with what the time would bring
    otherwise.
    """
    made = Room(*room)
    count = _level(table, made.levels)
    plain = _at(table, made.levels, count, requests)
    made.order[:] = 0
    offered, expected, densest = 0, float(requests), 1.0
    while offered < min(most, len(made.rows)):
        row = _likeliest(alive, made.order)
        if row < 0:
            break
        expected += alive[row, made.order[row]]
        made.order[row] += 1
        made.rows[offered], made.expected[offered] = row, expected
        made.curve[offered] = _at(table, made.levels, count, requests + offered + 1)
        densest = max(densest, expected / requests * plain / made.curve[offered])
        offered += 1
    rate = _CAUTION * math.sqrt(max(1.0, worth[0] / worth[1]) * densest) * requests / plain
    best, taken = requests - rate * plain, 0
    for place in range(offered):
        gain = made.expected[place] - rate * made.curve[place]
        if gain > best:
            best, taken = gain, place + 1
    made.lengths[:] = 0
    for place in range(taken):
        made.lengths[made.rows[place]] += 1
    return taken


@part
def _likeliest(alive, order):
    """The request whose next token is the likeliest; -1 where none is likely."""
    best, found = _FAINT, -1
    for row in range(len(alive)):
        if order[row] < alive.shape[1] and alive[row, order[row]] > best:
            best, found = alive[row, order[row]], row
    return found
