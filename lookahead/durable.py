"""Files that outlive a power cut, and other processes that write them too."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder last through a power cut, where the platform can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock among processes and threads; the system frees it when its holder dies.

    Args:
        path: A file, which is made, or (not on Windows) a folder.
        on_wait: Called when somebody else holds it.
    """
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        if not _try_lock(descriptor):
            on_wait()
            _wait_for_lock(descriptor)
        try:
            yield
        finally:
            _unlock(descriptor)  # a child that was forked meanwhile holds the file open, too
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt
    import time

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

    def _wait_for_lock(descriptor: int) -> None:
        while not _try_lock(descriptor):
            time.sleep(0.2)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait_for_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
