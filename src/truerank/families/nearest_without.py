"""The nearest candidate of every query without each fold of the classes, exactly.

Where the queries are their own gallery a fold leaves both, and a query's nearest item may go with
it; a gallery of its own stays.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

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
        first, second, which = self._two_nearest[column >= self._folds.own.stop]
        return np.asarray(np.where(which == column, second, first), np.float64)

    @cached_property
    def within(self) -> Integers:
        """(queries, columns): items of every fold up to the query's limit."""
        if self._split is None:
            raise LookupError("a gallery of its own has no folds")
        return self._split.within

    @cached_property
    def _two_nearest(self) -> list[tuple[Distances, Distances, Integers]]:
        """In each way: the nearest item, that of another fold, and the column of the nearest."""
        found = []
        assert self._split is not None
        for way in (self._folds.own, self._folds.paired):
            table = self._split.least[:, way]
            which = np.argmin(table, axis=1)
            least = table[np.arange(len(table)), which]
            table[np.arange(len(table)), which] = np.inf
            found.append((least, table.min(axis=1), which + way.start))
        return found
