"""AUC: the area under the ROC curve, from counts at the cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

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


def _score(pairs: PooledPairs, metric: Metric) -> Score:
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


def _at_points(points: Points, metric: Metric) -> Reals:
    step = np.diff(points.true, axis=1)
    middle = (points.false[:, :-1] + points.false[:, 1:]) / 2
    return 1.0 - np.cumsum(step * middle, axis=1)[:, -1]


def _swapped(score: Score) -> str | None:
    if not score.value < 0.5:
        return None
    return (
        "pairs that belong together are farther apart than the others (AUC below 0.5): similarity "
        "and distance may be swapped."
    )


register(
    PairMetric(
        "auc",
        "area under the ROC curve",
        "probability that a positive pair is nearer than a negative one; a tie counts one half",
        "Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 2006",
        score=_score,
        at_points=_at_points,
        warning=_swapped,
        examples=("auc",),
    )
)
