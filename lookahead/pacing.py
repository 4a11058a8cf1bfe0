"""Pacing: what one model has taught about its costs and about how drafts fare, and the choice that follows from it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead.features import WEIGHTS
from lookahead.framing import LONGEST, Frame
from lookahead.index import MAX_TOKEN
from lookahead.long_shots import KNOWN, no_surprises
from lookahead.planning import FOLLOWED, Plan, best_length
from lookahead.step_cost import WIDTHS, CostModel
from lookahead.stored import LEAST, MOST, Numbers, check_format, check_numbers, check_whole
from lookahead.survival import Survival, new_survival

_FORMAT = 2
_LEAST_PATIENCE, _MOST_PATIENCE = 32, 1024
_LIKELY = 0.5
_LEAST_INTERVAL, _FIRST_INTERVAL, _MOST_INTERVAL, _SURPRISE = 8, 32, 256, 0.25
_BUCKETS, _FIRST_BUCKET = 12, 1024


class Pacing:
    """Knowledge of one model at one precision, device and batch size; shared by its calls, also between threads.

    A cost that was measured wrong can make every draft look too dear, and then nothing measures it again. So after
    some steps in a row that passed over a likely token, one draft is as long as it would be at the costs assumed
    before any measurement; each such probe doubles the steps to the next, up to 1024. And a plain step that is thought
    too dear makes every draft seem to pay, and is never taken again. So one is taken after some steps with drafts, and
    the next after twice as many, up to 256; after few where it took another time than was thought.

    Example:
        >>> pacing = Pacing()
        >>> pacing.observe(width=1, seconds=0.05, tokens=1)
        >>> round(float(pacing.cost().seconds[1]), 3)
        0.05
    """

    def __init__(self) -> None:
        self.survival: Survival = new_survival()
        self.surprises: NDArray[np.int64] = no_surprises()
        self._costs: list[CostModel | None] = [CostModel(), *[None] * (_BUCKETS - 1)]
        self.frame = Frame()
        self._assumed = CostModel().curve
        self._passed_over = 0
        self._patience = _LEAST_PATIENCE
        self._since_plain = 0
        self._interval = _FIRST_INTERVAL

    def cost(self, context: int = 0) -> CostModel:
        """Return the costs behind a context of so many tokens: attention over a longer one makes width dearer.

        There is a model for each doubling from 1,024 tokens on; it starts from that of the nearest shorter context.
        """
        bucket = min((context // _FIRST_BUCKET).bit_length(), _BUCKETS - 1)
        found = self._costs[bucket]
        if found is None:
            shorter = next(cost for cost in self._costs[bucket - 1 :: -1] if cost is not None)
            found = self._costs[bucket] = shorter.successor()
        return found

    def length(self, plan: Plan, context: int = 0) -> int:
        """Return how many tokens of the candidate that the plan follows are worth verifying now; 0 is an answer."""
        cost = self.cost(context)
        length = best_length(tuple(plan), cost.curve, cost.worth)
        if length:
            self._passed_over, self._patience = 0, _LEAST_PATIENCE
            if self._since_plain >= self._interval:
                self._since_plain, self._interval, length = 0, min(2 * self._interval, _MOST_INTERVAL), 0
        elif plan.chosen[FOLLOWED] and plan.alive[0] > _LIKELY:
            self._passed_over += 1
            if self._passed_over > self._patience:
                self._passed_over, self._patience = 0, min(2 * self._patience, _MOST_PATIENCE)
                length = best_length(tuple(plan), self._assumed, 1.0)
        return length

    def observe(self, width: int, seconds: float, tokens: float, context: int = 0) -> None:
        """Take in the cost of a step that read ``width`` tokens behind ``context`` others and emitted ``tokens``."""
        cost = self.cost(context)
        if width > 1:
            self._since_plain += 1
            if cost.contradicts(width, _SURPRISE / 2):
                self._interval = _LEAST_INTERVAL
        else:
            self._look_again(cost, seconds)
        cost.observe(width, seconds, tokens)

    def _look_again(self, cost: CostModel, seconds: float) -> None:
        """Take note of what a plain step has told: when to take the next one at last."""
        self._since_plain = 0
        if not cost.expects(seconds, _SURPRISE):
            self._interval = _LEAST_INTERVAL
            cost.doubt()

    def state(self) -> dict[str, Any]:
        """Return what was learned as arrays by name."""
        return {
            "format": np.array([_FORMAT]),
            "weights": self.survival.weights,
            "precision": self.survival.precision,
            "surprises": self.surprises,
            "opening": np.array(self.frame.opening, np.int64),
            "closing": np.array(self.frame.closing, np.int64),
            **self._costs_state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Pacing":
        """Return a pacing with what :meth:`state` gave.

        Raises:
            KeyError: Something is missing.
            ValueError: Something has another shape than in this version, or can't have been learned.
        """
        check_format(state, _FORMAT)
        one, many = (WEIGHTS,), (_BUCKETS, WIDTHS)
        figures = Numbers((_BUCKETS, 3), (0.0, 0.0, LEAST))  # the level is 0 before the first measurement
        costs = {"mean": Numbers(many, LEAST), "count": Numbers(many), "figures": figures}
        surprises = Numbers((KNOWN, 2), (-1.0, 0.0), MAX_TOKEN)
        known = {"weights": Numbers(one, -MOST), "precision": Numbers(one, LEAST), "surprises": surprises}
        check_numbers(state, known | costs)
        for name in ("opening", "closing"):
            check_whole(state, name, LONGEST, MAX_TOKEN)
        pacing = cls()
        pacing.survival = Survival(state["weights"].astype(np.float64), state["precision"].astype(np.float64))
        pacing.surprises = state["surprises"].astype(np.int64)
        for bucket, seen in enumerate(state["count"].any(axis=1)):
            if seen:
                cost = pacing._costs[bucket] = CostModel()
                cost.restore(state["mean"][bucket], state["count"][bucket], state["figures"][bucket])
        pacing.frame = Frame(tuple(state["opening"].tolist()), tuple(state["closing"].tolist()))
        return pacing

    def _costs_state(self) -> dict[str, NDArray[np.float64]]:
        """Return the costs of all contexts, zeros for those never seen."""
        states = [(cost or CostModel()).state() for cost in self._costs]
        return {name: np.stack([state[name] for state in states]) for name in states[0]}
