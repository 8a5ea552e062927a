"""Kernels over a block of distances, for what watchers ask of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.engine import cuts
from truerank.jit import kernel

__all__ = ["between", "count_on_grid", "nearest_by_share", "tally_by_share"]

CHUNK = 1024
"""Distances looked through at once for the few that matter."""
SHORT_CHUNK = 512


@kernel
def between(
    flat: Any, low: float, high: float, low_too: float, high_too: float, found: Any, found_too: Any
) -> tuple[int, int]:
    """Where numbers in (low, high] stand, and in another range; most lie beyond both."""
    top = max(high, high_too)
    near = np.empty(CHUNK + 1, np.int64)
    count = 0
    count_too = 0
    for start in range(0, flat.size, CHUNK):
        held = 0
        for place in range(start, min(start + CHUNK, flat.size)):
            near[held] = place
            held += flat[place] <= top
        for place in near[:held]:
            d = flat[place]
            found[count] = place
            count += low < d <= high
            found_too[count_too] = place
            count_too += low_too < d <= high_too
    return count, count_too


@kernel
def count_on_grid(distances: Any, grid: Any, low: float, scale: float, counts: Any) -> None:
    """How many distances of each row each cut accepts, from a scale that is never too large."""
    last = grid.size - 1
    limit = float(last - 1)
    for q in range(distances.shape[0]):
        row = distances[q]
        mine = counts[q]
        for item in range(row.size):
            d = row[item]
            if d <= grid[0]:
                mine[0] += 1
                continue
            place = int(min((d - low) * scale, limit)) + 1
            if d > grid[place]:
                place += 1
            mine[place] += 1
        total = np.int32(0)
        for place in range(mine.size):
            total = np.int32(total + mine[place])
            mine[place] = total


@kernel
def tally_by_share(
    distances: Any,
    at: Any,
    start: Any,
    low: float,
    scale: float,
    owner: Any,
    share: Any,
    counts: Any,
) -> None:
    """Pairs up to the last cut, usually few."""
    highest = at[at.size - 1]
    near = np.empty(distances.shape[1] + 1, np.int64)
    for q in range(distances.shape[0]):
        if owner[q] < 0:
            continue
        row = distances[q]
        mine = counts[owner[q]]
        count = 0
        for item in range(row.size):  # a list without a branch that is guessed wrong
            near[count] = item
            count += row[item] <= highest
        for item in near[:count]:
            cell = cuts.place(row[item], at, start, low, scale)
            for way in range(share.shape[1]):
                mine[share[item, way], cell] += 1


@kernel
def nearest_by_share(
    distances: Any, rows: Any, limit: Any, share: Any, least: Any, within: Any
) -> None:
    """The nearest item of each share, and how many lie within a query's own limit."""
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
                for way in range(share.shape[1]):
                    column = share[item, way]
                    nearest[column] = min(nearest[column], d)
                    if d <= most:
                        count[column] += 1
