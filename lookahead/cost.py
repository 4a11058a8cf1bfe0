"""CostCurve: the seconds of one step of the target model by its width."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Seconds of a step by its width, the tokens in the forward pass: draft + 1.

    Between the given widths it is linear, and beyond the last it goes on with the last slope.

    Attributes:
        widths: Increasing, from 1.
        seconds: As many, above 0; any unit serves where only ratios matter.

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
        if not all(0 < cost < float("inf") for cost in self.seconds):
            raise ValueError(f"the costs of a cost curve must be above 0, got {list(self.seconds)}")

    @classmethod
    def linear(cls, cost: float) -> "CostCurve":
        """Return the curve on which each draft token adds ``cost`` of a plain step.

        Example:
            >>> CostCurve.linear(0.1).at(11)
            2.0
        """
        if cost < 0:
            raise ValueError(f"cost must be at least 0, got {cost}")
        return cls((1, 101), (1.0, 1.0 + 100 * cost))

    @classmethod
    def from_points(cls, points: Iterable[Iterable[float]]) -> "CostCurve":
        """Return the curve through pairs of width and seconds, as they are stored in files."""
        pairs = [tuple(point) for point in points]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("a cost curve is a list of pairs [width, seconds]")
        return cls(tuple(int(width) for width, _ in pairs), tuple(float(cost) for _, cost in pairs))

    def at(self, width: int) -> float:
        """Return the seconds of a step of ``width`` tokens."""
        return float(self.table(width)[width])

    def table(self, max_width: int) -> NDArray[np.float64]:
        """Return the seconds of all widths up to ``max_width``, by width; index 0 stands for nothing and costs 0.

        Example:
            >>> CostCurve((1, 2), (1.0, 1.5)).table(3).tolist()
            [0.0, 1.0, 1.5, 2.0]
        """
        widths, seconds = list(self.widths), list(self.seconds)
        if max_width > widths[-1]:
            slope = (seconds[-1] - seconds[-2]) / (widths[-1] - widths[-2]) if len(widths) > 1 else 0.0
            seconds.append(seconds[-1] + slope * (max_width - widths[-1]))
            widths.append(max_width)
        table = np.interp(np.arange(max_width + 1), widths, seconds)
        table[0] = 0.0
        return table


def read_curves(path: Path) -> dict[str, CostCurve]:
    """Read a JSON file of curves by name, each a list of pairs [width, seconds]; entries that are text are notes.

    Raises:
        OSError: The file can't be read.
        ValueError: It holds no curves.
    """
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entries, dict):
        raise ValueError("cost curves must stand in a JSON object, by name")
    curves = {name: CostCurve.from_points(points) for name, points in entries.items() if isinstance(points, list)}
    if not curves:
        raise ValueError('there is no curve in it, such as {"cpu": [[1, 0.05], [8, 0.07]]}')
    return curves
