"""Growing layers: a cache layer that appends in place, where transformers copies the whole layer for every step."""

from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from lookahead.plugins.hf_packed import packed_block

GROWTH = 256
"""Positions by which a full layer grows: one copy in so many tokens, and no more memory than that."""


class GrowingLayer(DynamicLayer):
    """Keeps keys and values at the front of larger tensors, so that new ones need no copy of the old.

    A layer becomes one by its class, and a DynamicLayer again by :func:`stop_growing`; in between it holds what a
    DynamicLayer would. Whoever replaces ``keys`` or ``values`` makes it allocate anew at the next step.
    """

    keys: Tensor
    values: Tensor
    _room: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Append the new keys and values, and return all; those of packed rows each to its row."""
        if (block := packed_block()) is not None:
            key_states, value_states = block.apart(key_states), block.apart(value_states)
        keys, values = self._room or (self.keys, self.values)
        keys, self.keys = _appended(keys, self.keys, key_states)
        values, self.values = _appended(values, self.values, value_states)
        self._room = (keys, values)
        return self.keys, self.values


_KEEP_ALL = frozenset({DynamicLayer, GrowingLayer})


def _appended(room: Tensor, held: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """Write ``new`` behind what is held; return the tensor with room for more, and the part of it that is filled."""
    length = held.shape[-2]
    end = length + new.shape[-2]
    if not _is_front_of(held, room) or end > room.shape[-2]:
        room = held.new_empty((*held.shape[:-2], end + GROWTH, held.shape[-1]))
        room[..., :length, :] = held
    room[..., length:end, :] = new
    return room, room[..., :end, :]


def _is_front_of(part: Tensor, whole: Tensor) -> bool:
    """Whether ``part`` is the first positions of ``whole``, in the same memory."""
    return part.data_ptr() == whole.data_ptr() and part.stride() == whole.stride()


def keeps_every_position(model: Any, cache: Cache) -> bool:
    """Return whether every layer keeps all positions, in this cache and in the one that the model makes for itself.

    A cache that the user made may keep positions that a window hides: the model's own says what it sees.
    """
    own = DynamicCache(config=model.config.get_text_config(decoder=True))
    return type(cache) is DynamicCache and all(type(layer) in _KEEP_ALL for layer in [*cache.layers, *own.layers])


def start_growing(cache: Cache) -> None:
    """Let the layers of a cache that keep every position append in place, from the next step on."""
    if not getattr(cache, "offloading", False):
        for layer in cache.layers:
            if type(layer) is DynamicLayer and layer.is_initialized:
                layer.__class__ = GrowingLayer


def stop_growing(cache: Cache) -> None:
    """Make every layer what it was, without room to spare."""
    for layer in cache.layers:
        if type(layer) is GrowingLayer:
            layer.__class__ = DynamicLayer
            layer.__dict__.pop("_room", None)
            layer.keys, layer.values = layer.keys.contiguous(), layer.values.contiguous()
