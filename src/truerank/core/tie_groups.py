"""Tie groups: the ranks and grades of a query's relevant items, and who ties with them.

Inside a tie group the order of items is open; between groups it is exact. Groups that know
their distances serve threshold metrics, groups split by jackknife group serve intervals. Rows
in which nothing ties are kept as ranks and grades of the relevant items, a fifth of the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.types import Integers, Reals
from truerank.core import tie_group_kernels

if TYPE_CHECKING:
    from truerank.core.jackknife import GalleryFolds


NOWHERE = 1 << 44
"""As the number of items before a group: it stands in no list, behind any gallery."""

Some = TypeVar("Some", bound="TieGroups")


class ExcludedItems(Protocol):
    """Pairs of a query and an item that never meet."""

    @property
    def query(self) -> Integers:
        """The place of the query in a block."""

    @property
    def item(self) -> Integers:
        """The gallery item."""


class Measure(Protocol):
    """Turns tie groups into values: a metric's definition."""

    @property
    def per_query(self) -> Callable[[TieGroups, Any, Any], Reals]:
        """(3, queries) of the groups, a metric and a scale: lower, expected and upper."""


@dataclass(frozen=True)
class TieGroups:
    """Everything a ranking metric needs: the tie groups that hold relevant items.

    Query q owns the groups offsets[q] to offsets[q + 1], nearest first. A group has `before` items
    strictly nearer and `size` items in it, of which graded[:, i] are relevant with grade i + 1.
    """

    offsets: Integers
    before: Integers
    size: Integers
    graded: npt.NDArray[np.int32]
    candidates: Integers
    """Per query: gallery items that can be ranked, relevant or not."""

    BY_GROUP: ClassVar[tuple[str, ...]] = ("before", "size", "graded")
    """The fields with an entry for each group."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def relevant(self) -> Integers:
        """Relevant items of any grade in each group."""
        if self.graded.shape[1] == 1:
            return self.graded[:, 0].astype(np.int64)
        return np.ascontiguousarray(self.graded.sum(axis=1, dtype=np.int64))

    @cached_property
    def untied(self) -> bool:
        """Whether every group is of one item, so that no order is open."""
        return bool((self.size == 1).all())

    @cached_property
    def mates(self) -> Integers:
        """R of each query."""
        return self.per_query(self.relevant)

    def per_query(self, values: npt.NDArray[Any]) -> Integers:
        """Sums of whole numbers, one for each group, over the groups of each query."""
        if values.dtype.kind not in "bui":
            raise TypeError("sums over groups are of whole numbers: divide afterwards, once")
        totals = np.zeros(len(self), np.int64)
        tie_group_kernels.sum_groups(values, self.offsets, totals)
        return totals

    @cached_property
    def _grades(self) -> tuple[npt.NDArray[np.int8], Integers]:
        grade = np.empty(len(self.size), np.int8)
        totals = np.zeros((len(self), self.graded.shape[1]), np.int64)
        tie_group_kernels.sum_grades(self.size, self.graded, self.offsets, grade, totals)
        return grade, totals

    @property
    def grade(self) -> npt.NDArray[np.int8]:
        """The grade of the item of a group of one, 0 where several are tied."""
        return self._grades[0]

    @property
    def totals(self) -> Integers:
        """Relevant items of each query by grade."""
        return self._grades[1]

    @property
    def ambiguous(self) -> npt.NDArray[np.bool_]:
        """Groups whose order inside matters: items of different worth tied."""
        mixed = self.size > 1
        several = np.flatnonzero(mixed)
        mixed[several] = self.graded[several].max(axis=1) < self.size[several]
        return mixed

    @property
    def mixed(self) -> Integers:
        """Ambiguous groups of each query."""
        if self.untied:
            return np.zeros(len(self), np.int64)
        return self.per_query(self.ambiguous.astype(np.int64))

    def nearest_level(self) -> Integers:
        """The grade of each query's first item, the lowest one where several come first."""
        first = self.offsets[:-1]
        top = self.graded[first]
        lowest = np.argmax(top > 0, axis=1) + 1
        other = top.sum(axis=1) < self.size[first]
        return np.where((self.before[first] > 0) | other, 0, lowest).astype(np.int64)

    def values(self, metric: Any, scale: Any, measure: Measure) -> Reals:
        """(3, queries): lower, expected and upper of a metric, by its definition."""
        return measure.per_query(self, metric, scale)

    def at_least(self: Some, grade: int) -> tuple[Integers, Some]:
        """Queries that keep a mate with only this grade and above relevant, and their groups."""
        alike = grade == 1 and self.graded.shape[1] == 1
        if alike and self.graded.all() and np.diff(self.offsets).all():  # nothing falls away
            return np.arange(len(self)), self
        count = np.zeros(len(self), np.int64)
        kept = np.empty(len(self.size) + 1, np.int64)
        merged = np.empty((len(self.size) + 1, 1), np.int32)
        tie_group_kernels.merge_grades(
            self.grade, self.graded, grade - 1, self.offsets, kept, merged, count
        )
        queries = np.flatnonzero(count)
        offsets = np.concatenate([[0], np.cumsum(count[queries])])
        few = self._chosen(offsets, kept[: offsets[-1]], self.candidates[queries])
        return queries, replace(few, graded=merged[: offsets[-1]])

    def among_graded(self) -> tuple[Integers, TieGroups]:
        """Queries with an item above grade 1, and their groups if only graded items were there.

        Items of grade 1 are irrelevant then, and those of every other grade have one less.
        """
        size = self.graded.sum(axis=1, dtype=np.int64)
        seen = np.concatenate([[0], np.cumsum(size)])
        own = np.diff(self.offsets)
        before = seen[:-1] - np.repeat(seen[self.offsets[:-1]], own)
        graded = self.graded[:, 1:]
        held = np.flatnonzero(graded.any(axis=1))
        owner = np.repeat(np.arange(len(self)), own)[held]
        count = np.bincount(owner, minlength=len(self))
        queries = np.flatnonzero(count)
        offsets = np.concatenate([[0], np.cumsum(count[queries])])
        judged = self.per_query(size)[queries]
        return queries, TieGroups(offsets, before[held], size[held], graded[held], judged)

    def binary(self: Some, grade: int) -> Some:
        """Groups of all queries with only this grade and above relevant; some queries have none."""
        if self.graded.shape[1] == 1 and grade == 1:
            return self
        queries, few = self.at_least(grade)
        count = np.zeros(len(self), np.int64)
        count[queries] = np.diff(few.offsets)
        offsets = np.concatenate([[0], np.cumsum(count)])
        return few._chosen(offsets, slice(None), self.candidates)

    def first(self) -> Integers:
        """(3, queries): items before each query's nearest group, in it, and relevant ones in it."""
        at = self.offsets[:-1]
        return np.stack([self.before[at], self.size[at], self.relevant[at]])

    def part(self: Some, start: int, stop: int) -> Some:
        """The tie groups of the queries start to stop."""
        first, last = self.offsets[[start, stop]]
        offsets = self.offsets[start : stop + 1] - first
        return self._chosen(offsets, slice(first, last), self.candidates[start:stop])

    def some(self: Some, queries: Integers) -> Some:
        """The tie groups of some queries."""
        sizes = np.diff(self.offsets)[queries]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        groups = np.arange(offsets[-1]) + np.repeat(self.offsets[queries] - offsets[:-1], sizes)
        return self._chosen(offsets, groups, self.candidates[queries])

    def _chosen(self: Some, offsets: Integers, groups: Any, candidates: Integers) -> Some:
        """Some of the groups, with the offsets and candidates of the queries that now own them."""
        held = {name: getattr(self, name)[groups] for name in self.BY_GROUP}
        return replace(self, offsets=offsets, candidates=candidates, **held)

    @staticmethod
    def single(graded: Integers, candidates: Integers) -> TieGroups:
        """One tie group of everything per query: what a scorer without any knowledge gives."""
        count = len(graded)
        few = graded.astype(np.int32)
        return TieGroups(
            np.arange(count + 1), np.zeros(count, np.int64), candidates, few, candidates
        )


@dataclass(frozen=True)
class LocatedGroups(TieGroups):
    """Tie groups that know their distances: what threshold metrics need besides."""

    distance: Reals

    BY_GROUP = (*TieGroups.BY_GROUP, "distance")

    @staticmethod
    def none(candidates: Integers, grades: int) -> LocatedGroups:
        """The empty groups of queries without a relevant item."""
        nothing = np.empty(0, np.int64)
        graded = np.empty((0, grades), np.int32)
        offsets = np.zeros(len(candidates) + 1, np.int64)
        return LocatedGroups(offsets, nothing, nothing, graded, candidates, np.empty(0))


@dataclass(frozen=True)
class OpenGroups(TieGroups):
    """Tie groups of lists from a gallery of unknown size, in which any number of items may follow.

    What was not returned earns nothing then, unless it comes next: in the upper bound.
    """

    missing: npt.NDArray[np.bool_]
    """Groups of what was not returned."""

    BY_GROUP = (*TieGroups.BY_GROUP, "missing")

    def values(self, metric: Any, scale: Any, measure: Measure) -> Reals:
        """See TieGroups."""
        before = np.where(self.missing, NOWHERE, self.before)
        size = np.where(self.missing, self.relevant, self.size)
        found = TieGroups(self.offsets, before, size, self.graded, self.candidates)
        lower, expected, _ = measure.per_query(found, metric, scale)
        return np.stack([lower, expected, measure.per_query(self, metric, scale)[2]])


@dataclass(frozen=True)
class SplitGroups:
    """Tie groups of some queries, with the contribution of each jackknife group.

    counts[0, g] are the items strictly between group g and the one before it, counts[1, g] those
    in it, counts[1 + i, g] those in it that are relevant with grade i: one column for each fold.
    Where rows are sorted, the groups are those of another view than the block's.
    """

    queries: Integers
    """Places of the queries in the block, ascending."""
    groups: TieGroups
    counts: npt.NDArray[Any]
    candidates: npt.NDArray[np.integer]
    """(queries, columns): the items of each fold that a query can rank."""

    @staticmethod
    def none() -> SplitGroups:
        """Split groups without a query, where no splitting was asked for."""
        nothing = np.empty(0, np.int64)
        groups = TieGroups.single(np.empty((0, 1), np.int64), nothing)
        counts, candidates = np.empty((3, 0, 0), np.uint16), np.empty((0, 0), np.int64)
        return SplitGroups(nothing, groups, counts, candidates)

    @staticmethod
    def of(
        rows: Integers,
        groups: TieGroups,
        counts: npt.NDArray[Any],
        excluded: ExcludedItems,
        folds: GalleryFolds,
    ) -> SplitGroups:
        """Of a block's rows and their groups, and the counts of those that the folds want split.

        The excluded pairs are those of a row's place and an item.
        """
        wanted = folds.queries[rows]
        places = np.flatnonzero(wanted)
        some = groups if wanted.all() else groups.some(places)
        gone = wanted[excluded.query]
        among = np.cumsum(wanted) - 1
        met = folds.candidates(len(places), (among[excluded.query[gone]], excluded.item[gone]))
        return SplitGroups(places, some, counts, met)

    def run(self, first: int, last: int) -> SplitGroups:
        """The split groups of the queries at places first to last of `queries`; nothing is copied
        but what is small."""
        groups = slice(*self.groups.offsets[[first, last]])
        return SplitGroups(
            self.queries[first:last],
            self.groups.part(first, last),
            self.counts[:, groups],
            self.candidates[first:last],
        )

    def some(self, places: Integers) -> SplitGroups:
        """The split groups of some of its queries, by their places in `queries`."""
        groups = self.groups.some(places)
        sizes = np.diff(groups.offsets)
        start = np.repeat(self.groups.offsets[places] - groups.offsets[:-1], sizes)
        counts = np.take(self.counts, np.arange(len(start)) + start, axis=1)
        return SplitGroups(self.queries[places], groups, counts, self.candidates[places])

    def only(self, columns: slice) -> SplitGroups:
        """The split groups with some of the columns."""
        if columns == slice(0, self.candidates.shape[1]):
            return self
        counts = np.ascontiguousarray(self.counts[:, :, columns])
        candidates = np.ascontiguousarray(self.candidates[:, columns])
        return replace(self, counts=counts, candidates=candidates)

    def without(self, column: int) -> tuple[Integers, TieGroups]:
        """Without one fold of the gallery: the places of the queries that keep a mate, and their
        groups."""
        groups = self.groups
        between, equal, *relevant = self.counts[:, :, column].astype(np.int64)
        gone = np.concatenate([[0], np.cumsum(between + equal)])
        owner = np.repeat(np.arange(len(groups)), np.diff(groups.offsets))
        before = groups.before - (gone[:-1] - gone[groups.offsets[:-1]][owner]) - between
        graded = (groups.graded - np.column_stack(relevant)).astype(np.int32)
        kept = np.flatnonzero(graded.any(axis=1))
        left = np.bincount(owner[kept], minlength=len(groups))
        queries = np.flatnonzero(left)
        return self.queries[queries], TieGroups(
            np.concatenate([[0], np.cumsum(left[queries])]),
            before[kept],
            (groups.size - equal)[kept],
            graded[kept],
            (groups.candidates - self.candidates[:, column])[queries],
        )


@dataclass(frozen=True)
class Block:
    """Some queries of a pass with their tie groups, split by fold if asked for."""

    rows: Integers
    groups: Any
    """TieGroups, or truerank.engine.cuda.ranking.Ranked."""
    split: SplitGroups


# Tie groups of which none ties: the rank and the grade of every relevant item say it all.
#
# Rows with many relevant items come as such groups, which take a fifth of the memory; what else is
# known of tie groups is made from them where it is asked for.


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
        tie_group_kernels.count_grades(self._grade, self.offsets, totals)
        return totals

    def at_least(self, grade: int) -> tuple[Integers, UntiedGroups]:
        """See TieGroups."""
        if grade == 1:
            queries = np.arange(len(self))
            return queries, self if self._count == 1 else self._binary(queries, self.offsets, ...)
        kept = np.empty(len(self.before) + 1, np.int64)
        count = np.empty(len(self), np.int64)
        tie_group_kernels.choose_grades(self._grade, grade, self.offsets, kept, count)
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


# Tie groups without each fold of the gallery, as metrics that are computed again need them.


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
