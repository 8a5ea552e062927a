"""Verification without each fold of the classes: pairs counted on cells, by fold of the query.

In leave-one-out every negative pair is met from both sides and so stands in the counts of either
fold: taking a fold's counts away twice weighs pairs by w_i + w_j - 1, which doubles a class's
deviation on negatives, as it must. Thresholds are found again without each fold.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core.curve import Curve
from truerank.core.curve_moves import BandMoves
from truerank.core.folds import FoldAssignment
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.engine.cuts import Cuts
from truerank.engine.distance_block import LARGEST
from truerank.engine.observers import ResumableObserver, Tally
from truerank.families.family import Context, Moves
from truerank.families.thresholds import allowed, at_places
from truerank.families.verification.moved_curves import moved_curves
from truerank.families.verification.pair_metric import pair_metric
from truerank.families.verification.points import Points
from truerank.families.verification.pooled import PooledPairs
from truerank.space import Distances
from truerank.wording import count

__all__ = ["FEWEST_BELOW", "VerificationFolds", "places"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
CELLS = 512
"""Cuts at quantiles of the positives, and as many at quantiles of a sample of the negatives."""
FARTHEST = 64
"""Cuts before and behind positives that are among the farthest: of few misses each one counts."""
FEWEST_BELOW = 20
"""A threshold set by fewer negatives than this has no interval: it jumps from one to the next."""


class VerificationFolds:
    """What the pass must count for verification, and the scores without each fold."""

    def __init__(
        self, context: Context, metrics: list[Metric], judged: PooledPairs, folds: FoldAssignment
    ) -> None:
        self._context, self._judged, self._folds = context, judged, folds
        thresholds = [self._cut(m) for m in metrics if m.get("tau") is not None]
        at = places(context.positives.ascending, context.foretold, CELLS)
        self.cuts = Cuts.of(np.concatenate([at, thresholds]))
        # Thresholds that other metrics are asked at must not move a score between cells.
        self._curve = np.unique(np.searchsorted(self.cuts.at, at))
        # One table serves both ways of the folds: its margins are the counts by fold.
        self._columns, self._owner = np.unique(folds.query, axis=0, return_inverse=True)
        self._owner = self._owner.ravel()
        rows = int(np.bincount(self._owner).max())
        most = rows * context.space.gallery
        self._tally = Tally(self.cuts, self._owner, len(self._columns), most=most)

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs."""
        return [self._tally]

    def moves(self, metric: Metric, score: Score) -> Moves:
        """The score without each fold, or why that cannot be told."""
        if metric.get("far") is not None:
            below = allowed(metric["far"], self._judged.negatives)
            if below < FEWEST_BELOW:
                return (
                    f"{count(below, 'negative pair')} below its threshold; an interval needs at "
                    f"least {FEWEST_BELOW}"
                )
        if metric.get("tau") is not None:
            points = self._points.at_cut(self.cuts.where(self._cut(metric)))
        else:
            points = self._points.at_cuts(self._curve)
        values = pair_metric(metric).at_points(points, metric)
        return self._folds.replicates(score.value + (values[1:] - values[0]))

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, BandMoves]:
        """See Without."""
        if self._judged.lacking is not None:  # then there is no curve either
            return {}
        moved = moved_curves(self._points.at_cuts(self._curve), curves, self._judged.negatives)
        own = self._folds.own
        return {
            name: tuple(one.moves(one.without[own]) for one in some) for name, some in moved.items()
        }

    def _cut(self, metric: Metric) -> float:
        """The threshold that a metric is asked at; pairs that never meet are beyond it."""
        return min(self._context.units.cut(metric["tau"]), LARGEST)

    @cached_property
    def _points(self) -> Points:
        cells = len(self.cuts) + 1
        ours = self._context.positives
        place = self._owner[ours.query] * cells
        place += np.searchsorted(self.cuts.at, ours.distance, side="left")
        owners = len(self._columns)
        positive = np.bincount(place, minlength=owners * cells).reshape(-1, cells)
        every = self._tally.counts
        true, positives = self._without(positive, np.ones(self._folds.columns))
        false, negatives = self._without(every - positive, self._gone)
        ends = self.cuts.at[[0, *range(len(self.cuts)), -1]]
        at = self._context.space.in_unit(ends)
        return Points(at, true, false, positives, negatives)

    def _without(self, table: Integers, times: Reals) -> tuple[Reals, Reals]:
        """(1 + columns, points), (1 + columns, 1): shares accepted, and how many pairs there are.

        The table has a row for each owner; a fold's pairs are taken away so many times.
        """
        by_fold = np.zeros((self._folds.columns, table.shape[1]), np.int64)
        for row, columns in zip(table, self._columns, strict=True):
            for column in columns:
                by_fold[column] += row
        # Integers are added up first: a cut more, for a threshold of another metric, moves no bit.
        parts, total = np.cumsum(by_fold, axis=1), np.cumsum(table.sum(axis=0))
        accepted = np.concatenate([total[None].astype(np.float64), total - times[:, None] * parts])
        every = accepted[:, -1:]
        rates = accepted / np.maximum(every, 1.0)
        return np.concatenate([np.zeros((len(rates), 1)), rates], axis=1), every

    @property
    def _gone(self) -> Reals:
        """How often each fold's negatives are to be taken away.

        Twice, in leave-one-out; a little less where pairs inside the fold would go twice as well.
        """
        columns = self._folds.columns
        if not self._folds.takes_items:
            return np.ones(columns)
        of_unit = self._folds.of_unit
        size = np.bincount(self._folds.query_codes, minlength=len(of_unit))
        rows, squares = np.zeros(columns), np.zeros(columns)
        for way in of_unit.T:
            rows += np.bincount(way, size, minlength=columns)
            squares += np.bincount(way, size * size, minlength=columns)
        met = rows * size.sum() - squares
        inside = np.divide(rows * rows - squares, met, out=np.zeros(columns), where=met > 0)
        return np.asarray(2 * (1 - inside), np.float64)


def places(positives: Distances, negatives: Distances, cells: int) -> Distances:
    """Cuts where ascending positives and negatives lie, finer where misses or false accepts are
    few."""
    parts = [np.zeros(0)]
    if len(positives):
        far = at_places(positives, 1 - np.geomspace(1 / len(positives), 1 / 8, FARTHEST))
        even = at_places(positives, np.linspace(0.0, 1.0, cells + 1))
        parts += [even, far, np.nextafter(far, positives[0])]
    if len(negatives):
        parts.append(at_places(negatives, np.geomspace(1 / len(negatives), 1.0, cells)))
    every = np.concatenate(parts)
    return every if len(every) else np.zeros(1)
