"""Sums over graded tie groups for hierarchical average precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.groups import NOWHERE
from truerank.jit import kernel
from truerank.metrics.double_double import (
    accumulate,
    add,
    over_rank,
    settle,
    times,
    times_count,
    times_long,
)
from truerank.metrics.harmonics import run, tied

__all__ = ["all_by_relevance", "by_relevance", "h_rank", "hierarchical_precision"]


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
