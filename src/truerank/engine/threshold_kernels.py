"""Kernels of threshold histograms, of single queries, pooled or per jackknife group."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel

CHUNK = 8192
"""Distances whose cells are found at once."""
SHORT = 4
"""Up to this many cuts in a cell are looked at one by one."""


@kernel
def cells_of(distances: Any, start: Any, low: float, scale: float, highest: float, out: Any) -> Any:
    """The cell of every distance; what lies beyond the highest cut goes to that one's."""
    last = float(start.size - 2)
    for i in range(distances.size):
        d = min(distances[i], highest)
        out[i] = np.uint32(np.int32(min(max((d - low) * scale, 0.0), last)))


@kernel
def narrowed(d: float, bounds: Any, start: Any, cell: Any) -> Any:
    """A cut of a crowded cell, few before the first one that a distance does not exceed."""
    first = np.uint32(start[cell])
    end = np.uint32(start[cell + np.uint32(1)])
    while first + SHORT < end:
        middle = np.uint32((first + end) // np.uint32(2))
        if bounds[middle] < d:
            first = np.uint32(middle + np.uint32(1))
        else:
            end = middle
    return first


@kernel
def tally_rows(
    distances: Any,
    bounds: Any,
    start: Any,
    low: float,
    scale: float,
    crowded: bool,
    owner: Any,
    times: int,
    counts: Any,
) -> None:
    """counts[owner of the row, cut] += how many finite distances it is the first to accept, each
    so many times."""
    last = bounds.size - 1
    highest = bounds[last - 1]
    near = np.empty(distances.shape[1] + 1)
    cell = np.empty(distances.shape[1], np.uint32)
    for q in range(distances.shape[0]):
        row = distances[q]
        mine = counts[owner[q]]
        met = 0
        inside = 0
        for i in range(row.size):
            met += row[i] < np.inf
            inside += row[i] <= highest
        some = row
        if 2 * inside < row.size:  # few: a list without a branch that is guessed wrong
            count = np.uint64(0)
            for i in range(row.size):
                near[count] = row[i]
                count += np.uint64(row[i] <= highest)
            some = near[:inside]
            mine[last] += times * (row.size - inside)
        mine[last] -= times * (row.size - met)  # what never meets is taken for what lies beyond
        cells_of(some, start, low, scale, highest, cell)
        for i in range(some.size):
            d = some[i]
            cut = np.uint32(start[cell[i]])
            if crowded:
                cut = narrowed(d, bounds, start, cell[i])
            while bounds[cut] < d:  # cuts of later cells are larger
                cut = np.uint32(cut + np.uint32(1))
            mine[cut] += times


@kernel
def tally_pool(
    flat: Any, bounds: Any, start: Any, low: float, scale: float, times: int, counts: Any
) -> None:
    """tally of finite distances with one owner, by cells of which none is crowded."""
    highest = bounds[bounds.size - 2]
    cell = np.empty(CHUNK, np.uint32)
    for begin in range(0, flat.size, CHUNK):
        some = flat[begin : min(begin + CHUNK, flat.size)]
        cells_of(some, start, low, scale, highest, cell)
        for i in range(some.size):
            d = some[i]
            cut = np.uint32(start[cell[i]])
            while bounds[cut] < d:
                cut = np.uint32(cut + np.uint32(1))
            counts[cut] += times


@kernel
def tally_both(
    distances: Any,
    bounds: Any,
    start: Any,
    low: float,
    scale: float,
    crowded: bool,
    owner: Any,
    other: Any,
    counts: Any,
) -> None:
    """tally for the owners of rows and, in the same look, for those of columns; all are finite."""
    last = bounds.size - 1
    highest = bounds[last - 1]
    width = distances.shape[1]
    near = np.empty(width + 1)
    whose = np.empty(width + 1, np.int64)
    cell = np.empty(width, np.uint32)
    beyond = np.zeros(width, np.int64)
    for q in range(distances.shape[0]):
        row = distances[q]
        mine = counts[owner[q]]
        inside = 0
        for i in range(width):
            inside += row[i] <= highest
        some = row
        theirs = other
        if 2 * inside < width:
            count = np.uint64(0)
            for i in range(width):
                near[count] = row[i]
                whose[count] = other[i]
                count += np.uint64(row[i] <= highest)
            for i in range(width):
                beyond[i] += row[i] > highest
            some = near[:inside]
            theirs = whose[:inside]
            mine[last] += width - inside
        cells_of(some, start, low, scale, highest, cell)
        for i in range(some.size):
            d = some[i]
            cut = np.uint32(start[cell[i]])
            if crowded:
                cut = narrowed(d, bounds, start, cell[i])
            while bounds[cut] < d:
                cut = np.uint32(cut + np.uint32(1))
            mine[cut] += 1
            counts[theirs[i], cut] += 1
    for i in range(width):
        counts[other[i], last] += beyond[i]


@kernel
def tally_by_fold(
    distances: Any,
    bounds: Any,
    start: Any,
    low: float,
    scale: float,
    crowded: bool,
    owner: Any,
    other: Any,
    fold: Any,
    other_fold: Any,
    counts: Any,
) -> None:
    """counts[owner, fold, cut] of pairs up to the last cut: the row's owner and the column's folds,
    and the column's owner and the row's folds. Owners below zero do not count."""
    highest = bounds[bounds.size - 2]
    width = distances.shape[1]
    near = np.empty(width + 1)
    item = np.empty(width + 1, np.uint32)
    cell = np.empty(width, np.uint32)
    for q in range(distances.shape[0]):
        row = distances[q]
        ours = owner[q] >= 0
        mine = counts[max(owner[q], 0)]
        count = np.uint64(0)
        for i in range(width):  # a list without a branch that is guessed wrong
            near[count] = row[i]
            item[count] = i
            count += np.uint64(row[i] <= highest)
        cells_of(near[:count], start, low, scale, highest, cell)
        for p in range(count):
            d = near[p]
            cut = np.uint32(start[cell[p]])
            if crowded:
                cut = narrowed(d, bounds, start, cell[p])
            while bounds[cut] < d:
                cut = np.uint32(cut + np.uint32(1))
            i = item[p]
            for way in range(fold.shape[1]):
                if ours:
                    mine[np.uint32(other_fold[i, way]), cut] += 1
                if other[i] >= 0:
                    counts[other[i], np.uint32(fold[q, way]), cut] += 1
