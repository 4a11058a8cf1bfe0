"""CostCurve: the seconds of one step of the target model by its width."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WIDEST = 2**30
_MOST_RATIO = 1e6  # of the dearest step to the cheapest: no machine is beyond it
MOST_COST = 1e3  # plain steps a draft token: a hundred of them are within that ratio


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Seconds of a step by its width, the tokens in the forward pass: draft + 1.

    Between the given widths it is linear, and beyond the last it goes on with the last slope, where that rises.

    Attributes:
        widths: Whole numbers, increasing from 1.
        seconds: As many, above 0; any unit serves where only ratios matter, and these are at most a million.

    Raises:
        ValueError: The points make no curve.

    Example:
        >>> CostCurve((1, 2, 4), (1.0, 1.6, 2.0)).at(3)
        1.8
    """

    widths: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.seconds) or not self.widths:
            raise ValueError(f"a cost curve needs one cost per width, got {len(self.seconds)} for {len(self.widths)}")
        if self.widths[0] != 1 or any(b <= a for a, b in zip(self.widths, self.widths[1:], strict=False)):
            raise ValueError(f"the widths of a cost curve must increase from 1, got {list(self.widths)}")
        if self.widths[-1] > _WIDEST:
            raise ValueError(f"the widths of a cost curve must be at most {_WIDEST} tokens, got {self.widths[-1]}")
        if not all(0 < cost < float("inf") for cost in self.seconds):
            raise ValueError(f"the costs of a cost curve must be above 0, got {list(self.seconds)}")
        if max(self.seconds) / _MOST_RATIO > min(self.seconds):
            raise ValueError(
                f"the dearest step of a cost curve must cost at most {_MOST_RATIO:.0f} times the cheapest, got "
                f"{max(self.seconds)} and {min(self.seconds)}: give all in the same unit"
            )

    @classmethod
    def linear(cls, cost: float) -> "CostCurve":
        """Return the curve on which each draft token adds ``cost`` of a plain step.

        Example:
            >>> CostCurve.linear(0.1).at(11)
            2.0
        """
        if not 0 <= cost <= MOST_COST:
            raise ValueError(f"cost must be from 0 to {MOST_COST:.0f} plain steps per draft token, got {cost}")
        return cls((1, 101), (1.0, 1.0 + 100 * cost))

    @classmethod
    def from_points(cls, points: Iterable[Iterable[float]]) -> "CostCurve":
        """Return the curve through pairs of width and seconds, as they are stored in files."""
        pairs = [_pair(point) for point in points]
        return cls(tuple(width for width, _ in pairs), tuple(cost for _, cost in pairs))

    def at(self, width: int) -> float:
        """Return the seconds of a step of ``width`` tokens."""
        return float(self.table(width)[width])

    def table(self, max_width: int) -> NDArray[np.float64]:
        """Return the seconds of all widths up to ``max_width``, by width; index 0 stands for nothing and costs 0.

        Example:
            >>> CostCurve((1, 2), (1.0, 1.5)).table(3).tolist()
            [0.0, 1.0, 1.5, 2.0]
        """
        widths = np.arange(max_width + 1)
        table = np.interp(widths, self.widths, self.seconds)
        table += self._last_slope() * np.maximum(widths - self.widths[-1], 0)
        table[0] = 0.0
        return table

    def _last_slope(self) -> float:
        """Return what a token more costs beyond the last width; less than nothing would pay for a step some day."""
        if len(self.widths) == 1:
            return 0.0
        return max(0.0, (self.seconds[-1] - self.seconds[-2]) / (self.widths[-1] - self.widths[-2]))


def _pair(point: Any) -> tuple[int, float]:
    """Return width and seconds as numbers; a width such as 2.0 is whole too."""
    if isinstance(point, str) or not isinstance(point, Iterable) or len(pair := tuple(point)) != 2:
        raise ValueError(f"a cost curve is a list of pairs [width, seconds], got {point!r:.60}")
    width, cost = pair
    if isinstance(width, bool) or not (width.is_integer() if isinstance(width, float) else isinstance(width, Integral)):
        raise ValueError(f"the widths of a cost curve must be whole numbers of tokens, got {width!r:.60}")
    if isinstance(cost, bool) or not isinstance(cost, Real):
        raise ValueError(f"the costs of a cost curve must be numbers, got {cost!r:.60}")
    return int(width), float(cost)


def read_curves(path: Path) -> dict[str, CostCurve]:
    """Read a JSON file of curves by name, each a list of pairs [width, seconds]; entries that are text are notes.

    Raises:
        OSError: The file can't be read.
        ValueError: It holds no curves.
    """
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entries, dict):
        raise ValueError("cost curves must stand in a JSON object, by name")
    curves = {name: _named_curve(name, points) for name, points in entries.items() if isinstance(points, list)}
    if not curves:
        raise ValueError('there is no curve in it, such as {"cpu": [[1, 0.05], [8, 0.07]]}')
    return curves


def _named_curve(name: str, points: list[Any]) -> CostCurve:
    try:
        return CostCurve.from_points(points)
    except ValueError as error:
        raise ValueError(f"in {name!r}, {error}") from None
