"""Counting kernels: distances into bins between and at the relevant distances of a query."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.jit import kernel

__all__ = [
    "count_pairs",
    "count_tile",
    "pack",
    "rank_grades",
    "split_pairs",
    "split_relevant",
    "split_tile",
    "tally_grades",
    "walk",
]


@kernel
def find(relevant_distance: Any, low: int, high: int, d: float) -> int:
    """The first of the groups low to high that is not nearer than d; high lies at or beyond d."""
    while low < high:
        middle = (low + high) // 2
        if relevant_distance[middle] < d:
            low = middle + 1
        else:
            high = middle
    return low


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
                g = find(relevant_distance, start, stop - 1, d)
                if relevant_distance[g] == d:
                    equal[g] += 1
                else:
                    between[g] += 1


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
        g = find(relevant_distance, start, stop - 1, d)
        if relevant_distance[g] == d:
            equal[g] += step
        else:
            between[g] += step


@kernel
def split_tile(
    distances: Any,
    offsets: Any,
    relevant_distance: Any,
    between: Any,
    equal: Any,
    wanted: Any,
    share: Any,
    split: Any,
) -> None:
    """count_tile, and for wanted queries the same counts by share.

    share[item] are the columns of an item's shares.
    """
    for q in range(distances.shape[0]):
        start = offsets[q]
        stop = offsets[q + 1]
        if start == stop:
            continue
        last = relevant_distance[stop - 1]
        row = distances[q]
        ways = share.shape[1] if wanted[q] else 0
        for item in range(row.size):
            d = row[item]
            if d <= last:
                g = find(relevant_distance, start, stop - 1, d)
                at = 0
                if relevant_distance[g] == d:
                    equal[g] += 1
                    at = 1
                else:
                    between[g] += 1
                for way in range(ways):
                    split[at, g, share[item, way]] += 1


@kernel
def split_pairs(
    query: Any,
    item: Any,
    distances: Any,
    step: int,
    offsets: Any,
    relevant_distance: Any,
    wanted: Any,
    share: Any,
    split: Any,
) -> None:
    """count_pairs by share alone."""
    for p in range(query.size):
        if not wanted[query[p]]:
            continue
        start = offsets[query[p]]
        stop = offsets[query[p] + 1]
        d = distances[p]
        if start == stop or d > relevant_distance[stop - 1]:
            continue
        g = find(relevant_distance, start, stop - 1, d)
        at = 1 if relevant_distance[g] == d else 0
        for way in range(share.shape[1]):
            split[at, g, share[item[p], way]] += step


@kernel
def split_relevant(
    query: Any,
    item: Any,
    distances: Any,
    grade: Any,
    offsets: Any,
    relevant_distance: Any,
    wanted: Any,
    share: Any,
    split: Any,
) -> None:
    """Relevant items of each grade at each relevant distance, by share."""
    for p in range(query.size):
        q = query[p]
        if not wanted[q]:
            continue
        g = find(relevant_distance, offsets[q], offsets[q + 1] - 1, distances[p])
        for way in range(share.shape[1]):
            split[1 + grade[p], g, share[item[p], way]] += 1


GRADE_BITS = 7
LAST = np.iinfo(np.int64).max
"""Behind every distance: what is not ranked."""


@kernel
def pack(distances: Any, grade: Any, keys: Any) -> None:
    """Integral distances with the grade in the lowest bits: sorted, both come in order."""
    for q in range(distances.shape[0]):
        for g in range(distances.shape[1]):
            d = distances[q, g]
            if d == np.inf:
                keys[q, g] = LAST
            else:
                keys[q, g] = (np.int64(d) << GRADE_BITS) | grade[q, g]


@kernel
def rank_grades(distances: Any, order: Any, grade: Any, keys: Any) -> None:
    """The same for any distances, from their argsort: equal ones share a number."""
    for q in range(distances.shape[0]):
        number = np.int64(0)
        previous = distances[q, order[q, 0]]
        for rank in range(distances.shape[1]):
            item = order[q, rank]
            d = distances[q, item]
            if d != previous:
                number += 1
                previous = d
            keys[q, rank] = LAST if d == np.inf else (number << GRADE_BITS) | grade[q, item]


@kernel
def walk(keys: Any, start: Any, count: Any, before: Any, size: Any, graded: Any) -> None:
    """Tie groups of whole rows of sorted keys.

    Row q writes its groups from start[q] on and their number to count[q]. A group is written before
    it is known to hold anything relevant, so one place more is needed behind the last.
    """
    mask = (1 << GRADE_BITS) - 1
    grades = graded.shape[1]
    for q in range(keys.shape[0]):
        row = keys[q]
        g = start[q]
        first = 0
        while first < row.size and row[first] != LAST:
            d = row[first] >> GRADE_BITS
            level = row[first] & mask
            before[g] = first
            size[g] = 1
            for i in range(grades):
                graded[g, i] = i == level - 1
            first += 1
            if first == row.size or row[first] >> GRADE_BITS != d:
                g += level > 0
                continue
            relevant = level > 0
            while first < row.size and row[first] >> GRADE_BITS == d:
                level = row[first] & mask
                size[g] += 1
                if level > 0:
                    relevant = True
                    graded[g, level - 1] += 1
                first += 1
            g += relevant
        count[q] = g - start[q]


@kernel
def tally_grades(
    query: Any, distances: Any, grade: Any, offsets: Any, relevant_distance: Any, graded: Any
) -> None:
    """How many relevant items of each grade lie at each relevant distance."""
    for p in range(query.size):
        q = query[p]
        g = find(relevant_distance, offsets[q], offsets[q + 1] - 1, distances[p])
        graded[g, grade[p] - 1] += 1
