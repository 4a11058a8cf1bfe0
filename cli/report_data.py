"""What a report shows, in figures: a trace as generations and steps, and what is counted from them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass of the target model; `trace` explains the fields."""

    text: str = ""
    accepted_characters: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 1
    width: int = 1
    source: str = ""
    match: int = 0
    propose_s: float = 0.0
    forward_s: float = 0.0
    copied: Sequence[dict[str, Any]] = ()
    depth: int = 0

    @property
    def reach(self) -> int:
        """Draft tokens one behind the other: fewer than drafted in a tree."""
        return self.depth or self.drafted


@dataclass(slots=True)
class Generation:
    """One prompt and what the model wrote."""

    name: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    prefill_s: float = 0.0
    first: str = ""
    steps: list[Step] = field(default_factory=list)
    finish: str = "interrupted"
    plain_reason: str = ""
    decode_s: float = 0.0


class Totals(NamedTuple):
    """Figures of generations together: tokens after the first ones, steps, draft tokens, and seconds."""

    tokens: int
    steps: int
    drafted: int
    accepted: int
    prefill_s: float
    forward_s: float
    propose_s: float

    @property
    def speed(self) -> float:
        """Tokens per second after the prefill."""
        seconds = self.forward_s + self.propose_s
        return self.tokens / seconds if seconds else 0.0

    @property
    def per_step(self) -> float:
        """Tokens per step."""
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def acceptance(self) -> float:
        """Accepted draft tokens per drafted one."""
        return self.accepted / self.drafted if self.drafted else 0.0


class Source(NamedTuple):
    """What the drafts of one source came to."""

    name: str
    steps: int
    drafted: int
    accepted: int
    tokens: int


def read_generations(entries: Iterable[dict[str, Any]]) -> list[Generation]:
    """Return the generations of a trace's objects; fields that are missing have their defaults.

    Example:
        >>> read_generations([{"kind": "generation", "name": "a"}, {"kind": "step", "text": "x"}])[0].steps[0].text
        'x'
    """
    generations: list[Generation] = []
    for entry in entries:
        if entry["kind"] == "generation":
            texts = {str(name): str(text) for name, text in (entry.get("texts") or {}).items()}
            generations.append(Generation(str(entry.get("name", "")), texts))
        elif generations:
            _add(generations[-1], entry)
    return generations


def totals(generations: Sequence[Generation]) -> Totals:
    """Return the figures of all generations together."""
    steps = [step for generation in generations for step in generation.steps]
    timed = sum(step.forward_s for step in steps)
    decode_s = sum(generation.decode_s for generation in generations)
    return Totals(
        tokens=sum(step.emitted for step in steps),
        steps=len(steps),
        drafted=sum(step.drafted for step in steps),
        accepted=sum(step.accepted for step in steps),
        prefill_s=sum(generation.prefill_s for generation in generations),
        forward_s=timed or decode_s,  # plain decoding has no time for each step
        propose_s=sum(step.propose_s for step in steps),
    )


def accepted_lengths(steps: Sequence[Step]) -> list[tuple[str, int]]:
    """Return how many drafts had so many tokens accepted, in ranges that double.

    Example:
        >>> accepted_lengths([Step(drafted=4, accepted=0), Step(drafted=8, accepted=3), Step(drafted=8, accepted=4)])
        [('0', 1), ('1', 0), ('2', 0), ('3-4', 2)]
    """
    lengths = [step.accepted for step in steps if step.drafted]
    ranges, last = [(0, 0), (1, 1), (2, 2)], 2
    while last < max(lengths, default=0):
        ranges.append((last + 1, 2 * last))
        last *= 2
    return [
        (str(low) if low == high else f"{low}-{high}", sum(low <= length <= high for length in lengths))
        for low, high in ranges
    ]


def acceptance_by_position(steps: Sequence[Step]) -> list[tuple[int, float, int]]:
    """Return position, share of the drafts that reach it that were accepted up to it, and their number.

    Example:
        >>> acceptance_by_position([Step(drafted=2, accepted=1), Step(drafted=1, accepted=1)])
        [(1, 1.0, 2), (2, 0.0, 1)]
    """
    found = []
    for position in range(1, max((step.reach for step in steps), default=0) + 1):
        long = [step for step in steps if step.reach >= position]
        found.append((position, sum(step.accepted >= position for step in long) / len(long), len(long)))
    return found


def by_source(steps: Sequence[Step]) -> list[Source]:
    """Return a line for every source of drafts, the one with most accepted tokens first, steps without a draft last."""
    groups: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        groups[step.source if step.drafted else ""].append(step)
    rows = [
        Source(
            name,
            len(group),
            sum(step.drafted for step in group),
            sum(step.accepted for step in group),
            sum(step.emitted for step in group),
        )
        for name, group in groups.items()
    ]
    return sorted(rows, key=lambda row: (not row.name, -row.accepted, row.name))


def _add(generation: Generation, entry: dict[str, Any]) -> None:
    kind = entry["kind"]
    if kind == "prefill":
        generation.prefill_s, generation.first = float(entry.get("seconds", 0.0)), str(entry.get("text", ""))
    elif kind == "step":
        known = {each.name for each in fields(Step)}
        generation.steps.append(Step(**{name: value for name, value in entry.items() if name in known}))
    elif kind == "end":
        generation.finish = str(entry.get("finish", ""))
        generation.plain_reason = str(entry.get("plain_reason", ""))
        generation.texts["output"] = str(entry.get("output", ""))
        generation.decode_s = float((entry.get("stats") or {}).get("decode_s", 0.0))
