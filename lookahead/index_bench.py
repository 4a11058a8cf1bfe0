"""Measuring index methods: what it costs to build one over a text, to take a step, and to hold it."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lookahead.config import LookupConfig
from lookahead.draft import Draft
from lookahead.index import SuffixIndex
from lookahead.proposer import LookupProposer

APPENDED = 4  # tokens a step adds, about what a step of lookup decoding emits
DRAFTED = 16  # tokens a step asks for
_MAX_STEPS = 256
_STEP_BUDGET_NS = 500_000_000  # for the steps of one trial; a method that rescans the text takes few of them
_MIN_STEPS = 3
_WARM_UP = 1024
_ROOM = 1024


class IndexMethod(Protocol):
    """A way to find where the end of a growing text has occurred before."""

    @property
    def nbytes(self) -> int:
        """Bytes it holds."""

    def build(self, tokens: NDArray[np.int32]) -> None:
        """Take in the text so far."""

    def step(self, tokens: list[int]) -> Any:
        """Append `tokens`, find a match of the new end and return a draft behind it."""


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """The figures of one method at one size: medians over trials for the build, percentiles over all steps."""

    method: str
    tokens: int
    build_ns_per_token: float
    step_us_p50: float
    step_us_p99: float
    bytes_per_token: float


class SuffixIndexMethod:
    """Our index, through its Python face."""

    def __init__(self) -> None:
        self._index = SuffixIndex()

    @property
    def nbytes(self) -> int:
        """Bytes of the index."""
        return self._index.nbytes

    def build(self, tokens: NDArray[np.int32]) -> None:
        """Index the text."""
        self._index.extend(tokens)

    def step(self, tokens: list[int]) -> NDArray[np.int32] | None:
        """Append, match, continue at the latest occurrence."""
        index = self._index
        index.extend(tokens)
        match = index.longest_match()
        return index.continuation(match.latest, DRAFTED) if match.length else None


class ProposerMethod:
    """All that a step of decoding spends outside the model, for a model that reads trees."""

    @property
    def nbytes(self) -> int:
        """Bytes of its index."""
        return self._proposer.index.nbytes

    def build(self, tokens: NDArray[np.int32]) -> None:
        """Take in the prompt."""
        self._proposer = LookupProposer(LookupConfig(), tokens.tolist())
        self._proposer.branches = True

    def step(self, tokens: list[int]) -> Draft:
        """Learn from the tokens that came, and propose what may follow."""
        self._proposer.extend(tokens)
        return self._proposer.propose(_ROOM)


@dataclass(slots=True)
class _Trials:
    """What was measured of one method at one size."""

    builds_ns: list[int]
    steps_ns: list[int]
    nbytes: int = 0


def tokens_needed(sizes: Sequence[int]) -> int:
    """The length of a text on which all `sizes` can be measured.

    >>> tokens_needed([1024])
    2048
    """
    return max(sizes) + APPENDED * _MAX_STEPS


def measure(
    methods: dict[str, Callable[[], IndexMethod]], text: NDArray[np.int32], size: int, repeats: int
) -> list[IndexFigures]:
    """Measure `methods` by turns on `size` tokens of `text` each, and on steps that continue it.

    `repeats` times, more often for small sizes, and every time elsewhere in the text where it is long enough.
    Nothing is compiled or loaded in the measured time: every method is built and stepped once before.

    Raises:
        ValueError: `text` has fewer than `tokens_needed([size])` tokens.
    """
    if len(text) < tokens_needed([size]):
        raise ValueError(f"text has {len(text)} tokens, but a size of {size} needs {tokens_needed([size])}")
    trials = {name: _Trials([], []) for name in methods}
    for create in methods.values():
        _run_trial(create(), text[:_WARM_UP], _WARM_UP // 2, _Trials([], []))
    with _no_garbage_collection():
        for number in range(repeats * max(1, min(16, 32_768 // size))):
            start = number * size % (len(text) - tokens_needed([size]) + 1)
            for name, create in methods.items():
                _run_trial(create(), text[start:], size, trials[name])
    return [_figures(name, size, trial) for name, trial in trials.items()]


def _run_trial(method: IndexMethod, text: NDArray[np.int32], size: int, trials: _Trials) -> None:
    """Build over the first `size` tokens and step over those behind; at most a quarter of the size."""
    behind = text[size : size + APPENDED * min(_MAX_STEPS, max(16, size // (4 * APPENDED)))].tolist()
    started = perf_counter_ns()
    method.build(text[:size])
    trials.builds_ns.append(perf_counter_ns() - started)
    trials.nbytes = method.nbytes
    trials.steps_ns += _time_steps(method, behind)


def _time_steps(method: IndexMethod, tokens: list[int]) -> list[int]:
    """Nanoseconds of each step over `tokens`, until the budget is spent."""
    times: list[int] = []
    begun = perf_counter_ns()
    for start in range(0, len(tokens) - APPENDED + 1, APPENDED):
        appended = tokens[start : start + APPENDED]
        started = perf_counter_ns()
        method.step(appended)
        times.append(perf_counter_ns() - started)
        if len(times) >= _MIN_STEPS and started - begun > _STEP_BUDGET_NS:
            break
    return times


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect garbage before and not during: a collection in the middle would be counted as a step."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _figures(name: str, size: int, trials: _Trials) -> IndexFigures:
    middle, late = np.percentile(trials.steps_ns, [50, 99]) / 1e3
    return IndexFigures(
        method=name,
        tokens=size,
        build_ns_per_token=round(float(np.median(trials.builds_ns)) / size, 1),
        step_us_p50=round(float(middle), 2),
        step_us_p99=round(float(late), 2),
        bytes_per_token=round(trials.nbytes / size, 1),
    )
