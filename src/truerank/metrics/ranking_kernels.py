"""Kernels of binary ranking metrics over tie groups, and their values per jackknife group.

One kernel does all for a run of queries without each jackknife group: what is computed of one
query stays in the cache of the processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel
from truerank.core.sum_kernels import AT_A_TIME, add_row, add_whole
from truerank.core.tie_group_kernels import first_ranks, mates_left
from truerank.metrics.double_double_kernels import (
    accumulate,
    add,
    harmonic_step,
    over,
    run,
    settle,
    tied,
    times,
)

MOST = 1 << 30
"""Beyond any rank."""
_FOUND, _AVERAGE_PRECISION, _FIRST, _LAST = range(4)


@kernel
def _add_moves(
    left: Any,
    how: Any,
    wanted: Any,
    before: Any,
    own: Any,
    weights: Any,
    alike: bool,
    none_counts: bool,
    some: Any,
    sums: Any,
) -> None:
    queries = left.offsets.size - 1
    columns = left.between.shape[1]
    # arrays of their own: rows of one table would have to be told apart at every step
    row = np.empty(columns)
    mates = np.empty(columns, np.int32)
    limit = np.empty(columns, np.int32)
    missing = np.empty(columns, np.int32)
    inside = np.empty(columns, np.int32)
    for q in range(queries):
        mates_left(left, q, mates)
        for way in range(how.shape[0]):
            if not wanted[way, q]:
                continue
            kind = how[way, 0]
            cut = how[way, 1]
            divisor = how[way, 2]
            if kind == _FOUND:
                _found(left, q, mates, cut, divisor, limit, missing, inside, row)
            elif kind == _AVERAGE_PRECISION:
                _average_precision(left, q, mates, cut, divisor, limit, missing, inside, row)
            elif kind == _FIRST:
                _first(left, q, mates, cut, missing, inside, row)
            else:
                _last(left, q, mates, missing, inside, row)
            if none_counts:
                for c in range(columns):
                    row[c] = row[c] if row[c] == row[c] else 0.0
            add_row(row, before[way, q], own[q], weights[q], alike, some[way])
        if q % AT_A_TIME == AT_A_TIME - 1 or q == queries - 1:
            for way in range(how.shape[0]):
                add_whole(some[way], alike, sums[way])


@kernel
def _average_precision(
    left: Any,
    q: int,
    mates: Any,
    cut: int,
    smaller: bool,
    limit: Any,
    missing: Any,
    seen: Any,
    out: Any,
) -> None:
    for c in range(out.size):
        limit[c] = mates[c] if cut < 0 else np.int32(min(cut, MOST))
        missing[c] = 0  # items of the fold that lie before the group
        seen[c] = 0
        out[c] = 0.0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        k0 = np.int32(left.before[g])
        m0 = np.int32(left.relevant[g])
        others = np.int32(left.size[g])
        most = np.int32(-MOST)
        for c in range(out.size):
            missing[c] += np.int32(left.between[g, c])
        if others == 1:
            for c in range(out.size):
                m = np.int32(m0 - left.gone[g, c])
                k = np.int32(k0 - missing[c])
                seen[c] += m
                inside = m if k < limit[c] else np.int32(0)
                out[c] += float(inside) * float(seen[c]) / (float(k) + 1.0)
                room = np.int32(limit[c] - k)
                most = room if room > most else most
        else:
            for c in range(out.size):
                m = np.int32(m0 - left.gone[g, c])
                # in the worst order the group's other items come before its mates
                k = k0 - missing[c] + others - np.int32(left.equal[g, c]) - m
                for i in range(1, min(m, limit[c] - k) + 1):
                    out[c] += float(seen[c] + i) / float(k + i)
                seen[c] += m
                most = max(most, limit[c] - k)
        for c in range(out.size):
            missing[c] += np.int32(left.equal[g, c])
        if most <= 0:  # and so for all that follows
            break
    for c in range(out.size):
        divisor = min(mates[c], limit[c]) if smaller else mates[c]
        out[c] = out[c] / float(divisor) if mates[c] > 0 else np.nan


@kernel
def _found(
    left: Any,
    q: int,
    mates: Any,
    cut: int,
    divisor: int,
    limit: Any,
    missing: Any,
    inside: Any,
    out: Any,
) -> None:
    for c in range(out.size):
        limit[c] = mates[c] if cut < 0 else np.int32(min(cut, MOST))
        missing[c] = 0
        inside[c] = 0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        k0 = np.int32(left.before[g] + left.size[g])
        m0 = np.int32(left.relevant[g])
        most = np.int32(-MOST)
        for c in range(out.size):
            missing[c] += np.int32(left.between[g, c]) + np.int32(left.equal[g, c])
        for c in range(out.size):
            m = np.int32(m0 - left.gone[g, c])
            room = np.int32(limit[c] - k0 + missing[c] + m)
            there = m if m < room else room
            inside[c] += there if there > 0 else np.int32(0)
            most = room if room > most else most
        if most <= 0:
            break
    for c in range(out.size):
        share = 1.0 if inside[c] > 0 else 0.0
        if divisor != 0:
            some = mates[c] if mates[c] > 0 else np.int32(1)
            share = float(inside[c]) / float(some if divisor < 0 else divisor)
        out[c] = share if mates[c] > 0 else np.nan


@kernel
def _first(left: Any, q: int, mates: Any, cut: int, missing: Any, rank: Any, out: Any) -> None:
    first_ranks(left, q, mates, missing, rank)
    for c in range(out.size):
        out[c] = 0.0 if mates[c] > 0 else np.nan
        if 0 < rank[c] <= cut:
            out[c] = 1.0 / float(rank[c])


@kernel
def _last(left: Any, q: int, mates: Any, missing: Any, rank: Any, out: Any) -> None:
    for c in range(out.size):
        missing[c] = 0
        rank[c] = 0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        k0 = np.int32(left.before[g] + left.size[g])
        m0 = np.int32(left.relevant[g])
        for c in range(out.size):
            missing[c] += np.int32(left.between[g, c]) + np.int32(left.equal[g, c])
        for c in range(out.size):
            now = np.int32(k0 - missing[c])
            rank[c] = now if np.int32(left.gone[g, c]) < m0 else rank[c]
    for c in range(out.size):
        out[c] = float(mates[c]) / float(rank[c]) if mates[c] > 0 else np.nan


# Sums over the tie groups of each query, for metrics of rankings.


LONG = 1 << 20
"""Items of a tie group from which on its extreme ranks are not summed position by position."""


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
        n: Any = np.int64(0)  # a literal would have `run` and `tied` compiled twice
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
def count_before(offsets: Any, before: Any, cut: Any, out: Any) -> None:
    """How many groups of each query have fewer items before them than its cut."""
    for q in range(out.size):
        inside = 0
        for g in range(offsets[q], offsets[q + 1]):
            if before[g] >= cut[q]:  # groups come nearest first
                break
            inside += 1
        out[q] = inside


@kernel
def precision_sums(
    offsets: Any, before: Any, size: Any, relevant: Any, high: Any, low: Any, out: Any
) -> None:
    """out[:, g] = lower, expected, upper of the sum of precisions over the groups up to g."""
    for q in range(offsets.size - 1):
        worst = worst_low = mean = mean_low = best = best_low = 0.0
        n: Any = np.int64(0)  # a literal would have `run` and `tied` compiled twice
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
def _extreme_by_recurrence(
    k: int, t: int, m: int, last: bool, high: Any, low: Any
) -> tuple[float, float]:
    """Expected 1/rank of the first (or last) of m relevant items, from that of 1, 2, ..., m - 1.

    With F_m = sum_p C(t-p, m-1)/C(t, m)/(k+p), and C(t-p, m-1) = C(t-p, m-2) (t-p-m+2)/(m-1), in
    which t-p-m+2 = (k+t-m+2) - (k+p): F_m = m/((m-1)(t-m+1)) [(k+t-m+2) F_{m-1} - 1]. For the last
    one, k+p becomes k+t+1-p: m/((m-1)(t-m+1)) [1 - (k+m-1) F_{m-1}]. The first loses a factor of
    about exp(k m/t) of its digits, which the caller bounds.
    """
    total, total_low = harmonic_step(k, t, high, low)
    total, total_low = over(total, total_low, float(t))
    for i in range(2, m + 1):
        if last:
            total, total_low = times(total, total_low, -float(k + i - 1))
            total, total_low = add(total, total_low, 1.0, 0.0)
        else:
            total, total_low = times(total, total_low, float(k + t - i + 2))
            total, total_low = add(total, total_low, -1.0, 0.0)
        total, total_low = times(total, total_low, float(i))
        total, total_low = over(total, total_low, float(i - 1))
        total, total_low = over(total, total_low, float(t - i + 1))
    return total, total_low


@kernel
def expected_extreme_rank(
    k: Any, t: Any, m: Any, room: Any, last: bool, numerator: Any, high: Any, low: Any, out: Any
) -> None:
    """Expected numerator/rank of the first (or last) relevant item of a group, behind k items.

    Of the group's t positions the first `room` count (all t for the last relevant item).
    The first relevant item is at position p with probability C(t-p, m-1)/C(t, m): m/t for p = 1,
    then times (t-p-m+1)/(t-p) a step. The last one is the mirror image. The sum stops where what
    is left cannot change 106 bits; of long groups with few relevant items, that is after very many
    steps, and m steps of a recurrence are taken instead.
    """
    for g in range(k.size):
        if m[g] == 1:
            total, total_low = harmonic_step(k[g], room[g], high, low)
            total, total_low = over(total, total_low, float(t[g]))
        elif room[g] == t[g] > LONG and (
            4 * (k[g] + m[g]) < t[g] if last else k[g] * m[g] < 16 * t[g] and 2 * m[g] < t[g]
        ):
            total, total_low = _extreme_by_recurrence(k[g], t[g], m[g], last, high, low)
        else:
            weight, weight_low = over(float(m[g]), 0.0, float(t[g]))
            total = total_low = 0.0
            for p in range(1, min(t[g] - m[g] + 1, room[g]) + 1):
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
