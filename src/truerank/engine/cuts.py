"""Cuts: thresholds in ascending order, and how many distances fall between each two of them.

Which cut a distance belongs to is decided by comparing float64 values, so counts are exact; a table
over equal cells of the range only says where to look.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from truerank.engine import tally_kernels
from truerank.space import Distances

__all__ = ["Cuts", "largest_float", "tally"]

Integers = npt.NDArray[np.int64]
CELLS = 4
"""Cells of the table for each cut: most cells hold none or one."""
LEAST_CELLS, MOST_CELLS = 1 << 15, 1 << 22
SELDOM = 16
"""Where no cell holds more cuts than this, cells with more than a few are too rare to mind."""


@dataclass(frozen=True)
class Cuts:
    """Distinct thresholds; cell c of the table holds those from start[c] to start[c + 1]."""

    at: Distances
    start: npt.NDArray[np.int32]
    low: float
    scale: float

    @staticmethod
    def of(thresholds: Distances) -> Cuts:
        """Thresholds sorted and made distinct; at least one is needed."""
        at = np.unique(thresholds)
        cells = min(MOST_CELLS, max(LEAST_CELLS, CELLS * len(at)))
        low = float(at[0])
        with np.errstate(over="ignore"):
            width = float(at[-1]) - low
        scale = cells / width if 0 < width < np.inf else 0.0
        scale = scale if scale < np.inf else 0.0
        # Rounding is monotone: a cut in an earlier cell than a distance is smaller than it.
        cell = np.minimum((at - low) * scale, cells).astype(np.int64)
        start = np.searchsorted(cell, np.arange(cells + 2)).astype(np.int32)
        return Cuts(at, start, low, scale)

    def __len__(self) -> int:
        return len(self.at)

    @cached_property
    def most(self) -> int:
        """Cuts in the fullest cell."""
        return int(np.diff(self.start).max())

    @cached_property
    def table(self) -> tuple[Distances, npt.NDArray[np.int32], float, float, bool]:
        """What tally_kernels look distances up in."""
        bounds = np.append(self.at, np.inf)
        return bounds, self.start, self.low, self.scale, self.most > SELDOM

    def where(self, threshold: float) -> int:
        """The position of a threshold that is one of the cuts."""
        return int(np.searchsorted(self.at, threshold))


def largest_float(threshold: Fraction) -> float:
    """The largest float64 that does not exceed a rational number."""
    try:
        nearest = threshold.numerator / threshold.denominator
    except OverflowError:
        return math.inf if threshold > 0 else -sys.float_info.max
    return nearest if Fraction(nearest) <= threshold else math.nextafter(nearest, -math.inf)


def tally(
    distances: Distances,
    cuts: Cuts,
    owner: Integers,
    counts: npt.NDArray[np.integer],
    *,
    compiled: bool,
    times: int = 1,
) -> None:
    """counts[owner of the row, k] += finite distances in (cut k-1, cut k], the last k above all.

    Each distance counts so many times.
    """
    if compiled:
        tally_kernels.tally(distances, *cuts.table, owner, times, counts)
        return
    for row, number in zip(distances, owner, strict=True):
        place = np.searchsorted(cuts.at, row[row < np.inf], side="left")
        counts[number] += times * np.bincount(place, minlength=len(cuts) + 1)
