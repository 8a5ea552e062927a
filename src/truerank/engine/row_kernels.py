"""Ranking kernels: whole rows of distances into tie groups, by a counting sort.

Distances are dealt to buckets, about as many as there are items. Where a bucket holds nothing
relevant, the number of its items is all that matters; the items of the others, one or two each, are
put in order. Dealing out is monotone, so only the order inside buckets is open, and that is decided
by comparing the distances themselves: the result does not depend on the buckets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.jit import kernel

__all__ = ["bucket_bits", "rank_rows"]

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
        low = np.inf
        high = -np.inf
        for i in range(0, items, LOOKED_AT):
            low = row[i] if row[i] < low else low
            high = row[i] if high < row[i] < np.inf else high
        if low == np.inf:
            low = 0.0
        scale = last / (high - low) if high > low else 1.0
        if not 0.0 < scale < np.inf:  # a range beyond all measure: one bucket for everything
            low = 0.0
            scale = 2.0**-1074
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
