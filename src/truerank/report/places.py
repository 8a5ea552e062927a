"""Where a slider stops: short decimals at equal steps, so that anyone can type one in."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from itertools import product

__all__ = ["stops_between"]

STEPS = [Decimal(text) for text in ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")]
NEAR_ZERO = 0.2
"""A range that begins this near to 0, as a share of its end, begins there."""


def stops_between(low: float, high: float, count: int) -> list[Decimal]:
    """So many decimals at a round step that cover a range, as closely as such a step can.

    Examples
    --------
    >>> [str(stop) for stop in stops_between(0.013, 0.29, 4)]
    ['0.0', '0.1', '0.2', '0.3']
    """
    if 0 <= low <= NEAR_ZERO * high:
        low = 0.0
    first, last = Decimal(low), Decimal(high)
    span = last - first or abs(last) or Decimal(1)
    exponent = (span / (count - 1)).adjusted()
    for power, size in product(range(exponent, exponent + 3), STEPS):
        step = size.scaleb(power)
        start = (first / step).to_integral_value(ROUND_FLOOR) * step
        if start + (count - 1) * step >= last:
            break
    return [(start + number * step).quantize(step) for number in range(count)]
