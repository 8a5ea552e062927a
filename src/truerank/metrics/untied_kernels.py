"""Sums over graded relevant items of which none ties: H-AP, NDCG and ASI of long rankings.

The same operations in the same order as for tie groups (hierarchy_kernels, gain_kernels,
overlap_kernels), so that values have the same bits; what does not depend on the item before is
computed for many items at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.jit import kernel
from truerank.metrics.double_double import accumulate, over_rank, settle, times_count
from truerank.metrics.gain_kernels import discounts, ideal_gain, whole_gain
from truerank.metrics.hierarchy_kernels import by_relevance, h_rank
from truerank.metrics.overlap_kernels import overlap_share

__all__ = [
    "discount_steps",
    "discounted_gain",
    "hierarchical_precision",
    "set_intersection",
]

CHUNK = 512
"""Items whose terms are computed before they are added up."""
SHORT_RANK = (1 << 26) - 1
"""Ranks, from 0, below which numbers and ranks from 1 are short; see double_double.SHORT."""


@kernel
def hierarchical_precision(
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
def discounted_gain(
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
def set_intersection(
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
