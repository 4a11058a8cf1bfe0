"""The costs of a batch's steps by their width, measured, and the choice of draft tokens by them: compiled.

A table has a row for each width up to 64, and sixteen for each doubling from there on.
"""

import math
from typing import NamedTuple

import numpy as np

from lookahead.kernels import kernel, part
from lookahead.views import flat_float64, flat_int64, table_float64

_EXACT, _PER_OCTAVE, _OCTAVES = 64, 16, 8
POINTS = _EXACT + _PER_OCTAVE * _OCTAVES + 1
WIDEST = 4096  # draft tokens of one step, at most
_SHARE = 0.02  # of a step without drafts, by which a draft token makes it dearer as long as nothing is measured
_CAUTION, _FAINT = 1.1, 1e-3
_AVERAGE, _DRIFT, _OUTLIER, _WEIGHT = 0.05, 0.1, 3.0, 8.0
_FORGET = 0.999
_ASSUMED_WORTH, _ASSUMED_STEPS = 1.5, 50.0
_LEAST_PATIENCE, _MOST_PATIENCE, _LIKELY = 32, 1024, 0.5
_PLAIN_STEPS = 2
_LEAST_INTERVAL, _MOST_INTERVAL, _SURPRISE = 8, 256, 0.25
_STALE, _AGEING = 2.0, 0.99
_ONCE = 0.1  # measurements that a first one counts for: it is often a cold one
# Columns of a table: seconds of a step at about this width, how often it was seen, and the mean width.
SECONDS, COUNT, WIDTH = range(3)
# Entries of `passed` and of `plain`.
SINCE, PATIENCE = range(2)
MEASURED, ASKED, DRAFTED, INTERVAL = range(4)


class Costs(NamedTuple):
    """What is known of batches of about one size.

    `table` float64 [points, 3], see above; `worth` float64 [2], tokens per request and plain steps' time of lately;
    `passed` int64 [2], steps in a row that passed over a likely token, and how many may; `plain` int64 [4], steps
    without drafts that were measured, and that were asked for, steps with drafts since, and how many may follow.
    """

    table: np.ndarray
    worth: np.ndarray
    passed: np.ndarray
    plain: np.ndarray


class Room(NamedTuple):
    """Scratch: `table` float64 [points, 3] and `worth` float64 [2], of assumed costs; `levels` float64 [points, 3];
    `rows` int64, `expected` and `curve` float64, each [draft tokens]; `order` int64 [requests], the next depth of each;
    and the result, `lengths` int64 [requests].
    """

    table: np.ndarray
    worth: np.ndarray
    levels: np.ndarray
    rows: np.ndarray
    expected: np.ndarray
    curve: np.ndarray
    order: np.ndarray
    lengths: np.ndarray


def new_room(requests: int) -> Room:
    """Return scratch for so many requests."""
    per_request = np.zeros((2, max(requests, 1)), np.int64)
    tables = np.zeros((2, POINTS, 3))
    return Room(tables[0], np.zeros(2), tables[1], np.zeros(WIDEST, np.int64), *np.zeros((2, WIDEST)), *per_request)


def new_costs(requests: int) -> Costs:
    """Return what is assumed of so many requests before anything was measured: a step without drafts costs 1."""
    passed, plain = np.array([0, _LEAST_PATIENCE], np.int64), np.array([0, 0, 0, _LEAST_INTERVAL], np.int64)
    made = Costs(np.zeros((POINTS, 3)), np.zeros(2), passed, plain)
    begin(made.table, made.worth, requests)
    return made


@part
def costs_at(handle):
    """The costs whose arrays have their addresses there."""
    at = flat_int64(handle, 4)
    return Costs(table_float64(at[0], POINTS, 3), flat_float64(at[1], 2), flat_int64(at[2], 2), flat_int64(at[3], 4))


@part
def room_at(handle):
    """The scratch whose arrays have their addresses there, and its requests behind them."""
    at = flat_int64(handle, 9)
    tables, worth = (table_float64(at[0], POINTS, 3), table_float64(at[2], POINTS, 3)), flat_float64(at[1], 2)
    rows, expected, curve = flat_int64(at[3], WIDEST), flat_float64(at[4], WIDEST), flat_float64(at[5], WIDEST)
    order, lengths = flat_int64(at[6], at[8]), flat_int64(at[7], at[8])
    return Room(tables[0], worth, tables[1], rows, expected, curve, order, lengths)


@part
def _point(width):
    """The place of a width in a table: its own up to 64, then sixteen to each doubling."""
    if width <= _EXACT:
        return width
    return min(_EXACT + int(_PER_OCTAVE * math.log2(width / _EXACT)), POINTS - 1)


@kernel
def begin(table, worth, width):
    """Assume that a step of this width costs 1."""
    table[:] = 0.0
    table[_point(width), SECONDS], table[_point(width), WIDTH] = 1.0, width
    worth[0], worth[1] = _ASSUMED_WORTH * _ASSUMED_STEPS, _ASSUMED_STEPS


@kernel
def observe(costs, room, requests, width, seconds, tokens):
    """Move the cost of one width, and all others a little the same way: contexts grow, machines get slower."""
    known, levels = costs_at(costs), room_at(room).levels
    table, worth, point = known.table, known.worth, _point(width)
    if not _is_measured(table):
        _scale(table, 0.0)
    elif width == requests:
        _look_again(table, known.plain, point, seconds / _at(table, levels, _level(table, levels), width))
    known.plain[MEASURED if width == requests else DRAFTED] += 1
    _age(table)
    seen = table[point, COUNT]
    if seen == 0.0:
        table[point, SECONDS] = seconds
    elif seen == 1.0:
        table[point, SECONDS] = min(table[point, SECONDS], seconds)  # a first time is often a cold one
    else:
        mean = table[point, SECONDS]
        seconds = min(max(seconds, mean / _OUTLIER), mean * _OUTLIER)
        _scale(table, (seconds / mean) ** _DRIFT)  # by powers: what goes up and down again ends where it was
        mean = table[point, SECONDS]
        table[point, SECONDS] = mean * (seconds / mean) ** max(1.0 / (seen + 1.0), _AVERAGE)
    wide = table[point, WIDTH] if seen > 0.0 else 0.0
    table[point, WIDTH] = wide + (width - wide) / min(seen + 1.0, 20.0)
    table[point, COUNT] = seen + 1.0
    count = _level(table, levels)
    plain, cost = _at(table, levels, count, requests), _at(table, levels, count, width)
    least = _point(requests)
    if width > requests and seen > 1.0 and table[point, SECONDS] < (1.0 - _SURPRISE / 2) * table[least, SECONDS]:
        known.plain[INTERVAL] = _LEAST_INTERVAL  # it can't be true: less takes no longer than more
    worth[0] = _FORGET * worth[0] + tokens / requests
    worth[1] = _FORGET * worth[1] + cost / plain


@part
def _look_again(table, plain, point, ratio):
    """Take note that a step without drafts took `ratio` of what it was thought to: when to measure the next at last.

    A surprise makes the old mean count for little.
    """
    plain[DRAFTED] = 0
    if abs(ratio - 1.0) >= _SURPRISE:
        plain[INTERVAL] = _LEAST_INTERVAL
        table[point, COUNT] = min(table[point, COUNT], _STALE)


@part
def _age(table):
    """Let what was measured long ago count for less."""
    for point in range(len(table)):
        if table[point, COUNT] > _STALE:
            table[point, COUNT] = max(_AGEING * table[point, COUNT], _STALE)


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
            levels[count, 2] = min(table[point, COUNT], _WEIGHT) if table[point, COUNT] > 1.0 else _ONCE
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
def choose(alive, costs, room, requests, most, measures):
    """Set the scratch's `lengths`, the draft tokens to verify of each request; returns how many these are in all.

    Where costs are measured, steps without drafts come first: against their cost all others are weighed. Where drafts
    are always on offer there would be none, and the cheapest draft would pass for free; so one comes again behind a
    number of steps with drafts, the more, the less there was to learn from the last. And where steps in a row passed
    over a likely token, one decides by the costs that were assumed at first, so that a wrong cost is measured again.
    """
    known, made = costs_at(costs), room_at(room)
    made.lengths[:] = 0
    likeliest = 0.0
    for row in range(len(alive)):
        likeliest = max(likeliest, alive[row, 0])
    if likeliest == 0.0:
        return 0
    plain, passed = known.plain, known.passed
    if measures and plain[MEASURED] < _PLAIN_STEPS and plain[ASKED] < 2 * _PLAIN_STEPS:
        plain[ASKED] += 1
        return 0
    if measures and plain[DRAFTED] > plain[INTERVAL]:
        plain[DRAFTED], plain[INTERVAL] = 0, min(2 * plain[INTERVAL], _MOST_INTERVAL)
        return 0
    taken = _choose(alive, known.table, known.worth, requests, most, made)
    if taken > 0:
        passed[SINCE], passed[PATIENCE] = 0, _LEAST_PATIENCE
    elif measures and likeliest > _LIKELY:
        passed[SINCE] += 1
        if passed[SINCE] > passed[PATIENCE]:
            passed[SINCE], passed[PATIENCE] = 0, min(2 * passed[PATIENCE], _MOST_PATIENCE)
            begin(made.table, made.worth, requests)
            taken = _choose(alive, made.table, made.worth, requests, most, made)
    return taken


@part
def _choose(alive, table, worth, requests, most, made):
    """Set the lengths by these costs.

    The likeliest next token of all requests is taken, again and again; each adds its chance to the tokens that the step
    is expected to emit, and one to its width. As many are taken as bring most, compared with what the time would bring
    otherwise.
    """
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
