"""DIR and FAR in smaller galleries without each fold of the classes.

The share of the others that is there stays, so that without a fold a query has as many of them less
before its mate, or within the threshold, as the fold holds there: of every query, exactly. At a FAR
target the threshold moves as the expected FAR says: what a step of that is worth to DIR is taken
from a wide range on either side, since single items are accidents.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FoldAssignment
from truerank.core.groups import LocatedGroups, TieGroups
from truerank.core.jackknife import ONE, left
from truerank.core.metric import Metric
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import Part, RankObserver
from truerank.families.openset.growth import SmallerGalleries, missed
from truerank.growth.values import Growth
from truerank.jit import kernel
from truerank.space import Rows

__all__ = ["SmallerFolds"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
ValueOf = Callable[[int, int, Integers], Reals]
"""From M, m and numbers of items: what a query with each of them is worth."""


class FirstMates(Protocol):
    """What is known of the others before every query's first mate."""

    def before_first(self) -> tuple[Integers, Integers]:
        """The others no farther than a query's first mate, and (queries, folds) those of each
        fold."""


class SmallerFolds:
    """Scores at gallery sizes without each fold; a gallery that no fold leaves is None."""

    def __init__(
        self, smaller: SmallerGalleries, folds: FoldAssignment, gallery: FirstMates | None
    ) -> None:
        self._smaller, self._folds, self._gallery = smaller, folds, gallery
        self._context = smaller.seen.context
        self._within: dict[float, npt.NDArray[np.int32]] = {}

    def means(self, metric: Metric, place: int, counts: Flags) -> Reals | str:
        """The score at one of the sizes without each fold, or why that cannot be told."""
        smaller, weight = self._smaller, self._context.weights(counts)
        if metric.name != "dir":
            return self._accepted(self._context.units.cut(metric["tau"]), place, weight)
        if metric["tau"] is not None:
            return self._identified(metric, self._context.units.cut(metric["tau"]), place, weight)
        limit = smaller.limit(metric["far"], place)
        if isinstance(limit, str):
            return limit
        below = float(np.nextafter(limit, -np.inf))
        found = self._identified(metric, below, place, weight)
        slope = self._slope(metric, place, weight) if np.isfinite(limit) else 0.0
        if isinstance(slope, str):
            return slope
        alike = np.ones(len(weight))
        rate = smaller.rate_below(limit, place)
        return found + slope * (rate - self._accepted(below, place, alike))

    def _slope(self, metric: Metric, place: int, weight: Reals) -> float | str:
        """What a step of the expected FAR is worth to DIR, around the target."""
        smaller, target = self._smaller, metric["far"]
        strangers = int((~self._context.with_mate).sum())
        reach = Fraction(math.isqrt(strangers) + 1, strangers)
        ends = (max(target - reach, Fraction(0)), min(target + reach, (1 + target) / 2))
        rows = np.flatnonzero(self._context.with_mate)
        first, mine = smaller.seen.first[rows], weight[rows]
        hits = mine * smaller.hits[metric["rank"]][place, 0, rows]
        points = []
        for end in ends:
            limit = smaller.limit(end, place)
            if isinstance(limit, str):
                return limit
            found = math.fsum(hits[first < limit]) / math.fsum(mine)
            points.append((smaller.rate_below(limit, place), found))
        (low, fewer), (high, more) = points
        return (more - fewer) / (high - low) if high > low else 0.0

    def _identified(self, metric: Metric, limit: float, place: int, weight: Reals) -> Reals:
        """DIR up to a distance without each fold."""
        smaller, targets = self._smaller, np.flatnonzero(self._context.with_mate)
        near = smaller.seen.first[targets] <= limit
        if self._gallery is None:
            return self._mean(
                smaller.hits[metric["rank"]][place, 0, targets] * near, targets, weight
            )
        rows, growth = targets[near], smaller.growth
        before, lost = self._gallery.before_first()
        alone = Growth((growth.sizes[place],), growth.gallery)

        def value_of(others: int, drawn: int, counts: Integers) -> Reals:
            every = np.ones(len(counts), np.int64)
            places = np.arange(len(counts) + 1)
            groups = TieGroups(
                places, counts, every, every.astype(np.int32)[:, None], every * (others + 1)
            )
            found = alone.values(groups, [Metric("hit", metric["rank"])])
            return np.asarray(found[0, 0, 0], np.float64)

        sums = self._sums(rows, before[rows], lost[rows], place, weight, value_of)
        return self._divided(sums, targets, weight)

    def _accepted(self, limit: float, place: int, weight: Reals) -> Reals:
        """The expected FAR up to a distance without each fold."""
        rows = np.flatnonzero(~self._context.with_mate)
        if self._gallery is None:
            near = self._smaller.near_within(limit)
            accepted = 1.0 - missed(*self._smaller.others(rows, place), near)
            return self._mean(accepted, rows, weight)
        if limit not in self._within:
            observer = _WithinByFold(self._context.task.queries, limit, self._folds)
            self._context.observe_again(observer, rows)
            self._within[limit] = observer.within[rows]
        lost = self._within[limit]
        near = lost[:, self._folds.own].sum(axis=1, dtype=np.int64)

        def value_of(others: int, drawn: int, counts: Integers) -> Reals:
            return 1.0 - missed(np.full(len(counts), others), np.full(len(counts), drawn), counts)

        return self._divided(self._sums(rows, near, lost, place, weight, value_of), rows, weight)

    def _sums(
        self,
        rows: Integers,
        count: Integers,
        lost: npt.NDArray[np.integer],
        place: int,
        weight: Reals,
        value_of: ValueOf,
    ) -> Integers:
        """Sums of the values of queries that stay without each fold, in units of 1 / ONE: those of
        `count` items less those `lost` with the fold."""
        sums = np.zeros(self._folds.columns, np.int64)
        others, drawn = self._smaller.others(rows, place)
        for whole in np.unique(others).tolist():
            mine = np.flatnonzero(others == whole)
            args = (count[mine], lost[mine], self._folds.query[rows[mine]])
            used = np.zeros(int(count[mine].max()) + 1, np.bool_)
            _mark(*args, used)
            numbers = np.flatnonzero(used)
            table = np.zeros(len(used))
            table[numbers] = value_of(whole, int(drawn[mine[0]]), numbers)
            _add(*args, weight[rows[mine]] * ONE, table, sums)
        return sums

    def _mean(self, values: Reals, rows: Integers, weight: Reals) -> Reals:
        """Means of values that no fold moves, over the queries that stay."""
        own, columns = self._folds.query[rows], self._folds.columns
        return left(weight[rows] * values, own, columns) / left(weight[rows], own, columns)

    def _divided(self, sums: Integers, rows: Integers, weight: Reals) -> Reals:
        """Means over the queries that stay."""
        own = self._folds.query[rows]
        return np.asarray(sums / ONE / left(weight[rows], own, self._folds.columns), np.float64)


@kernel
def _mark(count: Any, lost: Any, own: Any, used: Any) -> None:
    """Which numbers of items occur without any fold that a query stays without."""
    for q in range(count.size):
        for column in range(lost.shape[1]):
            stays = True
            for way in range(own.shape[1]):
                stays &= own[q, way] != column
            if stays:
                used[count[q] - lost[q, column]] = True


@kernel
def _add(count: Any, lost: Any, own: Any, weight: Any, table: Any, sums: Any) -> None:
    """Add the weighted values of queries that stay to the sums of each fold."""
    for q in range(count.size):
        for column in range(lost.shape[1]):
            stays = True
            for way in range(own.shape[1]):
                stays &= own[q, way] != column
            if stays:
                value = weight[q] * table[count[q] - lost[q, column]]
                sums[column] += int(np.rint(value))


class _WithinByFold(RankObserver):
    """How many items of each fold every query has up to a distance."""

    def __init__(self, queries: int, limit: float, folds: FoldAssignment) -> None:
        self._limit, self._items = np.full(queries, limit), folds.items
        self.within = np.zeros((queries, folds.columns), np.int32)

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> None:
        """See RankObserver."""
        # with something nearer in every fold, all that is looked for is what lies up to the limit
        nothing = np.full(self.within.shape, -np.inf)
        block.nearest_by_fold(self._limit, self._items[block.items], nothing, self.within)

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"within": self.within[rows]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self.within[rows] += part["within"]
