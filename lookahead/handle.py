"""Handle: one number by which a kernel finds all arrays of a proposer.

A kernel over many proposers can't take their arrays as arguments: handing over the thirty of one costs a compiled
function more time than the work on them. So the addresses stand in an array of their own, whose address is the handle.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

from lookahead.automaton import Automaton
from lookahead.candidates import MAX_CANDIDATES, MAX_DEPTH, Candidates
from lookahead.features import FEATURES
from lookahead.kernels import part
from lookahead.planning import Plan
from lookahead.replacements import MAX_SWAPS

# Entries: addresses of the arrays that grow or differ in length, each followed by its rows; of the others; and numbers.
_TEXT, _NODES, _EDGES, _DOCUMENTS, _LIMITS = range(0, 10, 2)
_REGISTERS, _SWAPS, _TRAIL, _CANDIDATES = range(10, 14)
_PLAN = _CANDIDATES + len(Candidates._fields)
TEXT_START = _PLAN + len(Plan._fields)
LEAST, VOCABULARY = TEXT_START + 1, TEXT_START + 2
_ENTRIES = VOCABULARY + 1


class Standing(NamedTuple):
    """The arrays of one proposer, as the kernels of one step take them, and `numbers`: the entries of its handle."""

    index: Automaton
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
        self._address = _address(self._entries)
        documents, limits, *others = self._fixed
        self._entries[_DOCUMENTS : _DOCUMENTS + 2] = _address(documents), len(documents)
        self._entries[_LIMITS : _LIMITS + 2] = _address(limits), len(limits)
        self._entries[_SWAPS:TEXT_START] = [_address(array) for array in others]
        self._entries[TEXT_START:] = text_start, least, vocabulary

    def to(self, index: tuple[NDArray[Any], ...]) -> int:
        """Return the handle, of the arrays of the index as they are now."""
        if index is not self._index:
            self._index = index
            text, nodes, edges, registers = index
            self._entries[: _EDGES + 2] = (
                _address(text), len(text), _address(nodes), len(nodes), _address(edges), len(edges),
            )  # fmt: skip
            self._entries[_REGISTERS] = _address(registers)
        return self._address

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a copy point to the copied arrays."""
        return Handle, (self._fixed, *self._entries[TEXT_START:].tolist())


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _viewer(dtype: Any, dimensions: int) -> Any:
    """Return a function for kernels that gives the array at an address: of (address, rows[, columns]), contiguous.

    Numba's own `carray` returns an array from a compiled function, which kernels that count no references can't do.
    """
    if numba.config.DISABLE_JIT:
        return lambda address, *shape: numba.carray(ctypes.c_void_p(int(address)), shape, dtype)
    made = types.Array(numba.from_dtype(np.dtype(dtype)), dimensions, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, *shape = arguments
        itemsize = context.get_constant(types.intp, np.dtype(dtype).itemsize)
        strides = [builder.mul(shape[1], itemsize), itemsize] if dimensions == 2 else [itemsize]
        array = context.make_array(made)(context, builder)
        data = builder.inttoptr(address, array.data.type)
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
        return array._getvalue()

    def of_rows(context: Any, address: Any, rows: Any) -> Any:
        return made(types.int64, types.intp), generate

    def of_table(context: Any, address: Any, rows: Any, columns: Any) -> Any:
        return made(types.int64, types.intp, types.intp), generate

    return intrinsic(of_table if dimensions == 2 else of_rows)


_flat_int32, _flat_int64, _flat_float64 = _viewer(np.int32, 1), _viewer(np.int64, 1), _viewer(np.float64, 1)
_int8, _int32, _int64 = _viewer(np.int8, 2), _viewer(np.int32, 2), _viewer(np.int64, 2)


@part
def standing(handle):
    """The arrays of the proposer with this handle."""
    at = _flat_int64(handle, _ENTRIES)
    index = Automaton(
        _flat_int32(at[_TEXT], at[_TEXT + 1]),
        _int32(at[_NODES], at[_NODES + 1], 8),
        _int32(at[_EDGES], at[_EDGES + 1], 4),
        _flat_int64(at[_REGISTERS], 13),
    )
    candidates = Candidates(
        _int32(at[_CANDIDATES], MAX_CANDIDATES, MAX_DEPTH),
        _int8(at[_CANDIDATES + 1], MAX_CANDIDATES, MAX_DEPTH),
        _int64(at[_CANDIDATES + 2], MAX_CANDIDATES, MAX_DEPTH),
        _int64(at[_CANDIDATES + 3], MAX_CANDIDATES, MAX_DEPTH + 1),
        _int64(at[_CANDIDATES + 4], MAX_CANDIDATES, 8),
        _int64(at[_CANDIDATES + 5], 8, 2),
        _flat_int64(at[_CANDIDATES + 6], 1),
    )
    plan = Plan(
        _int32(at[_PLAN], MAX_CANDIDATES, FEATURES),
        _int32(at[_PLAN + 1], MAX_DEPTH + 1, FEATURES),
        _flat_float64(at[_PLAN + 2], MAX_DEPTH),
        _flat_int64(at[_PLAN + 3], 3),
        _flat_float64(at[_PLAN + 4], 1),
        _flat_int64(at[_PLAN + 5], 3),
        _flat_float64(at[_PLAN + 6], MAX_DEPTH),
        _int64(at[_PLAN + 7], MAX_DEPTH, 3),
    )
    return Standing(
        index,
        _int64(at[_DOCUMENTS], at[_DOCUMENTS + 1], 2),
        _int64(at[_LIMITS], at[_LIMITS + 1], 2),
        _int64(at[_SWAPS], MAX_SWAPS, 5),
        _flat_int64(at[_TRAIL], 5),
        candidates,
        plan,
        at,
    )
