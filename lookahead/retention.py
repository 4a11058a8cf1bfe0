"""What a memory store keeps: which documents leave by name, by age or for room, and which segments become one.

All functions return new dictionaries and segments and change nothing, so that a store goes from one state to the next
in a single assignment.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lookahead.segment import Segment
from lookahead.suffix_array import MAX_POSITIONS

Segments = tuple[Segment, ...]
Namespaces = dict[str, Segments]

_MERGED = 4  # a segment joins those behind it once they have a fourth of its tokens, so that there are few to search
_SPARE = 8  # an eighth of the budget is freed at once, so that not every addition removes something
_EARLY = 16  # what has a sixteenth of its life left goes with what has none, so that segments are seldom rewritten


def size(namespaces: Namespaces) -> int:
    """Return the bytes that all documents take."""
    return sum(segment.nbytes for segments in namespaces.values() for segment in segments)


def without_names(namespaces: Namespaces, namespace: str, names: set[str]) -> Namespaces:
    """Return what is left without the documents of these names in a namespace."""
    if not names or namespace not in namespaces:
        return namespaces

    def kept(segment: Segment) -> NDArray[np.bool_] | None:
        known = segment.documents
        return None if known.named.isdisjoint(names) else np.array([name not in names for name in known.names])

    return namespaces | {namespace: _filtered(namespaces[namespace], kept)}


def without_expired(namespaces: Namespaces, now: float, expiry: float | None) -> Namespaces:
    """Return what is left at a time, in seconds, when documents are used for `expiry` seconds at most."""
    if expiry is None:
        return namespaces
    limit = now - expiry + expiry / _EARLY
    changed = {
        name: _filtered(segments, lambda segment: segment.documents.added > limit)
        for name, segments in namespaces.items()
        if any(segment.oldest <= now - expiry for segment in segments)
    }
    return namespaces | changed if changed else namespaces


def with_room(namespaces: Namespaces, needed: int, budget: int | None) -> Namespaces:
    """Return what is left when the least recently useful documents make room for as many bytes more.

    Raises:
        ValueError: So many bytes exceed the budget by themselves.
    """
    if budget is None or size(namespaces) + needed <= budget:
        return namespaces
    if needed > budget:
        raise ValueError(f"documents take {needed} bytes, more than the budget of {budget}: add fewer, or raise it")
    segments = [segment for parts in namespaces.values() for segment in parts]
    sizes = np.concatenate([segment.sizes for segment in segments])
    order = np.argsort(np.concatenate([segment.documents.useful for segment in segments]), kind="stable")
    excess = size(namespaces) + needed - (budget - budget // _SPARE)
    kept = np.ones(len(sizes), np.bool_)
    kept[order[: 1 + np.searchsorted(np.cumsum(sizes[order]), excess)]] = False
    masks = iter(np.split(kept, np.cumsum([len(segment) for segment in segments])[:-1]))
    return {name: _filtered(parts, lambda _: next(masks)) for name, parts in namespaces.items()}


def without_empty(namespaces: Namespaces) -> Namespaces:
    """Return the namespaces that have documents."""
    return {name: segments for name, segments in namespaces.items() if segments}


def mergeable(segments: Segments, most: int = MAX_POSITIONS) -> Segments:
    """Return the last segments that are to become one of `most` positions, so that each has more than four times the
    tokens of all behind it; none where it is so already.
    """
    first, positions = len(segments) - 1, 0
    for number in range(len(segments) - 1, -1, -1):
        larger = len(segments[number].tokens)
        if positions and (larger > _MERGED * positions or larger + positions > most):
            break
        first, positions = number, positions + larger
    return segments[first:] if first < len(segments) - 1 else ()


def replaced(segments: Segments, old: Segments, new: Segment) -> Segments | None:
    """Return the segments with one in the place of several that follow each other; None if they are gone.

    When each document was last useful is taken from the old ones as it is now.
    """
    for first in range(len(segments) - len(old) + 1):
        if all(one is other for one, other in zip(segments[first:], old, strict=False)):
            np.concatenate([segment.documents.useful for segment in old], out=new.documents.useful)
            return (*segments[:first], new, *segments[first + len(old) :])
    return None


def _filtered(segments: Segments, kept: Callable[[Segment], NDArray[np.bool_] | None]) -> Segments:
    """The segments with the documents that `kept` says, bool [documents] for each, or None for all."""
    masks = [kept(segment) for segment in segments]
    left = [segment if mask is None else segment.keep(mask) for segment, mask in zip(segments, masks, strict=True)]
    return tuple(segment for segment in left if segment is not None)
