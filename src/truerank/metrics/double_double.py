"""Double-double arithmetic: numbers of about 106 bits as a sum of two doubles, compiled.

Metrics are rational numbers with integer inputs under 2^53, so after all sums and cancellations
the double that they are rounded to is, for all practical purposes, the correctly rounded one, and
it is the same on every machine: only IEEE additions, multiplications and divisions are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.jit import kernel

__all__ = [
    "LN_2",
    "LN_2_LOW",
    "SHORT",
    "accumulate",
    "add",
    "logarithm",
    "over",
    "over_long",
    "over_rank",
    "settle",
    "settle_sure",
    "settled",
    "times",
    "times_count",
    "times_long",
    "two_product",
    "two_sum",
]


LN_2, LN_2_LOW = 0.6931471805599453, 2.3190468138462996e-17
"""ln 2 in two parts."""


@kernel
def two_sum(a: float, b: float) -> tuple[float, float]:
    """a + b exactly."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


@kernel
def two_product(a: float, b: float) -> tuple[float, float]:
    """a * b exactly (Dekker's split; |a|, |b| < 2^900)."""
    high = a * b
    split = 134217729.0 * a
    a1 = split - (split - a)
    a2 = a - a1
    split = 134217729.0 * b
    b1 = split - (split - b)
    b2 = b - b1
    return high, a2 * b2 - (((high - a1 * b1) - a2 * b1) - a1 * b2)


@kernel
def add(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Double-double sum."""
    high, error = two_sum(a, b)
    low, more = two_sum(a_low, b_low)
    high, error = two_sum(high, error + low)
    return two_sum(high, error + more)


@kernel
def accumulate(total: float, total_low: float, a: float, a_low: float) -> tuple[float, float]:
    """A running sum: cheaper than add, because the two parts are put in order only at the end."""
    high, error = two_sum(total, a)
    return high, total_low + (error + a_low)


@kernel
def times(a: float, a_low: float, b: float) -> tuple[float, float]:
    """Double-double times double."""
    high, error = two_product(a, b)
    return two_sum(high, error + a_low * b)


@kernel
def over(a: float, a_low: float, b: float) -> tuple[float, float]:
    """Double-double divided by double, with a second quotient digit and a correction."""
    first = a / b
    high, error = two_product(first, b)
    rest = ((a - high) - error) + a_low
    second = rest / b
    return two_sum(first, second)


SHORT = 67108864.0
"""2^26: a whole number below it times either half of Dekker's split is exact."""


@kernel
def times_count(a: float, a_top: float, a_low: float, n: float) -> tuple[float, float]:
    """Double-double times a whole number, a_top the upper 26 bits of a; the parts may overlap."""
    if n >= SHORT:
        return times(a, a_low, n)
    high = a * n
    return high, ((a_top * n - high) + (a - a_top) * n) + a_low * n


@kernel
def over_rank(a: float, a_low: float, rank: float) -> tuple[float, float]:
    """Double-double over a whole number; the parts may overlap."""
    if rank >= SHORT:
        return over(a, a_low, rank)
    first = a / rank
    split = 134217729.0 * first
    top = split - (split - first)
    rest = ((a - top * rank) - (first - top) * rank) + a_low
    return first, rest / rank


@kernel
def times_long(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Double-double product."""
    high, error = two_product(a, b)
    return two_sum(high, error + (a * b_low + a_low * b))


@kernel
def over_long(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """Double-double quotient: a first digit, the exact rest, a second digit."""
    first = a / b
    part, part_low = times(b, b_low, first)
    rest, rest_low = add(a, a_low, -part, -part_low)
    second = (rest + rest_low) / b
    return two_sum(first, second)


@kernel
def logarithm(n: float) -> tuple[float, float]:
    """ln n from n = 1 on, without a library logarithm, whose last bit differs between machines.

    n = 2^e m with m from 3/4 to 3/2, and ln m = 2 atanh z = 2 (z + z^3/3 + ...), z = (m-1)/(m+1).
    """
    e = 0
    m = n
    while m >= 1.5:
        m *= 0.5
        e += 1
    top, top_low = two_sum(m, -1.0)
    down, down_low = two_sum(m, 1.0)
    z, z_low = over_long(top, top_low, down, down_low)
    square, square_low = times_long(z, z_low, z, z_low)
    power, power_low = z, z_low
    total, total_low = z, z_low
    odd = 3
    while abs(power) > 1e-36:
        power, power_low = times_long(power, power_low, square, square_low)
        part, part_low = over(power, power_low, float(odd))
        total, total_low = add(total, total_low, part, part_low)
        odd += 2
    twos, twos_low = times(LN_2, LN_2_LOW, float(e))
    return add(twos, twos_low, 2.0 * total, 2.0 * total_low)


@kernel
def settle(
    out: Any,
    q: int,
    sure: float,
    sure_low: float,
    worst: float,
    worst_low: float,
    mean: float,
    mean_low: float,
    best: float,
    best_low: float,
    total: float,
    total_low: float,
) -> None:
    """Lower, expected and upper of query q: what is sure plus what ties leave open, over total."""
    sure, sure_low = two_sum(sure, sure_low)
    worst, worst_low = add(worst, worst_low, sure, sure_low)
    mean, mean_low = add(mean, mean_low, sure, sure_low)
    best, best_low = add(best, best_low, sure, sure_low)
    out[0, q] = over_long(worst, worst_low, total, total_low)[0]
    out[2, q] = over_long(best, best_low, total, total_low)[0]
    value = over_long(mean, mean_low, total, total_low)[0]
    out[1, q] = min(max(value, out[0, q]), out[2, q])


@kernel
def settle_sure(sure: Any, sure_low: Any, total: Any, total_low: Any, out: Any) -> None:
    """Lower, expected and upper of queries without ties, whose sums were taken elsewhere."""
    for q in range(sure.size):
        if total[q] == 0.0:  # nothing here is worth anything
            out[:, q] = np.nan
            continue
        settle(
            out,
            q,
            sure[q],
            sure_low[q],
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            total[q],
            total_low[q],
        )


Reals = npt.NDArray[np.float64]


def settled(high: Reals, low: Reals, total: Reals, total_low: Reals) -> Reals:
    """(3, queries): each sum divided by its total, which is sure without ties."""
    out = np.empty((3, len(high)))
    settle_sure(high, low, total, total_low, out)
    return out
