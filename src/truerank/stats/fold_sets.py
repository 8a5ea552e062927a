"""The folds of several units of intervals side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core.folds import MOST_SINGLY, FoldAssignment, GalleryFolds
from truerank.settings import current_limits
from truerank.stats.units import Unit

__all__ = ["FoldSets", "most_counted"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MOST_COUNTED = 1 << 16
"""An eighth of the queries with few mates is counted by fold, but, without limits, no more."""
MOST_CELLS, LEAST_COUNTED = 6_000_000, 512
"""Most mates x folds of the queries counted by fold; and queries that are counted all the same."""


def most_counted(mates: Integers, units: int) -> int:
    """How many queries are counted by fold, of those that have so many mates each."""
    count = max(current_limits().counted, min(len(mates) // 8, MOST_COUNTED))
    average = float(mates.mean()) if len(mates) else 1.0
    return min(count, max(LEAST_COUNTED, int(MOST_CELLS / average / min(units, MOST_SINGLY))))


@dataclass(frozen=True)
class FoldSets:
    """The folds of several units side by side, as columns of one table."""

    folds: dict[Unit, FoldAssignment]

    @property
    def columns(self) -> int:
        """The columns of all units together."""
        return sum(folds.columns for folds in self.folds.values())

    def of(self, unit: Unit) -> slice:
        """The columns of one unit."""
        start = 0
        for other, folds in self.folds.items():
            if other == unit:
                return slice(start, start + folds.columns)
            start += folds.columns
        raise KeyError(unit)

    def gallery(self, queries: Flags) -> GalleryFolds:
        """The folds by which the engine is to count, for these queries."""
        ways = [folds.items + self.of(unit).start for unit, folds in self.folds.items()]
        item = np.ascontiguousarray(np.hstack(ways).astype(np.int16))
        return GalleryFolds(item, self.columns, queries)

    def some(self, units: set[Unit]) -> FoldSets:
        """The folds of some of the units."""
        return FoldSets({unit: folds for unit, folds in self.folds.items() if unit in units})

    def sample(self, rows: Integers, count: int) -> Integers:
        """A sample of these queries; what units there are does not matter."""
        return next(iter(self.folds.values())).sample(rows, count)

    def in_order(self, rows: Integers) -> Integers:
        """These queries in the order in which samples take them."""
        return next(iter(self.folds.values())).in_order(rows)
