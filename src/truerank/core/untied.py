"""Tie groups of which none ties: the rank and the grade of every relevant item say it all.

Rows with many relevant items come as such groups, which take a fifth of the memory; what else is
known of tie groups is made from them where it is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core import group_kernels
from truerank.core.groups import TieGroups

__all__ = ["UntiedGroups"]

Integers = npt.NDArray[np.int64]


class UntiedGroups(TieGroups):
    """Tie groups of one relevant item each; every query has one."""

    _grade: npt.NDArray[np.int8]
    _count: int

    def __init__(
        self,
        offsets: Integers,
        before: Integers,
        grade: npt.NDArray[np.int8],
        grades: int,
        candidates: Integers,
    ) -> None:
        given = {"offsets": offsets, "before": before, "candidates": candidates}
        vars(self).update(given, _grade=grade, _count=grades)

    @cached_property
    def size(self) -> Integers:
        """See TieGroups."""
        return np.ones(len(self.before), np.int64)

    @cached_property
    def graded(self) -> npt.NDArray[np.int32]:
        """See TieGroups."""
        graded = np.zeros((len(self.before), self._count), np.int32)
        graded[np.arange(len(self.before)), self._grade - 1] = 1
        return graded

    @property
    def relevant(self) -> Integers:
        """See TieGroups: one."""
        return self.size

    @property
    def untied(self) -> bool:
        """See TieGroups."""
        return True

    @cached_property
    def mates(self) -> Integers:
        """See TieGroups."""
        return np.diff(self.offsets)

    @property
    def grade(self) -> npt.NDArray[np.int8]:
        """See TieGroups."""
        return self._grade

    @cached_property
    def totals(self) -> Integers:
        """See TieGroups."""
        totals = np.empty((len(self), self._count), np.int64)
        group_kernels.count_grades(self._grade, self.offsets, totals)
        return totals

    def at_least(self, grade: int) -> tuple[Integers, UntiedGroups]:
        """See TieGroups."""
        if grade == 1:
            queries = np.arange(len(self))
            return queries, self if self._count == 1 else self._binary(queries, self.offsets, ...)
        kept = np.empty(len(self.before) + 1, np.int64)
        count = np.empty(len(self), np.int64)
        group_kernels.choose_grades(self._grade, grade, self.offsets, kept, count)
        queries = np.flatnonzero(count)
        offsets = np.concatenate([[0], np.cumsum(count[queries])])
        return queries, self._binary(queries, offsets, kept[: offsets[-1]])

    def _binary(self, queries: Integers, offsets: Integers, groups: Any) -> UntiedGroups:
        """Some groups, in which all that is relevant is so alike."""
        before = self.before[groups]
        alike = np.ones(len(before), np.int8)
        return UntiedGroups(offsets, before, alike, 1, self.candidates[queries])

    def first(self) -> Integers:
        """See TieGroups."""
        ones = np.ones(len(self), np.int64)
        return np.stack([self.before[self.offsets[:-1]], ones, ones])

    def nearest_level(self) -> Integers:
        """See TieGroups."""
        first = self.offsets[:-1]
        return np.where(self.before[first] > 0, 0, self._grade[first]).astype(np.int64)

    def _chosen(self, offsets: Integers, groups: Any, candidates: Integers) -> UntiedGroups:
        return UntiedGroups(
            offsets, self.before[groups], self._grade[groups], self._count, candidates
        )
