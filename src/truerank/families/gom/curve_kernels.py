"""Kernels of GOM's curves without each fold: how far every query's ReP and FR move at points.

As in `fold_kernels`, a fold in which a query is not itself holds none of its mates. Before the
first of the fold's items nothing moves, and behind the last item of all nothing moves any more:
only what lies between is walked through, point by point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.jackknife import COARSE, ONE
from truerank.families.gom.fold_kernels import precisions_of
from truerank.jit import kernel

__all__ = ["CURVES", "move_curves", "move_false_curves"]

CURVES = 2
"""ReP, and ReP with false positives that stop at the last relevant item."""


@kernel
def _first(values: Any, least: float) -> int:
    """The place of the first of ascending values that is no less."""
    low, high = 0, values.size
    while low < high:
        middle = (low + high) // 2
        if values[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _add(p: int, stop: int, row: Any, squared: bool, sums: Any) -> None:
    """Add a row of moves to sums[curve, 0], and with `squared` their squares to sums[curve, 2].

    What the last point has, all those behind it have: it is noted beside these, once.
    """
    for curve in range(row.shape[0]):
        moves = row[curve, p:stop]  # loops over slices from 0 on become vectors
        total = sums[curve, 0, p:stop]
        for point in range(moves.size):
            total[point] += np.rint(moves[point] * ONE)
        sums[curve, 1, stop - 1] += np.rint(row[curve, stop - 1] * ONE)
        if squared:
            total = sums[curve, 2, p:stop]
            for point in range(moves.size):
                step = np.rint(moves[point] * COARSE)
                total[point] += step * step
            step = np.rint(row[curve, stop - 1] * COARSE)
            sums[curve, 3, stop - 1] += step * step


@kernel
def _take(k: int, first: int, sums: Any, out: Any) -> None:
    """out[kind, k, first + curve, point] += what was added up of a few queries."""
    for curve in range(sums.shape[0]):
        for kind in range(out.shape[0]):
            behind = 0.0
            for point in range(sums.shape[2]):
                out[kind, k, first + curve, point] += int(sums[curve, 2 * kind, point] + behind)
                behind += sums[curve, 2 * kind + 1, point]
    sums[:] = 0.0


@kernel
def move_curves(
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
    roots: Any,
    out: Any,
) -> None:
    """out[0, fold, curve, point] += by how much ReP and frozen ReP move at some cuts.

    In whole numbers, 1 standing for `ONE`; out[1], if there is one, gets the squares of the moves
    in units of `COARSE`. `others` are accepted at each cut, `roots` are 1/sqrt(n), and the queries
    so few that a float64 holds their sums.
    """
    points, queries = cuts.size, offsets.size - 1
    row = np.zeros((CURVES, points))
    sums = np.zeros((CURVES, 4, points))
    plain = np.zeros((queries, points))
    place = np.zeros(distance.size, np.int64)
    before = np.zeros(distance.size)
    ends = np.zeros(queries, np.int64)
    for q in range(queries):
        total = 0.0
        for g in range(offsets[q], offsets[q + 1]):
            place[g] = _first(cuts, distance[g])
            total += precisions_of(g, offsets[q], found, false[g])
            before[g] = total
            ends[q] = place[g]
        # from its end on nothing is new to a query
        ends[q] = max(ends[q], _first(others[q], others[q, points - 1])) + 1
        for p in range(points if total > 0.0 else 0):
            plain[q, p] = roots[found[offsets[q + 1] - 1] + others[q, p]]
    for k in range(out.shape[1]):
        for q in range(queries):
            first, stop = offsets[q], offsets[q + 1]
            if first == stop or count[q, k] == 0 or leaves[q, k]:
                continue
            mates = found[stop - 1]
            end = ends[q]
            at = start[k]
            last = at + count[q, k]
            begin = p = max(_first(cuts, items[q, at]), place[first])
            near = at  # items behind this one are beyond the group
            precisions = 0.0
            root = 0.0
            for g in range(first, stop):
                while near < last and items[q, near] <= distance[g]:
                    near += 1
                precisions += precisions_of(g, first, found, false[g] - (near - at))
                root, old = np.sqrt(precisions), np.sqrt(before[g])
                here = near
                until = end if g + 1 == stop else place[g + 1]
                while p < until:
                    while here < last and items[q, here] <= cuts[p]:
                        here += 1
                    inverse = roots[mates + others[q, p] - (here - at)]
                    row[0, p] = row[1, p] = root * inverse - old * plain[q, p]
                    p += 1
            # frozen, nothing behind the last relevant item counts
            still = root / np.sqrt(false[stop - 1] - (near - at) + mates)
            still -= np.sqrt(before[stop - 1] / (false[stop - 1] + mates))
            for p in range(max(begin, place[stop - 1]), end):
                row[1, p] = still
            _add(begin, end, row, out.shape[0] > 1, sums)
        _take(k, 0, sums, out)


@kernel
def move_false_curves(
    accepted: Any,
    cuts: Any,
    limit: int,
    items: Any,
    start: Any,
    count: Any,
    leaves: Any,
    curve: int,
    out: Any,
) -> None:
    """out[0, fold, curve, point] += by how much FR moves at some cuts; see `move_curves`."""
    points = cuts.size
    row = np.zeros((1, points))
    sums = np.zeros((1, 4, points))
    ends = np.zeros(accepted.shape[0], np.int64)
    for q in range(accepted.shape[0]):
        ends[q] = _first(accepted[q], accepted[q, points - 1]) + 1
    for k in range(out.shape[1]):
        for q in range(accepted.shape[0]):
            if count[q, k] == 0 or leaves[q, k]:
                continue
            gone = items[q, start[k] : start[k] + count[q, k]]
            begin = _first(cuts, gone[0])
            c = 0
            for p in range(begin, ends[q]):
                while c < gone.size and gone[c] <= cuts[p]:
                    c += 1
                met = accepted[q, p]
                row[0, p] = (min(met - c, limit) - min(met, limit)) / limit
            _add(begin, ends[q], row, out.shape[0] > 1, sums)
        _take(k, curve, sums, out)
