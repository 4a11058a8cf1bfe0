"""Stored: checks of arrays that come from a file."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def check_numbers(state: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse arrays of another shape, and numbers that are not finite.

    Raises:
        KeyError: An array is missing.
        ValueError: One is wrong.

    Example:
        >>> check_numbers({"mean": np.zeros((2, 3))}, {"mean": (2, 3)})
    """
    for name, shape in shapes.items():
        if state[name].shape != shape or not np.isfinite(state[name]).all():
            raise ValueError(f"{name} must be finite numbers of shape {shape}")
