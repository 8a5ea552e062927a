"""The nearest candidate of every query without each fold of the classes, exactly.

Where the queries are their own gallery a fold leaves both, and a query's nearest item may go with
it; a gallery of its own stays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core.folds import FoldAssignment
from truerank.engine.fold_observers import NearestByFold
from truerank.engine.observers import ResumableObserver
from truerank.families.family import Context
from truerank.space import Distances

__all__ = ["NearestWithout"]

Integers = npt.NDArray[np.int64]


class NearestWithout:
    """What the pass must see of every fold, and the nearest candidates without each.

    `limit` is a distance for each query: items of every fold up to it are counted as well.
    """

    def __init__(self, context: Context, folds: FoldAssignment, limit: Distances) -> None:
        self._context, self._folds = context, folds
        self._split = (
            NearestByFold(limit, folds.items, folds.columns) if folds.takes_items else None
        )

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs."""
        return [] if self._split is None else [self._split]

    def nearest(self, column: int) -> Distances:
        """The distance of every query's nearest candidate, without a fold."""
        if self._split is None:
            return self._context.nearest.distance
        number = int(column >= self._folds.own.stop)
        first, second, which = self.two_nearest(number)
        mine = column - self.ways[number].start
        return np.asarray(np.where(which == mine, second, first), np.float64)

    @property
    def ways(self) -> list[slice]:
        """The columns of each way in which the gallery is cut into folds; one if it is not."""
        folds = self._folds
        if self._split is None:
            return [slice(0, folds.columns)]
        return [folds.own] if folds.own == folds.paired else [folds.own, folds.paired]

    def two_nearest(self, way: int) -> tuple[Distances, Distances, Integers]:
        """Of every query: the nearest item, that of another fold, and the fold of the nearest."""
        if self._split is None:
            nearest = self._context.nearest.distance
            return nearest, nearest, np.full(len(nearest), -1)
        return self._two_nearest[way]

    @cached_property
    def within(self) -> Integers:
        """(queries, columns): items of every fold up to the query's limit."""
        if self._split is None:
            raise LookupError("a gallery of its own has no folds")
        return self._split.within

    @cached_property
    def _two_nearest(self) -> list[tuple[Distances, Distances, Integers]]:
        found = []
        assert self._split is not None
        every = self._split.least
        for way in self.ways:
            table, rows = every[:, way], np.arange(len(every))
            which = np.argmin(table, axis=1)
            least = table[rows, which]
            table[rows, which] = np.inf
            found.append((least, table.min(axis=1), which))
        return found
