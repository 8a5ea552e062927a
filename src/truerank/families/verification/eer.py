"""EER: where FAR meets FRR, in integers up to the last division."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric, register
from truerank.core.score import Score
from truerank.families.thresholds import certain
from truerank.families.verification.pair_metric import ISO, PairMetric

if TYPE_CHECKING:
    from truerank.families.pool import Pooled
    from truerank.families.verification.points import Points
    from truerank.families.verification.pooled import PooledPairs

__all__: list[str] = []


def _score(pairs: PooledPairs, metric: Metric) -> Score:
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


def _at_points(points: Points, metric: Metric) -> npt.NDArray[np.float64]:
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
        score=_score,
        at_points=_at_points,
        higher_is_better=False,
        examples=("eer",),
    )
)
