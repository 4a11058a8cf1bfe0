"""Replay: recorded outputs through a method of drafting, with no model; what it would have drafted, and its cost.

The recording says which token the target emits next, so every step is verified by comparison. A step that drafts k
tokens costs what the cost curve says for width k + 1, and that is all a method learns of the clock.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter_ns
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookahead.cost import CostCurve
from lookahead.draft import Draft

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Recording:
    """One prompt and the output that some model gave to it.

    Attributes:
        prompt: Token ids that the method may copy from; empty when it is hidden.
        output: Token ids; the first comes from the prefill, and steps decode the others.
        prediction: Token ids of the text that the output was expected to resemble, or None.
        references: Token ids of further texts to copy from.
    """

    prompt: Ids
    output: Ids
    prediction: Ids | None = None
    references: tuple[Ids, ...] = ()


class ReplayMethod(Protocol):
    """A way to draft. One object drafts for all recordings of a file, one after the other."""

    def begin(self, recording: Recording) -> None:
        """Start a new text with the prompt; only an oracle looks at the output."""

    def propose(self, room: int) -> Sequence[int] | Draft:
        """Return a draft of at most ``room`` tokens a branch."""

    def observe(self, width: int, seconds: float) -> None:
        """Note what the step that read ``width`` tokens cost."""

    def extend(self, tokens: list[int]) -> None:
        """Append the tokens that the step emitted."""


@dataclass(slots=True)
class ReplayFigures:
    """What a method did on some recordings.

    Attributes:
        items: Recordings replayed.
        tokens: Tokens emitted by steps: those of the outputs, without the first of each.
        drafted: Draft tokens verified.
        accepted: Draft tokens kept.
        step_widths: The width of each step.
        propose_ns: Nanoseconds of each step spent on proposing and on taking in what was emitted.
    """

    items: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    step_widths: list[int] = field(default_factory=list)
    propose_ns: list[int] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Forward passes."""
        return len(self.step_widths)

    @property
    def widths(self) -> NDArray[np.int64]:
        """Steps by width, shape ``[widths]``, up to the widest."""
        return np.bincount(np.array(self.step_widths, np.int64), minlength=2)

    @property
    def tokens_per_step(self) -> float:
        """Mean acceptance length; 0 without a step."""
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def drafted_per_step(self) -> float:
        """Draft tokens verified per step."""
        return self.drafted / self.steps if self.steps else 0.0

    @property
    def acceptance_rate(self) -> float:
        """Draft tokens kept per draft token verified; 0 without a draft."""
        return self.accepted / self.drafted if self.drafted else 0.0

    def speedup(self, curve: CostCurve) -> float:
        """Return the modelled speed relative to plain decoding, which pays a step of width 1 for each token."""
        widths = self.widths
        seconds = float(widths @ curve.table(len(widths) - 1))
        return self.tokens * curve.at(1) / seconds if seconds else 0.0

    def propose_us(self, percentile: float) -> float:
        """Return a percentile of the microseconds a step spends outside the target model."""
        return float(np.percentile(self.propose_ns, percentile)) / 1e3 if self.propose_ns else 0.0


def replay(recordings: Iterable[Recording], method: ReplayMethod, curve: CostCurve) -> ReplayFigures:
    """Replay recordings through one method, whose clock shows the costs of ``curve``.

    Example:
        Four tokens drafted, three of them right, and one of the target's own:

        >>> from lookahead.rules import LinearRule
        >>> recording = Recording(np.array([5, 6, 7, 8], np.int32), np.array([5, 6, 7, 8, 9], np.int32))
        >>> figures = replay([recording], LinearRule(4, 0, max_draft=64), CostCurve.linear(0.1))
        >>> figures.tokens_per_step, round(figures.speedup(CostCurve.linear(0.1)), 2)
        (4.0, 2.86)
    """
    figures, seconds = ReplayFigures(), cache(curve.at)
    for recording in recordings:
        figures.items += 1
        _replay_one(recording, method, seconds, figures)
    return figures


def _replay_one(
    recording: Recording, method: ReplayMethod, seconds: Callable[[int], float], figures: ReplayFigures
) -> None:
    output = recording.output.tolist()
    method.begin(recording)
    method.extend(output[:1])
    position = 1
    while position < len(output):
        started = perf_counter_ns()
        draft = method.propose(len(output) - position)
        proposed = perf_counter_ns()
        right = _accepted(draft, output, position)
        emitted = output[position : position + right + 1]
        width = len(draft) + 1
        method.observe(width, seconds(width))
        verified = perf_counter_ns()
        method.extend(emitted)
        figures.propose_ns.append(proposed - started + perf_counter_ns() - verified)
        figures.step_widths.append(width)
        figures.drafted += len(draft)
        figures.accepted += right
        figures.tokens += len(emitted)
        position += len(emitted)


def _accepted(draft: Sequence[int] | Draft, output: list[int], position: int) -> int:
    """Count the draft tokens that the output goes on with."""
    following = output[position : position + len(draft)]
    return len((draft if isinstance(draft, Draft) else Draft(tuple(draft))).path(following))


def tuned(
    rules: Iterable[Callable[[], ReplayMethod]], recordings: Sequence[Recording], curve: CostCurve
) -> ReplayFigures:
    """Return the figures of the rule that is the fastest on these very recordings at this very cost."""
    return max((replay(recordings, rule(), curve) for rule in rules), key=lambda figures: figures.speedup(curve))
