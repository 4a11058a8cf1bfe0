"""BatchPacing: how many draft tokens a whole batch should verify in one step, and whose.

Where the last tokens and the drafts of all requests are read end to end, as one row of tokens, what a step costs is
decided by their number alone, the width. Of all draft tokens on offer the likeliest are taken first, whatever request
they are of, as many as make the step worth its time. For one request this is the rule of `lookahead.planning`.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookahead.batch_costs import COUNT, Costs, Room, choose, cost, new_costs, new_room, observe
from lookahead.stored import LEAST, Numbers, check_format, check_numbers, check_whole
from lookahead.views import Addresses

_INHERITED = 4.0
_FORMAT, _BUCKETS = 2, 32
_SHORTEST_S, _LONGEST_S = 1e-6, 1e3


class _Scratch(NamedTuple):
    """Room for a decision, and where it lies."""

    room: Room
    places: Addresses

    @classmethod
    def of(cls, rows: int) -> "_Scratch":
        """Return room for so many rows."""
        room = new_room(rows)
        return cls(room, Addresses(room, [len(room.lengths)]))


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
        self.measures = measures
        self._knowledge: dict[int, Costs] = {}
        self._places: dict[int, Addresses] = {}
        self._scratch = _Scratch.of(1)
        self._chances = np.zeros((1, 1))

    def observe(self, requests: int, width: int, seconds: float, tokens: int) -> None:
        """Take in a step that read ``width`` tokens of so many requests and nothing else, and emitted ``tokens``."""
        if self.measures and _SHORTEST_S < seconds < _LONGEST_S:
            costs, scratch = self.deciding(requests, 1)
            observe(costs.handle, scratch.places.handle, requests, width, seconds, tokens)

    def lengths(self, chances: Sequence[NDArray[np.float64]], most: int, requests: int = 0) -> list[int]:
        """Return how many draft tokens of each request are worth verifying now; 0 is an answer.

        Args:
            chances: For each request the chance that its draft survives to each depth, never rising.
            most: Draft tokens that may be verified in all.
            requests: Requests in the step, those that have nothing to draft included; as many as ``chances`` if 0.
        """
        requests = max(requests, len(chances))
        costs, scratch = self.deciding(requests, len(chances))
        choose(self._gathered(chances), costs.handle, scratch.places.handle, requests, most, self.measures)
        return scratch.room.lengths[: len(chances)].tolist()

    def deciding(self, requests: int, rows: int) -> "tuple[Addresses, _Scratch]":
        """Return where costs and scratch lie for steps of so many requests, of which so many may have drafts.

        Threads share them, and another may put larger scratch in its place: keep both for as long as a kernel runs.
        """
        if rows > len(self._scratch.room.lengths):
            self._scratch = _Scratch.of(2 * rows)
        scratch, bucket = self._scratch, _bucket(requests)
        places = self._places.get(bucket)
        if places is None:
            places = self._places.setdefault(bucket, Addresses(self._known(requests)))
        return places, scratch

    def _gathered(self, chances: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the chances as one array [requests, depths + 1], ended by zeros."""
        depths, made = max(map(len, chances), default=0), self._chances
        if len(chances) > len(made) or depths >= made.shape[1]:
            shape = max(len(chances), len(made)), max(depths + 1, made.shape[1])
            made = self._chances = np.zeros(shape)
        for row, each in enumerate(chances):
            made[row, : len(each)] = each
            made[row, len(each)] = 0.0
        return made[: len(chances)]

    @staticmethod
    @cache
    def warm_up() -> None:
        """Compile the kernels, or load them from numba's cache, once in a process: before a clock runs."""
        other = BatchPacing()
        for width in (1, 2, 1):
            other.observe(1, width, 1.0, 1)
        other.lengths([np.array([0.9])], most=1)

    def cost(self, requests: int, width: int) -> float:
        """Return the seconds of a step of ``width`` tokens of so many requests; before the first, a plain one is 1."""
        return float(cost(self._known(requests).table, self._scratch.room.levels, width))

    def state(self) -> dict[str, Any]:
        """Return what was learned as arrays by name."""
        known = [self._knowledge[bucket] for bucket in sorted(self._knowledge)] or [new_costs(1)]
        stacked = {name: np.stack([getattr(costs, name) for costs in known]) for name in Costs._fields}
        return {"format": np.array([_FORMAT]), "buckets": np.array(sorted(self._knowledge) or [0]), **stacked}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "BatchPacing":
        """Return a pacing with what :meth:`state` gave.

        Raises:
            KeyError: Something is missing.
            ValueError: Something has another shape than in this version, or can't have been learned.
        """
        check_format(state, _FORMAT)
        check_whole(state, "buckets", _BUCKETS, _BUCKETS - 1)
        pacing, buckets = cls(), state["buckets"]
        empty = new_costs(1)._asdict()
        wanted = {name: Numbers((len(buckets), *array.shape)) for name, array in empty.items()}
        check_numbers(state, {**wanted, "worth": wanted["worth"]._replace(least=(0.0, LEAST))})
        for place, bucket in enumerate(buckets.tolist()):
            known = pacing._knowledge[bucket] = new_costs(1)
            for name in empty:
                getattr(known, name)[:] = state[name][place]
        return pacing

    def _known(self, requests: int) -> Costs:
        """Return what is known of about so many requests; it starts from what is known of the nearest smaller batch."""
        bucket = _bucket(requests)
        found = self._knowledge.get(bucket)
        if found is None:
            smaller = [other for other in self._knowledge if other < bucket]
            made = new_costs(requests)
            if smaller and self.measures:
                made.table[:] = self._knowledge[max(smaller)].table
                made.table[:, COUNT] = np.minimum(made.table[:, COUNT], _INHERITED)
            found = self._knowledge.setdefault(bucket, made)  # another thread may have been faster
        return found


def _bucket(requests: int) -> int:
    """Return which batches of about this size it is one of."""
    return max(requests - 1, 0).bit_length()
