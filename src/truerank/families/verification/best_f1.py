"""The largest F1 over all thresholds: 2 TP / (TP + FP + P), of P positive pairs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.metric import Metric, register
from truerank.core.score import Score
from truerank.families.thresholds import certain
from truerank.families.verification.pair_metric import PairMetric

if TYPE_CHECKING:
    from truerank.families.pool import Pooled
    from truerank.families.verification.points import Points
    from truerank.families.verification.pooled import PooledPairs

__all__: list[str] = []

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def _f1(pool: Pooled, true: Integers, false: Integers) -> Reals:
    return np.asarray(2 * true / (true + false + pool.genuine), np.float64)


def _steps(pool: Pooled) -> Integers:
    """The cuts at which positives join; a best one is among them: others add only negatives."""
    return np.flatnonzero(np.diff(pool.true_accepts, prepend=0))


def _best(pool: Pooled) -> int:
    """The first cut of the largest F1."""
    steps, true, false = _steps(pool), pool.true_accepts, pool.false_accepts
    values = _f1(pool, true[steps], false[steps])
    # A quotient of integers is rounded correctly: none that is larger has a smaller float.
    largest: list[int] = steps[values == values.max()].tolist()
    return max(largest, key=lambda i: Fraction(int(true[i]), int(false[i]) + pool.genuine))


def _score(pairs: PooledPairs, metric: Metric) -> Score:
    pool = pairs.pool
    best, steps = _best(pool), _steps(pool)
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


def _at_points(points: Points, metric: Metric) -> Reals:
    true, false = points.true * points.positives, points.false * points.negatives
    found = true + false + points.positives
    values = np.divide(2 * true, found, out=np.zeros_like(found), where=found > 0)
    return np.asarray(values.max(axis=1), np.float64)


def _curve(pairs: PooledPairs) -> Curve:
    """F1, precision and recall by threshold, wherever anything is accepted."""
    pool = pairs.pool
    cuts = np.union1d(pool.corners(), [_best(pool)])
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
        score=_score,
        at_points=_at_points,
        curve=_curve,
        examples=("best_f1",),
    )
)
