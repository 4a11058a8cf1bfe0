"""Merger: the thread that makes few segments of many, while the store goes on being read and changed."""

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
    """

    def __init__(
        self, lock: threading.RLock, read: Callable[[str], Segments], write: Callable[[str, Segments], None]
    ) -> None:
        self._lock, self._read, self._write = lock, read, write
        self._wanted: set[str] = set()
        self._thread: threading.Thread | None = None

    def want(self, namespace: str) -> None:
        """Have a namespace merged where it has too many segments."""
        with self._lock:
            if not mergeable(self._read(namespace)):
                return
            self._wanted.add(namespace)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lookahead-merger", daemon=True)
                self._thread.start()

    def settle(self) -> None:
        """Wait until all that was wanted is done."""
        while (thread := self._thread) is not None:
            thread.join()

    def _run(self) -> None:
        try:
            while (job := self._next()) is not None:
                namespace, old = job
                self._replace(namespace, old, Segment.merge(old))
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
