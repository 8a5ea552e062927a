"""Verification metrics (1:1): AUC, EER, minDCF, best F1, TAR, FMR, FNMR, accuracy of trials.

Each metric is defined and computed here from the counts of accepted pairs in pair_pool.py;
loading this file registers all of them. The accuracy over the folds of a trial list is LFW's
protocol.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.types import Flags, Integers, Reals
from truerank.core.curve import Curve
from truerank.core.metric import Metric, ThresholdDefinition, register
from truerank.core.parameters import INNER, POSITIVE, RATE, THRESHOLD, Parameter
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.metrics.thresholds.definitions import (
    allowed,
    certain,
    threshold_at_far,
    undefined,
    unresolved,
)

if TYPE_CHECKING:
    from truerank.metrics.thresholds.pair_pool import Points, Pooled, PooledPairs


# The definition of a verification metric: what is known of it and how it is computed.


ISO = "ISO/IEC 19795-1:2021, Biometric performance testing and reporting"


@dataclass(frozen=True, kw_only=True)
class PairMetric(ThresholdDefinition):
    """A metric over thresholds that accept or reject pairs; its score is of PooledPairs."""

    at_points: Callable[[Points, Metric], npt.NDArray[np.float64]]
    """The score, but for a constant, from operating points: of all pairs and without each fold."""
    curve: Callable[[PooledPairs], Curve] | None = None
    """The curve that is drawn where the metric is asked for."""
    counted: str = "pair"
    family: str = "verification"


def pair_metric(metric: Metric) -> PairMetric:
    """The definition of a metric of this family."""
    found = definition(metric)
    if not isinstance(found, PairMetric):
        raise TypeError(f"{metric} is no metric over pairs")
    return found


# AUC: the area under the ROC curve, from counts at the cuts.


def _area_score(pairs: PooledPairs, metric: Metric) -> Score:
    low, high = _area(pairs.pool)
    return certain(
        metric,
        low if low == high else (low + high) / 2,
        pairs.positives + pairs.negatives,
        bracket=None if low == high else (low, high),
        chance=0.5,
    )


def _area(pool: Pooled) -> tuple[float, float]:
    """Bounds of P(positive nearer than negative) + P(tie)/2; equal unless cuts were thinned."""
    true, false = pool.true_accepts, pool.false_accepts
    step = np.diff(true, prepend=0)
    before = np.concatenate([[0], false[:-1]])
    beaten = _dot(step, before + false)
    unsure = (step > 0) & ~pool.single
    open_ = _dot(step[unsure], (false - before)[unsure])
    total = 2 * pool.genuine * pool.impostors
    return (total - beaten - open_) / total, (total - beaten + open_) / total


def _dot(left: Integers, right: Integers) -> int:
    """The sum of products of integers, without overflow."""
    high, low = np.divmod(right, 1 << 24)
    return (int((left * high).sum()) << 24) + int((left * low).sum())


def _area_at_points(points: Points, metric: Metric) -> Reals:
    step = np.diff(points.true, axis=1)
    middle = (points.false[:, :-1] + points.false[:, 1:]) / 2
    return 1.0 - np.cumsum(step * middle, axis=1)[:, -1]


def _swapped(score: Score) -> str | None:
    if not score.value < 0.5:
        return None
    return (
        "positive pairs are farther apart than negative ones (AUC below 0.5): similarity and "
        "distance may be swapped."
    )


register(
    PairMetric(
        "auc",
        "area under the ROC curve",
        "probability that a positive pair is nearer than a negative one; a tie counts one half",
        "Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 2006",
        score=_area_score,
        at_points=_area_at_points,
        warning=_swapped,
        examples=("auc",),
    )
)


# The largest F1 over all thresholds: 2 TP / (TP + FP + P), of P positive pairs.


def _f1(pool: Pooled, true: Integers, false: Integers) -> Reals:
    return np.asarray(2 * true / (true + false + pool.genuine), np.float64)


def _steps(pool: Pooled) -> Integers:
    """The cuts at which positives join; a best one is among them: others add only negatives."""
    return np.flatnonzero(np.diff(pool.true_accepts, prepend=0))


def _best_f1_point(pool: Pooled) -> int:
    """The first cut of the largest F1."""
    steps, true, false = _steps(pool), pool.true_accepts, pool.false_accepts
    values = _f1(pool, true[steps], false[steps])
    # A quotient of integers is rounded correctly: none that is larger has a smaller float.
    largest: list[int] = steps[values == values.max()].tolist()
    return max(largest, key=lambda i: Fraction(int(true[i]), int(false[i]) + pool.genuine))


def _best_f1_score(pairs: PooledPairs, metric: Metric) -> Score:
    pool = pairs.pool
    best, steps = _best_f1_point(pool), _steps(pool)
    true, false = pool.true_accepts, pool.false_accepts
    value = float(_f1(pool, true[best], false[best]))
    loose = steps[~pool.single[steps]]
    before = np.concatenate([[0], false])[loose]
    bound = float(_f1(pool, true[loose], before).max(initial=value))
    return certain(
        metric,
        value,
        pairs.positives + pairs.negatives,
        threshold=pairs.units.in_unit(float(pool.cuts.at[best])),
        bracket=None if bound == value else (value, bound),
    )


def _best_f1_at_points(points: Points, metric: Metric) -> Reals:
    true, false = points.true * points.positives, points.false * points.negatives
    found = true + false + points.positives
    values = np.divide(2 * true, found, out=np.zeros_like(found), where=found > 0)
    return np.asarray(values.max(axis=1), np.float64)


def _curve(pairs: PooledPairs) -> Curve:
    """F1, precision and recall by threshold, wherever anything is accepted."""
    pool = pairs.pool
    cuts = np.union1d(pool.corners(), [_best_f1_point(pool)])
    cuts = cuts[pool.accepted[cuts] > 0]
    true, false = pool.true_accepts[cuts], pool.false_accepts[cuts]
    columns = {
        "threshold": pairs.units.space.in_unit(pool.cuts.at[cuts]),
        "f1": _f1(pool, true, false),
        "precision": true / (true + false),
        "recall": true / pool.genuine,
    }
    return Curve("f1", columns)


register(
    PairMetric(
        "best_f1",
        "largest F1 over thresholds",
        "largest harmonic mean of precision and recall over all thresholds, 2 TP / (TP + FP + P) "
        "for P positive pairs; a maximum gains from noise, so that no chance value is given",
        "Lipton, Elkan & Naryanaswamy, Optimal Thresholding of Classifiers to Maximize F1 Measure, "
        "ECML PKDD 2014",
        score=_best_f1_score,
        at_points=_best_f1_at_points,
        curve=_curve,
        examples=("best_f1",),
    )
)


# EER: where FAR meets FRR, in integers up to the last division.


def _eer_score(pairs: PooledPairs, metric: Metric) -> Score:
    value, threshold = _equal_error(pairs.pool)
    at = pairs.units.in_unit(threshold)
    return certain(metric, value, pairs.positives + pairs.negatives, threshold=at, chance=0.5)


def _equal_error(pool: Pooled) -> tuple[float, float]:
    """The rate and distance at which FAR meets FRR, interpolated between two operating points."""

    def state(index: int) -> tuple[int, int]:
        """Positives and negatives accepted at a cut."""
        if index < 0:
            return 0, 0
        if index == len(pool.cuts):
            return pool.genuine, pool.impostors
        return int(pool.true_accepts[index]), int(pool.false_accepts[index])

    def crossed(accepted: tuple[int, int]) -> bool:
        """Whether FAR >= FRR, in integers."""
        true, false = accepted
        return false * pool.genuine + true * pool.impostors >= pool.genuine * pool.impostors

    index = bisect_left(range(len(pool.cuts)), True, key=lambda i: crossed(state(i)))
    before, after = state(index - 1), state(index)
    if before[0] == after[0]:  # only negatives lie between: FRR stands still and FAR passes it
        miss = Fraction(pool.genuine - before[0], pool.genuine)
        rank = math.ceil(miss * pool.impostors)
        return miss.numerator / miss.denominator, pool.impostor(max(rank, 1))
    if pool.single[index]:
        return _meeting(pool, before, after), float(pool.cuts.at[index])
    base = before
    for distance, true, false in pool.steps(index):
        after = (base[0] + true, base[1] + false)
        if crossed(after):
            return _meeting(pool, before, after), distance
        before = after
    raise AssertionError("FAR and FRR cross between these cuts")


def _meeting(pool: Pooled, before: tuple[int, int], after: tuple[int, int]) -> float:
    """The rate at which the lines of FAR and FRR between two operating points meet."""
    gaps = []
    for true, false in (before, after):
        miss = Fraction(pool.genuine - true, pool.genuine)
        gaps.append((miss - Fraction(false, pool.impostors), miss))
    (first, miss), (second, later) = gaps
    value = miss + first / (first - second) * (later - miss)
    return value.numerator / value.denominator


def _eer_at_points(points: Points, metric: Metric) -> npt.NDArray[np.float64]:
    """The rates at the crossing move apart, and meet again where their slopes lead them.

    Which pairs lie next to the crossing is an accident; so how steep the two rates are is taken
    from all thresholds at which they differ by no more than half of the rate.
    """
    number = np.arange(len(points.at), dtype=np.float64)
    gap = points.false[0] - (1 - points.true[0])
    place, rate = (np.interp(0.0, gap, of) for of in (number, points.false[0]))
    low, high = np.interp([-rate / 2, rate / 2], gap, points.false[0])
    share = (high - low) / rate if rate > 0 else 0.0  # of the gap's change that is the FAR's
    true, false = points.between(np.array([place]))
    return np.asarray((1 - share) * false + share * (1 - true), np.float64)[:, 0]


register(
    PairMetric(
        "eer",
        "equal error rate",
        "the rate at which FAR and FRR are equal, interpolated between two operating points",
        ISO,
        score=_eer_score,
        at_points=_eer_at_points,
        higher_is_better=False,
        examples=("eer",),
    )
)


# minDCF: the least cost of misses and false accepts over all thresholds.


def _costs(metric: Metric) -> tuple[float, float]:
    """The cost of rejecting everything, and of accepting everything."""
    prior, miss, false_accept = (float(metric[key]) for key in ("p", "miss", "fa"))
    return miss * prior, false_accept * (1 - prior)


def _min_dcf_score(pairs: PooledPairs, metric: Metric) -> Score:
    pool = pairs.pool
    reject_all, accept_all = _costs(metric)
    missed = 1 - pool.true_accepts / pool.genuine
    false = pool.false_accepts / pool.impostors
    costs = reject_all * missed + accept_all * false
    # Accepting up to a positive distance, or nothing, is best: other cuts add only negatives.
    steps = np.flatnonzero(np.diff(pool.true_accepts, prepend=0))
    best = int(steps[np.argmin(costs[steps])])
    least = min(float(costs[best]), reject_all)
    threshold = float(pool.cuts.at[best]) if costs[best] == least else None
    loose = steps[~pool.single[steps]]
    before = np.concatenate([[0.0], false])[loose]
    bound = min([least, *(reject_all * missed[loose] + accept_all * before)])
    scale = min(reject_all, accept_all)
    return certain(
        metric,
        least / scale,
        pairs.positives + pairs.negatives,
        threshold=pairs.units.in_unit(threshold),
        bracket=None if bound == least else (bound / scale, least / scale),
    )


def _min_dcf_at_points(points: Points, metric: Metric) -> npt.NDArray[np.float64]:
    reject_all, accept_all = _costs(metric)
    costs = reject_all * (1 - points.true) + accept_all * points.false
    return np.asarray(costs.min(axis=1) / min(reject_all, accept_all), np.float64)


register(
    PairMetric(
        "min_dcf",
        "minimum detection cost",
        "least miss p FRR + fa (1 - p) FAR over all thresholds, divided by the cost of the better "
        "of accepting or rejecting everything",
        "NIST Speaker Recognition Evaluation plan, 2016",
        score=_min_dcf_score,
        at_points=_min_dcf_at_points,
        parameters=(
            Parameter("p", INNER, "share of positive pairs to prepare for", "0.01"),
            Parameter("miss", POSITIVE, "cost of a positive pair rejected", "1"),
            Parameter("fa", POSITIVE, "cost of a negative pair accepted", "1"),
        ),
        higher_is_better=False,
        examples=("min_dcf", "min_dcf@p=0.05", "min_dcf@fa=2,miss=10,p=0.5"),
    )
)


# TAR, FMR and FNMR, at a given threshold or at a given FAR; and the threshold of a FAR.


_FAR = Parameter("far", RATE, "share of the negative pairs that may be accepted")
_TAU = Parameter("tau", THRESHOLD, "accepted up to this distance, in the distance's own unit")


# -- positive pairs accepted, or rejected -----------------------------------------------------


def _positives(pairs: PooledPairs, metric: Metric) -> Score:
    """TAR, the share of positives accepted, or FNMR, that of those rejected."""
    pool, accepts = pairs.pool, metric.name == "tar"
    ours = pool.positives.ascending
    if metric["tau"] is not None:
        tau = metric["tau"]
        accepted = int(np.searchsorted(ours, pairs.units.cut(tau), side="right"))
        counted = accepted if accepts else pool.genuine - accepted
        return certain(metric, counted / pool.genuine, pairs.positives, threshold=float(tau))
    target, negatives = metric["far"], pairs.negatives
    reason = unresolved(target, negatives, "negative")
    if reason is not None:
        return undefined(metric, reason)
    limit, threshold = threshold_at_far(pool, target)
    accepted = int(np.searchsorted(ours, limit, side="left"))
    # A positive is as likely in any place among the negatives as in any other.
    chance = min((allowed(target, negatives) + 1) / (negatives + 1), 1.0)
    at = pairs.units.in_unit(threshold)
    if not accepts:
        accepted, chance = pool.genuine - accepted, 1 - chance
    return certain(metric, accepted / pool.genuine, pairs.positives, threshold=at, chance=chance)


def _tar_at_points(points: Points, metric: Metric) -> Reals:
    if metric["tau"] is not None:
        return points.true[:, 0]
    return points.true_at(np.array([float(metric["far"])]))[:, 0]


def _fnmr_at_points(points: Points, metric: Metric) -> Reals:
    return -_tar_at_points(points, metric)


register(
    PairMetric(
        "tar",
        "true accept rate",
        "share of positive pairs accepted, at the threshold tau or at the one where a share `far` "
        "of the negative pairs is accepted",
        ISO,
        score=_positives,
        at_points=_tar_at_points,
        parameters=(_FAR, _TAU),
        one_of=("far", "tau"),
        counted="positive pair",
        examples=("tar@far=0.01", "tar@far=0.001", "tar@tau=0.5"),
    )
)


# -- the threshold itself ---------------------------------------------------------------------


def _threshold(pairs: PooledPairs, metric: Metric) -> Score:
    target = metric["far"]
    reason = unresolved(target, pairs.negatives, "negative")
    if reason is not None:
        return undefined(metric, reason)
    threshold = pairs.units.in_unit(threshold_at_far(pairs.pool, target)[1])
    if threshold is None:
        return undefined(metric, "not defined: no pair is nearer than the nearest negative one")
    return certain(metric, threshold, pairs.negatives, threshold=threshold)


def _threshold_at_points(points: Points, metric: Metric) -> Reals:
    """The threshold moves by what is accepted at it too much, or too little.

    How far the next pair is, is an accident; so what a pair is worth is taken from all that are
    accepted at four fifths to five fourths of the rate.
    """
    target = float(metric["far"])
    rates, number = points.false[0], np.arange(len(points.at))
    low, here, high = np.interp([0.8 * target, target, 1.25 * target], rates, points.at)
    place = np.interp(target, rates, number)  # thresholds fall, where the unit is a similarity
    accepted = np.array([np.interp(place, number, false) for false in points.false])
    return np.asarray(here + (high - low) / (0.45 * target) * (target - accepted), np.float64)


register(
    PairMetric(
        "threshold",
        "threshold at a FAR",
        "the largest observed distance at which no more than a share `far` of the negative pairs "
        "is accepted",
        ISO,
        score=_threshold,
        at_points=_threshold_at_points,
        parameters=(_FAR,),
        one_of=("far",),
        unit="distance",
        range=(-math.inf, math.inf),
        decimals=4,
        counted="negative pair",
        examples=("threshold@far=0.01",),
    )
)


# -- false matches at a threshold -------------------------------------------------------------


def _fmr(pairs: PooledPairs, metric: Metric) -> Score:
    tau = metric["tau"]
    accepted = int(pairs.pool.up_to(np.array([pairs.units.cut(tau)]))[0])
    value = accepted / pairs.pool.impostors
    return certain(metric, value, pairs.negatives, threshold=float(tau))


def _fmr_at_points(points: Points, metric: Metric) -> Reals:
    return points.false[:, 0]


register(
    PairMetric(
        "fmr",
        "false match rate",
        "share of negative pairs accepted at the threshold tau",
        ISO,
        score=_fmr,
        at_points=_fmr_at_points,
        parameters=(_TAU,),
        one_of=("tau",),
        higher_is_better=False,
        counted="negative pair",
        examples=("fmr@tau=0.5",),
    )
)
register(
    PairMetric(
        "fnmr",
        "false non-match rate",
        "share of positive pairs rejected, at the threshold tau or at the one where a share `far` "
        "of the negative pairs is accepted: 1 - tar",
        ISO,
        score=_positives,
        at_points=_fnmr_at_points,
        parameters=(_FAR, _TAU),
        one_of=("far", "tau"),
        higher_is_better=False,
        counted="positive pair",
        examples=("fnmr@far=0.01", "fnmr@tau=0.5"),
    )
)


# Accuracy over the folds of a list of trials: LFW's protocol, which no evaluation of pairs has.


@dataclass(frozen=True)
class FoldedTrials:
    """Trials that a list deals into folds, each judged at the threshold best on the others."""

    apart: Reals
    """In the user's unit; similarities with their sign turned."""
    same: Flags
    folds: npt.NDArray[np.int64] | None
    larger_is_nearer: bool = False

    @property
    def lacking(self) -> str | None:
        """Why there is no accuracy over folds, None if there is one."""
        if self.folds is None:
            return "not defined: the list of trials has no folds"
        if any(len(np.unique(self.same[self._fold != fold])) < 2 for fold in range(self.count)):
            return "not defined: without some fold all trials are of one kind"
        return None

    @property
    def count(self) -> int:
        """The number of folds."""
        return int(self._fold.max(initial=-1)) + 1

    @cached_property
    def _fold(self) -> npt.NDArray[np.int64]:
        """The fold of each trial, by number."""
        given = np.empty(0, np.int64) if self.folds is None else self.folds
        return np.unique(given, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def thresholds(self) -> Reals:
        """For each fold the least of the thresholds that are right most often on the others."""
        others = (self._fold != fold for fold in range(self.count))
        return np.array([_best_of_trials(self.apart[rest], self.same[rest]) for rest in others])

    @cached_property
    def right(self) -> Flags:
        """Whether each trial is judged rightly, at the threshold of its fold."""
        return np.asarray((self.apart <= self.thresholds[self._fold]) == self.same)

    @cached_property
    def shares(self) -> list[Fraction]:
        """The share of each fold that is judged rightly."""
        folds = (self.right[self._fold == fold] for fold in range(self.count))
        return [Fraction(int(fold.sum()), len(fold)) for fold in folds]

    @cached_property
    def mean(self) -> Fraction:
        """The mean of the folds' shares."""
        return sum(self.shares, Fraction(0)) / len(self.shares)

    def standard_error(self) -> float:
        """The standard deviation of the folds' shares over the root of their number."""
        count = len(self.shares)
        squares = sum(((share - self.mean) ** 2 for share in self.shares), Fraction(0))
        return math.sqrt(squares / (count * (count - 1)))

    def chance(self) -> float:
        """What accepting or rejecting everything gets, whichever is better on the others."""
        shares = []
        for fold in range(self.count):
            there, rest = self.same[self._fold == fold], self.same[self._fold != fold]
            positive = Fraction(int(there.sum()), len(there))
            shares.append(positive if 2 * int(rest.sum()) > len(rest) else 1 - positive)
        return float(sum(shares, Fraction(0)) / len(shares))

    def to_dict(self) -> dict[str, Any]:
        """The folds' accuracies, their mean and its standard error, and the thresholds.

        A threshold that accepts everything, or nothing, is None.
        """
        sign = -1.0 if self.larger_is_nearer else 1.0
        return {
            "accuracy": float(self.mean),
            "standard_error": self.standard_error(),
            "per_fold": [float(share) for share in self.shares],
            "thresholds": [
                sign * at if math.isfinite(at) else None for at in self.thresholds.tolist()
            ],
        }


def _best_of_trials(apart: Reals, same: Flags) -> float:
    """The least of the best thresholds: half-way between two neighbouring distances, or beyond."""
    values, place = np.unique(apart, return_inverse=True)
    gain = np.bincount(place, np.where(same, 1, -1), minlength=len(values)).astype(np.int64)
    accepted = int(np.argmax(np.concatenate([[0], np.cumsum(gain)])))
    if accepted == 0:
        return -math.inf
    if accepted == len(values):
        return math.inf
    below, above = float(values[accepted - 1]), float(values[accepted])
    middle = below / 2 + above / 2
    return middle if below <= middle < above else below  # neighbouring floats have no middle


def _score_of_trials(trials: FoldedTrials, metric: Metric) -> Score:
    reason = trials.lacking
    if reason is not None:
        return undefined(metric, reason)
    return certain(metric, float(trials.mean), len(trials.same), chance=trials.chance())


register(
    ThresholdDefinition(
        "accuracy",
        "accuracy over folds",
        "mean over the folds of a list of trials of the share of correct decisions, at the "
        "threshold with most correct decisions on the other folds",
        "Huang, Ramesh, Berg & Learned-Miller, Labeled Faces in the Wild, 2007",
        score=_score_of_trials,
        counted="trial",
        ties="none: trials at one distance are accepted or rejected together",
        family="trials",
        examples=("accuracy",),
    )
)
