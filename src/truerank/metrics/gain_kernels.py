"""Sums over graded tie groups for discounted gain (NDCG)."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.jit import kernel
from truerank.metrics.double_double import (
    LN_2,
    LN_2_LOW,
    accumulate,
    add,
    logarithm,
    over,
    over_long,
    settle,
    times,
    times_long,
    two_product,
    two_sum,
)

__all__ = [
    "TABLED",
    "discount_sum",
    "discount_table",
    "discounted_gain",
    "discounts",
    "discounts_beyond",
    "ideal_gain",
    "settle_gains",
    "whole_gain",
]


@kernel
def discount_table(count: int, high: Any, low: Any) -> None:
    """Sums of 1/log2(1 + rank) over the first 0, 1, ..., count - 1 ranks.

    ln(n + 1) - ln(n) = 2 atanh(1/(2n + 1)) = 2 (z + z^3/3 + z^5/5 + ...), z = 1/(2n + 1): no
    library logarithm is used, whose last bit differs between machines.
    """
    log = log_low = base = base_low = total = total_low = 0.0
    high[0] = 0.0
    low[0] = 0.0
    for rank in range(1, count):
        z, z_low = over(1.0, 0.0, float(2 * rank + 1))
        square, square_low = times_long(z, z_low, z, z_low)
        power, power_low = z, z_low
        step, step_low = z, z_low
        odd = 3
        while True:
            power, power_low = times_long(power, power_low, square, square_low)
            part, part_low = over(power, power_low, float(odd))
            step, step_low = add(step, step_low, part, part_low)
            if part < 1e-34 * step:
                break
            odd += 2
        log, log_low = add(log, log_low, 2.0 * step, 2.0 * step_low)
        if rank == 1:
            base, base_low = log, log_low
        part, part_low = over_long(base, base_low, log, log_low)
        total, total_low = add(total, total_low, part, part_low)
        high[rank] = total
        low[rank] = total_low


TABLED = 1 << 20
"""Ranks whose discounts are summed one by one: memory and time must not grow with a number."""


@kernel
def discounts_beyond(last: int) -> tuple[float, float]:
    """A function whose differences are sums of 1/ln(1 + rank), for ranks from TABLED on.

    By Euler and Maclaurin, with x = 1 + last and u = ln x: li(x) + 1/(2u) - 1/(12 x u^2) +
    (2u^2 + 6u + 6)/(720 x^3 u^4); the next term is below 1e-36. li(x) is ln u + sum u^i/(i i!),
    but for a constant.
    """
    x = float(last + 1)
    u, u_low = logarithm(x)
    total, total_low = over_long(0.5, 0.0, u, u_low)
    total, total_low = add(total, total_low, -1.0 / (12.0 * x * u * u), 0.0)
    rest = (2.0 * u * u + 6.0 * u + 6.0) / (720.0 * x * x * x * u * u * u * u)
    total, total_low = add(total, total_low, rest, 0.0)
    part, part_low = logarithm(u)
    total, total_low = add(total, total_low, part, part_low)
    total, total_low = add(total, total_low, u_low / u, 0.0)
    power, power_low = 1.0, 0.0
    for i in range(1, 400):
        power, power_low = times_long(power, power_low, u, u_low)
        power, power_low = over(power, power_low, float(i))
        part, part_low = over(power, power_low, float(i))
        total, total_low = add(total, total_low, part, part_low)
        if i > u and part < 1e-36 * total:
            break
    return total, total_low


@kernel
def discount_sum(last: int, high: Any, low: Any) -> tuple[float, float]:
    """Sum of the discounts of ranks 1 to last."""
    if last <= TABLED:
        return high[last], low[last]
    total, total_low = discounts_beyond(last)
    part, part_low = discounts_beyond(TABLED)
    total, total_low = add(total, total_low, -part, -part_low)
    total, total_low = times_long(total, total_low, LN_2, LN_2_LOW)
    return add(total, total_low, high[TABLED], low[TABLED])


@kernel
def discounts(first: int, last: int, high: Any, low: Any) -> tuple[float, float]:
    """Sum of the discounts of ranks first + 1 to last."""
    if last < high.size:
        return add(high[last], low[last], -high[first], -low[first])
    if last == first + 1:
        u, u_low = logarithm(float(last + 1))
        return over_long(LN_2, LN_2_LOW, u, u_low)
    total, total_low = discount_sum(last, high, low)
    part, part_low = discount_sum(first, high, low)
    return add(total, total_low, -part, -part_low)


@kernel
def ideal_gain(
    q: int, totals: Any, gain: Any, cut: int, high: Any, low: Any
) -> tuple[float, float]:
    """The gain of query q's items in the best order."""
    ideal = ideal_low = 0.0
    place = 0
    for i in range(gain.size - 1, -1, -1):
        stop = min(place + totals[q, i], cut)
        if stop > place:
            part, part_low = discounts(place, stop, high, low)
            part, part_low = times(part, part_low, gain[i])
            ideal, ideal_low = add(ideal, ideal_low, part, part_low)
        place = stop
    return ideal, ideal_low


@kernel
def whole_gain(alone: Any, alone_low: Any, gain: Any) -> tuple[float, float]:
    """The gain, from the discounts of each grade's items that tie with nothing."""
    sure = sure_low = 0.0
    for i in range(gain.size):
        part, part_low = two_sum(alone[i], alone_low[i])
        part, part_low = times(part, part_low, gain[i])
        sure, sure_low = accumulate(sure, sure_low, part, part_low)
    return sure, sure_low


@kernel
def discounted_gain(
    offsets: Any,
    before: Any,
    size: Any,
    grade: Any,
    graded: Any,
    totals: Any,
    gain: Any,
    cut: int,
    high: Any,
    low: Any,
    out: Any,
) -> None:
    """out[:, q] = lower, expected, upper of NDCG@cut; gain[i] of grade i + 1 grows with i."""
    grades = gain.size
    alone = np.zeros(grades)  # discounts of the items that tie with nothing, by grade
    alone_low = np.zeros(grades)
    for q in range(offsets.size - 1):
        worst = worst_low = mean = mean_low = best = best_low = 0.0
        alone[:] = 0.0
        alone_low[:] = 0.0
        ideal, ideal_low = ideal_gain(q, totals, gain, cut, high, low)
        for g in range(offsets[q], offsets[q + 1]):
            k = before[g]
            if k >= cut:
                break
            own = grade[g] - 1
            if own >= 0:
                part, part_low = discounts(k, k + 1, high, low)
                alone[own], alone_low[own] = accumulate(alone[own], alone_low[own], part, part_low)
                continue
            t = size[g]
            whole = whole_low = 0.0
            up = k
            down = k + t
            for i in range(grades - 1, -1, -1):
                count = graded[g, i]
                if count == 0:
                    continue
                if min(up + count, cut) > up:
                    part, part_low = discounts(up, min(up + count, cut), high, low)
                    part, part_low = times(part, part_low, gain[i])
                    best, best_low = add(best, best_low, part, part_low)
                up = up + count
                if cut > down - count:
                    part, part_low = discounts(down - count, min(down, cut), high, low)
                    part, part_low = times(part, part_low, gain[i])
                    worst, worst_low = add(worst, worst_low, part, part_low)
                down = down - count
                part, part_low = two_product(gain[i], float(count))
                whole, whole_low = add(whole, whole_low, part, part_low)
            part, part_low = discounts(k, min(k + t, cut), high, low)
            part, part_low = times_long(part, part_low, whole, whole_low)
            part, part_low = over(part, part_low, float(t))
            mean, mean_low = add(mean, mean_low, part, part_low)
        sure, sure_low = whole_gain(alone, alone_low, gain)
        if ideal == 0.0:
            out[:, q] = np.nan
            continue
        settle(
            out,
            q,
            sure,
            sure_low,
            worst,
            worst_low,
            mean,
            mean_low,
            best,
            best_low,
            ideal,
            ideal_low,
        )


@kernel
def settle_gains(
    alone: Any, alone_low: Any, totals: Any, gain: Any, cut: int, high: Any, low: Any, out: Any
) -> None:
    """NDCG of queries without ties whose discounts were added up, by grade, elsewhere."""
    for q in range(alone.shape[0]):
        ideal, ideal_low = ideal_gain(q, totals, gain, cut, high, low)
        if ideal == 0.0:
            out[:, q] = np.nan
            continue
        sure, sure_low = whole_gain(alone[q], alone_low[q], gain)
        settle(out, q, sure, sure_low, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ideal, ideal_low)
