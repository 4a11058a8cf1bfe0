"""Files that outlive a power cut, and other processes that write them too."""

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".lookahead-tmp"
"""How the names of files end that are not complete yet; a killed writer leaves one."""

_ABANDONED = 3600  # seconds without a write
_PAUSE = 0.02  # seconds between two attempts to get a lock
_PATIENCE = 10.0  # seconds for a lock that is wanted for moments only


def replace_file(
    path: Path,
    fill: Callable[[BinaryIO], object],
    *,
    dress: Callable[[Path], object] = lambda temporary: None,
    guard: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    mode: int = 0o600,
) -> None:
    """Put a new file under a name in one step: whatever ends the process, the old or the new one is there, whole.

    What a killed writer of that file left beside it is removed an hour later.

    Args:
        path: Where to; a link is replaced.
        fill: Writes the content.
        dress: Gives the new file, which is complete, what else it shall have of the old one.
        guard: Held while the new file takes the old one's place; what it raises leaves the old one there.
        mode: The new file's, as far as the process' umask lets it.

    Raises:
        OSError: It can't be written; the old file is as it was.
    """
    _remove_abandoned(path)
    temporary = path.with_name(f"{_beginning(path)}{secrets.token_hex(8)}{TEMPORARY}")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        dress(temporary)
        with guard():
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Let no other writer of ours replace a file, or another one in its folder, between a look at it and its change.

    Where there are no locks, or somebody else holds this one for long (``flock . command``), the look has to do.
    """
    lock = path.parent if os.name != "nt" else path.with_name(f".{path.name}.lock")
    with contextlib.ExitStack() as stack:
        if lock != path.parent:
            stack.callback(_remove, lock)  # which fails as long as somebody has it open
        if path.parent.is_dir():  # else writing says what is wrong
            with contextlib.suppress(OSError):
                stack.enter_context(locked(lock, patience=_PATIENCE))
        yield


def _beginning(path: Path) -> str:
    return f".{path.name[:40]}."  # not all of a name, which may be as long as names can be


def _remove_abandoned(path: Path) -> None:
    with contextlib.suppress(OSError):  # of a folder that can be written but not listed
        for file in path.parent.iterdir():
            if file.name.startswith(_beginning(path)) and file.name.endswith(TEMPORARY):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - file.stat().st_mtime > _ABANDONED:
                        _remove(file)


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder last through a power cut, where the platform can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None, *, patience: float | None = None) -> Iterator[None]:
    """Hold a lock among processes and threads; the system frees it when its holder dies.

    Args:
        path: A file, which is made, or (not on Windows) a folder.
        on_wait: Called when somebody else holds it.
        patience: Seconds to wait for it at the most; None for as long as it takes.

    Raises:
        TimeoutError: Somebody else still holds it.
    """
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        if not _try_lock(descriptor):
            on_wait()
            _wait_for_lock(descriptor, patience)
        try:
            yield
        finally:
            _unlock(descriptor)  # a child that was forked meanwhile holds the file open, too
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, patience: float | None) -> None:
    end = None if patience is None else time.monotonic() + patience
    while not _try_lock(descriptor):
        if end is not None and time.monotonic() > end:
            raise TimeoutError("somebody else holds the lock")
        time.sleep(_PAUSE)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        with contextlib.suppress(OSError):
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
