"""Which lines of two texts are the same ones, in no time for real files, however long or repetitive they are.

Short texts are compared as the standard library does. Of longer ones, what they begin and end with in common is set
aside, and lines that stand once in each are taken for the same; between those it goes on in the same way. Where no
line stands only once, the longest common sequence is computed, a row of bits at a time.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeAlias

_SHORT = 1000  # lines of both texts together
_PAIRS = 20_000  # of equal lines; with no more, the standard library is quick in the worst case too
_TABLE = 2**29  # bits kept while the longest common sequence is computed (64 MiB)

_Lines: TypeAlias = Sequence[str]


class Stretch(NamedTuple):
    """Old lines from i1 to i2 and new ones from j1 to j2: the same, or these in the place of those."""

    same: bool
    i1: int
    i2: int
    j1: int
    j2: int


class _Run(NamedTuple):
    """Lines that are the same: the number of the first old one and of the first new one, and how many they are."""

    old: int
    new: int
    size: int = 1


def stretches(old: _Lines, new: _Lines) -> list[Stretch]:
    """Return how the new lines come from the old ones; together the stretches are the whole of both.

    Example:
        >>> stretches(["a", "b"], ["a", "c"])
        [Stretch(same=True, i1=0, i2=1, j1=0, j2=1), Stretch(same=False, i1=1, i2=2, j1=1, j2=2)]
    """
    found: list[Stretch] = []
    i = j = 0
    for run in [*_joined(sorted(_runs(old, new))), _Run(len(old), len(new), 0)]:
        if (i, j) != run[:2]:
            found.append(Stretch(False, i, run.old, j, run.new))
        i, j = run.old + run.size, run.new + run.size
        if run.size:
            found.append(Stretch(True, run.old, i, run.new, j))
    return found


def hunks(found: list[Stretch], context: int = 3) -> Iterator[list[Stretch]]:
    """Yield the stretches that differ, each with lines around it; those that are near one another come together."""
    group: list[Stretch] = []
    for stretch in found:
        if stretch.same and group and (stretch.i2 - stretch.i1 > 2 * context or stretch is found[-1]):
            size = min(context, stretch.i2 - stretch.i1)
            yield [*group, stretch._replace(i2=stretch.i1 + size, j2=stretch.j1 + size)]
            group = []
        if stretch.same and not group:
            size = min(context, stretch.i2 - stretch.i1)
            stretch = stretch._replace(i1=stretch.i2 - size, j1=stretch.j2 - size)
        group.append(stretch)
    if not all(stretch.same for stretch in group):
        yield group


def _joined(runs: list[_Run]) -> list[_Run]:
    """Return runs with those that go on where the one before ends as one."""
    joined: list[_Run] = []
    first = stop = (0, 0)
    for run in [*runs, _Run(-1, -1, 0)]:
        if run[:2] != stop:
            joined.append(_Run(*first, stop[0] - first[0]))
            first = run[:2]
        stop = run.old + run.size, run.new + run.size
    return [run for run in joined if run.size]


def _runs(old: _Lines, new: _Lines) -> Iterator[_Run]:
    """Yield, in any order, runs of lines that are the same, no two of which cross."""
    parts = [(0, len(old), 0, len(new))]
    while parts:
        i, i2, j, j2 = parts.pop()
        before, after = old[i:i2], new[j:j2]
        cheap = _is_cheap(before, after)
        sure = [] if cheap else _ends(before, after) or _standing_once(before, after)
        for run in sure or (_plainly_found(before, after) if cheap else _searched(before, after)):
            yield _Run(i + run.old, j + run.new, run.size)
        if sure:
            starts = [(i, j)] + [(i + run.old + run.size, j + run.new + run.size) for run in sure]
            stops = [(i + run.old, j + run.new) for run in sure] + [(i2, j2)]
            parts += [(a, a2, b, b2) for (a, b), (a2, b2) in zip(starts, stops, strict=True) if a < a2 and b < b2]


def _is_cheap(old: _Lines, new: _Lines) -> bool:
    """Whether the standard library compares two texts quickly, however their lines lie."""
    if len(old) + len(new) > _SHORT:
        return False
    counts = Counter(new)
    return sum(counts[line] for line in old) <= _PAIRS


def _ends(old: _Lines, new: _Lines) -> list[_Run]:
    """Return what two texts begin and end with in common."""
    least = min(len(old), len(new))
    first = next((i for i in range(least) if old[i] != new[i]), least)
    last = next((i for i in range(least - first) if old[-1 - i] != new[-1 - i]), least - first)
    runs = [_Run(0, 0, first), _Run(len(old) - last, len(new) - last, last)]
    return [run for run in runs if run.size]


def _standing_once(old: _Lines, new: _Lines) -> list[_Run]:
    """Return the lines that stand once in either text, of those that changed places as many as stay in order."""
    once, counts = {line for line, count in Counter(new).items() if count == 1}, Counter(old)
    places = {line: j for j, line in enumerate(new) if line in once}
    ends: list[int] = []  # the least last place of a sequence in order, by its length
    links: list[_Link] = []
    for i, line in enumerate(old):
        if counts[line] == 1 and line in places:
            length = bisect_left(ends, places[line])
            link = _Link(_Run(i, places[line]), links[length - 1] if length else None)
            ends[length : length + 1], links[length : length + 1] = [places[line]], [link]
    return _chain(links[-1]) if links else []


class _Link(NamedTuple):
    """A run, and the sequence in order that it ends."""

    run: _Run
    before: "_Link | None"


def _chain(last: _Link) -> list[_Run]:
    runs: list[_Run] = []
    link: _Link | None = last
    while link is not None:
        runs.append(link.run)
        link = link.before
    return runs[::-1]


def _plainly_found(old: _Lines, new: _Lines) -> list[_Run]:
    # autojunk would take frequent lines ("}") for changed ones
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return [_Run(block.a, block.b, block.size) for block in blocks if block.size]


def _searched(old: _Lines, new: _Lines) -> list[_Run]:
    """Return what is the same where no line is sure to be: those that kept their places, or more."""
    in_place = [_Run(i, i) for i, (line, other) in enumerate(zip(old, new, strict=False)) if line == other]
    longest = _longest_in_common(old, new) if len(old) * len(new) <= _TABLE else []
    return longest if len(longest) > len(in_place) else in_place


def _longest_in_common(old: _Lines, new: _Lines) -> list[_Run]:
    """Return the longest sequence of lines that both texts have (the way of Hyyrö, Bit-parallel LCS, 2004).

    A zero at bit i of row j says that old line i makes the sequence longer that the new lines up to j allow.
    """
    places: dict[str, int] = dict.fromkeys(new, 0)
    for i, line in enumerate(old):
        if line in places:
            places[line] |= 1 << i
    full = (1 << len(old)) - 1
    rows = [full]
    for line in new:
        kept = rows[-1] & places[line]
        rows.append((rows[-1] + kept | rows[-1] - kept) & full)
    runs: list[_Run] = []
    i, j = len(old) - 1, len(new)
    while i >= 0 and j > 0:
        if rows[j] >> i & 1:
            i -= 1
        elif rows[j - 1] >> i & 1:
            runs.append(_Run(i, j - 1))
            i -= 1
            j -= 1
        else:
            j -= 1
    return runs[::-1]
