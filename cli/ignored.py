"""What a folder's ``.gitignore`` files leave out."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from lookahead.cli.corpus_files import is_skipped
from lookahead.cli.errors import UsageError

_OWN = {".git", ".hg", ".svn"}  # folders of version control, which no pattern need name


def kept_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, sorted, that no ``.gitignore`` of it or of its repository leaves out.

    Links are not followed. As in git, the nearest file that says something about a path decides, and nothing comes
    back from a folder that is left out. Outside of a repository, where often nothing says what is not one's own, hidden
    folders, ``node_modules`` and ``__pycache__`` are left out too.

    Args:
        folder: However it is named, by a link or with ``..``, its real place says which repository it is of.
    """
    place = Path(os.path.realpath(folder))
    top = _repository(place)
    for path in _walk(place, _specs_above(place, top or place), in_repository=top is not None):
        yield folder / path.relative_to(place)


def patterns_of(patterns: list[str]) -> GitIgnoreSpec:
    """Return what tells whether a path is one that patterns in ``.gitignore`` syntax name.

    Raises:
        UsageError: One of them is no pattern.

    Example:
        >>> wanted = patterns_of(["*.py", "docs/"])
        >>> wanted.match_file("src/a.py"), wanted.match_file("a.txt")
        (True, False)
    """
    wrong = next((pattern for pattern in patterns if not _is_pattern(pattern)), None)
    if wrong is not None:
        raise UsageError(f"--include {wrong!r} is no pattern: write one as in .gitignore, such as *.py")
    return GitIgnoreSpec.from_lines(patterns)


_Specs = list[tuple[Path, GitIgnoreSpec]]


def _walk(folder: Path, specs: _Specs, in_repository: bool) -> Iterator[Path]:
    specs = specs + _specs_of(folder, folder / ".gitignore")
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = folder / entry.name
        if entry.is_symlink() or entry.name in _OWN:
            continue
        if entry.is_dir():
            if not _ignored(path, specs, "/") and (in_repository or not is_skipped(entry.name)):
                yield from _walk(path, specs, in_repository)
        elif entry.is_file() and not _ignored(path, specs):
            yield path


def _ignored(path: Path, specs: _Specs, mark: str = "") -> bool:
    for base, spec in reversed(specs):
        relative = os.path.relpath(path, base).replace(os.sep, "/")
        included = spec.check_file(relative + mark).include
        if included is not None:
            return included
    return False


def _repository(folder: Path) -> Path | None:
    """Return the top folder of the repository that holds a folder, if one does."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def _specs_above(folder: Path, top: Path) -> _Specs:
    """Return the patterns from the top down to the folder's parent."""
    specs = _specs_of(top, _git_folder(top) / "info" / "exclude")
    between = [parent for parent in reversed(folder.parents) if parent == top or top in parent.parents]
    for parent in between:
        specs += _specs_of(parent, parent / ".gitignore")
    return specs


def _git_folder(top: Path) -> Path:
    """Return where a repository keeps what all its working trees share (git help gitrepository-layout)."""
    folder = top / ".git"
    named = _first_line(folder)
    if named is not None and named.startswith("gitdir:"):  # a working tree of its own, or a submodule
        folder = top / named.removeprefix("gitdir:").strip()
    return folder / (_first_line(folder / "commondir") or "")


def _first_line(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").partition("\n")[0].strip()
    except OSError:
        return None


def _specs_of(base: Path, file: Path) -> _Specs:
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return []
    return [(base, GitIgnoreSpec.from_lines(filter(_is_pattern, text.replace("\r\n", "\n").split("\n"))))]


def _is_pattern(line: str) -> bool:
    """Whether a line can be read; git takes others, such as a lone ``!``, for nothing."""
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True
