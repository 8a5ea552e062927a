"""How values of ranking metrics move without each fold of the gallery, added up query by query.

Tie groups split by fold come in; sums over the queries go out, as truerank.core.jackknife takes
them. One kernel does it all for a run of queries: what is computed of one query stays in the
processor's cache, and threads meet only where they begin and end. Plain float64 with a fixed order
of operations: these values only say how far a score moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.jackknife import AT_A_TIME, add_row, add_whole
from truerank.core.left_out import LeftOut, Without, first_ranks, mates_left
from truerank.jit import kernel

__all__ = [
    "RANK_OF_LAST",
    "UP_TO_R",
    "add_moves",
    "average_precision_without",
    "found",
    "rank_of_first",
]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
UP_TO_R = -1
"""The cut-off R, each query's number of mates."""
MOST = 1 << 30
"""Beyond any rank."""
_FOUND, _AVERAGE_PRECISION, _FIRST, _LAST = range(4)
RANK_OF_LAST = Without(_LAST)
"""R / rank of the last mate."""


def found(cut: int, divisor: int) -> Without:
    """Mates among the first `cut`, over `divisor` (UP_TO_R: over R; 0: 1 if there are any)."""
    return Without(_FOUND, cut, divisor)


def rank_of_first(cut: int) -> Without:
    """1 / rank of the first mate, 0 if that rank is beyond the cut."""
    return Without(_FIRST, cut)


def average_precision_without(cut: int, smaller: bool) -> Without:
    """Sum of precisions at mates up to the cut, over R, or over min(R, cut)."""
    return Without(_AVERAGE_PRECISION, cut, int(smaller))


def add_moves(
    left: LeftOut,
    ways: list[Without],
    wanted: Flags,
    before: Reals,
    own: Integers,
    weights: Reals,
    *,
    none_counts: bool,
) -> Integers:
    """(ways, 6, folds): what truerank.core.jackknife.ChangeSums adds up, of each way to compute.

    `wanted` and `before` are (ways, queries): whose values are wanted, and what they were with all
    folds. Each query leaves with the folds `own`; one without a mate left may count as 0.
    """
    sums = np.zeros((len(ways), 6, left.folds), np.int64)
    how = np.array(ways, np.int64).reshape(len(ways), len(Without._fields))
    alike = bool((weights == 1.0).all())
    some = np.zeros(sums.shape)
    _add_moves(left, how, wanted, before, own, weights, alike, none_counts, some, sums)
    return sums


@kernel
def _add_moves(
    left: Any,
    how: Any,
    wanted: Any,
    before: Any,
    own: Any,
    weights: Any,
    alike: bool,
    none_counts: bool,
    some: Any,
    sums: Any,
) -> None:
    queries = left.offsets.size - 1
    columns = left.between.shape[1]
    # arrays of their own: rows of one table would have to be told apart at every step
    row = np.empty(columns)
    mates = np.empty(columns, np.int32)
    limit = np.empty(columns, np.int32)
    missing = np.empty(columns, np.int32)
    inside = np.empty(columns, np.int32)
    for q in range(queries):
        mates_left(left, q, mates)
        for way in range(how.shape[0]):
            if not wanted[way, q]:
                continue
            kind = how[way, 0]
            cut = how[way, 1]
            divisor = how[way, 2]
            if kind == _FOUND:
                _found(left, q, mates, cut, divisor, limit, missing, inside, row)
            elif kind == _AVERAGE_PRECISION:
                _average_precision(left, q, mates, cut, divisor, limit, missing, inside, row)
            elif kind == _FIRST:
                _first(left, q, mates, cut, missing, inside, row)
            else:
                _last(left, q, mates, missing, inside, row)
            if none_counts:
                for c in range(columns):
                    row[c] = row[c] if row[c] == row[c] else 0.0
            add_row(row, before[way, q], own[q], weights[q], alike, some[way])
        if q % AT_A_TIME == AT_A_TIME - 1 or q == queries - 1:
            for way in range(how.shape[0]):
                add_whole(some[way], alike, sums[way])


@kernel
def _average_precision(
    left: Any,
    q: int,
    mates: Any,
    cut: int,
    smaller: bool,
    limit: Any,
    missing: Any,
    seen: Any,
    out: Any,
) -> None:
    for c in range(out.size):
        limit[c] = mates[c] if cut < 0 else np.int32(min(cut, MOST))
        missing[c] = 0  # items of the fold that lie before the group
        seen[c] = 0
        out[c] = 0.0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        k0 = np.int32(left.before[g])
        m0 = np.int32(left.relevant[g])
        others = np.int32(left.size[g])
        most = np.int32(-MOST)
        for c in range(out.size):
            missing[c] += np.int32(left.between[g, c])
        if others == 1:
            for c in range(out.size):
                m = np.int32(m0 - left.gone[g, c])
                k = np.int32(k0 - missing[c])
                seen[c] += m
                inside = m if k < limit[c] else np.int32(0)
                out[c] += float(inside) * float(seen[c]) / (float(k) + 1.0)
                room = np.int32(limit[c] - k)
                most = room if room > most else most
        else:
            for c in range(out.size):
                m = np.int32(m0 - left.gone[g, c])
                # in the worst order the group's other items come before its mates
                k = k0 - missing[c] + others - np.int32(left.equal[g, c]) - m
                for i in range(1, min(m, limit[c] - k) + 1):
                    out[c] += float(seen[c] + i) / float(k + i)
                seen[c] += m
                most = max(most, limit[c] - k)
        for c in range(out.size):
            missing[c] += np.int32(left.equal[g, c])
        if most <= 0:  # and so for all that follows
            break
    for c in range(out.size):
        divisor = min(mates[c], limit[c]) if smaller else mates[c]
        out[c] = out[c] / float(divisor) if mates[c] > 0 else np.nan


@kernel
def _found(
    left: Any,
    q: int,
    mates: Any,
    cut: int,
    divisor: int,
    limit: Any,
    missing: Any,
    inside: Any,
    out: Any,
) -> None:
    for c in range(out.size):
        limit[c] = mates[c] if cut < 0 else np.int32(min(cut, MOST))
        missing[c] = 0
        inside[c] = 0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        k0 = np.int32(left.before[g] + left.size[g])
        m0 = np.int32(left.relevant[g])
        most = np.int32(-MOST)
        for c in range(out.size):
            missing[c] += np.int32(left.between[g, c]) + np.int32(left.equal[g, c])
        for c in range(out.size):
            m = np.int32(m0 - left.gone[g, c])
            room = np.int32(limit[c] - k0 + missing[c] + m)
            there = m if m < room else room
            inside[c] += there if there > 0 else np.int32(0)
            most = room if room > most else most
        if most <= 0:
            break
    for c in range(out.size):
        share = 1.0 if inside[c] > 0 else 0.0
        if divisor != 0:
            some = mates[c] if mates[c] > 0 else np.int32(1)
            share = float(inside[c]) / float(some if divisor < 0 else divisor)
        out[c] = share if mates[c] > 0 else np.nan


@kernel
def _first(left: Any, q: int, mates: Any, cut: int, missing: Any, rank: Any, out: Any) -> None:
    first_ranks(left, q, mates, missing, rank)
    for c in range(out.size):
        out[c] = 0.0 if mates[c] > 0 else np.nan
        if 0 < rank[c] <= cut:
            out[c] = 1.0 / float(rank[c])


@kernel
def _last(left: Any, q: int, mates: Any, missing: Any, rank: Any, out: Any) -> None:
    for c in range(out.size):
        missing[c] = 0
        rank[c] = 0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        k0 = np.int32(left.before[g] + left.size[g])
        m0 = np.int32(left.relevant[g])
        for c in range(out.size):
            missing[c] += np.int32(left.between[g, c]) + np.int32(left.equal[g, c])
        for c in range(out.size):
            now = np.int32(k0 - missing[c])
            rank[c] = now if np.int32(left.gone[g, c]) < m0 else rank[c]
    for c in range(out.size):
        out[c] = float(mates[c]) / float(rank[c]) if mates[c] > 0 else np.nan
