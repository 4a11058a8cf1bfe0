"""Merger: the thread that makes few segments of many and removes what has expired, while the store is being used."""

import threading

from lookahead.holdings import Holdings
from lookahead.retention import Segments
from lookahead.segment import Segment


class Merger:
    """Merges the segments of namespaces that are named to it, in a thread that lives while there is work.

    Args:
        holdings: What to work on.
    """

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._wanted: set[str] = set()
        self._thread: threading.Thread | None = None

    def want(self, namespace: str) -> None:
        """Have a namespace merged where it has too many segments."""
        with self._holdings.lock:
            if self._holdings.mergeable(namespace):
                self._wanted.add(namespace)
                self._start()

    def wake(self) -> None:
        """Have removed what has expired; never waits: who holds the lock is about to do it, or is asked again."""
        if self._holdings.lock.acquire(blocking=False):
            try:
                self._start()
            finally:
                self._holdings.lock.release()

    def settle(self) -> None:
        """Wait until all that was wanted is done."""
        while (thread := self._thread) is not None and thread.is_alive():  # no thread outlives a fork
            thread.join()

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._run, name="lookahead-merger", daemon=True)
            thread.start()
            self._thread = thread  # started, so that it can be joined; to end, it needs the lock held here

    def _run(self) -> None:
        try:
            self._holdings.drop_expired()
            while (job := self._next()) is not None:
                namespace, old = job
                self._holdings.replace(namespace, old, Segment.merge(old))
                self._holdings.drop_expired()
        except MemoryError:
            with self._holdings.lock:  # many segments are slower to search, and right
                self._wanted.clear()
        finally:
            with self._holdings.lock:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _next(self) -> tuple[str, Segments] | None:
        """A namespace, and its segments that are to become one; without any, the thread ends."""
        with self._holdings.lock:
            while self._wanted:
                namespace = next(iter(self._wanted))
                if old := self._holdings.mergeable(namespace):
                    return namespace, old
                self._wanted.remove(namespace)
            self._thread = None
            return None
