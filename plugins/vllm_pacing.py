"""BatchPacing: how many draft tokens a whole batch should verify in one step, and whose.

A step of vLLM reads the last token and the draft of every request as one row of tokens, so what it costs is decided by
their number alone, the width. Of all draft tokens on offer the likeliest are taken first, whatever request they are of,
as many as make the step worth its time. For one request this is the rule of `lookahead.planning`.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lookahead.kernels import kernel, part

_EXACT, _PER_OCTAVE, _OCTAVES = 64, 16, 8
_POINTS = _EXACT + _PER_OCTAVE * _OCTAVES + 1
_SHARE = 0.02  # of a step without drafts, by which a draft token makes it dearer as long as nothing is measured
_CAUTION = 1.1
_AVERAGE, _DRIFT, _OUTLIER, _INHERITED, _WEIGHT = 0.05, 0.1, 3.0, 4.0, 8.0
_FORGET, _ASSUMED_WORTH, _ASSUMED_STEPS = 0.999, 1.5, 50.0
_LEAST_PATIENCE, _MOST_PATIENCE, _LIKELY = 32, 1024, 0.5
_SHORTEST_S, _LONGEST_S = 1e-6, 1e3
# Columns of a table: seconds of a step at about this width, how often it was seen, and the mean width.
SECONDS, COUNT, WIDTH = range(3)


class BatchPacing:
    """What the steps of a model cost by their width, for batches of about 1, 2, 4, 8 ... requests, and the choice.

    Args:
        measures: False decides by an assumed cost and looks at no clock, so that several processes that see the same
            tokens decide alike.

    Example:
        >>> pacing = BatchPacing()
        >>> for width, seconds in ((2, 1.0), (4, 1.1), (2, 1.0), (4, 1.1)):
        ...     pacing.observe(requests=2, width=width, seconds=seconds, tokens=2)
        >>> pacing.lengths([np.array([0.9, 0.8]), np.array([0.1])], most=100)
        [2, 0]
    """

    def __init__(self, measures: bool = True) -> None:
        self._measures = measures
        self._tables: dict[int, NDArray[np.float64]] = {}
        self._worth: dict[int, list[float]] = {}
        self._passed: dict[int, list[int]] = {}
        self._levels = np.zeros((_POINTS, 3))

    def observe(self, requests: int, width: int, seconds: float, tokens: int) -> None:
        """Take in a step that read ``width`` tokens of so many requests and nothing else, and emitted ``tokens``."""
        if not self._measures or not _SHORTEST_S < seconds < _LONGEST_S:
            return
        table = self._table(requests)
        _observe(table, width, seconds)
        plain, cost = self._curve(table, requests, 1)[0], self._curve(table, width, 1)[0]
        worth = self._worth.setdefault(_bucket(requests), [_ASSUMED_WORTH * _ASSUMED_STEPS, _ASSUMED_STEPS])
        worth[0] = _FORGET * worth[0] + tokens / requests
        worth[1] = _FORGET * worth[1] + cost / plain

    def lengths(self, chances: Sequence[NDArray[np.float64]], most: int, requests: int = 0) -> list[int]:
        """Return how many draft tokens of each request are worth verifying now; 0 is an answer.

        Args:
            chances: For each request the chance that its draft survives to each depth, never rising.
            most: Draft tokens that may be verified in all.
            requests: Requests in the step, those that have nothing to draft included; as many as ``chances`` if 0.
        """
        requests = max(requests, len(chances))
        rows, alive = _in_order(chances)
        if not len(alive) or most <= 0:
            return [0] * len(chances)
        rows, alive = rows[:most], alive[:most]
        bucket = _bucket(requests)
        worth = self._worth.get(bucket, [_ASSUMED_WORTH, 1.0])
        curve = self._curve(self._table(requests), requests, len(alive) + 1)
        taken = int(_best(alive, curve, requests, worth[0] / worth[1]))
        if taken:
            self._passed[bucket] = [0, _LEAST_PATIENCE]
        elif alive[0] > _LIKELY:
            taken = self._probe(alive, requests)
        return np.bincount(rows[:taken], minlength=len(chances)).tolist()

    def warm_up(self) -> None:
        """Compile the kernels, or load them from numba's cache, before a clock runs."""
        other = BatchPacing()
        for width in (1, 2):
            other.observe(1, width, 1.0, 1)
        other.lengths([np.array([0.9])], most=1)

    def cost(self, requests: int, width: int) -> float:
        """Return the seconds of a step of ``width`` tokens of so many requests; before the first, a plain one is 1."""
        return float(self._curve(self._table(requests), width, 1)[0])

    def _probe(self, alive: NDArray[np.float64], requests: int) -> int:
        """Draft once in a while at the assumed cost, so that a cost that was measured wrong heals."""
        passed = self._passed.setdefault(_bucket(requests), [0, _LEAST_PATIENCE])
        passed[0] += 1
        if not self._measures or passed[0] <= passed[1]:
            return 0
        passed[0], passed[1] = 0, min(2 * passed[1], _MOST_PATIENCE)
        curve = self._curve(_new_table(requests), requests, len(alive) + 1)
        return int(_best(alive, curve, requests, 1.0))

    def _curve(self, table: NDArray[np.float64], first: int, length: int) -> NDArray[np.float64]:
        """Return the seconds of so many widths, from ``first`` on."""
        curve = np.empty(length)
        _draw(table, self._levels, first, curve)
        return curve

    def _table(self, requests: int) -> NDArray[np.float64]:
        """Return the costs for about so many requests; they start from those of the nearest smaller batch."""
        bucket = _bucket(requests)
        if bucket not in self._tables:
            smaller = [other for other in self._tables if other < bucket]
            if not smaller or not self._measures:
                self._tables[bucket] = _new_table(requests)
            else:
                table = self._tables[bucket] = self._tables[max(smaller)].copy()
                table[:, COUNT] = np.minimum(table[:, COUNT], _INHERITED)
        return self._tables[bucket]


def _bucket(requests: int) -> int:
    return max(requests - 1, 0).bit_length()


def _new_table(requests: int) -> NDArray[np.float64]:
    """Return the costs before any was measured: a step without drafts costs 1."""
    table = np.zeros((_POINTS, 3))
    _begin(table, requests)
    return table


def _in_order(chances: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the request and the chance of all draft tokens, the likeliest first; of equal ones the first in depth.

    Chances never rise along a draft, so however many are taken they are the start of each draft.
    """
    sizes = [len(each) for each in chances]
    rows = np.repeat(np.arange(len(sizes)), sizes)
    depths = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    alive = np.concatenate(chances) if sizes else np.zeros(0)
    order = np.lexsort((rows, depths, -alive))
    return rows[order], alive[order]


@part
def _point(width):
    """The place of a width in a table: its own up to 64, then sixteen to each doubling."""
    if width <= _EXACT:
        return width
    return min(_EXACT + int(_PER_OCTAVE * math.log2(width / _EXACT)), _POINTS - 1)


@kernel
def _begin(table, width):
    """Assume that a step of this width costs 1."""
    table[_point(width), SECONDS], table[_point(width), WIDTH] = 1.0, width


@kernel
def _observe(table, width, seconds):
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


@kernel
def _draw(table, levels, first, curve):
    """Fill `curve` with the cost of the widths from `first` on: through the points, with a mild slope beyond them."""
    count = _level(table, levels)
    filled, width, seconds = 0, levels[0, 0], levels[0, 1]
    for point in range(count):
        next_width, next_seconds = levels[point, 0], levels[point, 1]
        while filled < len(curve) and first + filled <= next_width:
            share = (first + filled - width) / (next_width - width) if next_width > width else 1.0
            curve[filled] = seconds + max(share, 0.0) * (next_seconds - seconds)
            filled += 1
        width, seconds = next_width, next_seconds
    slope = _SHARE * levels[0, 1]
    if width > levels[0, 0] and table[_point(int(levels[0, 0])), COUNT] > 0.0:
        slope = min(slope, (seconds - levels[0, 1]) / (width - levels[0, 0]))
    while filled < len(curve):
        curve[filled] = seconds + slope * (first + filled - width)
        filled += 1


@kernel
def _best(alive, curve, requests, worth):
    """How many of the draft tokens, likeliest first, to verify; `worth`: tokens that a plain step's time brought."""
    plain = curve[0]
    expected, most = float(requests), 1.0
    for taken in range(len(alive)):
        expected += alive[taken]
        most = max(most, expected / requests * plain / curve[taken + 1])
    rate = _CAUTION * math.sqrt(max(1.0, worth) * most) * requests / plain
    expected, length = float(requests), 0
    best = expected - rate * plain
    for taken in range(len(alive)):
        expected += alive[taken]
        gain = expected - rate * curve[taken + 1]
        if gain > best:
            best, length = gain, taken + 1
    return length
