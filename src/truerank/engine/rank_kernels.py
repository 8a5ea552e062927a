"""Ranking kernels: whole rows of distances into ranks or tie groups, by a counting sort.

Distances are dealt to buckets. Dealing is monotone, so only the order inside buckets is open,
and that is decided by comparing the distances themselves: the result does not depend on the
buckets. In a row without ties only relevant distances are sorted, and each of the others is
looked up among the few in its bucket. In a row with ties, a bucket without relevant items is
only counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank._util.kernels import kernel
from truerank.engine.count_kernels import find

MOST_BITS = 18
"""Tables of more buckets would not stay in a core's cache."""
LOOKED_AT = 16
"""One in so many distances is looked at for the range that buckets divide."""
MOVES = 8
"""Moves for each item after which insertion is given up: the range says little about this row."""


def bucket_bits(items: int) -> int:
    """Buckets for so many items, as a power of two."""
    return min(MOST_BITS, items.bit_length())


@kernel
def bucket(d: float, low: float, scale: float, last: float) -> Any:
    """The bucket of a distance; what lies beyond either end goes to the first or the last."""
    return np.uint32(np.int32(min(max((d - low) * scale, 0.0), last)))


@kernel
def rank_untied(
    distances: Any, grade: Any, bits: int, start: Any, rank: Any, own: Any, tied: Any
) -> None:
    """Rank and grade of every relevant item, nearest first, of rows in which none of them ties.

    Row q writes from start[q] on; tied[q] says that something ties, and what is written there means
    nothing. What is not ranked has no grade and is infinitely far.
    """
    items = distances.shape[1]
    last = float((1 << bits) - 1)
    cell = np.empty((1 << bits) + 2, np.uint32)
    where = np.empty(items, np.uint32)
    near = np.empty(items + 1)
    kind = np.empty(items + 1, np.int8)
    far = np.empty(items + 1)
    placed = np.empty(items + 3)
    count = np.empty(items + 1, np.int32)
    for q in range(distances.shape[0]):
        relevant = deal_out(distances[q], grade[q], near, kind, far)
        low, scale = bucket_range(near, relevant, last)
        sort_relevant(near, kind, relevant, low, scale, last, where, cell, placed, own[start[q] :])
        placed[relevant : relevant + 3] = np.inf
        count[: relevant + 1] = 0
        ties = look_up(
            far, items - relevant, low, scale, last, where, cell, placed, relevant, count
        )
        for i in range(1, relevant):
            ties += placed[i] == placed[i - 1]
        tied[q] = ties > 0
        before = 0
        for i in range(relevant):
            before += count[i]
            rank[start[q] + i] = before + i


@kernel
def deal_out(row: Any, own: Any, near: Any, kind: Any, far: Any) -> Any:
    """Relevant distances and their grades in one list and the others in another; how many."""
    some = np.uint64(0)
    for i in range(row.size):  # without a branch that is guessed wrong
        near[some] = row[i]
        kind[some] = own[i]
        far[np.uint64(i) - some] = row[i]
        some += np.uint64(own[i] > 0)
    return np.int64(some)


@kernel
def bucket_range(near: Any, count: int, last: float) -> tuple[float, float]:
    """Where buckets for these distances begin and how many there are in a unit of distance."""
    low = np.inf
    high = -np.inf
    for i in range(0, count, LOOKED_AT):
        low = near[i] if near[i] < low else low
        high = near[i] if high < near[i] < np.inf else high
    if low == np.inf:
        low = 0.0
    scale = last / (high - low) if high > low else 1.0
    if not 0.0 < scale < np.inf:  # a range beyond all measure: one bucket for everything
        return 0.0, 2.0**-1074
    return low, scale


@kernel
def sort_relevant(
    near: Any,
    kind: Any,
    count: int,
    low: float,
    scale: float,
    last: float,
    where: Any,
    cell: Any,
    placed: Any,
    placed_kind: Any,
) -> None:
    """Put distances and grades in order; cell[b] becomes the first place of bucket b or later."""
    cell[:] = 0
    for i in range(count):
        where[i] = bucket(near[i], low, scale, last)
    for i in range(count):
        cell[where[i] + np.uint32(2)] += np.uint32(1)
    running = np.uint32(0)
    for b in range(cell.size):
        running += cell[b]
        cell[b] = running
    for i in range(count):
        b = where[i] + np.uint32(1)
        at = cell[b]
        placed[at] = near[i]
        placed_kind[at] = kind[i]
        cell[b] = at + np.uint32(1)
    if not insert_all(placed, placed_kind, count):
        merge_all(placed, placed_kind, count, near, kind)


@kernel
def look_up(
    far: Any,
    others: int,
    low: float,
    scale: float,
    last: float,
    where: Any,
    cell: Any,
    placed: Any,
    relevant: int,
    count: Any,
) -> int:
    """Count the others by the first relevant item behind them; how many tie with one.

    Few buckets hold more than three relevant items, so three comparisons, which no branch depends
    on, nearly always tell; behind the last relevant item lies infinity.
    """
    one, two = np.uint64(1), np.uint64(2)
    for i in range(others):
        where[i] = bucket(far[i], low, scale, last)
    ties = 0
    for i in range(others):
        d = far[i]
        p = np.uint64(cell[where[i]])
        less = np.uint64(placed[p] < d) + np.uint64(placed[p + one] < d)
        p += less + np.uint64(placed[p + two] < d)
        if not placed[p] > d:
            at: Any = np.int64(p)
            p = np.uint64(find(placed, at, relevant, d))
            ties += (p < relevant) & (placed[p] == d)
        count[p] += np.int32(1)
    return ties


@kernel
def rank_rows(
    distances: Any,
    grade: Any,
    bits: int,
    start: Any,
    count: Any,
    before: Any,
    size: Any,
    graded: Any,
    distance: Any,
) -> None:
    """Tie groups of whole rows, in which what is not ranked has no grade and is infinitely far.

    Row q writes its groups from start[q] on and their number to count[q]. A group is written before
    it is known to hold anything relevant, so one place more is needed behind the last. Where
    `distance` has room, it is told where groups lie.
    """
    items = distances.shape[1]
    last = float((1 << bits) - 1)
    held = np.empty(1 << bits, np.int64)  # items, and relevant ones in the upper half
    place = np.empty(1 << bits, np.int32)  # of the next item to be put in order
    skipped = np.empty(1 << bits, np.int32)  # items before a bucket that are not put in order
    where = np.empty(items, np.uint32)
    near = np.empty(items + 1)
    kind = np.empty(items + 1, np.int8)
    spare = np.empty(items)
    spare_kind = np.empty(items, np.int8)
    relevant = np.int64(1) << 32
    located = distance.size > 0
    for q in range(distances.shape[0]):
        row = distances[q]
        own = grade[q]
        low, scale = bucket_range(row, items, last)
        held[:] = 0
        for i in range(items):
            where[i] = bucket(row[i], low, scale, last)
        for i in range(items):
            held[where[i]] += 1 + relevant * (own[i] > 0)
        running = np.int32(0)
        chosen = np.int32(0)
        for b in range(held.size):
            here = np.int32(held[b])
            matters = held[b] >= relevant
            place[b] = chosen if matters else items
            skipped[b] = running - chosen
            chosen += here if matters else np.int32(0)
            running += here
        for i in range(items):  # without a branch that is guessed wrong: the rest goes to the end
            b = where[i]
            at = np.uint32(place[b])
            near[at] = row[i]
            kind[at] = own[i]
            place[b] = at + (at < items)
        if not insert_all(near, kind, chosen):
            merge_all(near, kind, chosen, spare, spare_kind)
        g = start[q]
        i = 0
        while i < chosen:
            d = near[i]
            before[g] = i + skipped[bucket(d, low, scale, last)]
            size[g] = 1
            if located:
                distance[g] = d
            for level in range(graded.shape[1]):
                graded[g, level] = level == kind[i] - 1
            matters = kind[i] > 0
            i += 1
            while i < chosen and near[i] == d:
                size[g] += 1
                if kind[i] > 0:
                    graded[g, kind[i] - 1] += 1
                    matters = True
                i += 1
            g += matters
        count[q] = g - start[q]


@kernel
def insert_all(near: Any, kind: Any, count: Any) -> bool:
    """Put what is almost in order in order; False if it turns out not to be, with all still there.

    Few items move, and those not far.
    """
    moves = 0
    for i in range(1, count):
        d = near[i]
        if near[i - 1] <= d:
            continue
        k = kind[i]
        p = i
        while p > 0 and near[p - 1] > d:
            near[p] = near[p - 1]
            kind[p] = kind[p - 1]
            p -= 1
        near[p] = d
        kind[p] = k
        moves += i - p
        if moves > MOVES * count:
            return False
    return True


@kernel
def merge_all(near: Any, kind: Any, count: Any, spare: Any, spare_kind: Any) -> None:
    """Put any items in order: runs of one, of two, of four, ... are merged."""
    run = 1
    while run < count:
        for begin in range(0, count, 2 * run):
            left = begin
            middle = min(begin + run, count)
            right = middle
            end = min(middle + run, count)
            for i in range(begin, end):
                if right == end or (left < middle and near[left] <= near[right]):
                    spare[i] = near[left]
                    spare_kind[i] = kind[left]
                    left += 1
                else:
                    spare[i] = near[right]
                    spare_kind[i] = kind[right]
                    right += 1
        near[:count] = spare[:count]
        kind[:count] = spare_kind[:count]
        run *= 2
