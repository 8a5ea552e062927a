"""Kernels over the step functions of GOM: integrals, points of curves, bounds for maxima.

Between two relevant distances S stands still, so that the integral of ReP = sqrt(S/(R + F)) there
is sqrt(S) times an integral of 1/sqrt(R + F), which the three tie bounds of S share.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.jit import kernel

__all__ = ["bounds", "bracketed", "curves", "events", "exact", "false_rate", "inverse_roots"]


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
