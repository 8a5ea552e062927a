"""Double-double arithmetic and harmonic numbers, for the kernels of the metrics.

A number of about 106 bits is the sum of two doubles. Metrics are rational numbers with integer
inputs below 2^53, so after all sums and cancellations the rounded double is, for all practical
purposes, the correctly rounded one. It is the same on every machine: only IEEE additions,
multiplications and divisions are used. The table of harmonic numbers grows in powers of two up
to TABLED; beyond it they come from the logarithm.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.kernels import kernel
from truerank._util.types import Reals

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


def settled(high: Reals, low: Reals, total: Reals, total_low: Reals) -> Reals:
    """(3, queries): each sum divided by its total, which is sure without ties."""
    out = np.empty((3, len(high)))
    settle_sure(high, low, total, total_low, out)
    return out


# Harmonic numbers, which sums of precisions over long tie groups are made of.
#
# A table of them is grown in powers of two, up to TABLED; what follows is had from the logarithm.


STRIDE = 64
"""The table of harmonic numbers keeps every 64th; the rest is summed when asked for."""

SQUARED = 1 << 31
"""Numbers whose square a 64-bit integer holds."""
TABLED = 1 << 22
"""H(n) of larger n is not summed: memory and time must not grow with a number."""


@kernel
def harmonic_table(count: int, high: Any, low: Any) -> None:
    """H(0), H(64), H(128), ... up to H(64 (count - 1)), summed term by term."""
    h = 0.0
    h_low = 0.0
    high[0] = 0.0
    low[0] = 0.0
    for i in range(1, STRIDE * (count - 1) + 1):
        term, term_low = over(1.0, 0.0, float(i))
        h, h_low = add(h, h_low, term, term_low)
        if i % STRIDE == 0:
            high[i // STRIDE] = h
            low[i // STRIDE] = h_low


@kernel
def harmonic(n: int, high: Any, low: Any) -> tuple[float, float]:
    """H(n) from the table, or beyond it by the series of Euler and Maclaurin.

    H(n) - H(a) = ln n - ln a + (1/n - 1/a)/2 - (1/n^2 - 1/a^2)/12 + ...; the next term is less than
    1e-28 from a = TABLED on.
    """
    if n > TABLED:
        h, h_low = high[TABLED // STRIDE], low[TABLED // STRIDE]
        for m, sign in ((n, 1.0), (TABLED, -1.0)):
            part, part_low = logarithm(float(m))
            h, h_low = add(h, h_low, sign * part, sign * part_low)
            part, part_low = over(0.5 * sign, 0.0, float(m))
            h, h_low = add(h, h_low, part, part_low)
            h, h_low = add(h, h_low, -sign / (12.0 * float(m) * float(m)), 0.0)
        return h, h_low
    base = n // STRIDE
    h = high[base]
    h_low = low[base]
    for i in range(STRIDE * base + 1, n + 1):
        term, term_low = over(1.0, 0.0, float(i))
        h, h_low = add(h, h_low, term, term_low)
    return h, h_low


@kernel
def harmonic_step(k: int, count: int, high: Any, low: Any) -> tuple[float, float]:
    """1/(k+1) + ... + 1/(k+count): directly if short, else as a difference of H."""
    if count <= STRIDE:
        h = 0.0
        h_low = 0.0
        for i in range(k + 1, k + count + 1):
            term, term_low = over(1.0, 0.0, float(i))
            h, h_low = add(h, h_low, term, term_low)
        return h, h_low
    a, a_low = harmonic(k + count, high, low)
    b, b_low = harmonic(k, high, low)
    return add(a, a_low, -b, -b_low)


@kernel
def run(n: int, k: int, count: int, high: Any, low: Any) -> tuple[float, float]:
    """Sum of (n+i)/(k+i), i = 1..count: relevant items one after the other behind k items.

    Each term is 1 - (k-n)/(k+i), so the sum is count - (k-n)(H(k+count) - H(k)).
    """
    if count == 1:
        return over(float(n + 1), 0.0, float(k + 1))
    h, h_low = harmonic_step(k, count, high, low)
    h, h_low = times(h, h_low, float(k - n))
    return add(float(count), 0.0, -h, -h_low)


@kernel
def tied(n: int, k: int, t: int, m: int, count: int, high: Any, low: Any) -> tuple[float, float]:
    """Expected sum over the first `count` positions of a group of t items, m of them relevant.

    A position holds a relevant item with probability m/t, and then (m-1)/(t-1) of the p-1
    positions before it in the group are relevant on average (McSherry & Najork 2008):
    (m/t) sum_p (n + 1 + (p-1) b)/(k+p), b = (m-1)/(t-1). With S = H(k+count) - H(k) this is
    m [(m-1) count + ((n+1)(t-1) - (m-1)(k+1)) S] / (t (t-1)).
    """
    s, s_low = harmonic_step(k, count, high, low)
    s, s_low = times(s, s_low, float((n + 1) * (t - 1) - (m - 1) * (k + 1)))
    s, s_low = add(s, s_low, float((m - 1) * count), 0.0)
    s, s_low = times(s, s_low, float(m))
    if t < SQUARED:
        return over(s, s_low, float(t * (t - 1)))
    s, s_low = over(s, s_low, float(t))
    return over(s, s_low, float(t - 1))


Table = npt.NDArray[np.float64]


@lru_cache(maxsize=4)
def _table(count: int) -> tuple[Table, Table]:
    high, low = np.zeros(count), np.zeros(count)
    if count > 1:
        harmonic_table(count, high, low)
    return high, low


def harmonics(before: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> tuple[Table, Table]:
    """High and low parts of H(0), H(64), ... as far as groups longer than the stride reach."""
    long = size > STRIDE
    if not long.any():
        return _table(1)
    entries = min(int((before + size)[long].max()), TABLED) // STRIDE + 1
    return _table(min(1 << (entries - 1).bit_length(), TABLED // STRIDE + 1))
