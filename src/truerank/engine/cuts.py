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
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.jit import kernel
from truerank.space import Distances

__all__ = ["Cuts", "largest_float", "place", "tally"]

Integers = npt.NDArray[np.int64]
CELLS = 4
"""Cells of the table for each cut: most cells hold none or one."""
LEAST_CELLS, MOST_CELLS = 1 << 15, 1 << 22
SHORT = 4
"""Up to this many cuts in a cell are looked at one by one."""
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
    def bounds(self) -> Distances:
        """The cuts, and infinity behind them."""
        return np.append(self.at, np.inf)

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
        table = (cuts.bounds, cuts.start, cuts.low, cuts.scale, cuts.most > SELDOM)
        _tally(distances, *table, owner, times, counts)
        return
    for row, number in zip(distances, owner, strict=True):
        place = np.searchsorted(cuts.at, row[row < np.inf], side="left")
        counts[number] += times * np.bincount(place, minlength=len(cuts) + 1)


@kernel
def place(d: float, at: Any, start: Any, low: float, scale: float) -> int:
    """The first cut that a distance does not exceed; it must not exceed the last."""
    cell = int(min(max((d - low) * scale, 0.0), float(start.size - 2)))
    first = start[cell]
    last = start[cell + 1]
    if first < last:
        first = narrowed(d, at, first, last)
        while first < last and at[first] < d:
            first += 1
    return int(first)


@kernel
def _tally(
    distances: Any,
    bounds: Any,
    start: Any,
    low: float,
    scale: float,
    crowded: bool,
    owner: Any,
    times: int,
    counts: Any,
) -> None:
    """See tally; `bounds` are the cuts and infinity, so that no search runs beyond their end."""
    last = bounds.size - 1
    highest = bounds[last - 1]
    beyond = float(start.size - 2)
    near = np.empty(distances.shape[1] + 1)
    cell = np.empty(distances.shape[1], np.uint32)
    for q in range(distances.shape[0]):
        row = distances[q]
        mine = counts[owner[q]]
        met = 0
        inside = 0
        for item in range(row.size):
            met += row[item] < np.inf
            inside += row[item] <= highest
        some = row
        if 2 * inside < row.size:  # few: a list without a branch that is guessed wrong
            count = np.uint64(0)
            for item in range(row.size):
                near[count] = row[item]
                count += np.uint64(row[item] <= highest)
            some = near[:inside]
            mine[last] += times * (row.size - inside)
        mine[last] -= times * (row.size - met)  # what never meets is taken for what lies beyond
        for i in range(some.size):
            d = min(some[i], highest)
            cell[i] = np.uint32(np.int32(min(max((d - low) * scale, 0.0), beyond)))
        for i in range(some.size):
            d = some[i]
            first = np.uint32(start[cell[i]])
            if crowded:
                first = narrowed(d, bounds, first, np.uint32(start[cell[i] + np.uint32(1)]))
            while bounds[first] < d:  # cuts of later cells are larger
                first += np.uint32(1)
            mine[first] += times


@kernel
def narrowed(d: float, at: Any, first: Any, end: Any) -> Any:
    """A cut, few before the first one from `first` to `end` that a distance does not exceed."""
    while first + SHORT < end:
        middle = (first + end) // np.uint32(2)
        if at[middle] < d:
            first = middle + np.uint32(1)
        else:
            end = middle
    return first
