"""GOM without each fold of the classes.

Means over queries lose the fold's queries, which is known of all, and move because the fold is
gone from the gallery, which is found by looking at the queries again (`again.py`). Curves lose and
move in the same way; their peaks are found again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core.curve import POINTS, Curve
from truerank.core.curve_moves import BandMoves, CurveMoves
from truerank.core.folds import FEWEST_CLASSES, FoldAssignment, why_too_few
from truerank.core.jackknife import Stratum, replicates
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.engine.observers import ResumableObserver
from truerank.families.family import Moves
from truerank.families.gom import scores
from truerank.families.gom.again import Again, CurvePoints
from truerank.families.gom.axes import GomAxes, curve_of
from truerank.families.gom.collect import Gom
from truerank.families.gom.curve_folds import Losses, knots_for, moved_curve
from truerank.families.gom.curves import BARE, GomCurve, curves_on
from truerank.families.gom.fewer import counted, end_of
from truerank.families.gom.rate_folds import RateFolds
from truerank.settings import current_limits

__all__ = ["GomFolds"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
RATE_COLUMNS = 420
"""Most folds without which a sample is observed at the thresholds of rates."""
MOST_MOVES = 1 << 24
"""Most queries x folds for which it is computed how far a value moves, if folds are many."""
MOST_HEIGHTS, FEWEST_POINTS = 1 << 27, 21
"""Most queries x folds x points of a curve that are looked at; and points that always are."""
PEAKS = ("mvp_max", "mrep_max")
FEWEST_FOUND = 5
"""With fewer queries that accept what a curve is made of, how it would move is not known."""
REASONS = {
    "tau_max": "the place of a maximum jumps, and how far cannot be told by leaving classes out",
    "tau_nz": "the smallest of all distances is no mean, and leaving classes out says little of it",
    "minmax": "scale=minmax follows the smallest and the largest distance, whose spread is unknown",
}


class GomFolds:
    """What the pass must count for GOM on the fixed axis, and the scores without each fold."""

    def __init__(self, family: GomAxes, folds: FoldAssignment) -> None:
        self._family, self._context = family, family.context
        self._most = current_limits().observed_pairs
        few = folds.coarser(RATE_COLUMNS)
        self._rates = RateFolds(family.context, family.rates, family.metrics, few)
        pairs = self._context.pairs
        looked_at = self._context.task.queries * min(1.0, self._most / max(1, pairs))
        self._folds = folds = folds.up_to(int(MOST_MOVES / max(1.0, looked_at)))
        self._stride = knots_for(math.ceil(looked_at), folds.own.stop)
        if isinstance(family.seen.get("fixed"), Gom):
            if any(metric.name in PEAKS for metric in family.metrics):
                self._gom.keep_folds(folds.query, folds.columns, 1)
            else:
                self._gom.keep_folds(folds.query[:, :1], folds.own.stop, self._stride)

    @property
    def _gom(self) -> Gom:
        return self._family.on("fixed")

    @property
    def observers(self) -> list[ResumableObserver]:
        """Those of rates; for all else queries are observed again afterwards."""
        return self._rates.observers

    @cached_property
    def _again(self) -> Again:
        """The queries, observed once more without each fold."""
        context = self._context
        fixed = [
            m
            for m in self._family.metrics
            if m.name not in REASONS and m["scale"] == "fixed" and m.get("far") is None
        ]
        weight = {m: context.weights(counted(context, m)) for m in fixed if m.name not in PEAKS}
        curves = [
            CurvePoints(m.name == "mvp_max", m["fp"] == "frozen", self._highest(m), self._gom.one)
            for m in self._peaked
        ]
        again = Again(
            self._gom.axis,
            self._folds,
            context.with_mate,
            weight,
            curves,
            self._most,
            stride=self._stride,
            limits=self._gom.limits,
        )
        context.observe_again(again, again.sample)
        return again

    def moves(self, metric: Metric, score: Score) -> Moves:
        """The score without each fold, or why that cannot be told."""
        if metric.name in REASONS:
            return REASONS[metric.name]
        if metric.get("far") is not None:
            return self._rates.moves(metric)
        if metric["scale"] == "minmax":
            return REASONS["minmax"]
        counts = counted(self._context, metric)
        classes = len(np.unique(self._folds.query_codes[counts]))
        if classes < FEWEST_CLASSES:
            return why_too_few(classes, "class", FEWEST_CLASSES)
        if metric.name in PEAKS:
            return self._folds.replicates(score.value + self._peaks(metric, counts))
        rows = np.flatnonzero(counts)
        values = scores.table(self._gom, metric)[end_of(metric)]
        strata = [Stratum(rows, self._again.changes[metric])]
        return replicates(self._folds, rows, values[rows], strata, self._context.weights(counts))

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, BandMoves]:
        """See Without."""
        return {
            one.name: self._why_no_band(scale, one) or self._moves_of(one, curves[one.name])
            for scale in self._family.seen
            for one in curves_on(self._family, scale)
            if one.number >= BARE
        }

    def _counts(self, one: GomCurve) -> Flags:
        """The queries that a curve is a mean over."""
        mates = self._context.with_mate
        return mates if one.with_mate else ~mates

    def _why_no_band(self, scale: str, one: GomCurve) -> str | None:
        if scale in REASONS:
            return REASONS[scale]
        classes = len(np.unique(self._folds.query_codes[self._counts(one)]))
        return why_too_few(classes, "class", FEWEST_CLASSES) if classes < FEWEST_CLASSES else None

    def _moves_of(self, one: GomCurve, curve: Curve) -> CurveMoves:
        """A curve on the fixed axis without each fold."""
        gom, stride, own = self._gom, self._stride, self._folds.own
        if one.limit is not None:
            unit, sums, some = float(one.limit), gom.accepted(one.limit), gom.accepting()
            of_fold, column = gom.accepted_by_fold(one.limit, stride), "value"
        else:
            unit, sums, column = gom.one, gom.totals()[one.number], "lower"
            of_fold = gom.totals_by_fold(stride)[:, one.number]
            some = (gom.totals()[0] / unit).astype(np.int64)  # at least so many found a mate
        counts = self._counts(one)
        gone = np.bincount(self._folds.query[counts, 0], minlength=own.stop)[own]
        losses = Losses(sums[::stride] / unit, of_fold[own] / unit, int(counts.sum()), gone)
        away, noise = losses.without(), None
        if self._folds.takes_items:  # otherwise the gallery stays
            moved, noise = self._again.bands.moved(one.number - BARE, losses.left)
            away = away + moved
        return moved_curve(one.like, column, curve[column], away, noise, some < FEWEST_FOUND)

    @property
    def _peaked(self) -> list[Metric]:
        """The metrics that are the highest points of curves on the fixed axis."""
        found = {m for m in self._family.metrics if m.name in PEAKS and m["scale"] == "fixed"}
        return sorted(found, key=str)

    def _highest(self, metric: Metric) -> Integers:
        """The points of a curve, or the highest of them, where without a fold its peak may be."""
        steps = self._context.task.queries * self._folds.columns
        points = np.arange(0, POINTS + 1, POINTS // 100 if _is_coarse(metric) else 1)
        count = min(max(MOST_HEIGHTS // steps, FEWEST_POINTS), len(points))
        heights = self._gom.totals()[curve_of(metric)][points]
        return points[np.sort(np.argsort(-heights, kind="stable")[:count])]

    def _peaks(self, metric: Metric, counts: Flags) -> Reals:
        """How far the highest point of a curve moves."""
        points, curve = self._highest(metric), curve_of(metric)
        total = self._gom.totals()[curve][points]
        of_fold = self._gom.totals_by_fold(1)[:, curve][:, points]
        gone = np.bincount(self._folds.query[counts].ravel(), minlength=len(of_fold))
        curves = (total - of_fold) / (int(counts.sum()) - gone)[:, None]
        if self._folds.takes_items:  # otherwise the gallery stays
            curves += self._moved(metric, counts)
        moves = curves.max(axis=1) - (total / int(counts.sum())).max()
        return np.asarray(moves / self._gom.one, np.float64)

    def _moved(self, metric: Metric, counts: Flags) -> Reals:
        """(folds, points): by how much the mean curve moves because a fold is not met."""
        again = self._again
        sample = again.sample[counts[again.sample]]
        left = len(sample) - np.bincount(
            self._folds.query[sample].ravel(), minlength=self._folds.columns
        )
        moved = again.moved(self._peaked.index(metric))
        return np.asarray(moved / np.maximum(left, 1)[:, None], np.float64)


def _is_coarse(metric: Metric) -> bool:
    return bool(metric["integral"] == "trapezoid")
