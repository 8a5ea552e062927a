"""The one rule for the threshold at a FAR target, and the scores that threshold metrics return."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from truerank.metrics.registry import Metric, definition
from truerank.result import Score
from truerank.space import Distances
from truerank.wording import count

__all__ = ["NO_IMPOSTORS", "allowed", "certain", "limit_at", "rate", "undefined", "unresolved"]

NO_IMPOSTORS = "not defined: every query has a mate"


def rate(metric: Metric, key: str) -> Fraction:
    """An option's value as the rational number its decimal text stands for."""
    return Fraction(dict(metric.options)[key])


def allowed(target: Fraction, impostors: int) -> int:
    """r = floor(f N): how many of N impostors may be accepted at a FAR of f."""
    return math.floor(target * impostors)


def limit_at(impostors: Distances, target: Fraction) -> float:
    """d* of ascending impostor distances, below which is accepted; infinite if all may be."""
    r = allowed(target, len(impostors))
    return float(impostors[r]) if r < len(impostors) else math.inf


def unresolved(target: Fraction, impostors: int) -> str | None:
    """Why a FAR target cannot be told from zero with so few impostors, None if it can."""
    if target == 0 or target * impostors >= 1:
        return None
    least = Context(prec=3, rounding=ROUND_CEILING).divide(Decimal(1), Decimal(impostors))
    return (
        f"not defined: {count(impostors, 'impostor')} cannot resolve a FAR of {float(target):g}; "
        f"the smallest that they can is {float(least):g}"
    )


def undefined(metric: Metric, reason: str, n: int = 0) -> Score:
    """A score that does not exist."""
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
