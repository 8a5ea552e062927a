"""GOM without each share of the classes.

Means over queries lose the share's queries, which is known of all, and move because the share is
gone from the gallery, which is computed again for a sample of queries. Curves lose and move in the
same way; their peaks are looked for again.
"""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FEWEST_CLASSES, Dealing, why_too_few
from truerank.core.groups import LocatedGroups
from truerank.core.jackknife import Stratum, replicates
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.engine import kernels
from truerank.engine.sight import Sight
from truerank.engine.watch import RankWatcher, Rest, Witness
from truerank.families.gom import scores
from truerank.families.gom.axes import GomAxes
from truerank.families.gom.collect import Gom
from truerank.settings import current_limits
from truerank.space import Distances

__all__ = ["GomShares"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
PEAKS = {"mvp_max": 0, "mrep_max": 1}
REASONS = {
    "tau_max": "the place of a maximum jumps, and how far cannot be told by leaving classes out",
    "tau_nz": "the smallest of all distances is no mean, and leaving classes out says little of it",
    "minmax": "scale=minmax follows the smallest and the largest distance, whose spread is unknown",
}


class GomShares:
    """What the pass must count for GOM on the fixed axis, and the scores without each share."""

    def __init__(self, family: GomAxes, dealing: Dealing) -> None:
        self._family, self._dealing = family, dealing
        if isinstance(family.seen.get("fixed"), Gom):
            self._gom.keep_shares(dealing.query, 2 * dealing.shares)

    @property
    def _gom(self) -> Gom:
        return self._family.on("fixed")

    @property
    def watchers(self) -> list[Witness]:
        """Who must see all pairs: nobody, the sample is looked at afterwards."""
        return []

    @cached_property
    def _again(self) -> _Again:
        """What a sample sees without each share."""
        again = _Again(self._gom, self._family, self._dealing)
        self._family.context.look_again(again, again.sample)
        return again

    def moves(self, metric: Metric, score: Score) -> Reals | tuple[Replicates, Replicates] | str:
        """How far the score moves, or the scores without each share, or why there are none."""
        if metric.name in REASONS:
            return REASONS[metric.name]
        if metric["scale"] == "minmax":
            return REASONS["minmax"]
        counts = self._family.context.with_mate
        if metric.name == "mfr":
            counts = ~counts
        classes = len(np.unique(self._dealing.query_codes[counts]))
        if classes < FEWEST_CLASSES:
            return why_too_few(classes, "class", FEWEST_CLASSES)
        if metric.name in PEAKS:
            return self._peaks(PEAKS[metric.name], counts)
        end = 0 if definition(metric).higher_is_better else 2
        rows = np.flatnonzero(counts)
        sample = self._again.sample[counts[self._again.sample]]
        mine = np.searchsorted(self._again.sample, sample)
        before, *without = (
            scores.table(gom, metric)[end][mine] for gom in (self._again.all, *self._again.without)
        )
        change = np.column_stack(without) - before[:, None]
        values = scores.table(self._gom, metric)[end]
        return replicates(
            self._dealing,
            rows,
            values[rows],
            [Stratum(rows, sample, change)],
            self._family.context.by_class,
        )

    def _peaks(self, curve: int, counts: npt.NDArray[np.bool_]) -> Reals:
        """How far the highest point of a curve moves."""
        total, of_share = self._gom.totals()[curve], self._gom.totals_by_share()[:, curve]
        columns = len(of_share)
        gone = np.bincount(self._dealing.query[counts].ravel(), minlength=columns)
        curves = (total - of_share) / (int(counts.sum()) - gone)[:, None]
        if self._dealing.takes_items:  # otherwise the gallery stays
            curves += self._again.moved(curve, counts)
        moves = curves.max(axis=1) - (total / int(counts.sum())).max()
        return np.asarray(moves / self._gom.one, np.float64)


class _Left(Sight):
    """Some queries of a sight without some of its items, whose counts on a grid are known."""

    def __init__(
        self,
        whole: Sight,
        queries: Integers,
        items: Integers,
        counts: npt.NDArray[np.int32],
        rows: Integers,
    ) -> None:
        super().__init__(rows, whole.distances, whole.compiled)
        self._queries, self._gone, self._counts = queries, items, counts

    @cached_property
    def distances(self) -> Distances:
        """See Sight; made only if asked for."""
        left = self._distances[self._queries]
        left[:, self._gone] = np.inf
        return left

    def accepted(self, grid: Distances, low: float, width: float) -> npt.NDArray[np.int32]:
        """See Sight."""
        return self._counts


class _Again(RankWatcher):
    """Looks at a sample of queries once more without each share."""

    def __init__(self, gom: Gom, family: GomAxes, dealing: Dealing) -> None:
        mates = family.context.with_mate
        count = current_limits().watched_again
        some = [dealing.sample(np.flatnonzero(kind), count) for kind in (mates, ~mates)]
        self.sample = np.sort(np.concatenate(some))
        self._dealing, self._place = dealing, np.full(len(mates), -1)
        self._place[self.sample] = np.arange(len(self.sample))
        columns = 2 * dealing.shares
        ways = np.repeat(dealing.items.T, dealing.shares, axis=0)
        self._items = [np.flatnonzero(way == column) for column, way in enumerate(ways)]
        curved = any(
            m.name in PEAKS or m.get("integral") in ("exact", "trapezoid") for m in family.metrics
        )
        self.all = gom.alike(len(self.sample), curved=curved)
        self.all.keep_shares(dealing.query[self.sample], columns)
        self.without = [gom.alike(len(self.sample), curved=curved) for _ in range(columns)]

    def see(self, sight: Sight, groups: LocatedGroups) -> list[Rest]:
        """See RankWatcher."""
        rows = sight.rows
        axis, everybody = self.all.axis, np.arange(len(rows))
        counts = sight.accepted(axis.grid(), axis.low, axis.width)
        here = sight.some(everybody)

        def look(column: int) -> None:
            items = self._items[column]
            kept = np.flatnonzero((self._dealing.query[rows] != column).all(axis=1))
            if not len(kept):
                return
            gone = here.distances[np.ix_(kept, items)]
            lost = Sight(rows[kept], gone, sight.compiled)
            left = counts[kept] - lost.accepted(axis.grid(), axis.low, axis.width)
            fewer = _without(groups.some(kept), gone)
            place = self._place[rows[kept]]
            self.without[column].look(_Left(here, kept, items, left, place), fewer)

        whole = _Left(here, everybody, everybody[:0], counts, self._place[rows])
        self.all.look(whole, groups)
        return [partial(look, column) for column in range(len(self.without))]

    def moved(self, curve: int, counts: npt.NDArray[np.bool_]) -> Reals:
        """(columns, points): by how much the mean curve moves because a share is not met."""
        columns = len(self.without)
        sample = self.sample[counts[self.sample]]
        left = len(sample) - np.bincount(self._dealing.query[sample].ravel(), minlength=columns)
        before = self.all.totals()[curve] - self.all.totals_by_share()[:, curve]
        after = np.stack([gom.totals()[curve] for gom in self.without])
        return np.asarray((after - before) / np.maximum(left, 1)[:, None], np.float64)


def _without(groups: LocatedGroups, gone: Distances) -> LocatedGroups:
    """Without irrelevant items at these distances, a row for each query."""
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
