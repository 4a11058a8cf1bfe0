"""Edits as blocks of searched and replacing lines: all of them applied exactly, or none."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from lookahead.cli.errors import CommandError
from lookahead.cli.lines import to_lf
from lookahead.cli.reasoning import strip_reasoning
from lookahead.cli.wholeness import RETRY, refuse_cut, refuse_partial

_LEAST = 7  # characters of a mark, as git's
_LIKE_A_MARK = re.compile(r"\s*(<{5,}|>{5,})")


class Marks(NamedTuple):
    """The lines around the two parts of a block."""

    search: str
    divide: str
    replace: str


@dataclass(frozen=True, slots=True)
class Change:
    """Whole lines that stand in the file, and those that shall stand there instead."""

    old: tuple[str, ...]
    new: tuple[str, ...]


def marks_for(text: str) -> Marks:
    r"""Return marks that are no lines of the text themselves.

    Example:
        >>> marks_for("x\n"), marks_for("Title\n=======\n").divide
        (Marks(search='<<<<<<< SEARCH', divide='=======', replace='>>>>>>> REPLACE'), '========')
    """
    lines = {line.rstrip() for line in text.split("\n")}
    length = _LEAST
    while lines & {*(marks := Marks("<" * length + " SEARCH", "=" * length, ">" * length + " REPLACE"))}:
        length += 1
    return marks


def apply_blocks(answer: str, text: str, *, cut: bool = False) -> str:
    r"""Return the text with all changes of an answer applied.

    Every block's searched lines must stand in the text exactly once, and no two blocks may touch the same line.

    Args:
        answer: What the model wrote; what stands outside blocks is not looked at, unless it looks like part of one.
        text: The file as the model saw it, with ``\n`` newlines.
        cut: Whether the answer ended at the token limit instead of at its own end.

    Raises:
        CommandError: The answer was cut, has no block or an open one, one that can't be applied exactly, or leaves
            nothing of the file.

    Example:
        >>> apply_blocks("<<<<<<< SEARCH\nb\n=======\nB\nC\n>>>>>>> REPLACE\n", "a\nb\n")
        'a\nB\nC\n'
    """
    refuse_cut(cut)
    changes = parse_blocks(strip_reasoning(to_lf(answer)), marks_for(text))
    lines = text.split("\n")
    placed = [(_place(change, lines, number), change) for number, change in enumerate(changes, 1)]
    placed.sort(key=lambda each: each[0])
    for (place, change), (following, _) in pairwise(placed):
        if place + len(change.old) > following:
            raise CommandError(f"two blocks of the answer change line {following + 1}: {RETRY}")
    for place, change in reversed(placed):
        lines[place : place + len(change.old)] = change.new
    edited = "\n".join(lines)
    refuse_partial(edited, text)
    return edited


def parse_blocks(answer: str, marks: Marks) -> list[Change]:
    """Return the changes of an answer, in its order.

    Raises:
        CommandError: There is none, one is open or has other marks, or one searches for nothing.
    """
    changes: list[Change] = []
    parts: list[list[str]] = []  # of the block that is open: searched lines, then replacing ones
    for line in answer.split("\n"):
        mark = line.rstrip()
        if mark == marks.search and not parts:
            parts = [[]]
        elif mark == marks.divide and len(parts) == 1:
            parts.append([])
        elif mark == marks.replace and len(parts) == 2:
            changes.append(_change(parts[0], parts[1], len(changes) + 1))
            parts = []
        elif mark in marks or (not parts and _LIKE_A_MARK.match(line)):
            raise CommandError(f"block {len(changes) + 1} of the answer is not well formed ({mark!r}): {RETRY}")
        elif parts:
            parts[-1].append(line)
    if parts or not changes:
        raise CommandError(f"the answer has no complete block of changes: {RETRY}")
    return changes


def _change(old: list[str], new: list[str], number: int) -> Change:
    if not any(line.strip() for line in old):
        raise CommandError(f"block {number} of the answer searches for nothing: {RETRY}")
    return Change(tuple(old), tuple(new))


def _place(change: Change, lines: list[str], number: int) -> int:
    size = len(change.old)
    found = [
        place
        for place, line in enumerate(lines)
        if line == change.old[0] and tuple(lines[place : place + size]) == change.old
    ]
    if len(found) == 1:
        return found[0]
    first = next(line.strip() for line in change.old if line.strip())[:60]
    where = f"stands in the file {len(found)} times" if found else "does not stand in the file"
    raise CommandError(f"block {number} of the answer searches for text that {where} ({first!r}): {RETRY}")
