"""Tie-group sums in double-double arithmetic, compiled.

A double-double (high, low) carries about 106 bits. The values below are rational numbers with
integer inputs under 2^53, so after all sums and cancellations the double they are rounded to is,
for all practical purposes, the correctly rounded one, and it is the same on every machine: only
IEEE additions, multiplications and divisions are used. All of it lives in this one file because
numba's disk cache follows a function's own file only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.jit import kernel

__all__ = [
    "all_by_relevance",
    "average_precision",
    "discount_table",
    "discounted_gain",
    "expected_extreme_rank",
    "expected_hit",
    "harmonic_sums",
    "harmonic_table",
    "hierarchical_precision",
    "precision_sums",
    "set_intersection",
    "settle_gains",
    "settle_overlaps",
    "settle_sure",
]

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
    """Queries without ties whose sums were taken elsewhere."""
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
        worst = worst_low = mean = mean_low = best = best_low = sure = sure_low = 0.0
        n = 0
        for g in range(offsets[q], offsets[q + 1]):
            k = before[g]
            if k >= cut[q]:
                break
            t = size[g]
            m = relevant[g]
            if t == 1:
                n += 1
                part, part_low = over(float(n), 0.0, float(k + 1))
                sure, sure_low = accumulate(sure, sure_low, part, part_low)
                continue
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
            float(divisor[q]),
            0.0,
        )


@kernel
def precision_sums(
    offsets: Any, before: Any, size: Any, relevant: Any, high: Any, low: Any, out: Any
) -> None:
    """out[:, g] = lower, expected, upper of the sum of precisions over the groups up to g."""
    for q in range(offsets.size - 1):
        worst = worst_low = mean = mean_low = best = best_low = 0.0
        n = 0
        for g in range(offsets[q], offsets[q + 1]):
            k = before[g]
            t = size[g]
            m = relevant[g]
            part, part_low = run(n, k, m, high, low)
            best, best_low = add(best, best_low, part, part_low)
            if t > m:
                part, part_low = run(n, k + t - m, m, high, low)
                worst, worst_low = add(worst, worst_low, part, part_low)
                part, part_low = tied(n, k, t, m, t, high, low)
                mean, mean_low = add(mean, mean_low, part, part_low)
            else:
                worst, worst_low = add(worst, worst_low, part, part_low)
                mean, mean_low = add(mean, mean_low, part, part_low)
            n += m
            out[0, g] = worst
            out[2, g] = best
            out[1, g] = min(max(mean, worst), best)


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


@kernel
def by_relevance(
    q: int,
    worth: Any,
    worth_low: Any,
    totals: Any,
    order: Any,
    place: Any,
    value: Any,
    value_top: Any,
    value_low: Any,
) -> tuple[float, float]:
    """Query q's grades in order of rising relevance, and the sum of all relevances."""
    total = total_low = 0.0
    grades = order.size
    for i in range(grades):  # insertion sort
        p = i
        while p > 0 and (
            worth[q, order[p - 1]] > worth[q, i]
            or (
                worth[q, order[p - 1]] == worth[q, i]
                and worth_low[q, order[p - 1]] > worth_low[q, i]
            )
        ):
            order[p] = order[p - 1]
            p -= 1
        order[p] = i
        part, part_low = times(worth[q, i], worth_low[q, i], float(totals[q, i]))
        total, total_low = add(total, total_low, part, part_low)
    for p in range(grades):
        place[order[p]] = p
        value[p] = worth[q, order[p]]
        value_low[p] = worth_low[q, order[p]]
        split = 134217729.0 * value[p]
        value_top[p] = split - (split - value[p])
    return total, total_low


@kernel
def all_by_relevance(
    worth: Any,
    worth_low: Any,
    totals: Any,
    place: Any,
    value: Any,
    value_top: Any,
    value_low: Any,
    total: Any,
    total_low: Any,
) -> None:
    """by_relevance of every query."""
    order = np.zeros(worth.shape[1], np.int64)
    for q in range(worth.shape[0]):
        total[q], total_low[q] = by_relevance(
            q, worth, worth_low, totals, order, place[q], value[q], value_top[q], value_low[q]
        )


@kernel
def hierarchical_precision(
    offsets: Any,
    before: Any,
    size: Any,
    grade: Any,
    graded: Any,
    totals: Any,
    worth: Any,
    worth_low: Any,
    high: Any,
    low: Any,
    out: Any,
) -> None:
    """out[:, q] = lower, expected, upper of H-AP with relevance worth[q, i] for grade i + 1.

    With relevances v_1 < v_2 < ... and S_p the items of relevance v_p or more, H-AP is the sum of
    (v_p - v_{p-1}) times the precisions summed over S_p, divided by the sum of all relevances. The
    sets are nested, so one order inside a tie group is worst, and one best, for all of them.
    """
    grades = graded.shape[1]
    order = np.zeros(grades, np.int64)  # grades by rising relevance
    place = np.zeros(grades, np.int64)  # and where each grade stands among them
    value = np.zeros(grades)  # from here on by place: relevance, and items seen
    value_top = np.zeros(grades)
    value_low = np.zeros(grades)
    seen = np.zeros(grades, np.int64)
    for q in range(offsets.size - 1):
        total, total_low = by_relevance(
            q, worth, worth_low, totals, order, place, value, value_top, value_low
        )
        seen[:] = 0
        sure = sure_low = worst = worst_low = mean = mean_low = best = best_low = 0.0
        found = 0
        for g in range(offsets[q], offsets[q + 1]):
            k = before[g]
            own = grade[g] - 1
            if own >= 0:  # H-rank = sum over the items so far, this one included, of min(v, own v)
                at = place[own]
                found += 1
                seen[at] += 1
                lower = 0
                for p in range(at):  # few: most items are of the lowest relevance
                    lower += seen[p]
                part, part_low = times_count(
                    value[at], value_top[at], value_low[at], float(found - lower)
                )
                for p in range(at):
                    more, more_low = times_count(
                        value[p], value_top[p], value_low[p], float(seen[p])
                    )
                    part, part_low = accumulate(part, part_low, more, more_low)
                part, part_low = over_rank(part, part_low, float(k + 1))
                sure, sure_low = accumulate(sure, sure_low, part, part_low)
                continue
            t = size[g]
            n = 0
            m = 0
            for p in range(grades - 1, -1, -1):
                n += seen[p]
                m += graded[g, order[p]]
                if m == 0:
                    continue
                step, step_low = value[p], value_low[p]
                if p > 0:
                    step, step_low = add(step, step_low, -value[p - 1], -value_low[p - 1])
                part, part_low = run(n, k, m, high, low)
                part, part_low = times_long(part, part_low, step, step_low)
                best, best_low = add(best, best_low, part, part_low)
                if m == t:
                    worst, worst_low = add(worst, worst_low, part, part_low)
                    mean, mean_low = add(mean, mean_low, part, part_low)
                else:
                    part, part_low = run(n, k + t - m, m, high, low)
                    part, part_low = times_long(part, part_low, step, step_low)
                    worst, worst_low = add(worst, worst_low, part, part_low)
                    part, part_low = tied(n, k, t, m, t, high, low)
                    part, part_low = times_long(part, part_low, step, step_low)
                    mean, mean_low = add(mean, mean_low, part, part_low)
            for p in range(grades):
                seen[p] += graded[g, order[p]]
            found += m
        if total == 0.0:  # nothing here is worth anything
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
            total,
            total_low,
        )


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


@kernel
def discounts(first: int, last: int, high: Any, low: Any) -> tuple[float, float]:
    """Sum of the discounts of ranks first + 1 to last."""
    return add(high[last], low[last], -high[first], -low[first])


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
    """From the discounts of each grade to the gain."""
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


@kernel
def settle_overlaps(
    value: Any, value_low: Any, overlap: Any, depth: Any, high: Any, low: Any, out: Any
) -> None:
    """ASI of queries without ties whose sums over depths were taken elsewhere."""
    for q in range(value.size):
        out[:, q] = overlap_share(value[q], value_low[q], overlap[q], depth[q], high, low)


@kernel
def overlap_share(
    value: float, value_low: float, overlap: int, depth: int, high: Any, low: Any
) -> float:
    """From the sum less the H(n - 1) to the mean over depths."""
    value, value_low = two_sum(value, value_low)
    part, part_low = times(high[depth], low[depth], float(overlap))
    value, value_low = add(value, value_low, part, part_low)
    return over(value, value_low, float(depth))[0]


@kernel
def expected_overlap(t: int, g: int, drawn: int, most: int) -> tuple[float, float]:
    """E[min(X, most)] for X relevant among `drawn` of t items, g of them relevant.

    Probabilities are summed outwards from the likeliest X, relative to it, so none underflows.
    """
    fewest = max(0, drawn - (t - g))
    largest = min(g, drawn)
    if most >= largest:
        part, part_low = two_product(float(drawn), float(g))
        return over(part, part_low, float(t))
    if most <= fewest:
        return float(most), 0.0
    mode = min(max((drawn + 1) * (g + 1) // (t + 2), fewest), largest)
    total = 1.0
    value = float(min(mode, most))
    total_low = value_low = weight_low = 0.0
    weight = 1.0
    for x in range(mode, largest):
        weight, weight_low = times(weight, weight_low, float((g - x) * (drawn - x)))
        weight, weight_low = over(weight, weight_low, float((x + 1) * (t - g - drawn + x + 1)))
        total, total_low = add(total, total_low, weight, weight_low)
        part, part_low = times(weight, weight_low, float(min(x + 1, most)))
        value, value_low = add(value, value_low, part, part_low)
        if weight < 1e-36:
            break
    weight = 1.0
    weight_low = 0.0
    for x in range(mode, fewest, -1):
        weight, weight_low = times(weight, weight_low, float(x * (t - g - drawn + x)))
        weight, weight_low = over(weight, weight_low, float((g - x + 1) * (drawn - x + 1)))
        total, total_low = add(total, total_low, weight, weight_low)
        part, part_low = times(weight, weight_low, float(min(x - 1, most)))
        value, value_low = add(value, value_low, part, part_low)
        if weight < 1e-36:
            break
    return over_long(value, value_low, total, total_low)


@kernel
def harmonic_sums(high: Any, low: Any) -> None:
    """H(0), H(1), H(2), ... to the length of the arrays."""
    h = h_low = 0.0
    high[0] = 0.0
    low[0] = 0.0
    for n in range(1, high.size):
        part, part_low = over(1.0, 0.0, float(n))
        h, h_low = add(h, h_low, part, part_low)
        high[n] = h
        low[n] = h_low


@kernel
def set_intersection(
    offsets: Any,
    before: Any,
    size: Any,
    grade: Any,
    graded: Any,
    totals: Any,
    high: Any,
    low: Any,
    out: Any,
) -> None:
    """out[:, q] = lower, expected, upper of ASI; (high, low)[n] is H(n).

    At each depth n up to the number of relevant items D, the overlap with the ideal list is
    sum over grades of min(found, ideal), divided by n. The ideal list goes down the grades: it has
    all items above the grade `best`, `reached` of that grade, none below. So an item enters the
    overlap at once if its grade is above `best`, and a step of the ideal list brings one more of
    grade `best` if it had been found before. What enters at depth n counts at all depths from n to
    D: H(D) - H(n - 1) times, so no depth needs a division.
    """
    grades = graded.shape[1]
    found = np.zeros(grades + 1, np.int64)  # by grade, 0 for irrelevant items
    for q in range(offsets.size - 1):
        depth = 0
        for i in range(grades):
            depth += totals[q, i]
        end = offsets[q + 1]
        ambiguous = False
        for g in range(offsets[q], end):
            if grade[g] == 0 and before[g] < depth:
                most = 0
                for i in range(grades):
                    most = max(most, graded[g, i])
                ambiguous |= most < size[g]
        for bound in range(3):
            if bound > 0 and not ambiguous:
                out[bound, q] = out[0, q]
                continue
            found[:] = 0
            value = value_low = 0.0  # sums over depths inside tie groups, less the H(n - 1)
            overlap = 0
            n = 0
            best = grades
            reached = 0
            g = offsets[q]
            while n < depth:
                here = min(g, end - 1)
                hit = (g < end) & (before[here] == n)
                if not (hit & (grade[here] == 0)):  # an item that ties with nothing relevant
                    own = grade[here] if hit else 0
                    while reached == totals[q, best - 1]:
                        best -= 1
                        reached = 0
                    reached += 1
                    step = (reached <= found[best]) + (own > best)
                    found[own] += 1
                    step += (own == best) & (found[best] <= reached)
                    overlap += step
                    value, value_low = accumulate(value, value_low, -step * high[n], -step * low[n])
                    g += hit
                    n += 1
                    continue
                single = False  # whether all of the group is of one grade
                for i in range(grades):
                    single |= graded[g, i] == size[g]
                if bound == 1 and not single:
                    k = n
                    value, value_low = accumulate(
                        value, value_low, overlap * high[n], overlap * low[n]
                    )
                    while n < min(depth, k + size[g]):
                        n += 1
                        while reached == totals[q, best - 1]:
                            best -= 1
                            reached = 0
                        reached += 1
                        part = part_low = 0.0
                        for i in range(best, grades + 1):
                            ideal = reached if i == best else totals[q, i - 1]
                            room = ideal - found[i]
                            if room <= 0:
                                part, part_low = add(part, part_low, float(ideal), 0.0)
                            else:
                                more, more_low = expected_overlap(
                                    size[g], graded[g, i - 1], n - k, room
                                )
                                part, part_low = add(part, part_low, float(found[i]), 0.0)
                                part, part_low = add(part, part_low, more, more_low)
                        part, part_low = over(part, part_low, float(n))
                        value, value_low = accumulate(value, value_low, part, part_low)
                    overlap = 0
                    if n < depth:
                        for i in range(1, grades + 1):
                            found[i] += graded[g, i - 1]
                        overlap = min(found[best], reached)
                        for i in range(best + 1, grades + 1):
                            overlap += found[i]
                    value, value_low = accumulate(
                        value, value_low, -overlap * high[n], -overlap * low[n]
                    )
                    g += 1
                    continue
                other = size[g]
                for i in range(grades):
                    other -= graded[g, i]
                for turn in range(grades + 1):
                    # lower: irrelevant first, then rising grades; upper: falling grades
                    own = turn if bound == 0 else grades - turn
                    count = other if own == 0 else graded[g, own - 1]
                    for _ in range(min(count, depth - n)):
                        while reached == totals[q, best - 1]:
                            best -= 1
                            reached = 0
                        reached += 1
                        step = (reached <= found[best]) + (own > best)
                        found[own] += 1
                        step += (own == best) & (found[best] <= reached)
                        overlap += step
                        value, value_low = accumulate(
                            value, value_low, -step * high[n], -step * low[n]
                        )
                        n += 1
                g += 1
            out[bound, q] = overlap_share(value, value_low, overlap, depth, high, low)
        if ambiguous:
            out[1, q] = min(max(out[1, q], out[0, q]), out[2, q])
