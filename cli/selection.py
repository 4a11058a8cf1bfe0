"""Which files the command line names: files, globs, and folders."""

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from pathspec import GitIgnoreSpec

from lookahead.cli.files import is_to_edit
from lookahead.cli.ignored import kept_files, patterns_of

STDIN = "-"
_LOOKED_AT = 8192  # bytes that tell a binary file from a text
_LARGEST = 16 * 2**20


def select_files(names: Iterable[str], include: list[str] | None = None) -> list[str]:
    """Return the files that names stand for, each once, in the order of the command line.

    A name of a file stands for itself, whatever ``.gitignore`` says. A folder stands for the text files below it that
    no ``.gitignore`` leaves out, and a glob (``**`` crosses folders) for the files and folders it matches; of these
    ``include`` keeps those that match one of its patterns, and backups (``a.py~``) are left out. Two names of one file,
    be they links, are that file once. A name that stands for nothing is returned as it is, so that reading it says what
    is wrong.

    Args:
        names: Of the command line; ``-`` is stdin, and a file of that name is ``./-``.
        include: Patterns as in ``.gitignore``, such as ``*.py``; None for all text files.
    """
    found: dict[object, str] = {}
    wanted = patterns_of(include) if include else None
    for name in names:
        for path in _stands_for(name, wanted):
            found.setdefault(path if path == STDIN else _identity(path), path)
    return list(found.values())


def _identity(path: str) -> object:
    """Return what is the same for all names of one file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def _stands_for(name: str, wanted: GitIgnoreSpec | None) -> list[str]:
    if name == STDIN or os.path.isfile(name):  # unlike Path's, these raise nothing
        return [name]
    if os.path.isdir(name):
        return _below(Path(name), wanted) or [name]
    if not glob.has_magic(name):
        return [name]
    found: list[str] = []
    for match in sorted(glob.glob(name, recursive=True)):
        found += _below(Path(match), wanted) if os.path.isdir(match) else _matched(Path(match), wanted)
    return found or [name]


def _below(folder: Path, wanted: GitIgnoreSpec | None) -> list[str]:
    files = (path for path in kept_files(folder) if _is_wanted(path.relative_to(folder), wanted) and _is_text(path))
    return [_found(path) for path in files]


def _matched(path: Path, wanted: GitIgnoreSpec | None) -> list[str]:
    return [_found(path)] if _is_wanted(path, wanted) else []


def _found(path: Path) -> str:
    """Return the name of a file that nobody typed, which is never that of stdin."""
    return os.path.join(os.curdir, STDIN) if str(path) == STDIN else str(path)


def _is_wanted(path: Path, wanted: GitIgnoreSpec | None) -> bool:
    """Whether a file that nobody named is one to edit."""
    return is_to_edit(path) and (wanted is None or wanted.match_file(path.as_posix()))


def _is_text(path: Path) -> bool:
    """Whether a file that nobody named looks like a text worth editing."""
    try:
        if not 0 < path.stat().st_size <= _LARGEST:
            return False
        with path.open("rb") as file:
            return b"\0" not in file.read(_LOOKED_AT)
    except OSError:
        return False
