"""Observers that count by fold of the gallery, so that scores without each fold can be told.

Folds are columns of a table. The gallery is cut into folds in one or more ways, and an item counts
in one column of every way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import fill
from truerank.engine.cuts import Cuts
from truerank.engine.distance_block import Columns, DistanceBlock
from truerank.engine.observers import PairObserver, Part, ResumableObserver
from truerank.engine.threads import PerThread, Tables
from truerank.space import Distances, Rows

__all__ = ["NearestByFold", "TallyByFold"]

Integers = npt.NDArray[np.int64]


class TallyByFold(PairObserver, ResumableObserver):
    """Distances up to cuts, for each owner of one side and each fold of the other side.

    With `turned` the items have owners and the queries folds; owners below zero do not count. What
    lies beyond the last cut, and so most pairs, is not counted.
    """

    def __init__(
        self,
        cuts: Cuts,
        owner: Integers,
        owners: int,
        fold: Columns,
        columns: int,
        *,
        turned: bool = False,
    ) -> None:
        self._cuts, self._owner, self._fold, self._turned = cuts, owner, fold, turned
        self._shape = (owners, columns, len(cuts))
        # No more pairs than the largest owner has with the largest fold: small tables stay nearer.
        sizes = (np.bincount(ends) for ends in (owner[owner >= 0], fold.ravel()))
        most = math.prod(int(size.max(initial=0)) for size in sizes)
        kind = np.uint16 if most < 1 << 16 else np.int32
        self._counts = Tables(lambda: np.zeros(self._shape, kind))

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        sides = (block.items, block.rows) if self._turned else (block.rows, block.items)
        owner, fold = self._owner[sides[0]], self._fold[sides[1]]
        borrow = self._counts.borrow
        block.tally_by_fold(self._cuts, owner, fold, self._shape[1], borrow, turned=self._turned)

    def observe_both(self, block: DistanceBlock) -> None:
        """See PairObserver; the queries are the gallery, and have folds as well."""
        if self._turned:
            super().observe_both(block)
            return
        owners = (self._owner[block.rows], self._owner[block.items])
        folds = (self._fold[block.rows], self._fold[block.items])
        block.tally_both_by_fold(self._cuts, owners, folds, self._counts.borrow)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """See ResumableObserver."""
        return {"counts": self._counts.total()}

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """See ResumableObserver."""
        self._counts.put(state["counts"])

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return self._counts.part(None if self._turned else self._owner[rows])

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self._counts.add(part)

    def counts_in(self, column: int) -> Integers:
        """(owners, cuts): distances to items of a fold up to each cut and above the one before."""
        return self._counts.total((slice(None), column))

    def summed(self, columns: slice) -> Integers:
        """(owners, cuts): the same of some folds together."""
        return self._counts.summed(1, (slice(None), columns))

    @property
    def every(self) -> Integers:
        """(owners, columns): distances up to the last cut."""
        return self._counts.summed(2)


class NearestByFold(PairObserver, ResumableObserver):
    """The nearest item of every query in every fold, and the items there up to a given limit."""

    def __init__(self, limit: Distances, fold: Columns, columns: int) -> None:
        self._limit, self._fold = limit, fold
        shape = (len(limit), columns)
        self._found = PerThread(lambda: (np.full(shape, np.inf), np.zeros(shape, np.int32)))

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        block.nearest_by_fold(self._limit, self._fold[block.items], *self._found.mine())

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """See ResumableObserver."""
        return {"least": self.least, "within": self.within}

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """See ResumableObserver."""
        for name, array in self.state().items():
            fill(array, state[name])
        self._found.put((state["least"].copy(), state["within"].astype(np.int32)))

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"least": self.least[rows], "within": self.within[rows]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        least, within = self._found.mine()
        least[rows] = np.minimum(least[rows], part["least"])
        within[rows] += part["within"].astype(np.int32)

    @property
    def least(self) -> Distances:
        """(queries, columns): the distance of the nearest item, infinite if there is none."""
        return np.asarray(np.min([least for least, _ in self._found.all()], axis=0), np.float64)

    @property
    def within(self) -> Integers:
        """(queries, columns): items up to the query's limit."""
        parts = [within for _, within in self._found.all()]
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64), np.int64)
