"""The lower bound of ranking metrics without one fold of the gallery, for all folds at once.

Tie groups split by fold come in; a (queries, folds) table goes out, NaN where a query has no mate
left. Plain float64 with a fixed order of operations: these values only say how far a score moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.left_out import LeftOut
from truerank.jit import kernel

__all__ = ["UP_TO_R", "average_precision_without", "found", "rank_of_first", "rank_of_last"]

Reals = npt.NDArray[np.float64]
UP_TO_R = -1
"""The cut-off R, each query's number of mates."""
MOST = 1 << 30
"""Beyond any rank."""


def average_precision_without(left: LeftOut, cut: int, smaller: bool) -> Reals:
    """Sum of precisions at mates up to the cut, over R, or over min(R, cut)."""
    return left.table(_average_precision, cut, smaller)


def found(left: LeftOut, cut: int, divisor: int) -> Reals:
    """Mates among the first `cut`, over `divisor` (UP_TO_R: over R; 0: 1 if there are any)."""
    return left.table(_found, cut, divisor)


def rank_of_first(left: LeftOut) -> Reals:
    """1 / rank of the first mate."""
    return left.table(_first)


def rank_of_last(left: LeftOut) -> Reals:
    """R / rank of the last mate."""
    return left.table(_last)


@kernel
def _average_precision(
    offsets: Any,
    before: Any,
    size: Any,
    relevant: Any,
    between: Any,
    equal: Any,
    gone: Any,
    mates: Any,
    wanted: Any,
    cut: int,
    smaller: bool,
    out: Any,
) -> None:
    """Average precision without each fold, in float64 so that folds are worked on as vectors."""
    folds = out.shape[1]
    seen = np.empty(folds)
    missing = np.empty(folds)  # items of the fold that lie before the group
    total = np.empty(folds)
    limit = np.empty(folds)
    for q in wanted:
        left = mates[q]
        for c in range(folds):
            seen[c] = 0.0
            missing[c] = 0.0
            total[c] = 0.0
            limit[c] = left[c] if cut < 0 else float(cut)
        for g in range(offsets[q], offsets[q + 1]):
            k0 = float(before[g])
            m0 = float(relevant[g])
            if size[g] == 1:
                for c in range(folds):
                    m = m0 - gone[g, c]
                    missing[c] += between[g, c]
                    k = k0 - missing[c]
                    missing[c] += equal[g, c]
                    seen[c] += m
                    inside = m if k < limit[c] else 0.0
                    total[c] += inside * seen[c] / (k + 1.0)
                continue
            for c in range(folds):
                m = m0 - gone[g, c]
                # in the worst order the group's other items come before its mates
                k = k0 - missing[c] - between[g, c] + (size[g] - equal[g, c]) - m
                missing[c] += between[g, c] + equal[g, c]
                i = 1.0
                while i <= m and k + i <= limit[c]:
                    total[c] += (seen[c] + i) / (k + i)
                    i += 1.0
                seen[c] += m
        for c in range(folds):
            divisor = min(left[c], float(cut)) if smaller else left[c]
            out[q, c] = total[c] / divisor if left[c] > 0 else np.nan


@kernel
def _found(
    offsets: Any,
    before: Any,
    size: Any,
    relevant: Any,
    between: Any,
    equal: Any,
    gone: Any,
    mates: Any,
    wanted: Any,
    cut: int,
    divisor: int,
    out: Any,
) -> None:
    folds = out.shape[1]
    missing = np.empty(folds, np.int32)
    inside = np.empty(folds, np.int32)
    limit = np.empty(folds, np.int32)
    for q in wanted:
        left = mates[q]
        for c in range(folds):
            missing[c] = 0
            inside[c] = 0
            limit[c] = np.int32(left[c]) if cut < 0 else np.int32(min(cut, MOST))
        for g in range(offsets[q], offsets[q + 1]):
            k0 = np.int32(before[g] + size[g])
            m0 = np.int32(relevant[g])
            most = np.int32(-MOST)
            for c in range(folds):
                missing[c] += np.int32(between[g, c]) + np.int32(equal[g, c])
                m = m0 - np.int32(gone[g, c])
                room = limit[c] - (k0 - missing[c] - m)
                inside[c] += max(np.int32(0), min(m, room))
                most = max(most, room)
            if most <= 0:
                break
        for c in range(folds):
            if left[c] == 0.0:
                out[q, c] = np.nan
            elif divisor == 0:
                out[q, c] = min(inside[c], 1)
            else:
                out[q, c] = inside[c] / (left[c] if divisor < 0 else float(divisor))


@kernel
def _first(
    offsets: Any,
    before: Any,
    size: Any,
    relevant: Any,
    between: Any,
    equal: Any,
    gone: Any,
    mates: Any,
    wanted: Any,
    out: Any,
) -> None:
    folds = out.shape[1]
    missing = np.empty(folds)
    for q in wanted:
        left = mates[q]
        for c in range(folds):
            missing[c] = 0.0
            out[q, c] = np.nan
        for g in range(offsets[q], offsets[q + 1]):
            waiting = 0
            k0 = float(before[g] + size[g])
            for c in range(folds):
                missing[c] += between[g, c]
                missing[c] += equal[g, c]
                m = float(relevant[g]) - gone[g, c]
                if m > 0.0 and out[q, c] != out[q, c]:
                    out[q, c] = 1.0 / (k0 - missing[c] - m + 1.0)
                waiting += left[c] > 0.0 and out[q, c] != out[q, c]
            if waiting == 0:
                break


@kernel
def _last(
    offsets: Any,
    before: Any,
    size: Any,
    relevant: Any,
    between: Any,
    equal: Any,
    gone: Any,
    mates: Any,
    wanted: Any,
    out: Any,
) -> None:
    """From the last group on backwards: few folds hold all of its mates."""
    folds = out.shape[1]
    missing = np.empty(folds, np.int32)  # items of the fold up to the group
    for q in wanted:
        left = mates[q]
        for c in range(folds):
            missing[c] = 0
            out[q, c] = np.nan
        for g in range(offsets[q], offsets[q + 1]):
            for c in range(folds):
                missing[c] += np.int32(between[g, c]) + np.int32(equal[g, c])
        for g in range(offsets[q + 1] - 1, offsets[q] - 1, -1):
            waiting = 0
            k0 = np.int32(before[g] + size[g])
            for c in range(folds):
                if out[q, c] != out[q, c] and relevant[g] > gone[g, c]:
                    out[q, c] = left[c] / (k0 - missing[c])
                missing[c] -= np.int32(between[g, c]) + np.int32(equal[g, c])
                waiting += left[c] > 0.0 and out[q, c] != out[q, c]
            if waiting == 0:
                break
