"""A block of exact distances as observers see it, and what they may ask of it.

They lie in main memory here; truerank.engine.cuda.distance_block gives the same answers on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.engine import kernels
from truerank.engine.cuts import Cuts, tally, tally_both, tally_by_fold, tally_pool
from truerank.engine.threads import Workspace
from truerank.pairs import PairList
from truerank.space import Distances, Rows

__all__ = [
    "LARGEST",
    "TINY",
    "Borrow",
    "Columns",
    "Counters",
    "DistanceBlock",
    "DistanceRange",
    "ExcludedPairs",
    "Integers",
    "underestimated",
]

Integers = npt.NDArray[np.int64]
Counters = npt.NDArray[np.int32]
Columns = npt.NDArray[np.integer]
"""(items, ways): the fold of each item in every way in which the gallery is cut into folds."""
DistanceRange = tuple[float, float]
"""The distances in (low, high]."""
Borrow = Callable[[], AbstractContextManager[npt.NDArray[np.integer]]]
LARGEST = float(np.finfo(np.float64).max)
"""The largest finite distance: pairs that never meet are beyond it."""
TINY = 1e-290
"""Grids narrower than this have no finite scale."""
SORTED_ROWS = 8
"""Rows that are sorted at a time: so few stay in the cache."""


@dataclass(frozen=True)
class ExcludedPairs:
    """The pairs of a block that never meet."""

    query: Any
    item: Any
    """Items of the pairs, ascending, in main memory."""

    @staticmethod
    def of(excluded: PairList) -> ExcludedPairs:
        """Excluded pairs, put in the order of their items."""
        order = np.argsort(excluded.item, kind="stable")
        return ExcludedPairs(excluded.query[order], excluded.item[order])

    def meet(self, items: slice) -> bool:
        """Whether any of the pairs has one of these items."""
        start, stop = self.item.searchsorted((items.start, items.stop))
        return bool(start < stop)


class DistanceBlock:
    """A block of queries against part of the gallery; valid only while it is observed.

    Distances are infinite where a pair never meets, once such pairs have been excluded.
    """

    def __init__(self, rows: Rows, distances: Distances, compiled: bool, first: int = 0) -> None:
        """`first` is the number of the first item. The reference engine has numpy alone."""
        self.rows, self.first, self.compiled = rows, first, compiled
        self._distances = distances

    @property
    def distances(self) -> Distances:
        """The distances, (rows, items)."""
        return self._distances

    @property
    def items(self) -> slice:
        """Numbers of the block's items."""
        return slice(self.first, self.first + self._distances.shape[1])

    def separate(self, excluded: ExcludedPairs) -> None:
        """Make the distances of excluded pairs infinite."""
        start, stop = excluded.item.searchsorted((self.items.start, self.items.stop))
        if start < stop:
            few = slice(start, stop)
            self.distances[excluded.query[few], excluded.item[few] - self.first] = np.inf

    @cached_property
    def turned(self) -> DistanceBlock:
        """The same pairs from their other side, of rows that follow one another."""
        rows, distances = np.arange(self.items.start, self.items.stop), self.distances.T
        first = int(self.rows[0])
        return DistanceBlock(rows, np.ascontiguousarray(distances), self.compiled, first)

    def some(self, chosen: Rows) -> DistanceBlock:
        """The block of some of the queries, by their places in this one, in main memory."""
        return DistanceBlock(self.rows[chosen], self.distances[chosen], self.compiled, self.first)

    def rooted(self) -> DistanceBlock:
        """The block of the same pairs with the square roots of the distances."""
        return DistanceBlock(self.rows, np.sqrt(self.distances), self.compiled, self.first)

    def least(self) -> Distances:
        """The smallest distance of each query."""
        return np.asarray(self.distances.min(axis=1))

    def ends(self) -> tuple[float, float]:
        """The smallest and the largest distance."""
        return float(self.distances.min()), float(self.distances.max())

    def nearest(self, chosen: Rows, count: int) -> Distances:
        """The smallest distances of some queries, ascending; as many as there are."""
        count = min(count, self.distances.shape[1])
        some = np.partition(self.distances[chosen], count - 1, axis=1)[:, :count]
        return np.sort(some, axis=1)

    def ranked(self) -> Iterator[tuple[int, Distances]]:
        """Every query's distances, ascending, some rows after the others: the place of the first,
        and the rows."""
        for start in range(0, len(self.rows), SORTED_ROWS):
            yield start, np.sort(self.distances[start : start + SORTED_ROWS], axis=1)

    def within(self, limit: float) -> Integers:
        """How many items each query has up to a distance."""
        return np.asarray((self.distances <= limit).sum(axis=1), np.int64)

    def largest(self, limit: float) -> float:
        """The largest distance up to a limit; -inf if there is none."""
        return float(self.distances.max(where=self.distances <= limit, initial=-np.inf))

    def accepted(self, grid: Distances, low: float, width: float) -> Counters:
        """(rows, cuts): distances up to each cut of a grid from `low` on, equal but for rounding;
        the last accepts everything that is finite."""
        counts = np.zeros((len(self.rows), len(grid) + 1), np.int32)
        if self.compiled and width > TINY:
            scale = underestimated(grid, width)
            kernels.count_on_grid(self.distances, grid, low, scale, counts)
        else:
            for row, mine in zip(self.distances, counts, strict=True):
                found = np.bincount(np.searchsorted(grid, row), minlength=len(mine))
                mine += found.cumsum()
        return counts[:, :-1]

    def between(self, ranges: Sequence[DistanceRange], workspace: Workspace) -> list[Distances]:
        """The distances in each range; the workspace is memory to work in."""
        flat = self.distances.ravel()
        ends = [(low, min(high, LARGEST)) for low, high in ranges]
        if not self.compiled or len(ends) > 2:
            return [flat[(flat > low) & (flat <= high)] for low, high in ends]
        found = [workspace.array(str(i), (flat.size + 1,), np.float64) for i in range(2)]
        nothing = (0.0, -LARGEST)
        (low, high), (low_too, high_too) = [*ends, nothing, nothing][:2]
        counts = kernels.between(flat, low, high, low_too, high_too, *found)
        held = zip(found, counts, strict=True)
        return [some[:count].copy() for some, count in held][: len(ends)]

    def tally(self, cuts: Cuts, owner: Integers, borrow: Borrow, *, turned: bool = False) -> None:
        """table[owner of the query, k] += distances in (cut k-1, cut k], the last k above all.

        With `turned`, owners are those of the items. The table is borrowed while it is added to.
        """
        distances = np.ascontiguousarray(self.distances.T) if turned else self.distances
        with borrow() as counts:
            tally(distances, cuts, owner, counts, compiled=self.compiled)

    def tally_twice(self, cuts: Cuts, owner: Integers, borrow: Borrow) -> None:
        """`tally` for one owner, with each pair counted for either of its orders; all meet."""
        bounds, start, low, scale, crowded = cuts.table
        with borrow() as counts:
            if self.compiled and not crowded:
                mine, flat = counts[owner[0]], self.distances.ravel()
                tally_pool(flat, bounds, start, low, scale, 2, mine)
            else:
                tally(self.distances, cuts, owner, counts, compiled=self.compiled, times=2)

    def tally_both(self, cuts: Cuts, owner: Integers, other: Integers, borrow: Borrow) -> None:
        """`tally` for the owners of queries and for those of items, in one look; all pairs meet."""
        with borrow() as counts:
            tally_both(self.distances, *cuts.table, owner, other, counts)

    def tally_by_fold(
        self,
        cuts: Cuts,
        owner: Integers,
        fold: Columns,
        columns: int,
        borrow: Borrow,
        *,
        turned: bool = False,
    ) -> None:
        """table[owner of the query, fold of the item, k] += distances in (cut k-1, cut k].

        Owners below zero do not count. With `turned` the items have owners and the queries folds.
        """
        distances = np.ascontiguousarray(self.distances.T) if turned else self.distances
        with borrow() as counts:
            if self.compiled:
                nobody, nowhere = np.full(len(fold), -1), np.zeros((len(owner), fold.shape[1]))
                sides = (owner, nobody, nowhere.astype(fold.dtype), fold)
                tally_by_fold(distances, *cuts.table, *sides, counts)
                return
            cells = len(cuts)
            for row, number in zip(distances, owner, strict=True):
                held = np.flatnonzero(row <= cuts.at[-1]) if number >= 0 else ()
                cell = np.searchsorted(cuts.at, row[held], side="left")
                for way in fold[held].T:
                    place = way.astype(np.int64) * cells + cell
                    found = np.bincount(place, minlength=columns * cells)
                    counts[number] += found.reshape(columns, cells).astype(counts.dtype)

    def tally_both_by_fold(
        self, cuts: Cuts, owners: tuple[Integers, Integers], folds: tuple[Columns, Columns],
        borrow: Borrow,
    ) -> None:  # fmt: skip
        """`tally_by_fold` for the owners of queries and for those of items, in one look."""
        with borrow() as counts:
            tally_by_fold(self.distances, *cuts.table, *owners, *folds, counts)

    def nearest_by_fold(
        self, limit: Distances, fold: Columns, least: Distances, within: Counters
    ) -> None:
        """Each query's nearest item in every fold, and its items there up to its own limit.

        All but the folds are by query of the task; `least` and `within` take in what is found.
        """
        if self.compiled:
            kernels.nearest_by_fold(self.distances, self.rows, limit, fold, least, within)
            return
        inside = self.distances <= limit[self.rows][:, None]
        for column in np.unique(fold):
            items = np.flatnonzero((fold == column).any(axis=1))
            least[self.rows, column] = np.minimum(
                least[self.rows, column], self.distances[:, items].min(axis=1)
            )
            within[self.rows, column] += inside[:, items].sum(axis=1, dtype=np.int32)


def underestimated(grid: Distances, width: float) -> float:
    """Cells of a grid for a unit of distance, a little less than true.

    A distance's place is then never overestimated, and the comparison with one cut settles it.
    """
    return (len(grid) - 1) / width * (1 - 2.0**-40)
