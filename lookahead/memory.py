"""MemoryStore: earlier outputs and whole corpora to draft from, in namespaces that never see each other."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path

from lookahead import store_file
from lookahead.holdings import AT_ONCE, Holdings
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
from lookahead.merger import Merger
from lookahead.retention import Namespaces, Segments, mergeable, size, with_room, without_names
from lookahead.segment import Segment, warm_up
from lookahead.suffix_array import Tokens

__all__ = ["DocumentInfo", "MemoryMatch", "MemoryReader", "MemoryStore", "NamespaceInfo", "tokenizer_identity"]


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
        self._hold(Holdings({}, Settings(tokenizer, budget, expiry), clock), files=set())

    def _hold(self, holdings: Holdings, files: set[bytes]) -> None:
        self._holdings = holdings
        self._merger = Merger(holdings)
        self._live = partial(holdings.live, wake=self._merger.wake)
        self._files = files  # ids of the files that hold what this store held

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
        store = cls()
        store._hold(Holdings(namespaces, settings, clock), {identity})
        return store

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the store to a file in one step, whole or not at all.

        It waits until the segments are merged, and holds up nobody meanwhile.

        Raises:
            FileExistsError: There is a file that this store was neither loaded from nor saved to, or another process
                has saved to it meanwhile; `overwrite` replaces it.
            OSError: It can't be written; the old file is as it was.
        """
        self._holdings.drop_expired()
        self.settle()
        holdings = self._holdings
        store_file.write(Path(path), holdings.namespaces, holdings.settings, self._files, overwrite=overwrite)

    def settle(self) -> None:
        """Wait until the segments are merged that additions have left to a thread."""
        self._merger.settle()

    def reader(self, namespace: str) -> "MemoryReader":
        """Return what looks for matches in a namespace, and nowhere else; it sees all later changes of it."""
        warm_up()
        return MemoryReader(partial(self._live, checked_name(namespace, "namespace")), self._holdings.clock)

    def add(self, namespace: str, tokens: Tokens, name: str = "") -> None:
        """Add one document; see ``add_all``."""
        self.add_all(namespace, [(name, tokens)])

    def add_all(self, namespace: str, documents: Iterable[tuple[str, Tokens]]) -> None:
        """Add documents; one of the same name in the namespace is replaced.

        Documents are merged into larger segments now and then, so that a query has few to search; a token costs some
        ten microseconds altogether. What takes long is left to a thread.

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
        new = Segment.build(names, texts, self._holdings.clock())

        def added(namespaces: Namespaces) -> Namespaces:
            left = without_names(namespaces, namespace, set(names) - {""})
            left = with_room(left, new.nbytes, self._holdings.settings.budget)
            return left | {namespace: _merged_at_once((*left.get(namespace, ()), new))}

        self._holdings.change(added)
        self._merger.want(namespace)

    def forget(self, namespace: str, name: str | None = None) -> int:
        """Remove the document of a name, or all of a namespace; returns how many documents that were."""
        removed = 0

        def less(namespaces: Namespaces) -> Namespaces:
            nonlocal removed
            left = namespaces | {namespace: ()} if name is None else without_names(namespaces, namespace, {name})
            removed = _count(namespaces.get(namespace, ())) - _count(left.get(namespace, ()))
            return left

        self._holdings.change(less)
        return removed

    def namespaces(self) -> dict[str, NamespaceInfo]:
        """Return what each namespace holds."""
        live = {name: self._live(name) for name in sorted(self._holdings.namespaces)}
        return {name: namespace_info(segments) for name, segments in live.items() if segments}

    def documents(self, namespace: str) -> list[DocumentInfo]:
        """Return the documents of a namespace, oldest first."""
        return [info for segment in self._live(namespace) for info in document_infos(segment)]

    @property
    def tokenizer(self) -> str | None:
        """Whose ids these are."""
        return self._holdings.settings.tokenizer

    @property
    def budget(self) -> int | None:
        """Bytes to hold at most. Set it to change it; documents are removed if need be."""
        return self._holdings.settings.budget

    @budget.setter
    def budget(self, budget: int | None) -> None:
        self._holdings.settings = replace(self._holdings.settings, budget=budget)
        self._holdings.change(lambda namespaces: with_room(namespaces, 0, budget))

    @property
    def expiry(self) -> float | None:
        """Seconds after which a document is removed. Set it to change it, for old documents too."""
        return self._holdings.settings.expiry

    @expiry.setter
    def expiry(self, expiry: float | None) -> None:
        self._holdings.settings = replace(self._holdings.settings, expiry=expiry)

    @property
    def nbytes(self) -> int:
        """Bytes that all documents take, in memory or on disk."""
        return size(self._holdings.namespaces)


def _merged_at_once(segments: Segments) -> Segments:
    """The segments, with those merged that takes no time to speak of."""
    found = mergeable(segments, AT_ONCE)
    return (*segments[: len(segments) - len(found)], Segment.merge(found)) if found else segments


def _count(segments: Segments) -> int:
    return sum(len(segment) for segment in segments)
