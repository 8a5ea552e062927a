"""Counting kernels: distances into bins between and at the relevant distances of a query."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel


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
def near_pairs(
    distances: Any, top: int, within: Any, within_columns: Any, query: Any, item: Any, near: Any
) -> Any:
    """List the pairs of a tile that lie within the limit of their row or of their column.

    Rows are taken from `top` on, as long as the lists have room for a whole one: returns the first
    row that was not taken and how many pairs are listed.
    """
    width = distances.shape[1]
    listed = np.uint64(0)
    for q in range(top, distances.shape[0]):
        if query.size < listed + np.uint64(width):
            return q, listed
        row = distances[q]
        limit = within[q]
        known = listed
        for i in range(width):  # a list without a branch that is guessed wrong
            item[listed] = i
            listed += np.uint64(row[i] <= max(limit, within_columns[i]))
        for p in range(known, listed):
            query[p] = q
            near[p] = row[item[p]]
    return distances.shape[0], listed


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
    place: Any,
    fold: Any,
    split: Any,
) -> None:
    """count_tile, and for some queries the same counts by fold.

    fold[item] are the columns of an item's folds; place[q] is where a query's groups stand in
    `split`, below zero for queries that are not split.
    """
    for q in range(distances.shape[0]):
        start = offsets[q]
        stop = offsets[q + 1]
        if start == stop:
            continue
        last = relevant_distance[stop - 1]
        row = distances[q]
        ways = fold.shape[1] if place[q] >= 0 else 0
        shift = place[q] - start
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
                    split[at, g + shift, fold[item, way]] += 1


@kernel
def split_pairs(
    query: Any,
    item: Any,
    distances: Any,
    step: int,
    offsets: Any,
    relevant_distance: Any,
    place: Any,
    fold: Any,
    split: Any,
) -> None:
    """Add `step` for each single pair by fold, for queries that are split; see count_pairs."""
    for p in range(query.size):
        if place[query[p]] < 0:
            continue
        start = offsets[query[p]]
        stop = offsets[query[p] + 1]
        d = distances[p]
        if start == stop or d > relevant_distance[stop - 1]:
            continue
        g = find(relevant_distance, start, stop - 1, d)
        at = 1 if relevant_distance[g] == d else 0
        g += place[query[p]] - start
        for way in range(fold.shape[1]):
            split[at, g, fold[item[p], way]] += step


@kernel
def split_relevant(
    query: Any,
    item: Any,
    distances: Any,
    grade: Any,
    offsets: Any,
    relevant_distance: Any,
    place: Any,
    fold: Any,
    split: Any,
) -> None:
    """Relevant items of each grade at each relevant distance, by fold."""
    for p in range(query.size):
        q = query[p]
        if place[q] < 0:
            continue
        g = find(relevant_distance, offsets[q], offsets[q + 1] - 1, distances[p])
        g += place[q] - offsets[q]
        for way in range(fold.shape[1]):
            split[1 + grade[p], g, fold[item[p], way]] += 1


@kernel
def tally_grades(
    query: Any, distances: Any, grade: Any, offsets: Any, relevant_distance: Any, graded: Any
) -> None:
    """How many relevant items of each grade lie at each relevant distance."""
    for p in range(query.size):
        q = query[p]
        g = find(relevant_distance, offsets[q], offsets[q + 1] - 1, distances[p])
        graded[g, grade[p] - 1] += 1


CHUNK = 1024
"""Distances looked through at once for the few that matter."""
SHORT_CHUNK = 512


@kernel
def between(
    flat: Any, low: float, high: float, low_too: float, high_too: float, found: Any, found_too: Any
) -> Any:
    """The numbers in (low, high], and in another range; most lie beyond both."""
    top = max(high, high_too)
    near = np.empty(CHUNK + 1)
    count = np.uint64(0)
    count_too = np.uint64(0)
    for start in range(0, flat.size, CHUNK):
        some = flat[start : min(start + CHUNK, flat.size)]
        held = np.uint64(0)
        for i in range(some.size):  # lists without a branch that is guessed wrong
            near[held] = some[i]
            held += np.uint64(some[i] <= top)
        for p in range(held):
            d = near[p]
            found[count] = d
            count += np.uint64((low < d) & (d <= high))
            found_too[count_too] = d
            count_too += np.uint64((low_too < d) & (d <= high_too))
    return count, count_too


@kernel
def place_on_grid(d: float, grid: Any, low: float, scale: float) -> int:
    """The first cut that accepts a distance, from a scale that is never too large."""
    if d <= grid[0]:
        return 0
    place = int(min((d - low) * scale, float(grid.size - 2))) + 1
    return place + int(d > grid[place])


@kernel
def add_up_grid(counts: Any) -> None:
    """From how many distances each cut is the first to accept to how many it accepts."""
    for q in range(counts.shape[0]):
        mine = counts[q]
        total = np.int32(0)
        for place in range(mine.size):
            total = np.int32(total + mine[place])
            mine[place] = total


@kernel
def count_on_grid(distances: Any, grid: Any, low: float, scale: float, counts: Any) -> None:
    """How many distances of each row each cut accepts, from a scale that is never too large."""
    for q in range(distances.shape[0]):
        row = distances[q]
        mine = counts[q]
        for item in range(row.size):
            mine[place_on_grid(row[item], grid, low, scale)] += 1
    add_up_grid(counts)


@kernel
def nearest_by_fold(
    distances: Any, rows: Any, limit: Any, fold: Any, least: Any, within: Any
) -> None:
    """The nearest item of each fold, and how many lie within a query's own limit."""
    for i in range(rows.size):
        q = rows[i]
        row = distances[i]
        nearest = least[q]
        count = within[q]
        most = limit[q]
        for begin in range(0, row.size, SHORT_CHUNK):
            matters = max(most, nearest.max())  # soon little is nearer than what was seen
            for item in range(begin, min(begin + SHORT_CHUNK, row.size)):
                d = row[item]
                if d > matters:
                    continue
                for way in range(fold.shape[1]):
                    column = fold[item, way]
                    nearest[column] = min(nearest[column], d)
                    if d <= most:
                        count[column] += 1
