"""TAR, FMR and FNMR, at a given threshold or at a given FAR; and the threshold of a FAR."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric, register
from truerank.core.parameters import RATE, THRESHOLD, Parameter
from truerank.core.score import Score
from truerank.families.thresholds import allowed, certain, threshold_at_far, undefined, unresolved
from truerank.families.verification.pair_metric import ISO, PairMetric

if TYPE_CHECKING:
    from truerank.families.verification.points import Points
    from truerank.families.verification.pooled import PooledPairs

__all__: list[str] = []

Reals = npt.NDArray[np.float64]
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
