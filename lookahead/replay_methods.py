"""The methods that a replay compares, by name."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller

from lookahead.candidates import MAX_DEPTH
from lookahead.config import LookupConfig
from lookahead.cost import CostCurve
from lookahead.draft import Draft
from lookahead.memory import MemoryStore
from lookahead.memory_source import MemorySource
from lookahead.oracles import CopyOracle, LengthOracle
from lookahead.pacing import Pacing
from lookahead.planning import FOLLOWED, Plan
from lookahead.proposer import LookupProposer, warm_up
from lookahead.replay import Recording, ReplayFigures, ReplayMethod, replay
from lookahead.rules import LinearRule, NgramRule
from lookahead.stats import StepRecord

SWEEP = tuple((slope, offset) for slope in (0.5, 1, 2, 4, 8) for offset in (0, 2))
"""Slopes and offsets of the linear rules among which ``linear:best`` is chosen."""

Factory = Callable[[], ReplayMethod]


@dataclass(frozen=True, slots=True)
class Results:
    """One method on the recordings of one file.

    Attributes:
        method: Its name.
        figures: What it did at the first cost.
        speedup: Modelled speed relative to plain decoding, by the name of the cost.
    """

    method: str
    figures: ReplayFigures
    speedup: dict[str, float]


class LookupMethod:
    """Ours: the proposer of live decoding, behind the clock of the replay."""

    def __init__(
        self, config: LookupConfig, pacing: Pacing | None = None, *, branches: bool = True, remember: bool = False
    ) -> None:
        warm_up()
        self._config = config
        self._store = MemoryStore() if remember else None
        self._branches = branches
        self._pacing = Pacing() if pacing is None else pacing
        self._proposer = LookupProposer(config)
        self._step: tuple[int, float] | None = None

    def begin(self, recording: Recording) -> None:
        """Index what precedes the output."""
        self._proposer.finish()
        prediction = None if recording.prediction is None else recording.prediction.tolist()
        references = [text.tolist() for text in recording.references]
        prompt = recording.prompt.tolist()
        memory = None if self._store is None else MemorySource(self._store, "replay", remember=True)
        self._proposer = LookupProposer(
            self._config, prompt, references, prediction, pacing=self._pacing, memory=memory
        )
        self._proposer.branches = self._branches
        self._step = None

    def propose(self, room: int) -> Draft:
        """Return the draft for the next step."""
        return self._proposer.propose(room)

    def observe(self, width: int, seconds: float) -> None:
        """Note what the step cost; what it emitted is told next."""
        self._step = width, seconds

    def extend(self, tokens: list[int]) -> None:
        """Append emitted tokens."""
        if self._step is not None:
            width, seconds = self._step
            self._proposer.observe(StepRecord(width - 1, 0, len(tokens), width, "", 0, 0.0, seconds))
        self._proposer.extend(tokens)


class _WholeDrafts(Pacing):
    """Lets a candidate be drafted as far as it was followed, for the oracle that cuts it."""

    def length(self, plan: Plan, context: int = 0) -> int:
        return int(plan.chosen[FOLLOWED])


def run_method(
    name: str,
    recordings: Sequence[Recording],
    curves: Mapping[str, CostCurve],
    max_draft: int,
    others: Mapping[str, Factory] | None = None,
) -> Results:
    """Replay one method at each cost; one that looks at no clock only once.

    Args:
        name: ``ours``, ``chains`` (ours for a target that reads no trees), ``remembering`` (ours with the outputs of
            earlier recordings in memory), ``builtin``, ``vllm-ngram``, ``linear:A,B``, ``linear:best``, ``copy``,
            ``anchored`` or ``length``.
        recordings: What to replay.
        curves: Costs by name, at least one.
        max_draft: Longest draft of ours, the linear rules and the oracles; but ours never drafts more than 64 tokens,
            nor do the oracles, which show what it could have gained.
        others: Makers of further methods that look at no clock, by name.

    Raises:
        ValueError: There is no such method.
    """
    if name in ("ours", "chains", "remembering"):
        figures = [replay(recordings, _method(name, max_draft)(), curve) for curve in curves.values()]
        return _results(name, figures, curves)
    rules = [f"linear:{slope},{offset}" for slope, offset in SWEEP] if name == "linear:best" else [name]
    any_curve = next(iter(curves.values()))
    makers = [(others or {}).get(rule) or _method(rule, max_draft) for rule in rules]
    candidates = [replay(recordings, make(), any_curve) for make in makers]
    best = [max(candidates, key=methodcaller("speedup", curve)) for curve in curves.values()]
    return _results(name, best, curves)


def _results(name: str, figures: Sequence[ReplayFigures], curves: Mapping[str, CostCurve]) -> Results:
    """Put together the figures of each cost."""
    named = zip(curves.items(), figures, strict=True)
    return Results(name, figures[0], {cost: figure.speedup(curve) for (cost, curve), figure in named})


def _method(name: str, max_draft: int) -> Factory:
    """Return what makes the method that ``name`` means."""
    most = min(max_draft, MAX_DEPTH)
    makers: dict[str, Factory] = {
        "ours": lambda: LookupMethod(LookupConfig(max_draft=max_draft)),
        "remembering": lambda: LookupMethod(LookupConfig(max_draft=max_draft), remember=True),
        "chains": lambda: LookupMethod(LookupConfig(max_draft=max_draft), branches=False),
        "builtin": lambda: NgramRule(longest=2, shortest=1, draft=10),
        "vllm-ngram": lambda: NgramRule(longest=5, shortest=2, draft=5),
        "copy": lambda: CopyOracle(anchored=False, max_draft=most),
        "anchored": lambda: CopyOracle(anchored=True, max_draft=most),
        "length": lambda: LengthOracle(LookupMethod(LookupConfig(max_draft=max_draft), _WholeDrafts(), branches=False)),
    }
    linear = re.fullmatch(r"linear:(\d*\.?\d+),(\d*\.?\d+)", name)
    if linear:
        return lambda: LinearRule(float(linear[1]), float(linear[2]), max_draft)
    if name not in makers:
        raise ValueError(f"method {name!r} is unknown: use one of {', '.join(makers)}, linear:A,B or linear:best")
    return makers[name]
