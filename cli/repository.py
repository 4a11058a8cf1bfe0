"""What git knows of files: which hold changes that no commit has."""

import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

_SHOWN = 3
_PATIENCE_S = 10


def uncommitted(paths: Iterable[str]) -> list[str]:
    """Return those of the files in a git repository that have changes, are new, or ignored, since the last commit.

    Where git is missing, or there is no repository, nothing is returned.
    """
    folders: dict[Path, list[str]] = defaultdict(list)
    for path in paths:
        folders[Path(path).resolve().parent].append(path)
    return [path for folder, inside in folders.items() for path in _changed(folder, inside)]


def warning(paths: list[str]) -> str:
    """Return the sentence that warns of uncommitted changes.

    Example:
        >>> warning(["a.py", "b.py"])
        'warning: a.py, b.py hold changes that no commit has; --backup keeps the old content beside the new'
    """
    names = ", ".join(paths[:_SHOWN]) + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")
    verb = "holds" if len(paths) == 1 else "hold"
    return f"warning: {names} {verb} changes that no commit has; --backup keeps the old content beside the new"


def _changed(folder: Path, paths: list[str]) -> list[str]:
    names = {Path(path).resolve().name: path for path in paths}
    # A repository may name programs to run in its settings; the file monitor would be one.
    call = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain", "-z", "--no-renames"]
    call += ["--untracked-files=all", "--ignored"]
    try:
        done = subprocess.run(
            [*call, "--", *(f":(literal){name}" for name in names)],
            cwd=folder,
            capture_output=True,
            timeout=_PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    entries = done.stdout.decode("utf-8", "surrogateescape").split("\0") if done.returncode == 0 else []
    changed = {Path(entry[3:]).name for entry in entries if entry}
    return [path for name, path in names.items() if name in changed]
