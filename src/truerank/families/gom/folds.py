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
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import Deferred, Part, RankObserver, ResumableObserver
from truerank.families.family import Moves
from truerank.families.gom import scores
from truerank.families.gom.axes import GomAxes
from truerank.families.gom.collect import Gom
from truerank.families.gom.fewer import (
    LeftBlock,
    end_of,
    groups_without,
    means_without,
    members_of,
    sample_of,
)
from truerank.families.gom.rate_folds import RateFolds
from truerank.space import Rows

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
        self._rates = RateFolds(family.context, family.rates, family.metrics, folds)

    @property
    def _gom(self) -> Gom:
        return self._family.on("fixed")

    @property
    def observers(self) -> list[ResumableObserver]:
        """Those of rates; what else is needed, a sample shows afterwards."""
        return self._rates.observers

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
        if metric.get("far") is not None:
            return self._rates.moves(metric)
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
        mine, end = counts[self._again.sample], end_of(metric)
        before, *without = (
            scores.table(gom, metric)[end][mine] for gom in (self._again.all, *self._again.without)
        )
        return means_without(
            metric,
            self._family.context,
            self._folds,
            scores.table(self._gom, metric),
            self._again.sample,
            np.column_stack(without) - before[:, None],
        )

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


class _Again(RankObserver):
    """Observes a sample of queries once more, without each fold."""

    def __init__(self, gom: Gom, family: GomAxes, folds: FoldAssignment) -> None:
        self.sample = sample_of(family.context, folds)
        self._folds, self._place = folds, np.full(family.context.task.queries, -1)
        self._place[self.sample] = np.arange(len(self.sample))
        columns = folds.columns
        self._items = members_of(folds)
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
            fewer = groups_without(groups.some(kept), gone)
            place = self._place[rows[kept]]
            self.without[column].observe_at_once(LeftBlock(here, kept, items, left, place), fewer)

        whole = LeftBlock(here, every, every[:0], counts, self._place[rows])
        self.all.observe_at_once(whole, groups)
        return [partial(observe, column) for column in range(len(self.without))]

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        place = self._place[rows]
        return {"all": self.all.part(place), "without": [gom.part(place) for gom in self.without]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        place = self._place[rows]
        self.all.add(place, part["all"])
        for gom, one in zip(self.without, part["without"], strict=True):
            gom.add(place, one)

    def moved(self, curve: int, counts: npt.NDArray[np.bool_]) -> Reals:
        """(columns, points): by how much the mean curve moves because a fold is not met."""
        columns = len(self.without)
        sample = self.sample[counts[self.sample]]
        left = len(sample) - np.bincount(self._folds.query[sample].ravel(), minlength=columns)
        before = self.all.totals()[curve] - self.all.totals_by_fold()[:, curve]
        after = np.stack([gom.totals()[curve] for gom in self.without])
        return np.asarray((after - before) / np.maximum(left, 1)[:, None], np.float64)
