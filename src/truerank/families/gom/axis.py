"""GOM's threshold axis: tau in [0, 1] for every distance, and the exact cut for every tau.

A rescaled axis starts from distances in the user's unit. Where a space has their squares, the roots
are taken first, each the nearest float64; the axis and its cuts are of these roots.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from truerank.engine.cuts import largest_float
from truerank.engine.distance_block import LARGEST, DistanceBlock
from truerank.space import Distances

__all__ = ["STEPS", "Axis"]

STEPS = 5000
"""Equal thresholds at which accepted pairs are counted. The 1,001 points of a curve and the 101 of
a trapezoid are among them (both step evenly through 5,000)."""


@dataclass(frozen=True)
class Axis:
    """tau = (d - low) / width, no more than 1; the width is not 0."""

    low: float
    width: float
    steps: int = STEPS
    squared: bool = False
    """Whether the space has the squares of the distances d."""

    @staticmethod
    def between(low: float, high: float, *, squared: bool) -> Axis:
        """The axis from one distance of a space to another; all of it if they are one."""
        if squared:
            low, high = float(np.sqrt(low)), float(np.sqrt(high))
        return Axis(low, (high - low) or 1.0, squared=squared)

    def on(self, distances: Distances) -> Distances:
        """The distances d of those of a space."""
        return np.sqrt(distances) if self.squared else distances

    def block(self, block: DistanceBlock) -> DistanceBlock:
        """A block with the distances d of those of a space."""
        return block.rooted() if self.squared else block

    def tau(self, distances: Distances) -> Distances:
        """The threshold at which each distance is first accepted."""
        return np.minimum((distances - self.low) / self.width, 1.0)

    def cut(self, tau: Fraction) -> float:
        """The largest distance accepted at tau; at 1 everything is."""
        if tau >= 1:
            return LARGEST
        if (self.low, self.width) == (0.0, 1.0):  # given as float64: so is the threshold
            return float(tau)
        return largest_float(Fraction(self.low) + tau * Fraction(self.width))

    def grid(self) -> Distances:
        """The cuts of 0, 1/steps, ..., 1."""
        return _grid(self)


@lru_cache(maxsize=4)
def _grid(axis: Axis) -> Distances:
    return np.array([axis.cut(Fraction(step, axis.steps)) for step in range(axis.steps + 1)])
