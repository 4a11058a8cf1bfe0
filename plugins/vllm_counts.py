"""PredictionCounts: how many tokens of a request's prediction were accepted and rejected."""

from collections import OrderedDict
from collections.abc import Sequence

_MOST = 4096


class PredictionCounts:
    """Counts by the key that a request carries, until they are asked for; of requests that nobody asks for, the latest.

    Example:
        >>> counts = PredictionCounts()
        >>> counts.add("a", foreseen=[True, True, False], accepted=1)
        >>> counts.take("a"), counts.take("a")
        ((1, 1), (0, 0))
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def add(self, key: str, foreseen: Sequence[bool], accepted: int) -> None:
        """Count a verified draft: for each token whether it is the prediction's, and how many were accepted."""
        kept, lost = self._counts.pop(key, (0, 0))
        self._counts[key] = kept + sum(foreseen[:accepted]), lost + sum(foreseen[accepted:])
        while len(self._counts) > self._most:
            self._counts.popitem(last=False)

    def take(self, key: str) -> tuple[int, int]:
        """Return accepted and rejected tokens, and forget them."""
        return self._counts.pop(key, (0, 0))

    def __len__(self) -> int:
        return len(self._counts)
