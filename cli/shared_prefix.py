"""The beginning that a prompt shares with the one before it, which the model need not read again."""

import inspect
from typing import Any

from lookahead.plugins.hf_arguments import cache_name

_LEAST = 16  # tokens that are worth it


class SharedPrefix:
    """Keeps the cache of the last generation; the next takes from it what its prompt begins with.

    Only caches whose layers hold every token (full attention) can be cut anywhere; for other models nothing is kept.

    Args:
        model: A transformers model.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._name = cache_name(inspect.signature(model.forward).parameters)
        self._cache: Any = None
        self._held: list[int] = []

    def arguments(self, ids: list[int]) -> dict[str, Any]:
        """Return the arguments of ``generate`` that hand over the cache, cut to what the prompt shares with it."""
        shared = shared_length(self._held, ids[:-1])
        held, self._held = len(self._held), []  # until it is known how the generation ends
        if self._cache is None or shared < _LEAST:
            self._cache = self._new()
        elif shared < held:
            self._cache.crop(shared - held)
        return {} if self._cache is None else {self._name: self._cache}

    def keep(self, ids: list[int]) -> None:
        """Take note of the tokens of prompt and answer after a generation that came to its end."""
        self._held = ids[: self._cache.get_seq_length()] if self._cache is not None else []

    def _new(self) -> Any:
        from transformers.cache_utils import DynamicCache, DynamicLayer

        if self._model.config.is_encoder_decoder or getattr(self._model, "_is_stateful", False):
            return None
        cache = DynamicCache(config=self._model.config)
        return cache if cache.layers and all(type(layer) is DynamicLayer for layer in cache.layers) else None


def shared_length(one: list[int], other: list[int]) -> int:
    """Return how many tokens two lists begin with alike.

    Example:
        >>> shared_length([1, 2, 3], [1, 2, 4, 5])
        2
    """
    for count, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return count
    return min(len(one), len(other))
