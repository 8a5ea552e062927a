"""Tie groups without each fold of the gallery, as metrics that are computed again need them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from truerank.core.groups import SplitGroups
from truerank.jit import kernel

__all__ = ["LeftOut", "Without", "first_ranks", "mates_left"]

Integers = npt.NDArray[np.int64]


class Without(NamedTuple):
    """How a metric is computed without a fold: which kernel of truerank.metrics.reduced, and its
    options."""

    kind: int
    cut: int = 0
    divisor: int = 0


class LeftOut(NamedTuple):
    """What metrics by one grade need to be computed without each fold of the gallery.

    Complete once it is made, and never changed: threads share it.
    """

    offsets: Integers
    before: Integers
    size: Integers
    relevant: Integers
    """Items of at least the grade in each group."""
    between: npt.NDArray[Any]
    """(groups, folds): items between a group and the one before it that leave with each fold."""
    equal: npt.NDArray[Any]
    """(groups, folds): items of a group that leave with each fold."""
    gone: npt.NDArray[Any]
    """(groups, folds): relevant items of a group that leave with each fold."""

    @property
    def folds(self) -> int:
        """How many folds there are."""
        return int(self.between.shape[1])

    @staticmethod
    def of(split: SplitGroups, lowest: int) -> LeftOut:
        """What is left of groups split by fold, with grades from `lowest` on relevant."""
        groups = split.groups
        relevant = groups.graded[:, lowest - 1 :].sum(axis=1, dtype=np.int64)
        between, equal, *by_grade = split.counts
        gone = by_grade[lowest - 1]
        for more in by_grade[lowest:]:
            gone = gone + more
        return LeftOut(groups.offsets, groups.before, groups.size, relevant, between, equal, gone)


@kernel
def mates_left(left: Any, q: int, out: Any) -> None:
    """R of a query without each fold."""
    total = np.int32(0)
    for c in range(out.size):
        out[c] = 0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        total += np.int32(left.relevant[g])
        for c in range(out.size):
            out[c] += np.int32(left.gone[g, c])
    for c in range(out.size):
        out[c] = total - out[c]


@kernel
def first_ranks(left: Any, q: int, mates: Any, missing: Any, out: Any) -> None:
    """The rank of a query's first mate without each fold, 0 where there is none.

    `mates` are those without each fold; `missing` is room to work in.
    """
    for c in range(out.size):
        missing[c] = 0
        out[c] = 0
    for g in range(left.offsets[q], left.offsets[q + 1]):
        behind = np.int32(left.before[g] + left.size[g] + 1)
        m0 = np.int32(left.relevant[g])
        waiting = np.int32(0)
        for c in range(out.size):
            missing[c] += np.int32(left.between[g, c]) + np.int32(left.equal[g, c])
        for c in range(out.size):
            m = np.int32(m0 - left.gone[g, c])
            fresh = (m > 0) & (out[c] == 0)
            out[c] = np.int32(behind - missing[c] - m) if fresh else out[c]
            waiting |= np.int32((mates[c] > 0) & (out[c] == 0))
        if waiting == 0:
            break
