"""CostModel: what a step costs by its width, measured while it runs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead.candidates import MAX_DEPTH
from lookahead.kernels import kernel, part

WIDTHS = MAX_DEPTH + 2  # index 0 is unused, a draft of MAX_DEPTH makes MAX_DEPTH + 1
_SHARE = 0.02
_PLAIN_AVERAGE, _WIDE_AVERAGE, _DRIFT = 0.05, 0.02, 0.1
_OUTLIER, _INHERITED, _DOUBTED = 3.0, 4.0, 1.5
_STALE, _AGEING = 2.0, 0.99
_ONCE = 0.1  # measurements that a first one counts for: it is often a cold one
_FORGET = 0.999
_SHORTEST_S, _LONGEST_S = 1e-9, 1e6  # a clock that shows anything else is broken
_ASSUMED_TOKENS, _ASSUMED_STEPS = 75.0, 50.0
# Entries of `figures`: seconds of a plain step, and tokens and cost of lately, in tokens and plain steps.
LEVEL, TOKENS, COST = range(3)


class CostModel:
    """The cost of each width relative to a plain step, and the seconds of a plain step, each a running average.

    A machine that gets slower, or a context that gets longer, changes the seconds and hardly the relations, so what
    was learned of rare widths stays true. Outliers are clipped. Between measured widths the curve is linear and never
    falls; beyond them a token more costs what it did on average, 0.02 of a plain step at most, until that is measured.

    Example:
        >>> cost = CostModel()
        >>> for width, seconds in ((1, 0.05), (9, 0.06), (1, 0.05), (9, 0.06)):
        ...     cost.observe(width, seconds, tokens=1)
        >>> round(float(cost.curve[5]), 3)
        1.1
    """

    def __init__(self) -> None:
        self.mean = np.ones(WIDTHS)
        self.count = np.zeros(WIDTHS)
        self.curve = np.empty(WIDTHS)
        self._groups = np.empty((3, WIDTHS))
        self.figures = np.array([0.0, _ASSUMED_TOKENS, _ASSUMED_STEPS])
        _refresh(self.mean, self.count, self.curve, self._groups)

    def observe(self, width: int, seconds: float, tokens: float) -> None:
        """Take in one step: the tokens it read, its time, and the tokens it emitted."""
        if width >= 1 and _SHORTEST_S < seconds < _LONGEST_S:
            width = min(width, WIDTHS - 1)
            _observe(self.mean, self.count, self.curve, self._groups, self.figures, width, seconds, tokens)

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Seconds of a step by width; zeros before the first measurement."""
        return self.curve * self.figures[LEVEL]

    @property
    def worth(self) -> float:
        """Tokens emitted per plain step's time, over about a thousand steps."""
        return float(self.figures[TOKENS] / self.figures[COST])

    def expects(self, seconds: float, within: float) -> bool:
        """Return whether a plain step of so many seconds is what was thought, or there was nothing to think yet."""
        level = self.figures[LEVEL] * self.curve[1]
        return level == 0.0 or abs(seconds / level - 1.0) < within

    def contradicts(self, width: int, within: float) -> bool:
        """Return whether a width is thought to cost less than a plain step does, by more than a share of that."""
        width = min(width, WIDTHS - 1)
        return bool(self.count[width] > 1 and self.mean[width] < 1.0 - within)

    def doubt(self) -> None:
        """Let what was measured count for little, and the next plain step not change what others cost."""
        np.minimum(self.count, _INHERITED, out=self.count)
        self.count[1] = min(self.count[1], _DOUBTED)

    def successor(self) -> "CostModel":
        """Return a model that starts from these costs and follows new measurements soon."""
        other = CostModel()
        other.restore(self.mean, np.minimum(self.count, _INHERITED), self.figures)
        return other

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what was measured, as arrays to be saved."""
        return {"mean": self.mean, "count": self.count, "figures": self.figures}

    def restore(self, mean: NDArray[Any], count: NDArray[Any], figures: NDArray[Any]) -> None:
        """Take back what :meth:`state` gave."""
        for own, saved in ((self.mean, mean), (self.count, count), (self.figures, figures)):
            own[:] = saved
        _refresh(self.mean, self.count, self.curve, self._groups)


@kernel
def _observe(mean, count, curve, groups_of, figures, width, seconds, tokens):
    """Move the averages of one width."""
    if figures[LEVEL] == 0.0:
        figures[LEVEL] = seconds / curve[width]
    relative, seen = seconds / figures[LEVEL], count[width]
    if seen == 0.0:
        moved = relative
    elif seen == 1.0:
        moved = min(mean[width], relative)  # a first time is often a cold one
    else:
        relative = min(max(relative, mean[width] / _OUTLIER), mean[width] * _OUTLIER)
        slowest = _PLAIN_AVERAGE if width == 1 else _WIDE_AVERAGE
        moved = mean[width] + max(1.0 / (seen + 1.0), slowest) * (relative - mean[width])
    count[width] = seen + 1.0
    if width == 1:
        _set_level(mean, figures, moved, seen <= _STALE + 0.5)
    else:
        if count[1] > _STALE:
            count[1] = max(_AGEING * count[1], _STALE)  # a plain step of long ago says little
        if seen >= 2.0:
            figures[LEVEL] *= (relative / mean[width]) ** _DRIFT
        mean[width] = moved
    _refresh(mean, count, curve, groups_of)
    figures[TOKENS] = _FORGET * figures[TOKENS] + tokens
    figures[COST] = _FORGET * figures[COST] + curve[width]


@part
def _set_level(mean, figures, plain, guessed):
    """Let a plain step cost 1 by definition; what the others cost stays, where the level was only `guessed` before.

    So it is where plain steps are rare: the others have followed what changed for all.
    """
    figures[LEVEL] *= plain
    if guessed:
        for width in range(2, len(mean)):
            mean[width] /= plain


@kernel
def _refresh(mean, count, curve, groups_of):
    """Draw the curve through the measured widths; `groups_of` float64 [3, widths] is scratch.

    Widths whose means fall are pooled into groups that share a level: level, weight and last width of each.
    """
    level, weight, last = groups_of[0], groups_of[1], groups_of[2]
    groups = 0
    for width in range(1, len(mean)):
        if count[width] == 0.0 and width > 1:
            continue
        known = count[width] if count[width] != 1.0 else _ONCE
        level[groups], weight[groups], last[groups] = mean[width], min(known, 20.0), width
        groups += 1
        while groups > 1 and level[groups - 1] < level[groups - 2]:
            groups = _pool(level, weight, last, groups)
    _interpolate(mean, count, curve, level, last, groups)


@part
def _pool(level, weight, last, groups):
    """Merge the last two groups, whose levels fall, into their average."""
    total = weight[groups - 1] + weight[groups - 2]
    if total > 0.0:
        level[groups - 2] += weight[groups - 1] / total * (level[groups - 1] - level[groups - 2])
    weight[groups - 2], last[groups - 2] = total, last[groups - 1]
    return groups - 1


@part
def _interpolate(mean, count, curve, level, last, groups):
    """Fill the curve between and beyond the measured widths."""
    group, at, cost = 0, 1, level[0]
    curve[0], curve[1] = 0.0, level[0]
    for width in range(2, len(mean)):
        while group < groups and last[group] < width:
            group += 1
        if group == groups:
            break
        if count[width] > 0.0:
            for between in range(at + 1, width + 1):
                curve[between] = cost + (level[group] - cost) * (between - at) / (width - at)
            at, cost = width, level[group]
    slope = _SHARE * curve[1]
    if at > 1:
        slope = min(slope, (cost - curve[1]) / (at - 1))
    for width in range(at + 1, len(mean)):
        curve[width] = cost + slope * (width - at)
