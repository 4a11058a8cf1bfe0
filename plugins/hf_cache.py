"""Cache rollback: the transformers cache holds exactly the accepted tokens after every step.

Layers that keep every position are cropped. Layers that fold the past into one state (recurrent, quantized, full
static windows) can't be: they are held as they were before a drafted step and put back when a draft token is
rejected. The accepted tokens are then read again in front of the next draft, which costs width, not a forward pass.
"""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, EncoderDecoderCache, StaticLayer

from lookahead.plugins.hf_growth import GrowingLayer, start_growing, stop_growing

MAX_REPLAY = 32
"""Tokens waiting to be read again from which on a step drafts nothing, so that the backlog stays bounded."""

UNLIMITED = 1 << 30


class Rollback(Protocol):
    """Keeps one cache in step with the committed text."""

    cached: int
    """Leading tokens of the text that the cache holds."""

    def widest(self) -> int:
        """Return how many tokens the coming forward may read so that the cache treats them as one by one."""

    def before_draft(self) -> None:
        """Get ready to take back the tokens of the coming forward."""

    def keep(self, read: int, kept: int) -> None:
        """Settle a forward that brought the cache to ``read`` tokens, of which the first ``kept`` are committed."""

    def undo(self) -> None:
        """Take back what a forward has left that broke off, perhaps between two layers."""

    def close(self, returned: bool) -> None:
        """Leave the cache as plain generation would, if it is ``returned``."""


class CropRollback:
    """Takes back rejected tokens by cropping every layer."""

    def __init__(self, cache: Cache, cached: int) -> None:
        self.cached = cached
        self.cache = cache
        self._past = max(0, cached_tokens(cache) - cached)
        self._recorded = [getattr(layer, "record_past", None) for layer in cache.layers]
        cache.activate_past_recording()
        start_growing(cache)

    def widest(self) -> int:
        """Any width is treated alike."""
        return UNLIMITED

    def before_draft(self) -> None:
        """Nothing to do: positions are kept until :meth:`keep` crops them."""

    def keep(self, read: int, kept: int) -> None:
        """Crop to ``kept`` tokens; also called with nothing to crop, to shrink windows to their size."""
        self.cache.crop(kept - read)
        self.cached = kept

    def undo(self) -> None:
        """Crop every layer to what it held before."""
        for layer in self.cache.layers:
            surplus = _surplus(layer, self._past + self.cached)
            if surplus > 0:
                layer.crop(-surplus)

    def close(self, returned: bool) -> None:
        """Stop recording the past where we started it, and growing in place."""
        if returned:
            stop_growing(self.cache)
        for layer, recorded in zip(self.cache.layers, self._recorded, strict=True):
            if recorded is not None:
                layer.record_past = recorded


class SnapshotRollback:
    """Takes back rejected tokens by restoring every layer to its state before the forward."""

    def __init__(self, cache: Cache, cached: int) -> None:
        self.cached = cached
        self._cache = cache
        self._restore: list[Callable[[], None]] = []

    def widest(self) -> int:
        """Return the tokens until a quantized layer packs what it has gathered: a block must not reach beyond."""
        return min((_unpacked_room(layer) for layer in self._cache.layers), default=UNLIMITED)

    def before_draft(self) -> None:
        """Hold every layer's state."""
        self._restore = [_snapshot(layer) for layer in self._cache.layers]

    def keep(self, read: int, kept: int) -> None:
        """Keep the forward if all of it was committed; otherwise undo it and leave its tokens to be read again."""
        if read == kept:
            self.cached, self._restore = kept, []
        else:
            self.undo()

    def undo(self) -> None:
        """Restore what is held; a forward without a draft is left where it broke off, as plain generation leaves it."""
        for restore in self._restore:
            restore()
        self._restore = []

    def close(self, returned: bool) -> None:
        """Nothing was changed that needs changing back."""


def rollback_for(cache: Cache, cached: int) -> Rollback:
    """Return the cheapest rollback for a cache, after its prefill (before it, layers don't know what they hold)."""
    layers = decoder_cache(cache)
    crops = layers.is_croppable and all(_is_known(layer) or "crop" in vars(type(layer)) for layer in layers.layers)
    # Recording makes a cache of fixed size one that is not compiled, and then no mask hides the places still empty.
    unmasked = layers.is_compileable and any(hasattr(layer, "record_past") for layer in layers.layers)
    return CropRollback(layers, cached) if crops and not unmasked else SnapshotRollback(layers, cached)


def _surplus(layer: Any, length: int) -> int:
    """Return how many tokens beyond ``length`` a layer has read; convolutions hold these behind their kernel's."""
    if isinstance(layer, CacheLayerMixin):
        return int(layer.get_seq_length()) - length
    states = getattr(layer, "conv_states", {}).items()
    return max((state.shape[-1] - layer.conv_kernel_size[i] for i, state in states if state is not None), default=0)


def _is_known(layer: Any) -> bool:
    """Whether a layer is one of transformers' own kinds: a model's own kind inherits a crop that may miss its state."""
    return type(layer).__module__ == StaticLayer.__module__ or isinstance(layer, GrowingLayer)


def _unpacked_room(layer: Any) -> int:
    size = getattr(layer, "residual_length", None)
    if size is None:
        return UNLIMITED
    return size - (layer.keys.shape[-2] if layer.is_initialized and layer.keys.dim() == 4 else 0)


def decoder_cache(cache: Any) -> Any:
    """Return the cache that grows with the text: of an encoder-decoder model the self-attention part."""
    return cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache


def cached_tokens(cache: Any) -> int:
    """Return how many tokens a cache holds, 0 when only a state tells of them."""
    layers = decoder_cache(cache)
    return int(layers.get_seq_length()) if any(isinstance(layer, CacheLayerMixin) for layer in layers.layers) else 0


def fixed_sizes(cache: Any) -> set[int]:
    """Return the lengths at which layers of fixed size are full."""
    static = [layer for layer in decoder_cache(cache).layers if isinstance(layer, StaticLayer)]
    return {layer.max_cache_len for layer in static if not layer.is_sliding}


def _snapshot(layer: Any) -> Callable[[], None]:
    """Hold a layer's state; the function returned puts it back."""
    static = isinstance(layer, StaticLayer)
    in_place = static or hasattr(layer, "recurrent_states") or not _is_known(layer)
    # A full static layer overwrites what lies beyond its length, so its keys and values need no copy.
    skipped = ("keys", "values") if static and not layer.is_sliding else ()
    held = {name: _hold(value, in_place) for name, value in vars(layer).items() if name not in skipped}

    def restore() -> None:
        for name, value in held.items():
            setattr(layer, name, _put_back(getattr(layer, name), value) if in_place else value)

    return restore


def _hold(value: Any, in_place: bool) -> Any:
    if isinstance(value, Tensor):
        return value.clone() if in_place else value
    if isinstance(value, dict):
        return {key: _hold(item, in_place) for key, item in value.items()}
    return value


def _put_back(current: Any, held: Any) -> Any:
    """Restore into the tensor that is there, where its shape still fits: compiled graphs rely on its address."""
    if isinstance(held, Tensor) and isinstance(current, Tensor) and current.shape == held.shape:
        return current.copy_(held)
    if isinstance(held, dict):
        return {key: _put_back(current.get(key), item) for key, item in held.items()}
    return held
