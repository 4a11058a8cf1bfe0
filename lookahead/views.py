"""Views: arrays that a kernel finds by their addresses instead of taking them as arguments.

Handing over an array costs a compiled function a good part of a microsecond, and a step may need fifty. So the
addresses of arrays that belong together stand in an array of their own, and its address stands for them all.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray


class Addresses:
    """Where some arrays lie, and numbers beside them.

    It keeps the arrays, so that no kernel is led to freed memory; a copy leads to the copied arrays.

    Args:
        arrays: What is pointed to, contiguous each.
        numbers: Entries behind the addresses.

    Attributes:
        entries: int64, the addresses and the numbers.
        handle: The address of the entries, by which a kernel finds them.

    Raises:
        ValueError: An array is not contiguous.

    Example:
        >>> places = Addresses([np.zeros(3)])
        >>> places.handle == address_of(places.entries), len(places.entries)
        (True, 1)
    """

    def __init__(self, arrays: Sequence[NDArray[Any]], numbers: Sequence[int] = ()) -> None:
        self._arrays = tuple(arrays)
        if not all(array.flags.c_contiguous for array in self._arrays):
            raise ValueError("arrays must be contiguous: copy those that are not with np.ascontiguousarray")
        self.entries = np.array([*map(address_of, self._arrays), *numbers], np.int64)
        self.handle = address_of(self.entries)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a copy point to the copied arrays."""
        return Addresses, (self._arrays, self.entries[len(self._arrays) :].tolist())


def address_of(array: NDArray[Any]) -> int:
    """Return where an array's elements begin."""
    return int(array.__array_interface__["data"][0])


def _viewer(dtype: Any, dimensions: int) -> Any:
    """Return a function for kernels that gives the array at an address: of (address, rows[, columns]), contiguous.

    Numba's own `carray` returns an array from a compiled function, which kernels that count no references can't do.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
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


flat_int32, flat_int64, flat_float64 = _viewer(np.int32, 1), _viewer(np.int64, 1), _viewer(np.float64, 1)
table_int8, table_int32 = _viewer(np.int8, 2), _viewer(np.int32, 2)
table_int64, table_float64 = _viewer(np.int64, 2), _viewer(np.float64, 2)
