"""How near a double is to an exact number."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["nearest", "ulps"]


def nearest(value: tuple[int, int] | Fraction) -> float:
    """The double nearest to a fraction: Python divides integers with one rounding."""
    top, bottom = value if isinstance(value, tuple) else (value.numerator, value.denominator)
    return top / bottom


def ulps(actual: float, exact: Fraction) -> float:
    """How many units in the last place a double is away from the truth."""
    if actual == float(exact):
        return 0.0
    return float(abs(Fraction(float(actual)) - exact) / Fraction(math.ulp(float(exact))))
