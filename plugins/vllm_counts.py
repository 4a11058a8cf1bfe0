"""PredictionCounts: how many tokens of a request's prediction were accepted and rejected."""

from collections import OrderedDict
from collections.abc import Sequence

_MOST = 4096


class PredictionCounts:
    """Counts by the key that a request carries, until they are asked for; of requests that nobody asks for, the latest.

    Example:
        >>> counts = PredictionCounts()
        >>> counts.begin("a")
        >>> counts.add("a", foreseen=[True, True, False], accepted=1)
        >>> counts.take("a"), counts.take("a")
        ((1, 1), None)
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def begin(self, key: str) -> None:
        """Start to count for a request, from nothing unless that has begun already."""
        self._counts.setdefault(key, (0, 0))
        while len(self._counts) > self._most:
            self._counts.popitem(last=False)

    def add(self, key: str, foreseen: Sequence[bool], accepted: int) -> None:
        """Count a verified draft: for each token whether it is the prediction's, and how many were accepted."""
        if key in self._counts:
            kept, lost = self._counts.pop(key)
            self._counts[key] = kept + sum(foreseen[:accepted]), lost + sum(foreseen[accepted:])

    def take(self, key: str) -> tuple[int, int] | None:
        """Return accepted and rejected tokens, and forget them; None for a request of which nothing is known."""
        return self._counts.pop(key, None)

    def __len__(self) -> int:
        return len(self._counts)
