"""Handle: one number by which a kernel finds all arrays of a proposer."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookahead.automaton import Automaton
from lookahead.candidates import MAX_CANDIDATES, MAX_DEPTH, Candidates
from lookahead.features import FEATURES, STATES
from lookahead.kernels import part
from lookahead.planning import Plan
from lookahead.replacements import MAX_SWAPS
from lookahead.views import address_of, flat_float64, flat_int32, flat_int64, table_int8, table_int32, table_int64

# Entries: addresses of the arrays that grow or differ in length, each followed by its rows; of the others; and numbers.
_TEXT, _NODES, _EDGES, _DOCUMENTS, _LIMITS = range(0, 10, 2)
_REGISTERS, _SWAPS, _TRAIL, _CANDIDATES = range(10, 14)
_PLAN = _CANDIDATES + len(Candidates._fields)
TEXT_START = _PLAN + len(Plan._fields)
LEAST, VOCABULARY = TEXT_START + 1, TEXT_START + 2
_ENTRIES = VOCABULARY + 1


class Standing(NamedTuple):
    """The arrays of one proposer, as the kernels of one step take them, and `numbers`: the entries of its handle."""

    index: Automaton  # type: ignore[assignment]
    documents: np.ndarray
    limits: np.ndarray
    swaps: np.ndarray
    trail: np.ndarray
    candidates: Candidates
    plan: Plan
    numbers: np.ndarray


class Handle:
    """Where a proposer's arrays lie.

    It keeps the arrays that it points to, so that it never points to freed memory.

    Args:
        fixed: Arrays that stay: `documents`, `limits`, `swaps`, `trail`, those of the candidates and of the plan.
        text_start: Where the prompt starts in the index.
        least: The shortest match that is copied from.
        vocabulary: Ids from here on are no tokens.

    Example:
        >>> from lookahead import LookupConfig
        >>> from lookahead.proposer import LookupProposer
        >>> proposer = LookupProposer(LookupConfig(), [5, 6, 7])
        >>> proposer.handle == proposer.handle
        True
    """

    def __init__(self, fixed: Sequence[NDArray[Any]], text_start: int, least: int, vocabulary: int) -> None:
        self._fixed = tuple(fixed)
        self._index: tuple[NDArray[Any], ...] = ()
        self._entries = np.zeros(_ENTRIES, np.int64)
        self._address = address_of(self._entries)
        documents, limits, *others = self._fixed
        self._entries[_DOCUMENTS : _DOCUMENTS + 2] = address_of(documents), len(documents)
        self._entries[_LIMITS : _LIMITS + 2] = address_of(limits), len(limits)
        self._entries[_SWAPS:TEXT_START] = [address_of(array) for array in others]
        self._entries[TEXT_START:] = text_start, least, vocabulary

    def to(self, index: tuple[NDArray[Any], ...]) -> int:
        """Return the handle, of the arrays of the index as they are now."""
        if index is not self._index:
            self._index = index
            text, nodes, edges, registers = index
            self._entries[: _EDGES + 2] = (
                address_of(text), len(text), address_of(nodes), len(nodes), address_of(edges), len(edges),
            )  # fmt: skip
            self._entries[_REGISTERS] = address_of(registers)
        return self._address

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a copy point to the copied arrays."""
        return Handle, (self._fixed, *self._entries[TEXT_START:].tolist())


@part
def standing(handle):
    """The arrays of the proposer with this handle."""
    at = flat_int64(handle, _ENTRIES)
    index = Automaton(
        flat_int32(at[_TEXT], at[_TEXT + 1]),
        table_int32(at[_NODES], at[_NODES + 1], 8),
        table_int32(at[_EDGES], at[_EDGES + 1], 4),
        flat_int64(at[_REGISTERS], 13),
    )
    candidates = Candidates(
        table_int32(at[_CANDIDATES], MAX_CANDIDATES, MAX_DEPTH),
        table_int8(at[_CANDIDATES + 1], MAX_CANDIDATES, MAX_DEPTH),
        table_int64(at[_CANDIDATES + 2], MAX_CANDIDATES, MAX_DEPTH),
        table_int64(at[_CANDIDATES + 3], MAX_CANDIDATES, MAX_DEPTH + 1),
        table_int64(at[_CANDIDATES + 4], MAX_CANDIDATES, 8),
        table_int64(at[_CANDIDATES + 5], 8, 2),
        flat_int64(at[_CANDIDATES + 6], 1),
    )
    plan = Plan(
        table_int32(at[_PLAN], MAX_CANDIDATES, FEATURES),
        table_int32(at[_PLAN + 1], MAX_DEPTH + 1, FEATURES),
        flat_float64(at[_PLAN + 2], MAX_DEPTH),
        flat_int64(at[_PLAN + 3], 3),
        flat_float64(at[_PLAN + 4], 1),
        flat_int64(at[_PLAN + 5], 2 * STATES),
    )
    return Standing(
        index,
        table_int64(at[_DOCUMENTS], at[_DOCUMENTS + 1], 2),
        table_int64(at[_LIMITS], at[_LIMITS + 1], 2),
        table_int64(at[_SWAPS], MAX_SWAPS, 5),
        flat_int64(at[_TRAIL], 6),
        candidates,
        plan,
        at,
    )
