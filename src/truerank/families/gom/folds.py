"""GOM without each fold of the classes.

Means over queries lose the fold's queries, which is known of all, and move because the fold is
gone from the gallery, which is computed again for a sample of queries. Curves lose and move in the
same way; their peaks are found again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.curve_moves import CurveMoves
from truerank.core.folds import FEWEST_CLASSES, FoldAssignment, why_too_few
from truerank.core.groups import LocatedGroups
from truerank.core.jackknife import ChangeSums, Stratum, replicates
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.engine import kernels
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import Deferred, RankObserver, ResumableObserver
from truerank.families.family import Moves
from truerank.families.gom import scores
from truerank.families.gom.axes import GomAxes
from truerank.families.gom.collect import Gom
from truerank.settings import current_limits
from truerank.space import Distances

__all__ = ["GomFolds"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
MOST_COLUMNS = 420
"""Most folds without which the sample is observed."""
PEAKS = {"mvp_max": 0, "mrep_max": 1}
REASONS = {
    "tau_max": "the place of a maximum jumps, and how far cannot be told by leaving classes out",
    "tau_nz": "the smallest of all distances is no mean, and leaving classes out says little of it",
    "minmax": "scale=minmax follows the smallest and the largest distance, whose spread is unknown",
}


class GomFolds:
    """What the pass must count for GOM on the fixed axis, and the scores without each fold."""

    def __init__(self, family: GomAxes, folds: FoldAssignment) -> None:
        folds = folds.coarser(MOST_COLUMNS)
        self._family, self._folds = family, folds
        if isinstance(family.seen.get("fixed"), Gom):
            self._gom.keep_folds(folds.query, folds.columns)

    @property
    def _gom(self) -> Gom:
        return self._family.on("fixed")

    @property
    def observers(self) -> list[ResumableObserver]:
        """No observers of the first pass: the sample is observed afterwards."""
        return []

    @cached_property
    def _again(self) -> _Again:
        """A sample of queries, observed once more without each fold."""
        again = _Again(self._gom, self._family, self._folds)
        self._family.context.observe_again(again, again.sample)
        return again

    def moves(self, metric: Metric, score: Score) -> Moves:
        """The score without each fold, or why that cannot be told."""
        if metric.name in REASONS:
            return REASONS[metric.name]
        if metric["scale"] == "minmax":
            return REASONS["minmax"]
        counts = self._family.context.with_mate
        if metric.name == "mfr":
            counts = ~counts
        classes = len(np.unique(self._folds.query_codes[counts]))
        if classes < FEWEST_CLASSES:
            return why_too_few(classes, "class", FEWEST_CLASSES)
        if metric.name in PEAKS:
            return self._folds.replicates(score.value + self._peaks(PEAKS[metric.name], counts))
        end = 0 if definition(metric).higher_is_better else 2
        rows = np.flatnonzero(counts)
        sample = self._again.sample[counts[self._again.sample]]
        mine = np.searchsorted(self._again.sample, sample)
        before, *without = (
            scores.table(gom, metric)[end][mine] for gom in (self._again.all, *self._again.without)
        )
        change = np.column_stack(without) - before[:, None]
        values = scores.table(self._gom, metric)[end]
        weight = np.ones(len(counts))
        if self._family.context.by_class:
            codes = self._family.context.task.query_codes
            weight[rows] = 1.0 / np.bincount(codes[rows])[codes[rows]]
        sums = ChangeSums(self._folds.columns)
        sums.add(change, self._folds.query[sample], weight[sample])
        return replicates(self._folds, rows, values[rows], [Stratum(rows, sums)], weight)

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, CurveMoves]:
        """See Without."""
        return {}

    def _peaks(self, curve: int, counts: npt.NDArray[np.bool_]) -> Reals:
        """How far the highest point of a curve moves."""
        total, of_fold = self._gom.totals()[curve], self._gom.totals_by_fold()[:, curve]
        columns = len(of_fold)
        gone = np.bincount(self._folds.query[counts].ravel(), minlength=columns)
        curves = (total - of_fold) / (int(counts.sum()) - gone)[:, None]
        if self._folds.takes_items:  # otherwise the gallery stays
            curves += self._again.moved(curve, counts)
        moves = curves.max(axis=1) - (total / int(counts.sum())).max()
        return np.asarray(moves / self._gom.one, np.float64)


class _Left(DistanceBlock):
    """Some queries of a block without some of its items, whose counts on a grid are known."""

    def __init__(
        self,
        whole: DistanceBlock,
        queries: Integers,
        items: Integers,
        counts: npt.NDArray[np.int32],
        rows: Integers,
    ) -> None:
        super().__init__(rows, whole.distances, whole.compiled)
        self._queries, self._gone, self._counts = queries, items, counts

    @cached_property
    def distances(self) -> Distances:
        """See DistanceBlock; made only if asked for."""
        left = self._distances[self._queries]
        left[:, self._gone] = np.inf
        return left

    def accepted(self, grid: Distances, low: float, width: float) -> npt.NDArray[np.int32]:
        """See DistanceBlock."""
        return self._counts


class _Again(RankObserver):
    """Observes a sample of queries once more, without each fold."""

    def __init__(self, gom: Gom, family: GomAxes, folds: FoldAssignment) -> None:
        mates = family.context.with_mate
        count = current_limits().observed_again
        some = [folds.sample(np.flatnonzero(kind), count) for kind in (mates, ~mates)]
        self.sample = np.sort(np.concatenate(some))
        self._folds, self._place = folds, np.full(len(mates), -1)
        self._place[self.sample] = np.arange(len(self.sample))
        columns = folds.columns
        self._items = [
            np.flatnonzero((folds.items == column).any(axis=1)) for column in range(columns)
        ]
        curved = any(
            m.name in PEAKS or m.get("integral") in ("exact", "trapezoid") for m in family.metrics
        )
        self.all = gom.alike(len(self.sample), curved=curved)
        self.all.keep_folds(folds.query[self.sample], columns)
        self.without = [gom.alike(len(self.sample), curved=curved) for _ in range(columns)]

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> list[Deferred]:
        """See RankObserver."""
        rows = block.rows
        axis, every = self.all.axis, np.arange(len(rows))
        counts = block.accepted(axis.grid(), axis.low, axis.width)
        here = block.some(every)

        def observe(column: int) -> None:
            items = self._items[column]
            kept = np.flatnonzero((self._folds.query[rows] != column).all(axis=1))
            if not len(kept):
                return
            gone = here.distances[np.ix_(kept, items)]
            lost = DistanceBlock(rows[kept], gone, block.compiled)
            left = counts[kept] - lost.accepted(axis.grid(), axis.low, axis.width)
            fewer = _without(groups.some(kept), gone)
            place = self._place[rows[kept]]
            self.without[column].observe_at_once(_Left(here, kept, items, left, place), fewer)

        whole = _Left(here, every, every[:0], counts, self._place[rows])
        self.all.observe_at_once(whole, groups)
        return [partial(observe, column) for column in range(len(self.without))]

    def moved(self, curve: int, counts: npt.NDArray[np.bool_]) -> Reals:
        """(columns, points): by how much the mean curve moves because a fold is not met."""
        columns = len(self.without)
        sample = self.sample[counts[self.sample]]
        left = len(sample) - np.bincount(self._folds.query[sample].ravel(), minlength=columns)
        before = self.all.totals()[curve] - self.all.totals_by_fold()[:, curve]
        after = np.stack([gom.totals()[curve] for gom in self.without])
        return np.asarray((after - before) / np.maximum(left, 1)[:, None], np.float64)


def _without(groups: LocatedGroups, gone: Distances) -> LocatedGroups:
    """Tie groups without irrelevant items at these distances, a row for each query."""
    between: Integers = np.zeros(len(groups.size), np.int64)
    equal = np.zeros_like(between)
    kernels.count_tile(gone, groups.offsets, groups.distance, between, equal)
    nearer: Integers = np.cumsum(between + equal)
    start = np.concatenate([[0], nearer])[groups.offsets[:-1]]
    nearer -= np.repeat(start, np.diff(groups.offsets))
    return LocatedGroups(
        groups.offsets,
        groups.before - (nearer - equal),
        groups.size - equal,
        groups.graded,
        groups.candidates - (gone < np.inf).sum(axis=1),
        groups.distance,
    )
