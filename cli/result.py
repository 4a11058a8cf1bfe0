"""What became of each file: one result a file, its JSON, its line for people, and the exit code of all."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from lookahead.cli.errors import ExitStatus
from lookahead.cli.files import SourceFile
from lookahead.cli.lines import Diff


class Status(str, Enum):
    """What became of a file."""

    CHANGED = "changed"  # the answer differs from the file, and was not written
    UNCHANGED = "unchanged"
    WRITTEN = "written"
    FAILED = "failed"


_WORDS = {
    Status.CHANGED: "would change",
    Status.UNCHANGED: "stays the same",
    Status.WRITTEN: "written",
    Status.FAILED: "failed",
}


@dataclass(slots=True)
class Result:
    """A file on its way through the command.

    Attributes:
        path: As given on the command line; of stdin the name that it is given, else ``-``.
        is_stdin: Whether it came from stdin.
        source: The file as read, if it could be.
        status: What became of it.
        reason: Why it failed.
        content: The edited file.
        diff: From the file to the edited one.
        stats: Figures of the generation, if there was one.
        figures: The same in words.
        left_out: Names of definitions that the answer drops though the instruction does not name them.
        syntax_error: Why the edited file can't be read by its language, though the file could.
        backup: Where the old content is kept, if it is.
    """

    path: str
    is_stdin: bool = False
    source: SourceFile | None = None
    status: Status = Status.UNCHANGED
    reason: str | None = None
    content: bytes = b""
    diff: Diff = field(default_factory=lambda: Diff("", 0, 0))
    stats: dict[str, int | float] | None = None
    figures: str = ""
    left_out: list[str] = field(default_factory=list)
    syntax_error: str | None = None
    backup: Path | None = None

    @property
    def doubts(self) -> list[str]:
        """What speaks against the edit, for which it is asked for even where all others are written."""
        doubts = [f"leaves out {_some(self.left_out)}"] if self.left_out else []
        return doubts + ([f"breaks the syntax ({self.syntax_error})"] if self.syntax_error else [])

    def fail(self, reason: str) -> None:
        """Note that the file failed, and why."""
        self.status, self.reason = Status.FAILED, reason

    def as_json(self) -> str:
        """Return the result as one line of JSON."""
        record: dict[str, Any] = {
            "path": self.path,
            "status": self.status.value,
            "reason": self.reason,
            "added": self.diff.added,
            "removed": self.diff.removed,
            "diff": self.diff.text,
            "left_out": self.left_out,
            "syntax_error": self.syntax_error,
            "backup": self.backup and str(self.backup),
            "stats": self.stats,
        }
        return json.dumps(record)

    def as_text(self) -> str:
        """Return the result as one line for people."""
        counts = f" (+{self.diff.added} -{self.diff.removed})" if self.diff.text else ""
        figures = f"; {self.figures}" if self.figures else ""
        doubts = f"; {' and '.join(self.doubts)}: look at the diff" if self.doubts else ""
        return f"{self.path} {_WORDS[self.status]}{counts}{figures}{doubts}{self.kept()}"

    def kept(self) -> str:
        """Return where the old content is, as the end of a line for people."""
        return f"; the old content is in {self.backup}" if self.backup else ""


def _some(names: list[str], most: int = 5) -> str:
    """Return the names in words, the first ones of many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def exit_status(results: Iterable[Result], *, check: bool) -> ExitStatus:
    """Return the exit code for all files: failure counts more than change, and change counts with ``--check`` only."""
    found = {result.status for result in results}
    if Status.FAILED in found:
        return ExitStatus.FAILED
    if check and Status.CHANGED in found:
        return ExitStatus.WOULD_CHANGE
    return ExitStatus.OK
