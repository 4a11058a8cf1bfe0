"""Which files the command line names: files, globs, and folders."""

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from lookahead.cli.ignored import kept_files, matches

STDIN = "-"
_LOOKED_AT = 8192  # bytes that tell a binary file from a text
_LARGEST = 16 * 2**20


def select_files(names: Iterable[str], include: list[str] | None = None) -> list[str]:
    """Return the files that names stand for, each once, in the order of the command line.

    A name of a file stands for itself, whatever ``.gitignore`` says. A folder stands for the text files below it that
    no ``.gitignore`` leaves out, and a glob (``**`` crosses folders) for the files and folders it matches; of these
    ``include`` keeps those that match one of its patterns, and backups (``a.py~``) are left out. A name that stands for
    nothing is returned as it is, so that reading it says what is wrong.

    Args:
        names: Of the command line; ``-`` is stdin.
        include: Patterns as in ``.gitignore``, such as ``*.py``; None for all text files.
    """
    found: dict[str, str] = {}
    for name in names:
        for path in _stands_for(name, include or []):
            key = path if path == STDIN else os.path.realpath(path)
            found.setdefault(key, path)
    return list(found.values())


def _stands_for(name: str, include: list[str]) -> list[str]:
    if name == STDIN or os.path.isfile(name):  # unlike Path's, these raise nothing
        return [name]
    if os.path.isdir(name):
        return _below(Path(name), include) or [name]
    if not glob.has_magic(name):
        return [name]
    found: list[str] = []
    for match in sorted(glob.glob(name, recursive=True)):
        found += _below(Path(match), include) if os.path.isdir(match) else _matched(Path(match), include)
    return found or [name]


def _below(folder: Path, include: list[str]) -> list[str]:
    return [
        str(path) for path in kept_files(folder) if _is_wanted(path.relative_to(folder), include) and _is_text(path)
    ]


def _matched(path: Path, include: list[str]) -> list[str]:
    return [str(path)] if _is_wanted(path, include) else []


def _is_wanted(path: Path, include: list[str]) -> bool:
    """Whether a file that nobody named is one to edit: not the backup of another."""
    return not path.name.endswith("~") and (not include or matches(include, path))


def _is_text(path: Path) -> bool:
    """Whether a file that nobody named looks like a text worth editing."""
    try:
        if not 0 < path.stat().st_size <= _LARGEST:
            return False
        with path.open("rb") as file:
            return b"\0" not in file.read(_LOOKED_AT)
    except OSError:
        return False
