"""Kernels of GOM without each fold: every query's value once the items of a fold are gone.

A fold in which a query is not itself holds none of its mates. So all that changes is how many
others are accepted: c(d) fewer, the items of the fold up to a distance d. Between two distances at
which the fold or the mates have an item, S and c stand still, and the integral of
sqrt(S/(R + F - c)) is sqrt(S) times a difference of two entries of a table that all folds share.
Only the pessimistic end of a value is looked at: an item that ties with a mate is before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.jit import kernel

__all__ = [
    "areas",
    "at_threshold",
    "false_areas",
    "false_at",
    "precisions_of",
    "sort_folds",
    "steps_at",
]

FEW = 24
"""Up to so many items are sorted by insertion."""


@kernel
def sort_folds(distances: Any, order: Any, start: Any, out: Any, count: Any) -> None:
    """out[q, start[k]:]: the distances of fold k's items, ascending; count[q, k] are finite.

    `order` lists the items by fold.
    """
    for q in range(distances.shape[0]):
        row = distances[q]
        mine = out[q]
        for k in range(start.size - 1):
            first = start[k]
            stop = first
            few = start[k + 1] - first <= FEW
            for place in range(first, start[k + 1]):
                d = row[order[place]]
                if d == np.inf:  # the two never meet
                    continue
                at = stop
                if few:
                    while at > first and mine[at - 1] > d:
                        mine[at] = mine[at - 1]
                        at -= 1
                mine[at] = d
                stop += 1
            if not few:
                mine[first:stop].sort()
            count[q, k] = stop - first


@kernel
def precisions_of(g: int, offset: int, found: Any, others: int) -> float:
    """The precisions at the relevant items of a group, with `others` no farther, in total."""
    before = found[g - 1] if g > offset else 0
    total = 0.0
    for rank in range(before + 1, found[g] + 1):
        total += rank / (others + rank)
    return total


@kernel
def _table(mates: int, others: Any, most: int, even: bool, roots: Any, out: Any) -> None:
    """out[c]: the running integral of 1/sqrt(R + F - c), for c up to `most`.

    With `even` over the cells between points, where F goes evenly; otherwise by the trapezoid's
    weights of the points.
    """
    points = others.size
    for c in range(most + 1):
        total = 0.0
        if even:
            before = roots[mates + max(others[0] - c, 0)]
            out[c, 0] = 0.0
            for point in range(1, points):
                after = roots[mates + max(others[point] - c, 0)]
                total += 0.5 * (before + after) / (points - 1)
                out[c, point] = total
                before = after
            continue
        for point in range(points):
            out[c, point] = total
            weight = 0.5 if point == 0 or point == points - 1 else 1.0
            total += weight * roots[mates + max(others[point] - c, 0)] / (points - 1)
        out[c, points] = total


@kernel
def _up_to(table: Any, place: float) -> float:
    """An entry of a running integral, between two points by interpolation."""
    cell = min(int(place), table.size - 2)
    inside = place - cell
    if inside == 0.0:
        return float(table[cell])
    return float(table[cell] + inside * (table[cell + 1] - table[cell]))


@kernel
def _area(
    first: int,
    stop: int,
    distance: Any,
    place: Any,
    found: Any,
    false: Any,
    items: Any,
    item_place: Any,
    count: int,
    table: Any,
    length: Any,
    frozen: bool,
) -> float:
    """The integral of ReP without `count` items; groups `first` to `stop` are the query's."""
    total = 0.0
    precisions = 0.0
    root = 0.0
    c = 0
    here = 0.0
    for g in range(first, stop):
        while c < count and items[c] <= distance[g]:
            if root > 0.0:
                there = item_place[c]
                total += root * (_up_to(table[c], there) - _up_to(table[c], here))
                here = there
            c += 1
        if root > 0.0:
            total += root * (_up_to(table[c], place[g]) - _up_to(table[c], here))
        here = place[g]
        precisions += precisions_of(g, first, found, false[g] - c)
        root = np.sqrt(precisions)
    if frozen:  # nothing behind the last relevant item counts
        mates = found[stop - 1]
        last = mates / (false[stop - 1] - c + mates)
        rest = length[length.size - 1] - _up_to(length, here)
        return float(total + np.sqrt(precisions / mates * last) * rest)
    end = float(table.shape[1] - 1)
    while c < count and item_place[c] < end:
        there = item_place[c]
        total += root * (_up_to(table[c], there) - _up_to(table[c], here))
        here = there
        c += 1
    return float(total + root * (table[c, table.shape[1] - 1] - _up_to(table[c], here)))


@kernel
def areas(
    offsets: Any,
    distance: Any,
    found: Any,
    false: Any,
    place: Any,
    others: Any,
    item_place: Any,
    items: Any,
    start: Any,
    count: Any,
    leaves: Any,
    even: bool,
    frozen: bool,
    roots: Any,
    out: Any,
) -> None:
    """out[q, fold]: by how much the integral of ReP moves without a fold.

    `place` and `item_place` say where on the axis groups and items lie, counted in points of
    `others` (F at each), of which there is one more than cells if the integral is `even`.
    """
    points = others.shape[1]
    entries = points if even else points + 1
    length = np.zeros(entries)
    for entry in range(1, entries):
        step = 1.0
        if not even and (entry == 1 or entry == points):
            step = 0.5
        length[entry] = length[entry - 1] + step / (points - 1)
    table = np.zeros((1, entries))
    for q in range(offsets.size - 1):
        first, stop = offsets[q], offsets[q + 1]
        if first == stop:
            continue
        most = count[q].max()
        if most >= table.shape[0]:
            table = np.zeros((most + 1, entries))
        _table(found[stop - 1], others[q], most, even, roots, table)
        before = _area(
            first, stop, distance, place, found, false, items[q], item_place[q], 0, table,
            length, frozen,
        )  # fmt: skip
        for k in range(count.shape[1]):
            if count[q, k] == 0 or leaves[q, k]:
                continue
            low, high = start[k], start[k + 1]
            out[q, k] = (
                _area(
                    first, stop, distance, place, found, false, items[q, low:high],
                    item_place[q, low:high], count[q, k], table, length, frozen,
                )
                - before
            )  # fmt: skip


@kernel
def _point(
    first: int,
    stop: int,
    distance: Any,
    found: Any,
    false: Any,
    items: Any,
    count: int,
    cut: float,
    others: int,
    frozen: bool,
    out: Any,
) -> None:
    """out: RP, VP and ReP of what is accepted, without `count` items."""
    precisions = 0.0
    c = 0
    g = first
    while g < stop and distance[g] <= cut:
        while c < count and items[c] <= distance[g]:
            c += 1
        precisions += precisions_of(g, first, found, false[g] - c)
        g += 1
    for kind in range(3):
        out[kind] = 0.0
    if g == first:
        return
    true = found[g - 1]
    mates = found[stop - 1]
    last = mates / (false[g - 1] - c + mates)
    while c < count and items[c] <= cut:
        c += 1
    out[0] = precisions / true
    out[1] = true / (mates + others - c)
    if frozen and true == mates:
        out[1] = last
    out[2] = np.sqrt(out[0] * out[1])


@kernel
def at_threshold(
    offsets: Any,
    distance: Any,
    found: Any,
    false: Any,
    others: Any,
    items: Any,
    start: Any,
    count: Any,
    leaves: Any,
    cut: float,
    kind: int,
    frozen: bool,
    out: Any,
) -> None:
    """out[q, fold]: by how much a value at one threshold moves; `others` are accepted there."""
    values = np.zeros(3)
    for q in range(offsets.size - 1):
        first, stop = offsets[q], offsets[q + 1]
        if first == stop:
            continue
        _point(first, stop, distance, found, false, items[q], 0, cut, others[q], frozen, values)
        before = values[kind]
        for k in range(count.shape[1]):
            low, high = start[k], start[k + 1]
            if count[q, k] == 0 or leaves[q, k] or items[q, low] > cut:
                continue
            _point(
                first, stop, distance, found, false, items[q, low:high], count[q, k], cut,
                others[q], frozen, values,
            )  # fmt: skip
            out[q, k] = values[kind] - before


@kernel
def steps_at(
    offsets: Any,
    distance: Any,
    found: Any,
    false: Any,
    others: Any,
    items: Any,
    start: Any,
    count: Any,
    leaves: Any,
    cuts: Any,
    share: bool,
    frozen: bool,
    one: float,
    out: Any,
) -> None:
    """out[fold, point] += by how much VP (`share`) or ReP moves at some cuts, ascending.

    In integers, 1 standing for `one`; `others` are accepted at each cut.
    """
    points = cuts.size
    before = np.zeros(points, np.int64)
    nothing = np.zeros(0)
    for q in range(offsets.size - 1):
        first, stop = offsets[q], offsets[q + 1]
        if first == stop:
            continue
        mates = found[stop - 1]
        for k in range(-1, count.shape[1]):
            gone = nothing
            nearest = -np.inf
            if k >= 0:
                if count[q, k] == 0 or leaves[q, k] or items[q, start[k]] > cuts[points - 1]:
                    continue
                gone = items[q, start[k] : start[k] + count[q, k]]
                nearest = gone[0]
            precisions = 0.0
            c = 0
            g = first
            for point in range(points):
                cut = cuts[point]
                while g < stop and distance[g] <= cut:
                    while c < gone.size and gone[c] <= distance[g]:
                        c += 1
                    precisions += precisions_of(g, first, found, false[g] - c)
                    g += 1
                if g == first or nearest > cut:
                    continue
                accepted = c
                while accepted < gone.size and gone[accepted] <= cut:
                    accepted += 1
                divisor = mates + others[q, point] - accepted
                if frozen and g == stop:
                    divisor = mates + false[g - 1] - c
                value = found[g - 1] / divisor if share else np.sqrt(precisions / divisor)
                whole = int(np.rint(value * one))
                if k < 0:
                    before[point] = whole
                else:
                    out[k, point] += whole - before[point]
        before[:] = 0


@kernel
def false_areas(
    nearest: Any,
    tau: Any,
    item_tau: Any,
    items: Any,
    start: Any,
    count: Any,
    leaves: Any,
    limit: int,
    out: Any,
) -> None:
    """out[q, fold]: by how much the integral of FR moves, from the nearest distances of queries.

    Where a fold leaves some of the `limit` nearest, as many come up; `tau` is that of `nearest`.
    """
    held = nearest.shape[1]
    running = np.zeros(held + 1)
    for q in range(nearest.shape[0]):
        for p in range(held):
            running[p + 1] = running[p] + (1.0 - tau[q, p])
        before = running[min(limit, held)]
        for k in range(count.shape[1]):
            if leaves[q, k]:
                continue
            last = limit
            gone = 0.0
            for place in range(start[k], start[k] + count[q, k]):
                if last <= held and items[q, place] > nearest[q, last - 1]:
                    break
                gone += 1.0 - item_tau[q, place]
                last += 1
            out[q, k] = (running[min(last, held)] - gone - before) / limit


@kernel
def false_at(
    accepted: Any,
    cuts: Any,
    weights: Any,
    items: Any,
    start: Any,
    count: Any,
    leaves: Any,
    limit: int,
    out: Any,
) -> None:
    """out[q, fold]: by how much the weighted sum of FR at some cuts, ascending, moves."""
    for q in range(accepted.shape[0]):
        for k in range(count.shape[1]):
            if leaves[q, k]:
                continue
            total = 0.0
            place = start[k]
            stop = place + count[q, k]
            for point in range(cuts.size):
                while place < stop and items[q, place] <= cuts[point]:
                    place += 1
                met = accepted[q, point]
                left = met - (place - start[k])
                total += weights[point] * (min(left, limit) - min(met, limit))
            out[q, k] = total / limit
