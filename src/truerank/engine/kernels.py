"""Counting kernels: distances into bins between and at the relevant distances of a query."""

from __future__ import annotations

from typing import Any

from truerank.jit import kernel

__all__ = ["count_pairs", "count_sorted", "count_tile", "sum_groups", "tally_grades"]


@kernel
def count_tile(
    distances: Any, offsets: Any, relevant_distance: Any, between: Any, equal: Any
) -> None:
    """Add every entry of a (queries, items) tile.

    Items beyond the farthest relevant one need no bin: they are most of the tile, and one
    comparison rejects them.
    """
    for q in range(distances.shape[0]):
        start = offsets[q]
        stop = offsets[q + 1]
        if start == stop:
            continue
        last = relevant_distance[stop - 1]
        row = distances[q]
        for item in range(row.size):
            d = row[item]
            if d <= last:
                low = start
                high = stop - 1
                while low < high:
                    middle = (low + high) // 2
                    if relevant_distance[middle] < d:
                        low = middle + 1
                    else:
                        high = middle
                if relevant_distance[low] == d:
                    equal[low] += 1
                else:
                    between[low] += 1


@kernel
def count_pairs(
    query: Any,
    distances: Any,
    step: int,
    offsets: Any,
    relevant_distance: Any,
    between: Any,
    equal: Any,
) -> None:
    """Add `step` for each single pair (-1 takes an excluded pair out again)."""
    for p in range(query.size):
        start = offsets[query[p]]
        stop = offsets[query[p] + 1]
        d = distances[p]
        if start == stop or d > relevant_distance[stop - 1]:
            continue
        low = start
        high = stop - 1
        while low < high:
            middle = (low + high) // 2
            if relevant_distance[middle] < d:
                low = middle + 1
            else:
                high = middle
        if relevant_distance[low] == d:
            equal[low] += step
        else:
            between[low] += step


@kernel
def count_sorted(
    ranked: Any, offsets: Any, relevant_distance: Any, between: Any, equal: Any
) -> None:
    """Add whole rows of distances that are sorted already: one walk down both lists."""
    for q in range(ranked.shape[0]):
        row = ranked[q]
        item = 0
        for g in range(offsets[q], offsets[q + 1]):
            d = relevant_distance[g]
            first = item
            while item < row.size and row[item] < d:
                item += 1
            between[g] += item - first
            first = item
            while item < row.size and row[item] == d:
                item += 1
            equal[g] += item - first


@kernel
def tally_grades(
    query: Any, distances: Any, grade: Any, offsets: Any, relevant_distance: Any, graded: Any
) -> None:
    """How many relevant items of each grade lie at each relevant distance."""
    for p in range(query.size):
        low = offsets[query[p]]
        high = offsets[query[p] + 1] - 1
        d = distances[p]
        while low < high:
            middle = (low + high) // 2
            if relevant_distance[middle] < d:
                low = middle + 1
            else:
                high = middle
        graded[low, grade[p] - 1] += 1


@kernel
def sum_groups(values: Any, offsets: Any, totals: Any) -> None:
    """Sums over the groups of each query."""
    for q in range(totals.size):
        total = 0
        for g in range(offsets[q], offsets[q + 1]):
            total += values[g]
        totals[q] = total
