"""Rows: one proposer for each request of a vLLM engine, kept across steps and preemption within a byte budget."""

import logging
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookahead.config import LookupConfig
from lookahead.plugins.vllm_request import RequestOptions
from lookahead.proposer import LookupProposer

logger = logging.getLogger("lookahead")

_BESIDE_INDEX = 40_000  # bytes of a proposer's candidates and plans
_BYTES_PER_TOKEN = 80
_TAIL = 16


class Row(LookupProposer):
    """The proposer of one request, which follows the request's tokens.

    Args:
        config: Options; see `LookupProposer` for the others.
        prompt: Token ids of the prompt.
        options: What the request asks for.

    Example:
        >>> row = Row(LookupConfig(), np.array([5, 6, 7, 5], np.int32), RequestOptions())
        >>> row.follow(np.array([5, 6, 7, 5, 6], np.int32)), row.known
        (True, 5)
    """

    def __init__(self, config: LookupConfig, prompt: NDArray[Any], options: RequestOptions, **others: Any) -> None:
        prediction = options.prediction if len(options.prediction) else None
        super().__init__(config, prompt, options.references, prediction, **others)
        self.options = options
        self.drafted: list[int] = []
        self._foreseen = pairs(options.prediction) if prediction is not None else None
        pairs_bytes = 0 if self._foreseen is None else self._foreseen.nbytes
        self._beside = _BESIDE_INDEX + options.nbytes + pairs_bytes + self._limits.nbytes
        if prediction is not None:
            self.consider(config.max_draft)  # so that the first token moves the copy of the prediction

    @property
    def known(self) -> int:
        """Tokens of the text that were taken in."""
        return self.context

    def follow(self, tokens: NDArray[Any]) -> bool:
        """Take in the tokens beyond those known; returns whether these are the same text, and takes nothing if not."""
        known = self.known
        if len(tokens) < known:
            return False
        tail = min(known, _TAIL)
        if not _is_same(self.index.tokens[len(self.index) - tail :], tokens[known - tail : known]):
            return False
        if len(tokens) > known:
            self.extend(tokens[known:].tolist())
        return True

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        return self.index.nbytes + self._beside

    def foreseen(self, before: int, draft: Iterable[int]) -> list[bool]:
        """Return for each draft token whether it stands in the prediction, behind the same token."""
        ids = np.array([before, *draft], np.int64)
        if self._foreseen is None or len(ids) < 2:
            return [False] * (len(ids) - 1)
        wanted = ids[:-1] << 32 | ids[1:]
        places = np.searchsorted(self._foreseen, wanted)
        return (self._foreseen[np.minimum(places, len(self._foreseen) - 1)] == wanted).tolist()


def _is_same(indexed: NDArray[Any], tokens: NDArray[Any]) -> bool:
    """Return whether an indexed text is this one; where it has placeholders the index holds no token."""
    return not ((indexed != tokens) & (indexed >= 0)).any()


def pairs(tokens: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the pairs of neighbours in a text, sorted; None where there are none."""
    ids = tokens.astype(np.int64)
    return np.unique(ids[:-1] << 32 | ids[1:]) if len(ids) > 1 else None


class RowCache:
    """The rows of an engine, least recently used ones dropped when their bytes exceed the budget.

    A request that finds no room beside the rows of the step under way is not drafted for, and where these outgrow the
    budget with what they write, the largest go.

    Args:
        budget: Bytes that all rows may hold together.

    Example:
        >>> cache = RowCache(budget=2**20)
        >>> cache.add("a", Row(LookupConfig(), np.array([5, 6], np.int32), RequestOptions()))
        >>> cache.get("a").known, len(cache)
        (2, 1)
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._rows: OrderedDict[Hashable, Row] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}  # bytes of each when they were last looked at
        self._held = 0  # their sum

    def get(self, key: Hashable) -> Row | None:
        """Return the row, which is the latest used from now on."""
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
        return row

    def find(self, tokens: NDArray[Any], taken: Collection[Hashable]) -> Hashable | None:
        """Return the key of the row that knows the longest start of ``tokens``, ``taken`` ones left out."""
        best, length = None, 0
        for key, row in self._rows.items():
            if key in taken or not length < row.known <= len(tokens):
                continue
            text = row.index.tokens[-row.known :]
            if _is_same(text, tokens[: row.known]):
                best, length = key, row.known
        return best

    def make_room(self, tokens: int, active: Collection[Hashable]) -> bool:
        """Drop rows that are not ``active`` until a text of so many tokens fits; returns whether it does."""
        most = self._budget - tokens * _BYTES_PER_TOKEN - _BESIDE_INDEX
        self._evict((key for key in self._rows if key not in active), most)
        return self._held <= most

    def shrink(self, active: Collection[Hashable]) -> list[Hashable]:
        """Look at the bytes of all rows anew, and drop some until they fit the budget; return the ``active`` ones.

        Those that are not ``active`` go first, the least recently used one before the others, then the largest.
        """
        self._sizes = {key: row.nbytes for key, row in self._rows.items()}
        self._held = sum(self._sizes.values())
        self._evict((key for key in self._rows if key not in active), self._budget)
        return self._evict(sorted(self._rows, key=self._sizes.__getitem__, reverse=True), self._budget)

    def add(self, key: Hashable, row: Row) -> None:
        """Keep a row."""
        self.drop(key)
        self._rows[key], self._sizes[key] = row, row.nbytes
        self._held += self._sizes[key]

    def drop(self, key: Hashable) -> None:
        """Forget a row, if there is one."""
        if self._rows.pop(key, None) is not None:
            self._held -= self._sizes.pop(key)

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget all rows but these."""
        for key in [key for key in self._rows if key not in keys]:
            self.drop(key)

    def _evict(self, order: Iterable[Hashable], most: int) -> list[Hashable]:
        """Drop rows in this order until the others hold no more than ``most`` bytes; return what was dropped."""
        dropped: list[Hashable] = []
        if self._held > most:
            for key in list(order):
                if self._held <= most:
                    break
                self.drop(key)
                dropped.append(key)
        return dropped

    @property
    def nbytes(self) -> int:
        """Bytes held by all rows, about."""
        return sum(row.nbytes for row in self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._rows
