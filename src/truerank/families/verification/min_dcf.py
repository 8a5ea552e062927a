"""minDCF: the least cost of misses and false accepts over all thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric, register
from truerank.core.parameters import INNER, POSITIVE, Parameter
from truerank.core.score import Score
from truerank.families.thresholds import certain
from truerank.families.verification.pair_metric import PairMetric

if TYPE_CHECKING:
    from truerank.families.verification.points import Points
    from truerank.families.verification.pooled import PooledPairs

__all__: list[str] = []


def _costs(metric: Metric) -> tuple[float, float]:
    """The cost of rejecting everything, and of accepting everything."""
    prior, miss, false_accept = (float(metric[key]) for key in ("p", "miss", "fa"))
    return miss * prior, false_accept * (1 - prior)


def _score(pairs: PooledPairs, metric: Metric) -> Score:
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


def _at_points(points: Points, metric: Metric) -> npt.NDArray[np.float64]:
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
        score=_score,
        at_points=_at_points,
        parameters=(
            Parameter("p", INNER, "share of positive pairs to prepare for", "0.01"),
            Parameter("miss", POSITIVE, "cost of a positive pair rejected", "1"),
            Parameter("fa", POSITIVE, "cost of a negative pair accepted", "1"),
        ),
        higher_is_better=False,
        examples=("min_dcf", "min_dcf@p=0.05", "min_dcf@fa=2,miss=10,p=0.5"),
    )
)
