"""BatchPacing: how many draft tokens a whole batch should verify in one step, and whose.

Where the last tokens and the drafts of all requests are read end to end, as one row of tokens, what a step costs is
decided by their number alone, the width. Of all draft tokens on offer the likeliest are taken first, whatever request
they are of, as many as make the step worth its time. For one request this is the rule of `lookahead.planning`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookahead.batch_costs import COUNT, POINTS, begin, choose, cost, new_room, observe

_ASSUMED_WORTH, _ASSUMED_STEPS, _INHERITED = 1.5, 50.0, 4.0
_LEAST_PATIENCE, _MOST_PATIENCE, _LIKELY = 32, 1024, 0.5
_SHORTEST_S, _LONGEST_S = 1e-6, 1e3
_PLAIN_STEPS = 2
MEASURED, ASKED = range(2)


class BatchPacing:
    """What the steps of a model cost by their width, for batches of about 1, 2, 4, 8 ... requests, and the choice.

    Args:
        measures: False decides by an assumed cost and looks at no clock, so that several processes that see the same
            tokens decide alike.

    Example:
        >>> pacing = BatchPacing()
        >>> for width, seconds in ((2, 1.0), (4, 1.1), (2, 1.0), (4, 1.1)):
        ...     pacing.observe(requests=2, width=width, seconds=seconds, tokens=2)
        >>> pacing.lengths([np.array([0.9, 0.8]), np.array([0.01])], most=100)
        [2, 0]
    """

    def __init__(self, measures: bool = True) -> None:
        self._measures = measures
        self._knowledge: dict[int, _Knowledge] = {}
        self._room = new_room(1)
        self._chances = np.zeros((1, 1))

    def observe(self, requests: int, width: int, seconds: float, tokens: int) -> None:
        """Take in a step that read ``width`` tokens of so many requests and nothing else, and emitted ``tokens``."""
        if self._measures and _SHORTEST_S < seconds < _LONGEST_S:
            known = self._known(requests)
            known.plain[MEASURED] += width == requests
            observe(known.table, known.worth, self._room.levels, requests, width, seconds, tokens)

    def lengths(self, chances: Sequence[NDArray[np.float64]], most: int, requests: int = 0) -> list[int]:
        """Return how many draft tokens of each request are worth verifying now; 0 is an answer.

        Args:
            chances: For each request the chance that its draft survives to each depth, never rising.
            most: Draft tokens that may be verified in all.
            requests: Requests in the step, those that have nothing to draft included; as many as ``chances`` if 0.
        """
        alive = self._gathered(chances)
        if alive is None:
            return [0] * len(chances)
        requests = max(requests, len(chances))
        known = self._known(requests)
        if self._measures and self._needs_plain_step(known):
            return [0] * len(chances)
        taken = self._choose(alive, known, requests, most)
        if taken:
            known.passed[:] = 0, _LEAST_PATIENCE
        elif self._measures and alive[:, 0].max() > _LIKELY:
            known.passed[0] += 1
            if known.passed[0] > known.passed[1]:
                known.passed[:] = 0, min(2 * known.passed[1], _MOST_PATIENCE)
                self._choose(alive, _new_knowledge(requests), requests, most)
        return self._room.lengths[: len(chances)].tolist()

    def _needs_plain_step(self, known: "_Knowledge") -> bool:
        """Whether a step without drafts comes first: against its cost all others are weighed.

        Where drafts are always on offer there would be none, and the cheapest draft would pass for free.
        """
        wanted = bool(known.plain[MEASURED] < _PLAIN_STEPS and known.plain[ASKED] < 2 * _PLAIN_STEPS)
        known.plain[ASKED] += wanted
        return wanted

    def _choose(self, alive: NDArray[np.float64], known: "_Knowledge", requests: int, most: int) -> int:
        return int(choose(alive, known.table, known.worth, requests, most, tuple(self._room)))

    def _gathered(self, chances: Sequence[NDArray[np.float64]]) -> NDArray[np.float64] | None:
        """Return the chances as one array [requests, depths + 1], ended by zeros; None if there are none."""
        depths = max(map(len, chances), default=0)
        if not depths:
            return None
        if len(chances) > len(self._chances) or depths >= self._chances.shape[1]:
            shape = max(len(chances), len(self._chances)), max(depths + 1, self._chances.shape[1])
            self._chances = np.zeros(shape)
            self._room = new_room(shape[0])
        for row, each in enumerate(chances):
            self._chances[row, : len(each)] = each
            self._chances[row, len(each)] = 0.0
        return self._chances[: len(chances)]

    def warm_up(self) -> None:
        """Compile the kernels, or load them from numba's cache, before a clock runs."""
        other = BatchPacing()
        for width in (1, 2, 1):
            other.observe(1, width, 1.0, 1)
        other.lengths([np.array([0.9])], most=1)

    def cost(self, requests: int, width: int) -> float:
        """Return the seconds of a step of ``width`` tokens of so many requests; before the first, a plain one is 1."""
        return float(cost(self._known(requests).table, self._room.levels, width))

    def _known(self, requests: int) -> "_Knowledge":
        """Return what is known of about so many requests; it starts from what is known of the nearest smaller batch."""
        bucket = max(requests - 1, 0).bit_length()
        found = self._knowledge.get(bucket)
        if found is None:
            smaller = [other for other in self._knowledge if other < bucket]
            found = self._knowledge[bucket] = _new_knowledge(requests)
            if smaller and self._measures:
                found.table[:] = self._knowledge[max(smaller)].table
                found.table[:, COUNT] = np.minimum(found.table[:, COUNT], _INHERITED)
        return found


class _Knowledge(NamedTuple):
    """Of batches of about one size: `table` float64 [points, 3], see above; `worth` float64 [2], tokens per request and
    plain steps' time of lately; `passed` int64 [2], steps in a row that passed over a likely token, and how many may;
    `plain` int64 [2], steps without drafts that were measured, and that were asked for.
    """

    table: NDArray[np.float64]
    worth: NDArray[np.float64]
    passed: NDArray[np.int64]
    plain: NDArray[np.int64]


def _new_knowledge(requests: int) -> _Knowledge:
    """Return what is assumed before anything was measured: a step without drafts costs 1."""
    table = np.zeros((POINTS, 3))
    begin(table, requests)
    worth = np.array([_ASSUMED_WORTH * _ASSUMED_STEPS, _ASSUMED_STEPS])
    return _Knowledge(table, worth, np.array([0, _LEAST_PATIENCE]), np.zeros(2, np.int64))
