"""Holdings: the segments of all namespaces as they are now, changed in single steps that no reader waits for."""

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from lookahead.memory_documents import Settings
from lookahead.retention import Namespaces, Segments, mergeable, replaced, without_empty, without_expired
from lookahead.segment import Segment

AT_ONCE = 2**19  # positions that a caller merges or filters by itself, in about 0.1 s; more are left to a thread


_ALL: "WeakSet[Holdings]" = WeakSet()
_FORKING = threading.Lock()
_HELD: list[Any] = []  # locks, from before a fork to its end, so that no child begins with a change half made


class Holdings:
    """What a store has, without what has expired.

    Args:
        namespaces: The segments to begin with.
        settings: See ``MemoryStore``.
        clock: Returns seconds since the epoch.

    Attributes:
        namespaces: Never changed, but replaced as a whole, so that readers need no lock.
        lock: Held by who replaces them.
    """

    def __init__(self, namespaces: Namespaces, settings: Settings, clock: Callable[[], float]) -> None:
        self.namespaces, self.settings, self.clock = namespaces, settings, clock
        self.lock = threading.RLock()
        _ALL.add(self)

    def change(self, change: Callable[[Namespaces], Namespaces]) -> None:
        """Go from what has not expired to what `change` makes of it, in one step."""
        with self.lock:
            left = without_expired(self.namespaces, self.clock(), self.settings.expiry)
            self.namespaces = without_empty(change(left))

    def drop_expired(self) -> None:
        """Remove the documents that have expired."""
        self.change(lambda namespaces: namespaces)

    def live(self, namespace: str, wake: Callable[[], None]) -> Segments:
        """Return the segments of a namespace that hold no document that has expired; never waits.

        Args:
            namespace: Its name; one that does not exist has no segments.
            wake: Has a thread remove what has expired, where that takes long.
        """
        segments = self.namespaces.get(namespace, ())
        expiry = self.settings.expiry
        if expiry is None:
            return segments
        limit = self.clock() - expiry
        if all(segment.oldest > limit for segment in segments):
            return segments
        if sum(len(segment.tokens) for segment in segments) > AT_ONCE:
            wake()
        elif self.lock.acquire(blocking=False):
            try:
                self.drop_expired()
            finally:
                self.lock.release()
            segments = self.namespaces.get(namespace, ())
        return tuple(segment for segment in segments if segment.oldest > limit)

    def mergeable(self, namespace: str) -> Segments:
        """Return the segments of a namespace that are to become one."""
        return mergeable(self.namespaces.get(namespace, ()))

    def replace(self, namespace: str, old: Segments, new: Segment) -> None:
        """Put a merged segment in the old ones' place, if nobody has changed these meanwhile."""
        with self.lock:
            segments = replaced(self.namespaces.get(namespace, ()), old, new)
            if segments is not None:
                self.namespaces = self.namespaces | {namespace: segments}


def _hold_all() -> None:
    _FORKING.acquire()
    for holdings in list(_ALL):
        holdings.lock.acquire()
        _HELD.append(holdings.lock)


def _release_all() -> None:
    while _HELD:
        _HELD.pop().release()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_release_all)
