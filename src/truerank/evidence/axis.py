"""GOM's threshold axis: tau in [0, 1] for every distance, and the exact cut for every tau."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.engine.cuts import largest_float
from truerank.engine.watch import LARGEST
from truerank.jit import kernel
from truerank.space import Distances

__all__ = ["STEPS", "Axis"]

STEPS = 5000
"""Equal thresholds at which accepted pairs are counted; they hold the 1,001 points of a curve and
the 101 of a trapezoid, and are closer than 4,096 of them."""


@dataclass(frozen=True)
class Axis:
    """tau = (d - low) / width, no more than 1; the width is not 0."""

    low: float
    width: float
    steps: int = STEPS

    def tau(self, distances: Distances) -> Distances:
        """The threshold at which each distance is first accepted."""
        return np.minimum((distances - self.low) / self.width, 1.0)

    def cut(self, tau: Fraction) -> float:
        """The largest distance accepted at tau; at 1 everything is."""
        if tau >= 1:
            return float(LARGEST)
        if (self.low, self.width) == (0.0, 1.0):  # given as float64: so is the threshold
            return float(tau)
        return largest_float(Fraction(self.low) + tau * Fraction(self.width))

    def grid(self) -> Distances:
        """The cuts of 0, 1/steps, ..., 1."""
        return _grid(self)

    def count(
        self, distances: Distances, grid: Distances, *, compiled: bool
    ) -> npt.NDArray[np.int32]:
        """(rows, steps + 1): distances accepted at each cut of the grid."""
        counts = np.zeros((len(distances), self.steps + 2), np.int32)
        if compiled and self.width > 1e-290:
            # A little less than the true scale: a distance's place is never overestimated, and the
            # comparison with one cut settles it.
            scale = self.steps / self.width * (1 - 2.0**-40)
            _count(distances, grid, self.low, scale, counts)
        else:
            for row, mine in zip(distances, counts, strict=True):
                found = np.bincount(np.searchsorted(grid, row), minlength=self.steps + 2)
                mine += found.cumsum()
        return counts[:, :-1]


@lru_cache(maxsize=4)
def _grid(axis: Axis) -> Distances:
    return np.array([axis.cut(Fraction(step, axis.steps)) for step in range(axis.steps + 1)])


@kernel
def _count(distances: Any, grid: Any, low: float, scale: float, counts: Any) -> None:
    last = grid.size - 1
    limit = float(last - 1)
    for q in range(distances.shape[0]):
        row = distances[q]
        mine = counts[q]
        for item in range(row.size):
            d = row[item]
            if d <= grid[0]:
                mine[0] += 1
                continue
            place = int(min((d - low) * scale, limit)) + 1
            if d > grid[place]:
                place += 1
            mine[place] += 1
        total = np.int32(0)
        for place in range(mine.size):
            total = np.int32(total + mine[place])
            mine[place] = total
