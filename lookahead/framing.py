"""Frame: what a model writes around a text that it was expected to repeat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Tokens: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]

_ANCHOR, LONGEST = 4, 16


@dataclass(frozen=True, slots=True)
class Frame:
    """Tokens before and after the repeated text: an opening and a closing fence, an end token.

    A service asks for the same kind of output again and again, so the frame of one output is expected around the
    prediction of the next.

    Example:
        >>> Frame().after([9, 8, 1, 2, 3, 4, 5, 7], prediction=[1, 2, 3, 4, 5])
        Frame(opening=(9, 8), closing=(7,))
    """

    opening: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()

    def after(self, output: _Tokens, prediction: _Tokens) -> "Frame":
        """Return what ``output`` has around ``prediction``, and this frame's side where it doesn't repeat that end."""
        output, last = list(output), len(output) - _ANCHOR
        if len(prediction) < _ANCHOR or last < 0:
            return self
        start, end = list(prediction[:_ANCHOR]), list(prediction[-_ANCHOR:])
        openings = [i for i in range(min(LONGEST, last) + 1) if output[i : i + _ANCHOR] == start]
        closings = [i for i in range(max(last - LONGEST, 0), last + 1) if output[i : i + _ANCHOR] == end]
        return Frame(
            tuple(output[: openings[0]]) if openings else self.opening,
            tuple(output[closings[-1] + _ANCHOR :]) if closings else self.closing,
        )

    def around(self, prediction: _Tokens) -> list[int]:
        """Return the prediction with the frame around it."""
        return [*self.opening, *prediction, *self.closing]
