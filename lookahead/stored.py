"""Stored: checks of arrays that come from a file."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAST, MOST = 1e-18, 1e18
"""What is between these can be multiplied and divided; nothing that is measured comes near them."""


class Numbers(NamedTuple):
    """The shape of an array, and the range of its numbers: the least of all or of each in the last dimension."""

    shape: tuple[int, ...]
    least: float | tuple[float, ...] = 0.0
    most: float = MOST


def check_format(state: Mapping[str, NDArray[Any]], wanted: int) -> None:
    """Refuse arrays that another version wrote.

    Raises:
        KeyError: There is no ``format``.
        ValueError: It is not the wanted one.

    Example:
        >>> check_format({"format": np.array([1])}, 1)
    """
    if state["format"].tolist() != [wanted]:
        raise ValueError(f"its format is {state['format'].tolist()}, not [{wanted}]")


def check_numbers(state: Mapping[str, NDArray[Any]], wanted: Mapping[str, Numbers]) -> None:
    """Refuse arrays of another shape, and numbers that are out of range.

    Raises:
        KeyError: An array is missing.
        ValueError: One is wrong.

    Example:
        >>> check_numbers({"mean": np.ones((2, 3))}, {"mean": Numbers((2, 3), LEAST)})
    """
    for name, (shape, least, most) in wanted.items():
        array = state[name]
        if array.shape != shape or array.dtype.kind not in "fiu" or not np.all((array >= least) & (array <= most)):
            raise ValueError(f"{name} must be numbers of shape {shape}, from {least} to {most}")


def check_whole(state: Mapping[str, NDArray[Any]], name: str, longest: int, most: int) -> None:
    """Refuse anything but a flat array of up to `longest` whole numbers from 0 to `most`.

    Raises:
        KeyError: The array is missing.
        ValueError: It is another one.

    Example:
        >>> check_whole({"opening": np.array([5, 6])}, "opening", longest=16, most=100)
    """
    whole = state[name]
    is_flat = whole.ndim == 1 and len(whole) <= longest and whole.dtype.kind in "iu"
    if not is_flat or not np.all((whole >= 0) & (whole <= most)):
        raise ValueError(f"{name} must be up to {longest} whole numbers from 0 to {most}")
