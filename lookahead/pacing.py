"""Pacing: how long a draft is worth verifying now? Learned survival against measured cost, 0 tokens included."""

from bisect import bisect_right
from threading import Lock

import numpy as np
from numpy.typing import NDArray

MAX_DEPTH = 64
_MATCH_EDGES = (2, 3, 4, 6, 9, 17, 33)
_DEPTH_EDGES = (1, 2, 3, 4, 8, 16, 32)
_DEPTHS = np.searchsorted(_DEPTH_EDGES, np.arange(MAX_DEPTH), side="right")
# Chance that the next draft token is right, by match length (rows) and depth (columns), before anything was seen.
_PRIOR = np.array(
    [
        [0.25, 0.55, 0.62, 0.68, 0.75, 0.82, 0.88, 0.92],
        [0.47, 0.66, 0.72, 0.75, 0.80, 0.85, 0.90, 0.93],
        [0.60, 0.72, 0.76, 0.79, 0.83, 0.87, 0.91, 0.94],
        [0.66, 0.76, 0.79, 0.81, 0.85, 0.88, 0.92, 0.94],
        [0.72, 0.80, 0.82, 0.84, 0.87, 0.90, 0.93, 0.95],
        [0.80, 0.85, 0.86, 0.88, 0.90, 0.92, 0.94, 0.95],
        [0.88, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.96],
        [0.94, 0.95, 0.96, 0.96, 0.97, 0.97, 0.97, 0.97],
    ]
)
_PRIOR_WEIGHT = 12.0
_MEMORY = 400.0


class AcceptanceModel:
    """The chance that a draft survives to each depth, by the length of its match.

    A table of hazards: how often the token at a depth was right, given that the ones before it were. Counts start at
    a prior and are halved when they grow old, so that the model follows the text.
    """

    def __init__(self) -> None:
        self._seen = np.full(_PRIOR.shape, _PRIOR_WEIGHT)
        self._right = _PRIOR * _PRIOR_WEIGHT
        self._survival: dict[int, NDArray[np.float64]] = {}

    def survival(self, match_length: int) -> NDArray[np.float64]:
        """Return the chances that 1, 2, ... :data:`MAX_DEPTH` draft tokens are all right."""
        row = bisect_right(_MATCH_EDGES, match_length)
        found = self._survival.get(row)
        if found is None:
            hazards = self._right[row] / self._seen[row]
            found = self._survival[row] = hazards[_DEPTHS].cumprod()
        return found

    def learn(self, match_length: int, right: int, wrong: bool) -> None:
        """Take in that a candidate's first ``right`` tokens came true, and whether the one after them did not."""
        row = bisect_right(_MATCH_EDGES, match_length)
        seen, came = self._seen[row], self._right[row]
        depths = _DEPTHS[:right]
        np.add.at(seen, depths, 1.0)
        np.add.at(came, depths, 1.0)
        if wrong and right < MAX_DEPTH:
            seen[_DEPTHS[right]] += 1.0
        old = seen > _MEMORY
        if old.any():
            seen[old] *= 0.5
            came[old] *= 0.5
        self._survival.pop(row, None)


class CostModel:
    """Seconds of a step by width, as measured: a running average at each width, interpolated between them.

    Until two widths were measured, a token more is taken to cost a fixed share of a plain step.
    """

    def __init__(self, share: float = 0.02) -> None:
        self._share = share
        self._mean = np.zeros(MAX_DEPTH + 2)
        self._count = np.zeros(MAX_DEPTH + 2)
        self._curve: NDArray[np.float64] | None = None
        self.tokens, self.seconds = 0.0, 0.0

    def observe(self, width: int, seconds: float, tokens: float) -> None:
        """Take in one step: its width, its time, and the tokens it emitted."""
        if seconds <= 0:
            return
        width = min(width, MAX_DEPTH + 1)
        count, mean = self._count[width], self._mean[width]
        if count >= 3:
            seconds_seen = min(max(seconds, mean / 3), mean * 3)
        else:
            seconds_seen = seconds if count == 0 else min(seconds, mean * 3)
        weight = max(1.0 / (count + 1.0), 0.05)
        if count == 1:  # a first time is often a cold one
            self._mean[width] = min(mean, seconds_seen)
        else:
            self._mean[width] = mean + weight * (seconds_seen - mean)
        self._count[width] = count + 1
        self.tokens = 0.999 * self.tokens + tokens
        self.seconds = 0.999 * self.seconds + seconds_seen
        self._curve = None

    def curve(self) -> NDArray[np.float64] | None:
        """Return the seconds of a step of width 0 (unused), 1, 2, ...; None before the first measurement."""
        if self._curve is None and self._count.any():
            self._curve = self._interpolated()
        return self._curve

    def _interpolated(self) -> NDArray[np.float64]:
        known = np.flatnonzero(self._count)
        values = np.maximum.accumulate(self._mean[known])
        places = np.arange(len(self._mean))
        curve = np.interp(places, known, values)
        slope = self._share * values[0]
        if known[0] > 1:
            curve[: known[0]] = values[0] - slope * (known[0] - places[: known[0]])
        if len(known) > 1:
            slope = min(
                slope, (values[-1] - values[0]) / (known[-1] - known[0]) or slope
            )  # hopeful: it is measured soon
        beyond = places > known[-1]
        curve[beyond] = values[-1] + slope * (places[beyond] - known[-1])
        return np.maximum(curve, 0.2 * values[0])

    @property
    def rate(self) -> float:
        """Tokens per second, averaged over about a thousand steps."""
        return self.tokens / self.seconds if self.seconds else 0.0


class Pacing:
    """What one model has taught so far; shared by its calls, and safe to share between threads.

    Example:
        >>> pacing = Pacing()
        >>> pacing.length(match_length=1, limit=8) < pacing.length(match_length=40, limit=64)
        True
    """

    def __init__(self) -> None:
        self.acceptance = AcceptanceModel()
        self.cost = CostModel()
        self._lock = Lock()

    def length(self, match_length: int, limit: int) -> int:
        """Return how many of ``limit`` draft tokens to verify: the k with the largest S(1) + ... + S(k) - rho C(k + 1).

        S is the chance to survive to a depth, C the seconds of a width, rho the tokens per second at present.
        """
        limit = min(limit, MAX_DEPTH)
        if limit <= 0:
            return 0
        with self._lock:
            survival, curve, rate = self.acceptance.survival(match_length), self.cost.curve(), self.cost.rate
        if curve is None:
            curve, rate = 1.0 + 0.02 * np.arange(-1.0, MAX_DEPTH + 1), 1.0
        gain = survival[:limit].cumsum() - rate * (curve[2 : limit + 2] - curve[1])
        best = int(gain.argmax())
        return best + 1 if gain[best] > 0 else 0

    def learn(self, match_length: int, right: int, wrong: bool) -> None:
        """Take in how far a candidate came true; see :meth:`AcceptanceModel.learn`."""
        with self._lock:
            self.acceptance.learn(match_length, right, wrong)

    def observe(self, width: int, seconds: float, tokens: float) -> None:
        """Take in the cost of a step; see :meth:`CostModel.observe`."""
        with self._lock:
            self.cost.observe(width, seconds, tokens)
