"""The one rule for the threshold at a FAR target, and the scores that threshold metrics return."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric, ThresholdDefinition
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.wording import count

if TYPE_CHECKING:
    from truerank.space import Distances

__all__ = [
    "FEWEST_BELOW",
    "NO_IMPOSTORS",
    "allowed",
    "at_places",
    "certain",
    "far_targets",
    "limit_at",
    "measure",
    "threshold_at_far",
    "undefined",
    "unresolved",
    "why_too_few_below",
]

NO_IMPOSTORS = "not defined: every query has a mate"
FEWEST_BELOW = 5
"""A threshold set by fewer queries than this has no interval: it jumps from one to the next."""


def far_targets(metric: Metric) -> list[Fraction]:
    """The FARs at which a metric looks for thresholds: one, two, or none."""
    far = metric.get("far")
    return [] if far is None else list(far) if isinstance(far, tuple) else [far]


def allowed(target: Fraction, impostors: int) -> int:
    """r = floor(f N): how many of N impostors may be accepted at a FAR of f."""
    return math.floor(target * impostors)


def limit_at(impostors: Distances, target: Fraction) -> float:
    """d* of ascending impostor distances, below which is accepted; infinite if all may be."""
    r = allowed(target, len(impostors))
    return float(impostors[r]) if r < len(impostors) else math.inf


class Negatives(Protocol):
    """Negative pairs, whose distances can be looked up by rank."""

    @property
    def impostors(self) -> int:
        """The number of negative pairs."""

    def impostor(self, rank: int) -> float:
        """The rank-th smallest negative distance, infinite beyond the last."""

    def observed_below(self, distance: float) -> float | None:
        """The largest distance of any pair below this one; None if there is none."""


def threshold_at_far(pairs: Negatives, target: Fraction) -> tuple[float, float | None]:
    """d*, below which a pair is accepted, and the largest observed distance below it.

    With every pair met twice, floor(2 f N)/2 rounded down is floor(f N): the same d*.
    """
    limit = pairs.impostor(allowed(target, pairs.impostors) + 1)
    return limit, pairs.observed_below(limit)


def unresolved(target: Fraction, met: int, what: str = "impostor") -> str | None:
    """Why a FAR target cannot be told from zero with so few impostors, None if it can."""
    if target == 0 or target * met >= 1:
        return None
    least = Context(prec=3, rounding=ROUND_CEILING).divide(Decimal(1), Decimal(met))
    return (
        f"not defined: {count(met, what)} cannot resolve a FAR of {float(target):g}; "
        f"the smallest that they can is {float(least):g}"
    )


def why_too_few_below(below: int) -> str:
    """Why a threshold that so few queries set has no interval."""
    return (
        f"{count(below, 'query')} without a mate below its threshold; an interval needs at least "
        f"{FEWEST_BELOW}"
    )


def measure(metric: Metric, seen: Any) -> Score:
    """A metric's score from what its family has collected."""
    known = definition(metric)
    if not isinstance(known, ThresholdDefinition):
        raise TypeError(f"{metric} is no metric over thresholds")
    score: Score = known.measure(seen, metric)
    return score


def undefined(metric: Metric, reason: str, n: int = 0) -> Score:
    """A score that is not defined, with the reason."""
    nan = float("nan")
    return Score(str(metric), nan, nan, nan, nan, n=n, reason=reason)


def certain(
    metric: Metric,
    value: float,
    n: int,
    *,
    threshold: float | None = None,
    bracket: tuple[float, float] | None = None,
    chance: float | None = None,
) -> Score:
    """A score that ties leave no doubt about; its best is 1, or 0 if lower is better."""
    best = 1.0 if definition(metric).higher_is_better else 0.0
    return Score(
        str(metric),
        value,
        value,
        value,
        value,
        chance=chance,
        attainable=None if chance is None else best,
        n=n,
        threshold=threshold,
        bracket=bracket,
    )


def at_places(ascending: Distances, rates: npt.NDArray[np.float64]) -> Distances:
    """The numbers that stand at these shares of a list."""
    return ascending[np.rint(rates * (len(ascending) - 1)).astype(np.int64)]
