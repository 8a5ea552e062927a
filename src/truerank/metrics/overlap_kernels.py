"""Sums over graded tie groups for the average set intersection (ASI)."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.jit import kernel
from truerank.metrics.double_double import (
    accumulate,
    add,
    over,
    over_long,
    times,
    two_product,
    two_sum,
)

__all__ = [
    "expected_overlap",
    "harmonic_sums",
    "overlap_share",
    "set_intersection",
    "settle_overlaps",
]


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
