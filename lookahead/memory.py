"""MemoryStore: earlier outputs and whole corpora to draft from, in namespaces that never see each other."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookahead import store_file
from lookahead.index import Tokens
from lookahead.memory_documents import (
    DocumentInfo,
    NamespaceInfo,
    Settings,
    checked_documents,
    checked_name,
    document_infos,
    namespace_info,
    tokenizer_identity,
)
from lookahead.memory_reader import MemoryMatch, MemoryReader
from lookahead.segment import Segment, warm_up
from lookahead.suffix_array import MAX_POSITIONS

__all__ = ["DocumentInfo", "MemoryMatch", "MemoryReader", "MemoryStore", "NamespaceInfo", "tokenizer_identity"]

_MERGED = 4  # a segment joins those behind it once they have a fourth of its tokens, so that there are few to search
_SPARE = 8  # an eighth of the budget is freed at once, so that not every addition removes something
_EARLY = 16  # what has a sixteenth of its life left goes with what has none, so that segments are seldom rewritten


class MemoryStore:
    """Documents in namespaces, searched for the end of a text: earlier outputs, files, whole repositories.

    Any number of threads may use it. Those that read never wait for one that adds, removes or saves.

    Args:
        tokenizer: Whose ids these are, as ``tokenizer_identity`` returns it; None for unknown.
        budget: Bytes to hold at most; the least recently useful documents make room for new ones. None for no limit.
        expiry: Seconds after which a document is not used any more, and removed; up to a sixteenth earlier, together
            with others. None for never.
        clock: Returns seconds since the epoch.

    Example:
        >>> store = MemoryStore()
        >>> store.add("ann", [5, 6, 7, 8], name="answer")
        >>> reader = store.reader("ann")
        >>> reader.continuation(reader.longest_match([1, 5, 6]), 9)
        array([7, 8], dtype=int32)
        >>> store.reader("bob").longest_match([1, 5, 6]).length
        0
    """

    def __init__(
        self,
        tokenizer: str | None = None,
        *,
        budget: int | None = None,
        expiry: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = Settings(tokenizer, budget, expiry)
        self._clock = clock
        self._namespaces: dict[str, tuple[Segment, ...]] = {}
        self._files: set[bytes] = set()  # ids of the files that hold what this store held
        self._lock = threading.RLock()  # for who changes the namespaces; each change replaces a tuple

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, tokenizer: str | None = None, clock: Callable[[], float] = time.time
    ) -> "MemoryStore":
        """Return the store of a file, mapped into memory.

        Args:
            path: What ``save`` wrote.
            tokenizer: The identity that the store has to have; None to take any.
            clock: As for a new store.

        Raises:
            StoreFileError: The file is damaged or of another format. Tokens and their order are checked up to 128 MiB
                (16 million tokens), in a larger store evenly spread parts of them; ``verify`` checks all.
            ValueError: It has another tokenizer.
            OSError: It can't be read.
        """
        namespaces, settings, identity = store_file.read(Path(path))
        if tokenizer is not None and settings.tokenizer != tokenizer:
            raise ValueError(
                f"tokenizer is {tokenizer}, but {path} was built with {settings.tokenizer or 'an unknown one'}: "
                "build it again with this tokenizer"
            )
        store = cls(settings.tokenizer, budget=settings.budget, expiry=settings.expiry, clock=clock)
        store._namespaces, store._files = namespaces, {identity}
        return store

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the store to a file in one step, whole or not at all.

        Raises:
            FileExistsError: There is a file that this store was neither loaded from nor saved to, or another process
                has saved to it meanwhile; `overwrite` replaces it.
            OSError: It can't be written; the old file is as it was.
        """
        path = Path(path)
        if not overwrite and path.exists() and store_file.file_id(path) not in self._files:
            raise FileExistsError(f"{path} is not the file of this store, or was saved by another process: load it")
        with self._lock:
            namespaces = dict(self._namespaces)
        self._files.add(store_file.write(path, namespaces, self._settings))

    def reader(self, namespace: str) -> "MemoryReader":
        """Return what looks for matches in a namespace, and nowhere else; it sees all later changes of it."""
        warm_up()
        return MemoryReader(partial(self._live, checked_name(namespace, "namespace")), self._clock)

    def add(self, namespace: str, tokens: Tokens, name: str = "") -> None:
        """Add one document; see ``add_all``."""
        self.add_all(namespace, [(name, tokens)])

    def add_all(self, namespace: str, documents: Iterable[tuple[str, Tokens]]) -> None:
        """Add documents; one of the same name in the namespace is replaced.

        Documents are joined to larger parts now and then, so that a query has few to search: on average a token added
        costs some ten microseconds, but a single call may rewrite a namespace.

        Args:
            namespace: Whose documents they are.
            documents: Name ("" for none) and token ids of each, at least one.

        Raises:
            ValueError: A document is empty or has a negative token, or they exceed the budget.
        """
        checked_name(namespace, "namespace")
        names, texts = checked_documents(documents)
        if not texts:
            return
        new = Segment.build(names, texts, self._clock())
        with self._lock:
            self._refuse_if_too_large(new.nbytes)
            self._drop_expired()
            self._drop_names(namespace, set(names) - {""})
            self._make_room(new.nbytes)
            self._namespaces[namespace] = _joined((*self._namespaces.get(namespace, ()), new))

    def forget(self, namespace: str, name: str | None = None) -> int:
        """Remove the document of a name, or all of a namespace; returns how many documents that were."""
        with self._lock:
            before = self._count(namespace)
            if name is None:
                self._namespaces.pop(namespace, None)
            else:
                self._drop_names(namespace, {name})
            return before - self._count(namespace)

    def namespaces(self) -> dict[str, NamespaceInfo]:
        """Return what each namespace holds."""
        return {name: namespace_info(self._live(name)) for name in sorted(self._namespaces)}

    def documents(self, namespace: str) -> list[DocumentInfo]:
        """Return the documents of a namespace, oldest first."""
        return [info for segment in self._live(namespace) for info in document_infos(segment)]

    @property
    def tokenizer(self) -> str | None:
        """Whose ids these are."""
        return self._settings.tokenizer

    @property
    def budget(self) -> int | None:
        """Bytes to hold at most. Set it to change it; documents are removed if need be."""
        return self._settings.budget

    @budget.setter
    def budget(self, budget: int | None) -> None:
        with self._lock:
            self._settings = replace(self._settings, budget=budget)
            self._make_room(0)

    @property
    def expiry(self) -> float | None:
        """Seconds after which a document is removed. Set it to change it, for old documents too."""
        return self._settings.expiry

    @expiry.setter
    def expiry(self, expiry: float | None) -> None:
        self._settings = replace(self._settings, expiry=expiry)

    @property
    def nbytes(self) -> int:
        """Bytes that all documents take, in memory or on disk."""
        return sum(segment.nbytes for segments in list(self._namespaces.values()) for segment in segments)

    def _live(self, namespace: str) -> tuple[Segment, ...]:
        """The segments of a namespace, without documents that have expired; never waits."""
        segments = self._namespaces.get(namespace, ())
        expiry = self._settings.expiry
        if expiry is None:
            return segments
        limit = self._clock() - expiry
        if all(segment.oldest > limit for segment in segments):
            return segments
        if self._lock.acquire(blocking=False):
            try:
                self._drop_expired()
            finally:
                self._lock.release()
            segments = self._namespaces.get(namespace, ())
        return tuple(segment for segment in segments if segment.oldest > limit)

    def _drop_expired(self) -> None:
        expiry = self._settings.expiry
        if expiry is None:
            return
        now = self._clock()
        for name, segments in list(self._namespaces.items()):
            if any(segment.oldest <= now - expiry for segment in segments):
                limit = now - expiry + expiry / _EARLY
                self._keep(name, [segment.documents.added > limit for segment in segments])

    def _drop_names(self, namespace: str, names: set[str]) -> None:
        if names:
            segments = self._namespaces.get(namespace, ())
            kept = [[name not in names for name in segment.documents.names] for segment in segments]
            self._keep(namespace, [np.array(mask, np.bool_) for mask in kept])

    def _make_room(self, needed: int) -> None:
        """Remove the least recently useful documents of all namespaces until there is room for as many bytes more."""
        budget, total = self._settings.budget, self.nbytes + needed
        if budget is None or total <= budget:
            return
        segments = [segment for parts in self._namespaces.values() for segment in parts]
        sizes = np.concatenate([segment.sizes for segment in segments])
        order = np.argsort(np.concatenate([segment.documents.useful for segment in segments]), kind="stable")
        removed = order[: 1 + np.searchsorted(np.cumsum(sizes[order]), total - (budget - budget // _SPARE))]
        kept = np.ones(len(sizes), np.bool_)
        kept[removed] = False
        masks = iter(np.split(kept, np.cumsum([len(segment) for segment in segments])[:-1]))
        for name, parts in list(self._namespaces.items()):
            self._keep(name, [next(masks) for _ in parts])

    def _refuse_if_too_large(self, needed: int) -> None:
        budget = self._settings.budget
        if budget is not None and needed > budget:
            raise ValueError(f"documents take {needed} bytes, more than the budget of {budget}: add fewer, or raise it")

    def _keep(self, namespace: str, masks: list[NDArray[np.bool_]]) -> None:
        """Keep some documents of each segment of a namespace."""
        segments = self._namespaces.get(namespace, ())
        kept = [segment.keep(mask) for segment, mask in zip(segments, masks, strict=True)]
        left = tuple(segment for segment in kept if segment is not None)
        if left:
            self._namespaces[namespace] = left
        else:
            self._namespaces.pop(namespace, None)

    def _count(self, namespace: str) -> int:
        return sum(len(segment) for segment in self._namespaces.get(namespace, ()))


def _joined(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """The segments, the last ones merged so that each has more than four times the tokens of all behind it."""
    first, size = len(segments) - 1, len(segments[-1].tokens)
    while first > 0:
        larger = len(segments[first - 1].tokens)
        if larger > _MERGED * size or larger + size > MAX_POSITIONS:
            break
        first, size = first - 1, size + larger
    return segments if first == len(segments) - 1 else (*segments[:first], Segment.merge(segments[first:]))
