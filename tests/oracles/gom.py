"""GOM by its definitions (Eqs. 4 to 10), over every order that the distances allow.

In: thresholds tau of a query's candidates as Fractions in [0, 1] and which are relevant. Out: RP,
VP and ReP at a threshold as (lower, expected, upper), and integrals of step functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import sqrt

from tests.oracles import ranking

Triple = tuple[float, float, float]


def accepted(
    taus: Sequence[Fraction], relevant: Sequence[bool], tau: Fraction
) -> tuple[list[Fraction], list[bool]]:
    kept = [(t, r) for t, r in zip(taus, relevant, strict=True) if t <= tau]
    return [t for t, _ in kept], [r for _, r in kept]


def retrieval_precision(
    taus: Sequence[Fraction], relevant: Sequence[bool], tau: Fraction
) -> Triple:
    """Divided by the relevant items that were returned: AP of the accepted list."""
    near, flags = accepted(taus, relevant, tau)
    if not any(flags):
        return 0.0, 0.0, 0.0
    low, mean, high = ranking.triple("map", near, flags)
    return float(low), float(mean), float(high)


def verification_precision(
    taus: Sequence[Fraction], relevant: Sequence[bool], tau: Fraction, frozen: bool
) -> Triple:
    near, flags = accepted(taus, relevant, tau)
    true = sum(flags)
    if frozen and true == sum(relevant):  # what follows the last relevant item is not counted
        low, mean, high = ranking.triple("minp", taus, relevant)
        return float(low), float(mean), float(high)
    share = true / (sum(relevant) + len(near) - true)
    return share, share, share


def combined(
    taus: Sequence[Fraction], relevant: Sequence[bool], tau: Fraction, frozen: bool = False
) -> Triple:
    """ReP; the expected value is sqrt(E[VP] E[RP])."""
    rp = retrieval_precision(taus, relevant, tau)
    vp = verification_precision(taus, relevant, tau, frozen)
    low, mean, high = (sqrt(a * b) for a, b in zip(rp, vp, strict=True))
    return low, mean, high


def between_steps(
    taus: Sequence[Fraction],
) -> Callable[[Callable[[Fraction], Triple]], Callable[[Fraction], Triple]]:
    """Remember what a function says of a threshold for all that accept as many items."""

    def remember(function: Callable[[Fraction], Triple]) -> Callable[[Fraction], Triple]:
        known: dict[int, Triple] = {}

        def value(tau: Fraction) -> Triple:
            count = sum(t <= tau for t in taus)
            if count not in known:
                known[count] = function(tau)
            return known[count]

        return value

    return remember


def integral(steps: Sequence[Fraction], value: Callable[[Fraction], Triple]) -> Triple:
    """Of a function that changes only at these thresholds, over [0, 1]."""
    points = sorted({Fraction(0), Fraction(1), *(t for t in steps if t < 1)})
    pieces = [[v * float(end - start) for v in value(start)] for start, end in pairwise(points)]
    low, mean, high = (sum(column) for column in zip(*pieces, strict=True))
    return low, mean, high


def trapezoid(value: Callable[[Fraction], Triple], rounded: bool) -> Triple:
    """Over the points 0, .01, ..., 1, as decimals or as the float64 next to them."""
    points = [Fraction(i, 100) for i in range(101)]
    values = [value(Fraction(float(point)) if rounded else point) for point in points]
    low, mean, high = (
        (sum(column) - (column[0] + column[-1]) / 2) / 100 for column in zip(*values, strict=True)
    )
    return low, mean, high


def false_rate(taus: Sequence[Fraction], tau: Fraction, limit: int) -> float:
    return min(sum(t <= tau for t in taus) / limit, 1.0)
