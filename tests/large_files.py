"""Large files through `edit --check` with a scripted model: every edit is applied exactly, and how fast.

Run it on JSON lines with `before` and `path`:
``python tests/large_files.py ../shared/data/tasks/edit_large_files.jsonl``.
"""

import io
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cli_scripted import scripted_editor

from lookahead.cli import session
from lookahead.cli.console import Environment
from lookahead.cli.errors import ExitStatus
from lookahead.cli.lines import unified_diff
from lookahead.cli.main import main

FORMS = ("whole", "blocks")


@dataclass
class Tally:
    """What became of the files in one form of answer."""

    files: int = 0
    exact: int = 0
    characters: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        speed = self.characters / self.seconds / 1e6 if self.seconds else 0.0
        return (
            f"{self.exact} of {self.files} applied exactly, {self.files / self.seconds:.1f} files/s, {speed:.2f} MB/s"
        )


def rename_and_annotate(text: str) -> str:
    """A rule-based edit: the commonest long name gets another, and every seventh function a comment."""
    names = Counter(re.findall(r"\b[a-z_]{6,}\b", text))
    name = min(names, key=lambda name: (-names[name], name)) if names else "x"
    out = []
    for number, line in enumerate(re.sub(rf"\b{name}\b", f"{name}_renamed", text).split("\n")):
        if number % 7 == 0 and (found := re.match(r"( *)def ", line)):
            out.append(f"{found[1]}# This function was looked at.")
        out.append(line)
    return "\n".join(out)


def check_all(files: Iterable[tuple[str, str]], form: str, rule=rename_and_annotate) -> Tally:
    """Send each file (name and text) through the command, and compare with the rule."""
    tally = Tally()
    load, session.load_editor = session.load_editor, lambda args, console, trace: scripted_editor(rule, console, args)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number, (name, text) in enumerate(files):
                path = Path(folder) / str(number) / Path(name).name
                path.parent.mkdir()
                path.write_text(text, encoding="utf-8", newline="")
                tally.files += 1
                tally.exact += check(path, text, rule(text), form, tally)
    finally:
        session.load_editor = load
    return tally


def check(path: Path, text: str, expected: str, form: str, tally: Tally) -> bool:
    surroundings = Environment(io.BytesIO(), io.BytesIO(), io.StringIO())
    started = time.perf_counter()
    argv = ["edit", "--check", "--json", "-i", "Do it.", "--format", form, "--max-new-tokens", "1000000", str(path)]
    status = main(argv, surroundings)
    tally.seconds += time.perf_counter() - started
    tally.characters += len(text)
    done = json.loads(surroundings.stdout.getvalue())
    if done["reason"]:
        print(f"{path.name}: {done['reason']}", file=sys.stderr)
    same = done["diff"] == unified_diff(text, expected, str(path)).text
    return same and status == (ExitStatus.WOULD_CHANGE if expected != text else ExitStatus.OK)


if __name__ == "__main__":
    records = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    tallies = {form: check_all(((each["path"], each["before"]) for each in records), form) for form in FORMS}
    for form, tally in tallies.items():
        print(f"{form:<8}{tally}")
    sys.exit(any(tally.exact != tally.files for tally in tallies.values()))
