"""Kernels of H-AP, ASI and NDCG over graded tie groups, and over rankings without ties.

The kernels for rankings without ties do the same operations in the same order as those for tie
groups, so that values have the same bits; what does not depend on the item before is computed
for many items at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel
from truerank.core.tie_groups import NOWHERE
from truerank.metrics.double_double_kernels import (
    LN_2,
    LN_2_LOW,
    accumulate,
    add,
    logarithm,
    over,
    over_long,
    over_rank,
    run,
    settle,
    tied,
    times,
    times_count,
    times_long,
    two_product,
    two_sum,
)

# Sums over graded tie groups for hierarchical average precision.


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
def h_rank(
    at: int, found: int, seen: Any, value: Any, value_top: Any, value_low: Any
) -> tuple[float, float]:
    """The sum, over the items found so far, this one included, of min(v, its own v): by place among
    the relevances, `at` is its own and `seen` are the items of each."""
    lower = 0
    for p in range(at):  # few: most items are of the lowest relevance
        lower += seen[p]
    part, part_low = times_count(value[at], value_top[at], value_low[at], float(found - lower))
    for p in range(at):
        more, more_low = times_count(value[p], value_top[p], value_low[p], float(seen[p]))
        part, part_low = accumulate(part, part_low, more, more_low)
    return part, part_low


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
            if k >= NOWHERE:
                break
            own = grade[g] - 1
            if own >= 0:
                at = place[own]
                found += 1
                seen[at] += 1
                part, part_low = h_rank(at, found, seen, value, value_top, value_low)
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


# Sums over graded tie groups for the average set intersection (ASI).


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
    """The mean over depths, from sums that still lack H(depth) for each item of the overlap."""
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


# Sums over graded tie groups for discounted gain (NDCG).


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


# Sums over graded relevant items of which none ties: H-AP, NDCG and ASI of long rankings.


CHUNK = 512
"""Items whose terms are computed before they are added up."""
SHORT_RANK = (1 << 26) - 1
"""Ranks, from 0, below which numbers and ranks from 1 are short; see double_double.SHORT."""


@kernel
def untied_hierarchical_precision(
    offsets: Any, before: Any, grade: Any, totals: Any, worth: Any, worth_low: Any, out: Any
) -> None:
    """out[:, q] = lower, expected, upper of H-AP; see hierarchy_kernels.

    Most items are of the lowest relevance v, and contribute v times their number among the relevant
    items over their rank. The few others are listed, and their terms put in place of these.
    """
    grades = worth.shape[1]
    order = np.zeros(grades, np.int64)
    place = np.zeros(grades, np.int64)
    value = np.zeros(grades)
    value_top = np.zeros(grades)
    value_low = np.zeros(grades)
    seen = np.zeros(grades, np.int64)
    part = np.empty(CHUNK)
    part_low = np.empty(CHUNK)
    higher = np.empty(CHUNK + 1, np.int64)
    for q in range(offsets.size - 1):
        total, total_low = by_relevance(
            q, worth, worth_low, totals, order, place, value, value_top, value_low
        )
        seen[:] = 0
        sure = sure_low = 0.0
        lowest = order[0] + 1
        behind = 0  # items of higher relevance so far
        for begin in range(offsets[q], offsets[q + 1], CHUNK):
            count = min(CHUNK, offsets[q + 1] - begin)
            found = begin - offsets[q]
            rank = before[begin : begin + count]
            weigh(rank, count, found, value[0], value_top[0], value_low[0], part, part_low)
            some = np.uint64(0)
            for i in range(count):
                higher[some] = i
                some += np.uint64(grade[begin + i] != lowest)
            for i in higher[:some]:
                at = place[grade[begin + i] - 1]
                number = found + i + 1
                seen[0] = number - 1 - behind
                seen[at] += 1
                behind += 1
                term, term_low = h_rank(at, number, seen, value, value_top, value_low)
                part[i], part_low[i] = over_rank(term, term_low, float(rank[i] + 1))
            for i in range(count):
                sure, sure_low = accumulate(sure, sure_low, part[i], part_low[i])
        if total == 0.0:  # nothing here is worth anything
            out[:, q] = np.nan
            continue
        settle(out, q, sure, sure_low, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, total, total_low)


@kernel
def weigh(
    rank: Any,
    count: int,
    found: int,
    value: float,
    value_top: float,
    value_low: float,
    part: Any,
    part_low: Any,
) -> None:
    """Terms of relevant items of one relevance: times_count, then over_rank, of many at a time."""
    if rank[count - 1] >= SHORT_RANK:
        for i in range(count):
            term, term_low = times_count(value, value_top, value_low, float(found + i + 1))
            part[i], part_low[i] = over_rank(term, term_low, float(rank[i] + 1))
        return
    for i in range(count):
        number = float(found + i + 1)
        over = float(rank[i] + 1)
        term = value * number
        term_low = ((value_top * number - term) + (value - value_top) * number) + value_low * number
        first = term / over
        split = 134217729.0 * first
        top = split - (split - first)
        rest = ((term - top * over) - (first - top) * over) + term_low
        part[i] = first
        part_low[i] = rest / over


@kernel
def discount_steps(high: Any, low: Any, step: Any, step_low: Any) -> None:
    """The discount of each rank, from the sums of the first ones."""
    for k in range(step.size):
        step[k], step_low[k] = discounts(k, k + 1, high, low)


@kernel
def untied_discounted_gain(
    offsets: Any,
    before: Any,
    grade: Any,
    totals: Any,
    gain: Any,
    cut: int,
    high: Any,
    low: Any,
    step: Any,
    step_low: Any,
    out: Any,
) -> None:
    """out[:, q] = lower, expected, upper of NDCG@cut; see gain_kernels."""
    grades = gain.size
    alone = np.zeros(grades)
    alone_low = np.zeros(grades)
    for q in range(offsets.size - 1):
        alone[:] = 0.0
        alone_low[:] = 0.0
        ideal, ideal_low = ideal_gain(q, totals, gain, cut, high, low)
        for g in range(offsets[q], offsets[q + 1]):
            k = before[g]
            if k >= cut:
                break
            own = grade[g] - 1
            alone[own], alone_low[own] = accumulate(
                alone[own], alone_low[own], step[k], step_low[k]
            )
        if ideal == 0.0:
            out[:, q] = np.nan
            continue
        sure, sure_low = whole_gain(alone, alone_low, gain)
        settle(out, q, sure, sure_low, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ideal, ideal_low)


@kernel
def untied_set_intersection(
    offsets: Any, before: Any, grade: Any, totals: Any, high: Any, low: Any, out: Any
) -> None:
    """out[:, q] = ASI, three times; see overlap_kernels.

    While the ideal list goes through a grade, `best`, it first meets items that were found before
    it came there; each of its steps brings one into the overlap. Once it has overtaken what is
    found, which the list, one item at a time, cannot catch up with, items of `best` and above enter
    the overlap where they are found, and nothing else does. Below the lowest grade there is nothing
    that could be found too early.
    """
    grades = totals.shape[1]
    found = np.zeros(grades + 1, np.int64)
    for q in range(offsets.size - 1):
        found[:] = 0
        value = value_low = 0.0
        overlap = 0
        n = 0
        g = offsets[q]
        end = offsets[q + 1]
        for best in range(grades, 0, -1):
            stop = n + totals[q, best - 1]
            reached = 0
            while n < stop and found[best] > reached:
                reached += 1
                hit = g < end and before[g] == n
                own = grade[g] if hit else 0
                found[own] += 1
                step = 1 + (own > best)
                overlap += step
                value, value_low = accumulate(value, value_low, -step * high[n], -step * low[n])
                g += hit
                n += 1
            if best == 1:
                while g < end and before[g] < stop:
                    k = before[g]
                    value, value_low = accumulate(value, value_low, -high[k], -low[k])
                    overlap += 1
                    g += 1
            while g < end and before[g] < stop:
                own = grade[g]
                found[own] += 1
                if own >= best:
                    k = before[g]
                    value, value_low = accumulate(value, value_low, -high[k], -low[k])
                    overlap += 1
                g += 1
            n = stop
        out[:, q] = overlap_share(value, value_low, overlap, n, high, low)
