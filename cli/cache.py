"""The cache folder: where it is, and how something is built in it whole or not at all."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from lookahead.cli.errors import CommandError, os_reason
from lookahead.durable import locked

_PARTIAL = ".specdec-lookup-partial-"


def cache_home(variables: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return the cache folder: SPECDEC_LOOKUP_HOME, else the platform's.

    Raises:
        CommandError: There is no home folder.

    Example:
        >>> str(cache_home({"XDG_CACHE_HOME": "/var/cache/me"}, "linux"))
        '/var/cache/me/specdec-lookup'
    """
    chosen = variables.get("SPECDEC_LOOKUP_HOME")
    if chosen:
        return _expanded(chosen)
    if platform == "win32":
        base = variables.get("LOCALAPPDATA") or "~/AppData/Local"
    elif platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = variables.get("XDG_CACHE_HOME") or "~/.cache"
    return _expanded(base) / "specdec-lookup"


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise CommandError(
            f"{path} can't be found, for you have no home folder: name a folder in SPECDEC_LOOKUP_HOME"
        ) from None


def build_once(target: Path, build: Callable[[Path], Path], on_wait: Callable[[], None] = lambda: None) -> Path:
    """Return a folder of the cache, building it first if it is missing.

    One process builds at a time. ``build`` gets an empty temporary folder beside the target and returns the finished
    folder within it, which then takes the target's name in one rename: whatever ends a build, even a kill or a power
    cut, a folder of that name is whole. What killed builds left behind is removed by the next one.

    Args:
        target: The folder; its parent is created.
        build: Makes the content.
        on_wait: Called when another process is building already.

    Raises:
        CommandError: The cache folder can't be written, or the disk is full.
    """
    if os.path.isdir(target):  # unlike Path's, it raises nothing
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.parent / "lock", on_wait):
            if not target.is_dir():
                _build(target, build)
    except OSError as error:
        raise CommandError(
            f"the cache folder {target.parent} can't be used ({os_reason(error)}): free or mend it, or name another "
            "folder in SPECDEC_LOOKUP_HOME"
        ) from error
    return target


def _build(target: Path, build: Callable[[Path], Path]) -> None:
    for stale in target.parent.glob(f"{_PARTIAL}*"):
        shutil.rmtree(stale, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=target.parent))
    whole = partial.with_name(f"{partial.name}-whole")
    try:
        finished = build(partial)
        _sync(finished)
        os.rename(finished, whole)
        shutil.rmtree(partial, ignore_errors=True)  # before it is published: no build comes after that to tidy up
        os.rename(whole, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(whole, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Have the files on disk before the rename, so that a power cut can't publish empty ones."""
    for path in folder.iterdir():
        path.chmod(0o644)  # not only for the user who built it
        with path.open("rb+") as file:
            os.fsync(file.fileno())
