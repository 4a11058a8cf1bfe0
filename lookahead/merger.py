"""Merger: the thread that makes few segments of many and removes what has expired, while the store is being used."""

import threading
from collections.abc import Callable

from lookahead.retention import Segments, mergeable, replaced
from lookahead.segment import Segment


class Merger:
    """Merges the segments of namespaces that are named to it, in a thread that lives while there is work.

    Args:
        lock: Held by whoever changes segments.
        read: Returns the segments of a namespace.
        write: Takes a namespace and its new segments, with the lock held.
        clean: Removes what has expired.
    """

    def __init__(
        self,
        lock: threading.RLock,
        read: Callable[[str], Segments],
        write: Callable[[str, Segments], None],
        clean: Callable[[], None],
    ) -> None:
        self._lock, self._read, self._write, self._clean = lock, read, write, clean
        self._wanted: set[str] = set()
        self._thread: threading.Thread | None = None

    def want(self, namespace: str) -> None:
        """Have a namespace merged where it has too many segments."""
        with self._lock:
            if mergeable(self._read(namespace)):
                self._wanted.add(namespace)
                self._start()

    def wake(self) -> None:
        """Have removed what has expired; never waits: whoever holds the lock will do it."""
        if self._lock.acquire(blocking=False):
            try:
                self._start()
            finally:
                self._lock.release()

    def settle(self) -> None:
        """Wait until all that was wanted is done."""
        while (thread := self._thread) is not None:
            thread.join()

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="lookahead-merger", daemon=True)
            thread.start()
            self._thread = thread  # started, so that it can be joined; to end, it needs the lock held here

    def _run(self) -> None:
        try:
            self._clean()
            while (job := self._next()) is not None:
                namespace, old = job
                self._replace(namespace, old, Segment.merge(old))
                self._clean()
        except MemoryError:
            with self._lock:  # many segments are slower to search, and right
                self._wanted.clear()
        finally:
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _next(self) -> tuple[str, Segments] | None:
        """A namespace, and its segments that are to become one; without any, the thread ends."""
        with self._lock:
            while self._wanted:
                namespace = next(iter(self._wanted))
                if old := mergeable(self._read(namespace)):
                    return namespace, old
                self._wanted.remove(namespace)
            self._thread = None
            return None

    def _replace(self, namespace: str, old: Segments, new: Segment) -> None:
        """Put the merged segment in the old ones' place, if nobody has changed these meanwhile."""
        with self._lock:
            segments = replaced(self._read(namespace), old, new)
            if segments is not None:
                self._write(namespace, segments)
