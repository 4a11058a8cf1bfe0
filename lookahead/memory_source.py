"""MemorySource: what earlier outputs and corpora would go on with, as a candidate beside those of the text itself."""

import logging
from collections.abc import Mapping
from itertools import count
from time import time_ns

import numpy as np
from numpy.typing import NDArray

from lookahead.candidates import (
    DISTANCE,
    FAR,
    GAP,
    LENGTH,
    MATCH,
    MAX_DEPTH,
    MEMORY,
    OUTSIDE,
    SOURCE,
    STATE,
    SWAP,
    Candidates,
)
from lookahead.memory import MemoryStore
from lookahead.memory_reader import MAX_MATCH, NO_MATCH

logger = logging.getLogger("lookahead")
_OUTPUTS = count()


class MemorySource:
    """Looks for the end of a text in one namespace of a store, and adds the text when it is to be remembered.

    Args:
        store: Holds the namespace, and others that this source never sees.
        namespace: Whose documents are drafted from.
        remember: Whether :meth:`finish` adds the output to the namespace.

    Example:
        >>> store = MemoryStore()
        >>> store.add("ann", [5, 6, 7, 8])
        >>> from lookahead.candidates import empty_candidates
        >>> candidates = empty_candidates()
        >>> MemorySource(store, "ann").offer(candidates, np.array([1, 5, 6], np.int32), {}, 0, 100)
        >>> candidates.tokens[0, : candidates.facts[0, LENGTH]].tolist()
        [7, 8]
    """

    def __init__(self, store: MemoryStore, namespace: str, *, remember: bool = False) -> None:
        self._store, self._namespace, self._remember = store, namespace, remember
        self._reader = store.reader(namespace)
        self._match = NO_MATCH

    def offer(
        self, candidates: Candidates, text: NDArray[np.int32], ends: Mapping[int, int], least: int, vocabulary: int
    ) -> None:
        """Add the continuation of the longest match as the next candidate, if there is one.

        Args:
            candidates: Of this step.
            text: The text so far; its end is looked for.
            ends: Tokens that a copy ends before (-1) or with (1).
            least: The shortest match that is copied from.
            vocabulary: Ids from here on are no tokens of the model; a copy ends before them.
        """
        self._match = self._reader.longest_match(text[-MAX_MATCH:])
        if self._match.length < max(least, 1):
            return
        tokens = _allowed(self._reader.continuation(self._match, MAX_DEPTH).tolist(), ends, vocabulary)
        if not tokens:
            return
        row, length = int(candidates.count[0]), len(tokens)
        candidates.tokens[row, :length] = tokens
        candidates.kinds[row, :length] = OUTSIDE
        candidates.origins[row, :length] = -2 - self._match.position - np.arange(length)
        candidates.places[row, : length + 1] = -1
        facts = candidates.facts[row]
        facts[LENGTH], facts[SOURCE], facts[MATCH], facts[GAP] = length, MEMORY, self._match.length, 0
        facts[DISTANCE], facts[STATE], facts[SWAP] = FAR, -1, -1
        candidates.count[0] = row + 1

    def served(self) -> None:
        """Note that tokens of the last offer were accepted."""
        self._reader.mark_useful(self._match)

    def finish(self, output: NDArray[np.int32]) -> None:
        """Add the finished output to the namespace, where that was asked for and there is room for it."""
        if not self._remember or not len(output):
            return
        try:
            self._store.add(self._namespace, output.copy(), name=f"output-{time_ns()}-{next(_OUTPUTS)}")
        except (ValueError, MemoryError) as error:
            logger.warning("an output was not remembered in %s: %s", self._namespace, error)


def _allowed(tokens: list[int], ends: Mapping[int, int], vocabulary: int) -> list[int]:
    """Cut where a copy ends."""
    for i, token in enumerate(tokens):
        end = -1 if token >= vocabulary else ends.get(token, 0)
        if end:
            return tokens[: i + (end > 0)]
    return tokens
