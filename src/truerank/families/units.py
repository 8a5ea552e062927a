"""Thresholds in a user's unit, and the distances that they accept."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from truerank.engine.cuts import largest_float
from truerank.space import Space

__all__ = ["Units"]


@dataclass(frozen=True)
class Units:
    """From the unit of a distance to the numbers of a space, and back."""

    space: Space

    def cut(self, threshold: Fraction) -> float:
        """The largest distance that a threshold in the distance's own unit accepts."""
        return largest_float(self.space.raw(threshold))

    def in_unit(self, distance: float | None) -> float | None:
        """A distance in the user's unit; None if there is none."""
        if distance is None or not np.isfinite(distance):
            return None
        return float(self.space.in_unit(np.array([distance]))[0])
