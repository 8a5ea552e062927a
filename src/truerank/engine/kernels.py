"""Counting kernels: distances into bins between and at the relevant distances of a query."""

from __future__ import annotations

from typing import Any

from truerank.jit import kernel

__all__ = ["count_pairs", "count_tile"]


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
