"""The file of a trace: written whole at the end of a run, also when Ctrl-C ends it, and read again.

Only an earlier trace gives way to it, and only when something was generated.
"""

import argparse
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lookahead.cli.console import Console
from lookahead.cli.errors import CommandError, UsageError, os_reason
from lookahead.cli.files import check_new, write_new
from lookahead.cli.trace import VERSION, Trace

_NOT_SETTINGS = {"command", "color", "trace", "json", "stats", "write", "diff", "check", "backup"}
_BEGINNING = b'{"kind": "trace"'


@contextlib.contextmanager
def tracing(args: argparse.Namespace, console: Console) -> Iterator[Trace | None]:
    """Yield the trace that the command line asks for, if it does, and write it when the block ends, however it ends."""
    if args.trace is None:
        yield None
        return
    path = Path(args.trace)
    _check(path)
    settings = {name: value for name, value in vars(args).items() if name not in _NOT_SETTINGS and value is not None}
    trace = Trace(args.command, {name: value for name, value in settings.items() if value is not False})
    try:
        yield trace
    except BaseException:
        try:
            _write(path, trace, console)
        except CommandError as error:
            console.error(str(error))
        raise
    _write(path, trace, console)


def _check(path: Path) -> None:
    """Refuse a file that is not ours to replace, and a place where nothing can be written."""
    check_new(path, "--trace")
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            is_ours = file.read(len(_BEGINNING)) in (b"", _BEGINNING)
    except OSError as error:
        raise UsageError(f"--trace {path} is there and can't be read: {os_reason(error)}") from None
    if not is_ours:
        raise UsageError(f"--trace {path} is there and no trace: name another file")


def _write(path: Path, trace: Trace, console: Console) -> None:
    """Write the trace if anything was generated, and say so."""
    if not trace.generations:
        return
    try:
        write_new(path, "".join(f"{line}\n" for line in trace.lines()).encode())
    except OSError as error:
        raise CommandError(f"--trace {path} can't be written: {os_reason(error)}") from None
    console.say(f"trace: {path}; `specdec-lookup report {path}` shows it")


def read_trace(path: str) -> list[dict[str, Any]]:
    """Return the objects of a trace.

    Raises:
        CommandError: The file can't be read, or is no trace of a version that is known.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        entries = [json.loads(line) for line in lines if line.strip()]
    except OSError as error:
        raise CommandError(f"{path} can't be read: {os_reason(error)}") from None
    except (ValueError, RecursionError):
        raise CommandError(f"{path} is no trace: make one with --trace of edit or generate") from None
    if not entries or not all(isinstance(entry, dict) and "kind" in entry for entry in entries):
        raise CommandError(f"{path} is no trace: make one with --trace of edit or generate")
    if entries[0]["kind"] != "trace" or entries[0].get("version") != VERSION:
        raise CommandError(f"{path} is a trace of another version: this command reads version {VERSION}, make it anew")
    return entries
