"""Kernels of GOM: integrals and bounds of step functions, and values per jackknife group.

Between two relevant distances S is constant, so that the integral of ReP = sqrt(S/(R + F)) is
sqrt(S) times an integral of 1/sqrt(R + F), which the three tie bounds of S share. A jackknife
group without the query itself holds none of its relevant items: only the number of accepted
irrelevant items changes, by c(d), the items of the group up to a distance d. The integral of
sqrt(S/(R + F - c)) is sqrt(S) times a difference of two entries of a table that all groups
share. Replicates are of the lower bound: an item that ties with a relevant one stands before
it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.kernels import kernel
from truerank.core.sum_kernels import COARSE, ONE


@lru_cache(maxsize=2)
def inverse_roots(count: int) -> npt.NDArray[np.float64]:
    """1/sqrt(n) for n from 0 (there infinite) to count."""
    with np.errstate(divide="ignore"):
        return 1.0 / np.sqrt(np.arange(count + 1))


@kernel
def piece(q: int, g: int, sums: Any, least: float, most: float, out: Any) -> None:
    """Add what lies between the thresholds of two groups, where both readings of FP agree."""
    for bound in range(3):
        root = np.sqrt(sums[bound, g])
        for frozen in range(2):
            out[frozen, 0, bound, q] += root * least
            out[frozen, 1, bound, q] += root * most


@kernel
def tail(
    q: int, g: int, tau: Any, sums: Any, last: Any, mates: int, least: float, most: float, out: Any
) -> None:
    """Behind the last relevant item: F goes on, or stands still from there on (frozen)."""
    rest = 1.0 - tau[g]
    for bound in range(3):
        root = np.sqrt(sums[bound, g])
        out[0, 0, bound, q] += root * least
        out[0, 1, bound, q] += root * most
        frozen = np.sqrt(sums[bound, g] / mates * last[bound, q]) * rest
        out[1, 0, bound, q] += frozen
        out[1, 1, bound, q] += frozen


@kernel
def bracketed(
    offsets: Any,
    tau: Any,
    sums: Any,
    found: Any,
    nearer: Any,
    false: Any,
    last: Any,
    accepted: Any,
    roots: Any,
    out: Any,
) -> None:
    """out[all or frozen, lower or upper, tie bound, q]: bounds of the integral over [0, 1]."""
    steps = accepted.shape[1] - 1
    for q in range(offsets.size - 1):
        first = offsets[q]
        stop = offsets[q + 1]
        if first == stop:
            continue
        mates = found[stop - 1]
        for g in range(first, stop):
            here = tau[g]
            end = 1.0
            limit = accepted[q, steps] - mates
            if g + 1 < stop:
                end = tau[g + 1]
                limit = nearer[g + 1]
            before = false[g]
            least = 0.0
            most = 0.0
            cell = int(here * steps)
            while here < end:
                # F from `before` (at the start of the piece) to at most `after` (at its end).
                cell += 1
                border = cell / steps
                after = limit
                if before < limit and border < end:
                    after = max(before, min(accepted[q, cell] - found[g], limit))
                else:  # nothing more is to come
                    border = end
                if border > here:
                    most += roots[mates + before] * (border - here)
                    least += roots[mates + after] * (border - here)
                    here = border
                before = after
            if g + 1 == stop:
                tail(q, g, tau, sums, last, mates, least, most, out)
                continue
            piece(q, g, sums, least, most, out)


@kernel
def exact(
    start: int,
    offsets: Any,
    tau: Any,
    sums: Any,
    found: Any,
    nearer: Any,
    false: Any,
    last: Any,
    candidates: Any,
    ranked: Any,
    low: float,
    width: float,
    roots: Any,
    out: Any,
) -> None:
    """out as of `bracketed`, exactly: from sorted rows, those of query `start` and the next."""
    for row in ranked:
        q = start
        start += 1
        first = offsets[q]
        stop = offsets[q + 1]
        if first == stop:
            continue
        mates = found[stop - 1]
        for g in range(first, stop):
            here = tau[g]
            position = false[g] + found[g]
            end = 1.0
            behind = candidates[q]
            if g + 1 < stop:
                end = tau[g + 1]
                behind = nearer[g + 1] + found[g]
            total = 0.0
            n = mates + false[g]
            for p in range(position, behind):
                there = min((row[p] - low) / width, 1.0)
                total += roots[n] * (there - here)
                here = there
                n += 1
            total += roots[n] * (end - here)
            if g + 1 == stop:
                tail(q, g, tau, sums, last, mates, total, total, out)
                continue
            piece(q, g, sums, total, total, out)


@kernel
def curves(
    offsets: Any,
    distance: Any,
    sums: Any,
    found: Any,
    last: Any,
    accepted: Any,
    grid: Any,
    stride: int,
    coarse: int,
    one: float,
    totals: Any,
    trapezoid: Any,
    folds: Any,
    knots: int,
    parts: Any,
) -> None:
    """Add RP, VP, ReP and frozen ReP of every query to totals[point, tie bound, curve].

    Frozen VP is added if there is a fifth curve. Where the three bounds agree they are added once,
    as the fourth. The lower ones are added up for each of a query's folds as well, at every so many
    points (`knots`); ReP's trapezoid is taken besides.
    """
    points, _, kinds = totals.shape
    combined, frozen = np.zeros((2, 3))
    values = np.zeros((3, 5), np.int64)
    same = True
    for q in range(offsets.size - 1):
        first = offsets[q]
        stop = offsets[q + 1]
        if first == stop:
            continue
        mates = found[stop - 1]
        g = first - 1
        group = near = -1  # for which the values were taken
        for point in range(points):
            cut = grid[point * stride]
            while g + 1 < stop and distance[g + 1] <= cut:
                g += 1
            if g < first:
                continue
            if g != group or accepted[q, point * stride] != near:
                group = g
                near = accepted[q, point * stride]
                true = found[g]
                share = true / (mates + near - true)
                same = sums[0, g] == sums[2, g] and last[0, q] == last[2, q]
                for bound in range(1 if same else 3):
                    precision = sums[bound, g] / true
                    combined[bound] = frozen[bound] = np.sqrt(precision * share)
                    if true == mates:
                        frozen[bound] = np.sqrt(precision * last[bound, q])
                    values[bound, 0] = int(np.rint(precision * one))
                    values[bound, 1] = int(np.rint(share * one))
                    values[bound, 2] = int(np.rint(combined[bound] * one))
                    values[bound, 3] = int(np.rint(frozen[bound] * one))
                    held = last[bound, q] if true == mates else share
                    values[bound, 4] = int(np.rint(held * one))
            for bound in range(1 if same else 3):
                place = 3 if same else bound
                for curve in range(kinds):
                    totals[point, place, curve] += values[bound, curve]
            if point % knots == 0:
                for column in folds[q]:
                    for curve in range(kinds):
                        parts[column, curve, point // knots] += values[0, curve]
            if point % coarse == 0:
                weight = 1.0
                if point == 0 or point == points - 1:
                    weight = 0.5
                for bound in range(3):
                    mine = 0 if same else bound
                    trapezoid[0, bound, q] += weight * combined[mine]
                    trapezoid[1, bound, q] += weight * frozen[mine]
        for bound in range(3):
            trapezoid[0, bound, q] /= 100
            trapezoid[1, bound, q] /= 100


@kernel
def false_rate(nearest: Any, limit: int, out: Any) -> None:
    """(1/B) times the sum of 1 - tau over the B nearest: the integral of min(F/B, 1)."""
    for q in range(nearest.shape[0]):
        total = 0.0
        for p in range(nearest.shape[1]):
            if nearest[q, p] < 1.0:
                total += 1.0 - nearest[q, p]
        out[q] = total / limit


@kernel
def bounds(
    offsets: Any,
    distance: Any,
    sums: Any,
    found: Any,
    false: Any,
    last: Any,
    accepted: Any,
    grid: Any,
    frozen: bool,
    one: float,
    totals: Any,
) -> None:
    """Add to totals[ReP or VP, at the start or at most, cell]; the last cell is tau = 1 alone.

    At the start stands the lower tie bound, at most the upper one.
    """
    cells = grid.size
    for q in range(offsets.size - 1):
        first = offsets[q]
        stop = offsets[q + 1]
        if first == stop:
            continue
        mates = found[stop - 1]
        g = first - 1
        for cell in range(cells):
            while g + 1 < stop and distance[g + 1] <= grid[cell]:
                g += 1
            lower = upper = share = most = 0.0
            if g >= first:
                n = mates + accepted[q, cell] - found[g]
                lower = np.sqrt(sums[0, g] / n)
                upper = np.sqrt(sums[2, g] / n)
                share = most = found[g] / n
                if frozen and found[g] == mates:
                    lower = np.sqrt(sums[0, g] / mates * last[0, q])
                    upper = np.sqrt(sums[2, g] / mates * last[2, q])
                    share = last[0, q]
                    most = last[2, q]
            totals[0, 0, cell] += int(np.floor(lower * one))
            totals[1, 0, cell] += int(np.floor(share * one))
            h = g + 1  # inside the cell only the steps of S raise the two
            while cell + 1 < cells and h < stop and distance[h] <= grid[cell + 1]:
                upper = max(upper, np.sqrt(sums[2, h] / (mates + false[h])))
                most = max(most, found[h] / (mates + false[h]))
                if frozen and found[h] == mates:
                    upper = max(upper, np.sqrt(sums[2, h] / mates * last[2, q]))
                    most = max(most, last[2, q])
                h += 1
            totals[0, 1, cell] += int(np.ceil(upper * one))
            totals[1, 1, cell] += int(np.ceil(most * one))


@kernel
def events(
    offsets: Any,
    distance: Any,
    sums: Any,
    found: Any,
    last: Any,
    row: Any,
    q: int,
    low: float,
    high: float,
    frozen: bool,
    one: float,
    out: Any,
    at: Any,
    count: int,
) -> int:
    """Steps of the tie bounds of VP and ReP at the distances of a row in (low, high], as integers.

    The state at `low` is the first event, at -infinity. Row positions outside are not looked at,
    nor those behind the last relevant item where FP is frozen.
    """
    first = offsets[q]
    stop = offsets[q + 1]
    mates = found[stop - 1]
    g = first - 1
    p = np.searchsorted(row, low, side="right")
    while g + 1 < stop and distance[g + 1] <= low:
        g += 1
    before = np.zeros(6, np.int64)
    threshold = -np.inf
    while True:
        now = np.zeros(6, np.int64)
        over = frozen and g == stop - 1
        if g >= first:
            n = mates + p - found[g]
            for bound in range(3):
                share = found[g] / n
                combined = np.sqrt(sums[bound, g] / n)
                if over:
                    share = last[bound, q]
                    combined = np.sqrt(sums[bound, g] / mates * share)
                now[bound] = int(np.rint(share * one))
                now[bound + 3] = int(np.rint(combined * one))
        at[count] = threshold
        for i in range(6):
            out[i, count] = now[i] - before[i]
            before[i] = now[i]
        count += 1
        if over or p >= row.size or row[p] > high:
            return count
        threshold = row[p]
        while p < row.size and row[p] == threshold:
            p += 1
        while g + 1 < stop and distance[g + 1] <= threshold:
            g += 1


# Kernels of GOM without each fold: every query's value once the items of a fold are gone.


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


# Kernels of GOM's curves without each fold: how far every query's ReP and FR move at points.
#
# As in `fold_kernels`, a fold in which a query is not itself holds none of its mates. Before the
# first of the fold's items nothing moves, and behind the last item of all nothing moves any more:
# only what lies between is walked through, point by point.


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
