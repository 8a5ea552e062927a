"""Blocks of distances, which reducers ask how many lie between ascending thresholds.

The bin of a distance is found by comparing float64 values, so counts are exact; a table over
equal cells of the range only says where to search. A block holds exact distances in main
memory; a block of close distances holds float32 scores, and computes exact distances only for
pairs within the error bound of a threshold. engine/cuda/worker.py has the block on a GPU, with
the same answers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.threads import Workspace
from truerank._util.types import Integers
from truerank.distance.base import Distances, Rows
from truerank.engine import count_kernels, filter_kernels
from truerank.engine.counts import Filter, Singles
from truerank.engine.filter_kernels import NEVER
from truerank.engine.threshold_kernels import tally_both, tally_by_fold, tally_pool, tally_rows
from truerank.task.relevance import PairList

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
        """What kernels look distances up in: the cuts and infinity behind them, so that no search
        runs beyond their end, the first cut of each cell, and whether some cell is crowded."""
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
        tally_rows(distances, *cuts.table, owner, times, counts)
        return
    for row, number in zip(distances, owner, strict=True):
        place = np.searchsorted(cuts.at, row[row < np.inf], side="left")
        counts[number] += times * np.bincount(place, minlength=len(cuts) + 1)


# A block of exact distances as observers see it, and what they may ask of it.
#
# They lie in main memory here; truerank.engine.cuda.worker gives the same answers on a
# GPU.


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
            count_kernels.count_on_grid(self.distances, grid, low, scale, counts)
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
        counts = count_kernels.between(flat, low, high, low_too, high_too, *found)
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
            count_kernels.nearest_by_fold(self.distances, self.rows, limit, fold, least, within)
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


# A block of close distances: float32 scores answer what is asked, integers what they leave open.
#
# How many lie up to a cut, and which are the nearest, needs the exact distance of few pairs: those
# within the error bound of a cut, or of the last of the nearest. Whatever else is asked, or leaves
# too much open, is answered from exact distances of the block, which are then made.


OPEN_SHARE = 1 / 6
"""Pairs that may stay open: to decide one costs as much as some five in an exact product."""
NEAR_SHARE = 1 / 5
"""Pairs that may be among the nearest, before whole rows are made for them: such rows are often
few, and the whole gallery is widened to float64 for them."""
MOST_OF_A_CELL = 1 / 4
"""Where the error bound is more than this share of a grid's step, hardly anything is certain."""
EXACT_ROWS = 128
"""Rows whose exact distances are made at a time, where too many pairs stay open."""
TOGETHER = 128
"""Items whose rows stay in a core's own cache."""


class CloseBlock(DistanceBlock):
    """See DistanceBlock: whole rows. Scores are changed where pairs never meet."""

    def __init__(self, way: Filter, rows: Rows, scores: Singles, workspace: Workspace) -> None:
        """The workspace has room for pairs that stay open."""
        super().__init__(rows, np.empty((0, 0)), True)
        self._way, self._scores, self._workspace = way, scores, workspace
        self._middle, self._reach = way.single.middle, way.single.reach

    @cached_property
    def distances(self) -> Distances:
        """See DistanceBlock; made only if asked for."""
        return self._exactly(np.arange(len(self.rows))).distances

    @property
    def items(self) -> slice:
        """See DistanceBlock."""
        return slice(0, self._scores.shape[1])

    def separate(self, excluded: ExcludedPairs) -> None:
        """See DistanceBlock."""
        self._scores[excluded.query, excluded.item] = NEVER

    def accepted(self, grid: Distances, low: float, width: float) -> Counters:
        """See DistanceBlock."""
        place = (grid, low, underestimated(grid, width) if width > TINY else 0.0)
        if not self._reach * place[-1] < MOST_OF_A_CELL:
            return super().accepted(grid, low, width)
        counts = np.zeros((len(self.rows), len(grid) + 2), np.int32)
        room = int(self._scores.size * OPEN_SHARE) + 2 * self._scores.shape[1]
        lists = [self._workspace.array(name, (room,), np.int32) for name in ("query", "item")]
        taken, listed = filter_kernels.count_on_grid(
            self._scores, self._middle, self._reach, *place[1:], counts, *lists
        )
        query, item = (some[:listed] for some in lists)
        filter_kernels.count_pairs_on_grid(query, self._decide(query, item), *place, counts)
        count_kernels.add_up_grid(counts[:taken])
        self._way.tried(failed=taken < len(counts))
        for first in range(taken, len(counts), EXACT_ROWS):
            rest = np.arange(first, min(first + EXACT_ROWS, len(counts)))
            mine = counts[first : first + len(rest)]
            count_kernels.count_on_grid(self._exactly(rest).distances, *place, mine)
        return counts[:, :-2]

    def least(self) -> Distances:
        """See DistanceBlock."""
        return self.nearest(np.arange(len(self.rows)), 1)[:, 0]

    def nearest(self, chosen: Rows, count: int) -> Distances:
        """See DistanceBlock."""
        some = self._scores if len(chosen) == len(self.rows) else self._scores[chosen]
        count = min(count, some.shape[1])
        if count > NEAR_SHARE * some.shape[1]:
            return self._exactly(chosen).nearest(np.arange(len(chosen)), count)
        last = some.max(axis=1) if count == 1 else np.partition(some, -count, axis=1)[:, -count]
        # Scores that differ by more than the reach are those of distances that differ by twice as
        # much: such an item is farther than all with at least the last score.
        least = np.nextafter((last - np.float64(self._reach)).astype(np.float32), NEVER)
        query, item = np.nonzero((some >= least[:, None]) & (some > NEVER))
        if len(query) > 2 * NEAR_SHARE * some.size + len(chosen):
            return self._exactly(chosen).nearest(np.arange(len(chosen)), count)
        sizes = np.bincount(query, minlength=len(chosen))
        found = np.full((len(chosen), max(count, int(sizes.max(initial=0)))), np.inf)
        place = np.arange(len(query)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found[query, place] = self._decide(chosen[query], item)
        found.sort(axis=1)
        return found[:, :count]

    def within(self, limit: float) -> Integers:
        """See DistanceBlock."""
        at = (self._middle - min(limit, LARGEST)) / 2
        with np.errstate(over="ignore"):
            low, high = np.float32(at - self._reach / 2), np.float32(at + self._reach / 2)
        low, high = np.nextafter(low, NEVER), np.nextafter(high, -NEVER)
        inside = self._scores > high
        query, item = np.nonzero((self._scores >= low) & (self._scores > NEVER) & ~inside)
        if len(query) > OPEN_SHARE * self._scores.size + self._scores.shape[1]:
            return super().within(limit)
        accepted = self._decide(query, item) <= limit
        counts: Integers = np.bincount(query[accepted], minlength=len(self.rows))
        counts += np.count_nonzero(inside, axis=1)
        return counts

    def _decide(self, query: npt.NDArray[Any], item: npt.NDArray[Any]) -> Distances:
        """The exact distances of some pairs, by their places in the block.

        Items that lie together are looked at together: their rows are then in the cache.
        """
        heap = item // TOGETHER
        if self._scores.shape[1] <= TOGETHER << 16:
            heap = heap.astype(np.uint16)  # so small numbers are sorted by dealing them out
        order = np.argsort(heap, kind="stable")
        found = np.empty(len(order))
        items = item[order].astype(np.int64)
        found[order] = self._way.space.pairs(self.rows[query[order]], items)
        return found

    def _exactly(self, chosen: Rows) -> DistanceBlock:
        """Some of the rows, with all of their distances."""
        rows, scores = self.rows[chosen], self._scores[chosen]
        distances = np.empty(scores.shape)
        for tile, exact in self._way.exact_tiles(rows, 0, scores.shape[1]):
            distances[:, slice(*tile)] = exact
        distances[scores == NEVER] = np.inf
        return DistanceBlock(rows, distances, True)
