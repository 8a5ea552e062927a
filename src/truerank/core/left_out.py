"""Tie groups without each fold of the gallery, as metrics that are computed again need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core import group_kernels
from truerank.core.groups import SplitGroups

__all__ = ["LeftOut"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LeftOut:
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
    mates: Reals
    """(queries, folds): R of each query without each fold."""
    ranked: Integers
    """Items that each query can rank."""
    leaving: npt.NDArray[np.integer]
    """(queries, folds): how many of these leave with each fold."""
    wanted: Integers
    """The places of the queries whose values are wanted; others may have any."""

    @property
    def candidates(self) -> Integers:
        """(queries, folds): items that a query can rank without each fold."""
        found: Integers = self.ranked[:, None] - self.leaving
        return found

    def only(self, wanted: Integers) -> LeftOut:
        """The same, of which the values of some queries are wanted."""
        return self if len(wanted) == len(self.ranked) else replace(self, wanted=wanted)

    @staticmethod
    def of(split: SplitGroups, lowest: int) -> LeftOut:
        """What is left of groups split by fold, with grades from `lowest` on relevant."""
        groups = split.groups
        relevant = groups.graded[:, lowest - 1 :].sum(axis=1, dtype=np.int64)
        between, equal, *by_grade = split.counts
        gone = by_grade[lowest - 1]
        for more in by_grade[lowest:]:
            gone = gone + more
        mates = np.zeros(split.candidates.shape)
        group_kernels.mates_left(groups.offsets, relevant, gone, mates)
        return LeftOut(
            groups.offsets,
            groups.before,
            groups.size,
            relevant,
            between,
            equal,
            gone,
            mates,
            groups.candidates,
            split.candidates,
            np.arange(len(groups)),
        )

    def table(self, run: Callable[..., None], *options: Any) -> Reals:
        """(queries, folds): what a kernel computes from these groups; it fills every cell of the
        queries that are wanted."""
        out = np.empty(self.mates.shape)
        self.fill(run, *options, out)
        return out

    def fill(self, run: Callable[..., None], *options: Any) -> None:
        """Run a kernel on these groups; the last option is what it fills."""
        run(
            self.offsets,
            self.before,
            self.size,
            self.relevant,
            self.between,
            self.equal,
            self.gone,
            self.mates,
            self.wanted,
            *options,
        )
