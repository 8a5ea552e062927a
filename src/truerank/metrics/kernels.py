"""Tie-group sums in double-double arithmetic, compiled.

A double-double (high, low) carries about 106 bits. The values below are rational numbers with
integer inputs under 2^53, so after all sums and cancellations the double they are rounded to is,
for all practical purposes, the correctly rounded one, and it is the same on every machine: only
IEEE additions, multiplications and divisions are used. All of it lives in this one file because
numba's disk cache follows a function's own file only.
"""

from __future__ import annotations

from typing import Any

from truerank.jit import kernel

__all__ = ["average_precision", "expected_extreme_rank", "expected_hit", "harmonic_table"]

STRIDE = 64
"""The table of harmonic numbers keeps every 64th; the rest is summed when asked for."""


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
    """H(n) from the table."""
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
    return over(s, s_low, float(t * (t - 1)))


@kernel
def average_precision(
    offsets: Any,
    before: Any,
    size: Any,
    relevant: Any,
    cut: Any,
    divisor: Any,
    high: Any,
    low: Any,
    out: Any,
) -> None:
    """out[:, q] = lower, expected, upper of sum_{i <= cut} rel_i P@i / divisor."""
    for q in range(cut.size):
        worst = worst_low = mean = mean_low = best = best_low = 0.0
        n = 0
        for g in range(offsets[q], offsets[q + 1]):
            k = before[g]
            if k >= cut[q]:
                break
            t = size[g]
            m = relevant[g]
            room = cut[q] - k
            part = part_low = 0.0
            part, part_low = run(n, k, min(m, room), high, low)
            best, best_low = add(best, best_low, part, part_low)
            if t == m:
                worst, worst_low = add(worst, worst_low, part, part_low)
                mean, mean_low = add(mean, mean_low, part, part_low)
            else:
                if room > t - m:
                    part, part_low = run(n, k + t - m, min(m, room - (t - m)), high, low)
                    worst, worst_low = add(worst, worst_low, part, part_low)
                part, part_low = tied(n, k, t, m, min(t, room), high, low)
                mean, mean_low = add(mean, mean_low, part, part_low)
            n += m
        d = float(divisor[q])
        out[0, q] = over(worst, worst_low, d)[0]
        out[2, q] = over(best, best_low, d)[0]
        value = over(mean, mean_low, d)[0]
        out[1, q] = min(max(value, out[0, q]), out[2, q])


@kernel
def expected_extreme_rank(
    k: Any, t: Any, m: Any, last: bool, numerator: Any, high: Any, low: Any, out: Any
) -> None:
    """Expected numerator/rank of the first (or last) relevant item of a group, behind k items.

    The first relevant item is at position p with probability C(t-p, m-1)/C(t, m): m/t for p = 1,
    then times (t-p-m+1)/(t-p) a step. The last one is the mirror image. The sum stops where what
    is left cannot change 106 bits.
    """
    for g in range(k.size):
        if m[g] == 1:
            total, total_low = harmonic_step(k[g], t[g], high, low)
            total, total_low = over(total, total_low, float(t[g]))
        else:
            weight, weight_low = over(float(m[g]), 0.0, float(t[g]))
            total = total_low = 0.0
            for p in range(1, t[g] - m[g] + 2):
                rank = k[g] + t[g] - p + 1 if last else k[g] + p
                part, part_low = over(weight, weight_low, float(rank))
                total, total_low = add(total, total_low, part, part_low)
                if weight * t[g] < 1e-36:
                    break
                weight, weight_low = times(weight, weight_low, float(t[g] - p - m[g] + 1))
                weight, weight_low = over(weight, weight_low, float(t[g] - p))
        total, total_low = times(total, total_low, float(numerator[g]))
        out[g] = total


@kernel
def expected_hit(t: Any, m: Any, drawn: Any, out: Any) -> None:
    """1 - C(t-m, j)/C(t, j): a relevant item among j drawn from t with m relevant ones."""
    for g in range(t.size):
        few = min(m[g], drawn[g])
        many = max(m[g], drawn[g])
        miss = 1.0
        miss_low = 0.0
        for i in range(few):
            miss, miss_low = times(miss, miss_low, float(max(t[g] - many - i, 0)))
            miss, miss_low = over(miss, miss_low, float(t[g] - i))
            if miss < 1e-40:
                break
        out[g] = add(1.0, 0.0, -miss, -miss_low)[0]
