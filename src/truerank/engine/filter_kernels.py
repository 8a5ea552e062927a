"""Float32 kernels: scores compared with an interval around each threshold, open pairs listed.

A row of scores is compared with one threshold after another, from the farthest relevant item
inwards, in vector instructions. Where most of the row lies behind the farthest of many
thresholds, the few other scores are looked up instead. Kernels for blocks of close distances
take rows while the list has room for a whole one, and return how many rows were taken and how
many pairs listed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel
from truerank.engine.count_kernels import place_on_grid

MANY = 8
"""Groups from which on looking up is considered at all."""
SEARCH = 200
"""Looking up one score costs about as much as this many comparisons in a pass."""
CHUNK = 64
"""Scores looked through at once for the rare one that matters."""


@kernel
def add_up(parts: Any, out: Any, top: int, left: int) -> None:
    """Add up parts[slice, row, item] into a corner of `out`."""
    for q in range(parts.shape[1]):
        row = out[top + q, left : left + parts.shape[2]]
        first = parts[0, q]
        for i in range(row.size):
            row[i] = first[i]
        number = 1
        while number + 1 < parts.shape[0]:  # two at a time: the row is written half as often
            first = parts[number, q]
            second = parts[number + 1, q]
            for i in range(row.size):
                row[i] += first[i] + second[i]
            number += 2
        if number < parts.shape[0]:
            first = parts[number, q]
            for i in range(row.size):
                row[i] += first[i]


@kernel
def count_scores(
    scores: Any,
    first: int,
    offsets: Any,
    low: Any,
    high: Any,
    between: Any,
    query: Any,
    item: Any,
) -> Any:
    """Add every certain entry of a (queries, items) tile; list the doubtful ones.

    Row q of the tile is query first + q. A score above high[g] is certainly nearer than group g, a
    score below low[g] certainly farther. An entry inside any interval is not counted but listed
    once, as (query, item). Rows are taken as long as the lists have room for a whole row: returns
    the number of rows taken and of entries listed.
    """
    width = scores.shape[1]
    listed = 0
    for q in range(scores.shape[0]):
        start = offsets[first + q]
        stop = offsets[first + q + 1]
        if start == stop:
            continue
        if query.size - listed < width:
            return q, listed
        row = scores[q]
        g = stop - 1
        above, least = tally(row, 0, width, low[g], high[g])
        if stop - start >= MANY and SEARCH * least < (stop - start) * width:
            for i in range(width if least > 0 else 0):
                if row[i] >= low[stop - 1]:
                    g = find_score(high, start, stop, row[i])
                    if g > start and low[g - 1] <= row[i]:
                        query[listed] = first + q
                        item[listed] = i
                        listed += 1
                    else:
                        between[g] += 1
            continue
        behind = np.float32(-np.inf)
        while True:
            if least > above:
                # The intervals around one entry are consecutive: it is listed at the farthest of
                # them, and counts no longer as nearer than the group behind that.
                known = listed
                listed = collect(row, low[g], high[g], behind, first + q, query, item, listed)
                if g + 1 < stop:
                    between[g + 1] -= listed - known
            if least == 0 or g == start:
                break
            nearer = above
            behind = high[g]
            g -= 1
            above, least = tally(row, 0, width, low[g], high[g])
            between[g + 1] += nearer - above
        between[g] += above
    return scores.shape[0], listed


@kernel
def split_scores(
    scores: Any,
    first: int,
    offsets: Any,
    low: Any,
    high: Any,
    place: Any,
    fold: Any,
    split: Any,
) -> None:
    """The certain entries of count_scores again, by fold, for queries that are split."""
    near = np.empty(scores.shape[1] + 1, np.int64)
    for q in range(scores.shape[0]):
        start = offsets[first + q]
        stop = offsets[first + q + 1]
        if start == stop or place[q] < 0:
            continue
        row = scores[q]
        least = low[stop - 1]
        count = 0
        for begin in range(0, row.size, CHUNK):  # few are near: most chunks hold none
            end = min(begin + CHUNK, row.size)
            if begin + CHUNK == end:
                found = np.int32(0)
                for i in range(CHUNK):  # of a known length, which makes vectors of it
                    found = np.int32(found + (row[begin + i] >= least))
                if found == 0:
                    continue
            for i in range(begin, end):  # a list without a branch that is guessed wrong
                near[count] = i
                count += row[i] >= least
        for i in near[:count]:
            g = find_score(high, start, stop, row[i])
            if g == stop or (g > start and low[g - 1] <= row[i]):
                continue
            for way in range(fold.shape[1]):
                split[0, g + place[q] - start, fold[i, way]] += 1


@kernel
def tally(row: Any, start: int, stop: int, low: Any, high: Any) -> Any:
    """How many scores lie above `high`, and how many at or above `low`."""
    above = np.int32(0)
    least = np.int32(0)
    for i in range(start, stop):  # kept in 32 bits, so that vectors hold as many counts as scores
        above = np.int32(above + (row[i] > high))
        least = np.int32(least + (row[i] >= low))
    return above, least


@kernel
def find_score(high: Any, start: int, stop: int, score: Any) -> int:
    """The first of the groups start to stop whose interval lies below the score, else stop."""
    while start < stop:
        middle = (start + stop) // 2
        if high[middle] >= score:
            start = middle + 1
        else:
            stop = middle
    return start


@kernel
def collect(
    row: Any, low: Any, high: Any, behind: Any, q: int, query: Any, item: Any, listed: int
) -> int:
    """List the entries from low to high that lie above `behind`."""
    for start in range(0, row.size, CHUNK):
        stop = min(start + CHUNK, row.size)
        above, least = tally(row, start, stop, low, high)
        if least == above:
            continue
        for i in range(start, stop):
            if low <= row[i] <= high and row[i] > behind:
                query[listed] = q
                item[listed] = i
                listed += 1
    return listed


# Kernels that ask about distances of which float32 scores are known: a distance is `middle` less
# twice its score, give or take `reach`.
#
# What no cut divides is counted; a pair with a cut within reach is listed, as (query, item), to be
# decided by its exact distance. Rows are taken as long as the lists have room for a whole one: how
# many were taken is returned, and how many pairs are listed.


NEVER = np.float32(-np.inf)
"""The score of a pair that never meets."""
SLOP = 1e-6
"""More than all roundings of places on a grid, and of its cuts, come to, in steps of the grid."""


@kernel
def count_on_grid(
    scores: Any, middle: float, reach: float, low: float, scale: float, counts: Any, query: Any,
    item: Any,
) -> Any:  # fmt: skip
    """For each row, how many distances each cut of an even grid is the first to accept.

    The last cut accepts everything that is finite; behind it stand what never meets, and what is
    listed.
    """
    width = scores.shape[1]
    last = float(counts.shape[1] - 3)
    never = np.int32(counts.shape[1] - 2)
    unsure = np.int32(counts.shape[1] - 1)
    margin = reach * scale + SLOP
    cell = np.empty(width, np.int32)
    listed = np.uint64(0)
    for q in range(scores.shape[0]):
        row = scores[q]
        if query.size < listed + np.uint64(width):
            return q, listed
        mine = counts[q]
        for i in range(width):
            place = (middle - 2.0 * np.float64(row[i]) - low) * scale
            whole = np.floor(place)
            part = place - whole
            sure = (part > margin) & (part < 1.0 - margin)
            found = np.int32(min(max(whole + 1.0, 0.0), last)) if sure else unsure
            cell[i] = found if row[i] > NEVER else never
        known = listed
        for i in range(width):  # a list without a branch that is guessed wrong
            mine[np.uint32(cell[i])] += 1
            item[listed] = i
            listed += np.uint64(cell[i] == unsure)
        query[known:listed] = q
    return scores.shape[0], listed


@kernel
def count_pairs_on_grid(
    query: Any, distances: Any, grid: Any, low: float, scale: float, counts: Any
) -> None:
    """The same for single pairs, whose distances are exact."""
    for p in range(query.size):
        counts[query[p], place_on_grid(distances[p], grid, low, scale)] += 1
