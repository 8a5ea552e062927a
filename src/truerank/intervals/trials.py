"""Intervals of the scores of a trial list: each person is deleted with all of its trials.

Persons are dealt into jackknife groups. A trial of two persons is deleted with the group of
either, so its own chance counts twice; that excess is measured by deleting shares of such
trials, and subtracted. That is the variance of dyadic data (Aronow, Samii & Assenova,
Cluster-Robust Variance Estimation for Dyadic Data, Political Analysis 2015). Replicates follow
an order of persons that all results on one list share, so that results can be compared. With
many persons the variance is that of single persons, whatever the groups. A list is identified
by the set of its (left, right, same), so neither the order of lines nor the scores matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.text import count
from truerank._util.types import Flags, Integers, Reals
from truerank.core.curve import Curve
from truerank.core.jackknife import (
    FEWEST_CLASSES,
    DyadicReplicates,
    FoldAssignment,
    Replicates,
    squares,
)
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.distance.digests import Fingerprints, mix
from truerank.intervals.bands import put_band
from truerank.intervals.interval import Interval, IntervalRequest, interval_of
from truerank.intervals.jackknife_groups import deal_queries
from truerank.metrics.thresholds.definitions import allowed
from truerank.metrics.thresholds.family import Units
from truerank.metrics.thresholds.pair_pool import FEWEST_BELOW, Points, moved_curves, places
from truerank.metrics.thresholds.verification import FoldedTrials, PairMetric, pair_metric

# Intervals of the scores of a list of trials: people leave, with all the trials they are in.
#
# People are dealt into folds, and the jackknife leaves one fold out at a time. A trial of two
# people leaves with the fold of either, so its own chance is counted twice; how much that is, is
# measured by leaving out shares of such trials, and taken off again. That is the variance of
# dyadic data (Aronow, Samii & Assenova, Cluster-Robust Variance Estimation for Dyadic Data,
# Political Analysis 2015).
#
# Every score keeps replicates for comparisons: over the people in an order that all results on one
# list share, with what is counted twice share by share, so that both can be subtracted from
# others.
#
# Who shares a fold with whom is an accident. Of many people nobody weighs much, so that what a
# score moves by adds up over trials: its variance is then that of single people, whatever the
# folds.


MOST_FOLDS = 400
"""Up to so many people each leaves alone. What is taken off is an estimate too, and must not drown
the rest."""
CELLS, CELLS_OF_TRIALS = 1024, 256
"""Cuts at quantiles of each kind for folds, and for single trials: between two cuts all trials of a
kind move a score alike. Up to four times as many distinct distances all are cuts."""


class TrialIntervals:
    """Intervals of the scores of a list of trials, and the replicates that comparisons pair."""

    def __init__(
        self,
        distances: Reals,
        same: Flags,
        people: Integers,
        units: Units,
        request: IntervalRequest,
        names: TrialNames,
    ) -> None:
        """`people` is (trials, 2): the number of the person on each side, in their names' order."""
        prints = mix(mix(distances.view(np.int64)) + mix(same + np.int64(1)))
        self._own = _Departures(distances, same, people, units, prints)
        self._paired = _Departures(distances, same, names.numbered(people), units, names.prints)
        self._same, self._request = same, request
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
            "method": f"delete-group jackknife over {self._own.folds} shares of the people",
            "truth": "expectation over new people, paired in the same way",
            "seed": self._request.seed,
        }

    @property
    def _too_few(self) -> str:
        people = count(self.people, "person")
        return f"{people} in the trials; an interval needs at least {FEWEST_CLASSES}"

    def _interval(self, score: Score, metric: Metric, folded: FoldedTrials) -> Interval:
        if self._own.assignment is None:
            return Interval(reason=self._too_few)
        if metric.get("far") is not None:
            below = allowed(metric["far"], int((~self._same).sum()))
            if below < FEWEST_BELOW:
                return Interval(
                    reason=f"{count(below, 'negative trial')} below its threshold; an interval "
                    f"needs at least {FEWEST_BELOW}"
                )
        own, noise = self._own.moves(metric, folded)
        if not np.isfinite(own).all():
            return Interval(reason="without some of the people it is not defined")
        replicates = Replicates(tuple((score.value + own).tolist()), noise)
        found = interval_of(score, metric, (replicates, replicates), self._request.confidence)
        return replace(found, replicates=self._paired.replicates(score.value, metric, folded))

    def banded(self, curves: Mapping[str, Curve]) -> dict[str, Curve]:
        """The curves with their confidence bands, unless there are too few people."""
        if self._own.assignment is None:
            return {name: curve.without_band(self._too_few) for name, curve in curves.items()}
        found, points = dict(curves), self._own.without_folds[1]
        for name, some in moved_curves(points, curves, int((~self._same).sum())).items():
            for one in some:
                own, twice = np.split(one.without, 2)
                away = twice - twice.mean(axis=0)
                moves = one.moves(own, (away * away).sum(axis=0))
                found[name] = put_band(found[name], moves, self._request.confidence)
        return found


class _Departures:
    """Scores without each jackknife group of the people, dealt by a number for each trial."""

    def __init__(
        self, distances: Reals, same: Flags, people: Integers, units: Units, prints: Fingerprints
    ) -> None:
        self._distances, self._same, self._people = distances, same, people
        self._units, self._prints = units, prints

    @property
    def folds(self) -> int:
        """Number of the folds of the people; 0 if they are too few."""
        return 0 if self.assignment is None else min(MOST_FOLDS, self.assignment.classes)

    def moves(self, metric: Metric, folded: FoldedTrials) -> tuple[Reals, float]:
        """How far a score moves without each fold, and the squares that are in it twice."""
        singly = self.assignment is not None and self.assignment.classes > MOST_FOLDS
        cell, values = self._values(metric, folded, singly=singly)
        moved = values[1:] - values[0]
        if not np.isfinite(moved).all():
            return moved, 0.0
        if singly:
            return self._added_up(cell, moved)
        own, twice = np.split(moved, 2)
        return own, squares(twice.tolist())

    def replicates(
        self, value: float, metric: Metric, folded: FoldedTrials
    ) -> DyadicReplicates | None:
        """The score without each fold, and without each share of the trials of two people; None
        where it is not defined without one of them."""
        _, values = self._values(metric, folded, singly=False)
        without = value + (values[1:] - values[0])
        if not np.isfinite(without).all():
            return None
        own, twice = np.split(without, 2)
        return DyadicReplicates.of(own.tolist(), twice.tolist())

    def _added_up(self, cell: Integers, moved: Reals) -> tuple[Reals, float]:
        """The same from what single trials move it by; the squares left are those of people."""
        of_kind = moved.reshape(2, -1)
        by_trial = np.where(self._same, of_kind[0][cell], of_kind[1][cell])
        one = math.ldexp(1.0, math.frexp(float(np.abs(by_trial).max()))[1] - 36)
        whole = np.rint(by_trial / one).astype(np.int64)  # sums in any order have the same bits
        (rows, person), two = self._sides, np.flatnonzero(np.ptp(self._people, axis=1))
        fold = self._fold_of_person
        by_person, by_fold, by_pair = (
            _sums(whole[some], owner, one)
            for some, owner in (
                (rows, person),
                (rows, fold[person]),
                (two, self._pair_of(two)),
            )
        )
        seen, of_people, of_pairs = (squares(x.tolist()) for x in (by_fold, by_person, by_pair))
        return by_fold, seen - (of_people - of_pairs)

    def _values(
        self, metric: Metric, folded: FoldedTrials, *, singly: bool
    ) -> tuple[Integers, Reals]:
        """The cell of each trial; the score of all trials, then without some of them."""
        if not isinstance(definition(metric), PairMetric):
            # The share judged rightly at thresholds that stay, at the list's share of positives.
            cell, positive = (~folded.right).astype(np.int64), float(self._same.mean())
            true, false = (self._shares(kind, cell, 2, singly)[0] for kind in (True, False))
            return cell, positive * true[:, 1] + (1 - positive) * false[:, 1]
        if metric.get("tau") is None:
            cell, points = self._without_one if singly else self.without_folds
        else:
            cell, points = self._at(np.array([self._units.cut(metric["tau"])]), singly)
            points = points.at_cut(0)
        return cell, pair_metric(metric).at_points(points, metric)

    @cached_property
    def without_folds(self) -> tuple[Integers, Points]:
        """Operating points of all trials, then without each fold and each share of negatives."""
        return self._at(self._places(CELLS), False)

    @cached_property
    def _without_one(self) -> tuple[Integers, Points]:
        """Operating points of all trials, then without one of each cell, positives first."""
        return self._at(self._places(CELLS_OF_TRIALS), True)

    def _at(self, cuts: Reals, singly: bool) -> tuple[Integers, Points]:
        """The cell of each trial between cuts, and the operating points there."""
        cell = np.searchsorted(cuts, self._distances, side="left")
        true, positives = self._shares(True, cell, len(cuts) + 1, singly)
        false, negatives = self._shares(False, cell, len(cuts) + 1, singly)
        at = self._units.space.in_unit(cuts[[0, *range(len(cuts)), -1]])
        return cell, Points(at, true, false, positives, negatives)

    def _shares(
        self, positive: bool, cell: Integers, cells: int, singly: bool
    ) -> tuple[Reals, Reals]:
        """(rows, 1 + cells), (rows, 1): the share of one kind's trials up to each cell, and their
        number; of all trials, then without some of them."""
        kind = self._same == positive
        total = np.cumsum(np.bincount(cell[kind], minlength=cells))
        if singly:
            each, none = np.tri(cells).T, np.zeros((cells, cells))
            gone = np.concatenate([each, none] if positive else [none, each])
        else:
            gone = self._gone(kind, cell, cells, int(total[-1]))
        left = np.concatenate([total[None].astype(np.float64), total - gone])
        every = left[:, -1:]
        shares = left / np.maximum(every, 1.0)
        return np.concatenate([np.zeros((len(shares), 1)), shares], axis=1), every

    def _gone(self, kind: Flags, cell: Integers, cells: int, total: int) -> Reals:
        """(columns, cells): trials of a kind, up to each cell, that leave with each column."""
        rows, columns = self._leaving
        chosen = kind[rows]
        place = columns[chosen] * cells + cell[rows[chosen]]
        gone = np.bincount(place, minlength=2 * self.folds * cells).reshape(-1, cells)
        gone = np.cumsum(gone, axis=1)
        if kind[self._same].any():
            return gone.astype(np.float64)
        # Negatives leave with either person, twice as many as the jackknife reckons with: taken
        # away a little less often, they move a mean as far as a single fold's would.
        return np.asarray(gone / (1 - 1 / self.folds + gone[:, -1:] / max(total, 1)), np.float64)

    def _places(self, cells: int) -> Reals:
        """Distances to count at: all, or quantiles of each kind, finer where misses or false
        accepts are few."""
        distinct = np.unique(self._distances)
        if len(distinct) <= 4 * cells:
            return distinct
        ours, theirs = (np.sort(self._distances[kind]) for kind in (self._same, ~self._same))
        return np.unique(places(ours, theirs, cells))

    @cached_property
    def assignment(self) -> FoldAssignment | None:
        """Who leaves together; None if there are too few people."""
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
    def _fold_of_person(self) -> Integers:
        if self.assignment is None:
            raise TypeError("too few people to leave any out")
        return self.assignment.deal(self.assignment.orders[0], self.folds)

    @cached_property
    def _leaving(self) -> tuple[Integers, Integers]:
        """Trials and the columns with which they leave: folds of people, and shares."""
        left, right = self._people.T
        first, second = self._fold_of_person[left], self._fold_of_person[right]
        apart, two = np.flatnonzero(first != second), np.flatnonzero(left != right)
        shares = self.folds + self._shares_of(two, self.folds)
        rows = np.concatenate([np.arange(len(left)), apart, two])
        return rows, np.concatenate([first, second[apart], shares])

    def _shares_of(self, rows: Integers, shares: int) -> Integers:
        """The share of each trial of two people; all trials of the same two go to one."""
        pair = self._pair_of(rows)
        total = np.zeros(int(pair.max(initial=-1)) + 1, np.uint64)
        np.add.at(total, pair, self._prints[rows])
        place = np.empty(len(total), np.int64)
        place[np.argsort(mix(total), kind="stable")] = np.arange(len(total))
        return np.asarray(place[pair] % shares, np.int64)

    def _pair_of(self, rows: Integers) -> Integers:
        """A number for the two people of each of these trials."""
        low, high = np.sort(self._people[rows], axis=1).T
        return np.unique(low * (int(self._people.max()) + 1) + high, return_inverse=True)[1]


def _sums(values: Integers, owner: Integers, one: float) -> Reals:
    """The sum of each owner's values, which are in units of `one`."""
    found = np.zeros(int(owner.max(initial=-1)) + 1, np.int64)
    np.add.at(found, owner, values)
    return np.asarray(found * one, np.float64)


# What two results on one list of trials have in common: its trials by name, and its people.


@dataclass(frozen=True, eq=False)
class TrialNames:
    """A number for each trial, made of its two ids and of whether they belong together."""

    prints: Fingerprints

    @staticmethod
    def of(left: Sequence[Any], right: Sequence[Any], same: npt.NDArray[np.bool_]) -> TrialNames:
        """The numbers of trials; ids count as text, as they stand in files.

        Examples
        --------
        >>> one = TrialNames.of(["a", "a"], ["b", "c"], np.array([True, False]))
        >>> two = TrialNames.of(["a", "a"], ["c", "b"], np.array([False, True]))
        >>> one.digest() == two.digest()
        True
        """
        first, second = _numbers(left), _numbers(right)
        return TrialNames(mix(mix(mix(first + np.uint64(1)) ^ second) + same + np.uint64(1)))

    @cached_property
    def _order(self) -> Integers:
        return np.argsort(self.prints, kind="stable")

    def digest(self) -> str:
        """Hash of the list, whatever the order of its trials; a trial that is there twice counts
        twice."""
        return _hash(self.prints[self._order])

    def numbered(self, people: Integers) -> Integers:
        """(trials, 2): the same people, numbered as they first appear in the trials by name.

        Whatever they are called, two results on one list number them alike.
        """
        codes = people[self._order]
        _, first, code = np.unique(codes, return_index=True, return_inverse=True)
        number = np.empty(len(first), np.int64)
        number[np.argsort(first)] = np.arange(len(first))
        found = np.empty_like(people)
        found[self._order] = number[code].reshape(people.shape)
        return found

    def digest_of(self, codes: Integers) -> str:
        """Hash of a partition of the trials, or of their sides, whatever its parts are called."""
        table = codes.reshape(len(self.prints), -1)
        return _hash(self.numbered(table)[self._order])


def _numbers(names: Sequence[Any]) -> Fingerprints:
    """64 bits for each name."""
    large = 2**64  # str refuses integers of some thousand digits
    text = [hex(n) if isinstance(n, int) and abs(n) > large else str(n) for n in names]
    known = {
        name: int.from_bytes(
            blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
        )
        for name in set(text)
    }
    return np.fromiter((known[name] for name in text), np.uint64, len(text))


def _hash(numbers: npt.NDArray[Any]) -> str:
    plain = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
    return blake2b(plain.tobytes(), digest_size=16).hexdigest()
