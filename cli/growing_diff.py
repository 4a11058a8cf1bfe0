"""The diff between a file and a new version of it that is still being written, line by line."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

_CONTEXT = 2  # kept lines shown before and after a change
_AGREE = 2  # lines in a row that show where the new version goes on in the old one
_TELLING = 4  # characters of a line that may show it alone


class Row(NamedTuple):
    """A line of the diff: its mark (space, ``+``, ``-``, or ``~`` for lines left out of the view) and text."""

    mark: str
    text: str


@dataclass(slots=True)
class GrowingDiff:
    r"""The file as a frame, and the new lines laid on it as they come.

    Lines that differ wait until it is clear where the new version is in the old one again: two lines in a row that
    stand there, one at the same distance, or one that stands there only once. It costs constant time a line, and it
    is for the eye: the diff that is written is computed from the whole.

    Args:
        old: Lines of the file.

    Example:
        >>> diff = GrowingDiff(["a", "b", "c"])
        >>> for line in ("a", "B", "c"):
        ...     diff.add(line)
        >>> [mark + text for mark, text in diff.rows], diff.position
        ([' a', '-b', '+B', ' c'], 3)
    """

    old: list[str]
    rows: list[Row] = field(default_factory=list)
    position: int = 0
    _waiting: list[str] = field(default_factory=list)
    _places: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        places: dict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self.old):
            places[line].append(number)
        self._places = dict(places)

    def add(self, line: str) -> None:
        """Take the next line of the new version."""
        if not self._waiting and self._stands_at(self.position, line):
            self.rows.append(Row(" ", line))
            self.position += 1
            return
        self._waiting.append(line)
        found = self._place()
        if found is not None:
            self._join(*found)

    def view(self, height: int) -> list[Row]:
        """Return the last rows, with long runs of kept lines shortened, and what waits as added."""
        rows = _shortened(self.rows[-40 * height :]) + [Row("+", line) for line in self._waiting[-height:]]
        return rows[-height:]

    def _stands_at(self, place: int, line: str) -> bool:
        return place < len(self.old) and self.old[place] == line

    def _place(self) -> tuple[int, int] | None:
        """Return where in the file the last waiting lines stand, and how many of them; None if that is not clear."""
        line, waiting = self._waiting[-1], len(self._waiting)
        ahead = [place for place in self._places.get(line, ()) if place >= self.position]
        for place in ahead:
            agreeing = self._agreeing(place)
            same_distance = place - self.position == waiting - 1
            only = len(ahead) == 1 and len(line.strip()) >= _TELLING
            if agreeing >= _AGREE or same_distance or only:
                return place, agreeing
        return None

    def _agreeing(self, place: int) -> int:
        count = 0
        while count < len(self._waiting) and place - count >= self.position:
            if self.old[place - count] != self._waiting[-1 - count]:
                break
            count += 1
        return count

    def _join(self, place: int, agreeing: int) -> None:
        first = place - agreeing + 1
        self.rows += [Row("-", line) for line in self.old[self.position : first]]
        self.rows += [Row("+", line) for line in self._waiting[: len(self._waiting) - agreeing]]
        self.rows += [Row(" ", line) for line in self._waiting[len(self._waiting) - agreeing :]]
        self.position, self._waiting = place + 1, []


def _shortened(rows: list[Row]) -> list[Row]:
    """Leave out the middle of long runs of kept lines, also at the start."""
    out: list[Row] = []
    run: list[Row] = []
    for row in rows:
        if row.mark == " ":
            run.append(row)
            continue
        out += _ends(run, bool(out))
        out.append(row)
        run = []
    return out + _ends(run, bool(out), _CONTEXT + 2)


def _ends(run: list[Row], after_change: bool, last: int = _CONTEXT) -> list[Row]:
    first = _CONTEXT if after_change else 0
    left_out = len(run) - first - last
    if left_out <= 1:
        return run
    return [*run[:first], Row("~", f"{left_out} lines as they were"), *run[len(run) - last :]]
