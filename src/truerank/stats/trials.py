"""Intervals of the scores of a list of trials: people leave, with all the trials they are in.

People are dealt into folds, and the jackknife leaves one fold out at a time. A trial of two people
leaves with the fold of either, so its own chance is counted twice; how much that is, is measured by
leaving out shares of such trials, and taken off again. That is the variance of dyadic data (Aronow,
Samii & Assenova, Cluster-Robust Variance Estimation for Dyadic Data, Political Analysis 2015).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.folds import FEWEST_CLASSES, FoldAssignment
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.engine.cuts import Cuts
from truerank.families.family import Units
from truerank.families.thresholds import allowed, at_places
from truerank.families.trials import FoldedTrials
from truerank.families.verification.folds import FEWEST_BELOW
from truerank.families.verification.moved_curves import moved_curves
from truerank.families.verification.pair_metric import PairMetric, pair_metric
from truerank.families.verification.points import Points
from truerank.space.fingerprint import Fingerprints, mix
from truerank.stats.bands import put_band
from truerank.stats.folds import deal_queries
from truerank.stats.intervals import Interval, IntervalRequest, interval_of
from truerank.wording import count

__all__ = ["TrialIntervals"]

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
MOST_FOLDS = 400
"""Up to so many people each leaves alone. What is taken off is an estimate too, and must not drown
the rest."""
DISTINCT, CELLS = 1 << 12, 1 << 10
"""Up to so many distinct distances all are cuts; beyond, quantiles of each kind."""


class TrialIntervals:
    """The trials of a list, and what becomes of scores without each fold of the people."""

    def __init__(
        self,
        distances: Reals,
        same: Flags,
        people: Integers,
        units: Units,
        request: IntervalRequest,
    ) -> None:
        """`people` is (trials, 2): the number of the person on each side, in their names' order."""
        self._distances, self._same, self._people = distances, same, people
        self._units, self._request = units, request
        self.people = len(np.unique(people))

    def put_on(self, score: Score, metric: Metric, folded: FoldedTrials) -> Score:
        """A score with its interval, or with the reason why there is none."""
        if score.reason is not None:
            return score
        return self._interval(score, metric, folded).put_on(score)

    def facts(self) -> dict[str, Any]:
        """How the intervals came about, for the result's provenance."""
        return {
            "confidence": self._request.confidence,
            "method": f"delete-group jackknife over {self.folds} shares of the people",
            "truth": "expectation over new people, paired in the same way",
            "seed": self._request.seed,
        }

    @property
    def folds(self) -> int:
        """Number of the folds of the people; 0 if they are too few."""
        return 0 if self._folds is None else min(MOST_FOLDS, self._folds.classes)

    @property
    def _too_few(self) -> str:
        people = count(self.people, "person")
        return f"{people} in the trials; an interval needs at least {FEWEST_CLASSES}"

    def _interval(self, score: Score, metric: Metric, folded: FoldedTrials) -> Interval:
        if self._folds is None:
            return Interval(reason=self._too_few)
        if metric.get("far") is not None:
            below = allowed(metric["far"], int((~self._same).sum()))
            if below < FEWEST_BELOW:
                return Interval(
                    reason=f"{count(below, 'negative trial')} below its threshold; an interval "
                    f"needs at least {FEWEST_BELOW}"
                )
        if isinstance(definition(metric), PairMetric):
            values = self._of_points(metric)
        else:
            values = self._of_right(folded.right)
        if not np.isfinite(values).all():
            return Interval(reason="without some of the people it is not defined")
        moved = score.value + (values[1:] - values[0])
        own, twice = np.split(moved, 2)
        away = twice - math.fsum(twice) / len(twice)
        replicates = Replicates(tuple(own.tolist()), math.fsum(away * away))
        return interval_of(score, metric, (replicates, replicates), self._request.confidence)

    def _of_points(self, metric: Metric) -> Reals:
        """A metric over thresholds from operating points: of all trials, then without each fold."""
        if metric.get("tau") is None:
            return pair_metric(metric).at_points(self._points, metric)
        threshold = self._units.cut(metric["tau"])
        cuts = Cuts.of(np.array([threshold]))
        points = self._at(cuts).at_cut(cuts.where(threshold))
        return pair_metric(metric).at_points(points, metric)

    def banded(self, curves: Mapping[str, Curve]) -> dict[str, Curve]:
        """The curves with their confidence bands, unless there are too few people."""
        if self._folds is None:
            return {name: curve.without_band(self._too_few) for name, curve in curves.items()}
        found = dict(curves)
        for name, some in moved_curves(self._points, curves, int((~self._same).sum())).items():
            for one in some:
                own, twice = np.split(one.without, 2)
                away = twice - twice.mean(axis=0)
                moves = one.moves(own, (away * away).sum(axis=0))
                found[name] = put_band(found[name], moves, self._request.confidence)
        return found

    @cached_property
    def _points(self) -> Points:
        """Operating points at the places of the distances, of all trials and without each fold."""
        cuts = Cuts.of(self._places)
        return self._at(cuts).at_cuts(np.searchsorted(cuts.at, self._places))

    def _at(self, cuts: Cuts) -> Points:
        cell = np.searchsorted(cuts.at, self._distances, side="left")
        true, positives = self._shares(True, cell, len(cuts) + 1)
        false, negatives = self._shares(False, cell, len(cuts) + 1)
        at = self._units.space.in_unit(cuts.at[[0, *range(len(cuts)), -1]])
        return Points(at, true, false, positives, negatives)

    def _of_right(self, right: Flags) -> Reals:
        """The share judged rightly at thresholds that stay, at the list's share of positives."""
        judged = (~right).astype(np.int64)
        of_positives, _ = self._shares(True, judged, 2)
        of_negatives, _ = self._shares(False, judged, 2)
        positive = float(self._same.mean())
        return positive * of_positives[:, 1] + (1 - positive) * of_negatives[:, 1]

    def _shares(self, positive: bool, cell: Integers, cells: int) -> tuple[Reals, Reals]:
        """(rows, 1 + cells), (rows, 1): the share of one kind's trials up to each cell, and their
        number; of all trials, then without each fold and each share of the negatives."""
        rows, columns = self._leaving
        kind = self._same == positive
        chosen = kind[rows]
        place = columns[chosen] * cells + cell[rows[chosen]]
        gone = np.bincount(place, minlength=2 * self.folds * cells).reshape(-1, cells)
        gone = np.cumsum(gone, axis=1)
        total = np.cumsum(np.bincount(cell[kind], minlength=cells))
        # Negatives leave with either person, twice as many as the jackknife reckons with: taken
        # away a little less often, they move a mean as far as a single fold's would.
        share = gone[:, -1:] / max(int(total[-1]), 1)
        times = 1.0 if positive else 1 / (1 - 1 / self.folds + share)
        left = np.concatenate([total[None].astype(np.float64), total - times * gone])
        every = left[:, -1:]
        shares = left / np.maximum(every, 1.0)
        return np.concatenate([np.zeros((len(shares), 1)), shares], axis=1), every

    @cached_property
    def _places(self) -> Reals:
        distinct = np.unique(self._distances)
        if len(distinct) <= DISTINCT:
            return distinct
        kinds = [np.sort(self._distances[kind]) for kind in (self._same, ~self._same)]
        even = np.linspace(0.0, 1.0, CELLS + 1)
        few = np.geomspace(1 / len(kinds[1]), 1.0, CELLS)
        return np.unique(np.concatenate([at_places(kinds[0], even), at_places(kinds[1], few)]))

    @cached_property
    def _prints(self) -> Fingerprints:
        """A number for each trial that no order and no name can change."""
        return mix(mix(self._distances.view(np.int64)) + mix(self._same + np.int64(1)))

    @cached_property
    def _folds(self) -> FoldAssignment | None:
        rows, units = self._sides
        everyone = np.ones(len(rows), bool)
        return deal_queries(self._prints[rows], units, everyone)

    @cached_property
    def _sides(self) -> tuple[Integers, Integers]:
        """Trials and the people in them; a trial of one person stands here once."""
        left, right = self._people.T
        two = np.flatnonzero(left != right)
        rows = np.concatenate([np.arange(len(left)), two])
        return rows, np.concatenate([left, right[two]])

    @cached_property
    def _leaving(self) -> tuple[Integers, Integers]:
        """Trials and the columns with which they leave: folds of people, and shares."""
        folds = self._folds
        if folds is None:
            raise TypeError("too few people to leave any out")
        left, right = self._people.T
        fold = folds.deal(folds.orders[0], self.folds)
        first, second = fold[left], fold[right]
        apart, two = np.flatnonzero(first != second), np.flatnonzero(left != right)
        shares = self.folds + self._shares_of(two, self.folds)
        rows = np.concatenate([np.arange(len(left)), apart, two])
        return rows, np.concatenate([first, second[apart], shares])

    def _shares_of(self, rows: Integers, shares: int) -> Integers:
        """The share of each trial of two people; all trials of the same two go to one."""
        low, high = np.sort(self._people[rows], axis=1).T
        pair = np.unique(low * (int(self._people.max()) + 1) + high, return_inverse=True)[1]
        total = np.zeros(int(pair.max(initial=-1)) + 1, np.uint64)
        np.add.at(total, pair, self._prints[rows])
        place = np.empty(len(total), np.int64)
        place[np.argsort(mix(total), kind="stable")] = np.arange(len(total))
        return np.asarray(place[pair] % shares, np.int64)
