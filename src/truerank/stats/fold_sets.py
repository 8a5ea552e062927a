"""The folds of several units of intervals side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FoldAssignment, GalleryFolds
from truerank.stats.units import Unit

__all__ = ["FoldSets"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


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
