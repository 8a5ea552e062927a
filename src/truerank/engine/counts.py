"""Counts: the mergeable result of looking at part of the gallery.

For each query, its distinct relevant distances u_1 < u_2 < ... are known beforehand. A gallery
tile adds, for each of them, how many items lie strictly between u_{g-1} and u_g and how many lie
exactly at u_g. These are integers: tiles add up in any order and any grouping to the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from truerank.engine import kernels
from truerank.errors import ExactnessError
from truerank.pairs import PairList
from truerank.relevance import BlockPairs

__all__ = ["Block", "Counts", "LocatedGroups", "Room", "Shares", "SplitGroups", "TieGroups"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """The gallery cut into shares, in one or more ways at once; the ways' columns are distinct."""

    item: npt.NDArray[np.uint8]
    """(items, ways): the column of each item's share in each way."""
    columns: int
    queries: npt.NDArray[np.bool_]
    """Whose tie groups are to be split; those of other queries are left at zero."""

    @cached_property
    def sizes(self) -> Integers:
        """Items of each column."""
        return np.bincount(self.item.ravel(), minlength=self.columns)

    @property
    def dtype(self) -> type:
        """Half the memory where no share has more items than 16 bits can count."""
        return np.uint16 if self.sizes.max() < 1 << 16 else np.uint32

    def candidates(self, queries: int, excluded: PairList) -> Integers:
        """(queries, columns): the items of each column that a query can rank."""
        met = np.tile(self.sizes, (queries, 1))
        for way in self.item[excluded.item].T:
            np.subtract.at(met, (excluded.query, way), 1)
        return met


Some = TypeVar("Some", bound="TieGroups")


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
        return np.ascontiguousarray(self.graded.sum(axis=1, dtype=np.int64))

    @cached_property
    def mates(self) -> Integers:
        """R of each query."""
        return self.per_query(self.relevant)

    def per_query(self, values: npt.NDArray[Any]) -> Integers:
        """Sums of a per-group quantity."""
        totals = np.zeros(len(self), np.int64)
        kernels.sum_groups(values, self.offsets, totals)
        return totals

    @cached_property
    def _grades(self) -> tuple[npt.NDArray[np.int8], Integers]:
        grade = np.empty(len(self.size), np.int8)
        totals = np.zeros((len(self), self.graded.shape[1]), np.int64)
        kernels.sum_grades(self.size, self.graded, self.offsets, grade, totals)
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
        return self.per_query(self.ambiguous.astype(np.int64))

    def nearest_level(self) -> Integers:
        """For each query the grade of the first item, the lowest one where several come first."""
        first = self.offsets[:-1]
        top = self.graded[first]
        lowest = np.argmax(top > 0, axis=1) + 1
        other = top.sum(axis=1) < self.size[first]
        return np.where((self.before[first] > 0) | other, 0, lowest).astype(np.int64)

    def values(self, metric: Any, scale: Any, per_query: Callable[..., Reals]) -> Reals:
        """(3, queries): lower, expected and upper of a metric."""
        return per_query(self, metric, scale)

    def at_least(self: Some, grade: int) -> tuple[Integers, Some]:
        """With only this grade and above relevant: the queries that keep one, and their groups."""
        alike = grade == 1 and self.graded.shape[1] == 1
        if alike and self.graded.all() and np.diff(self.offsets).all():  # nothing falls away
            return np.arange(len(self)), self
        count = np.zeros(len(self), np.int64)
        kept = np.empty(len(self.size) + 1, np.int64)
        merged = np.empty((len(self.size) + 1, 1), np.int32)
        kernels.merge_grades(self.grade, self.graded, grade - 1, self.offsets, kept, merged, count)
        queries = np.flatnonzero(count)
        offsets = np.concatenate([[0], np.cumsum(count[queries])])
        few = self._chosen(offsets, kept[: offsets[-1]], self.candidates[queries])
        return queries, replace(few, graded=merged[: offsets[-1]])

    def binary(self: Some, grade: int) -> Some:
        """With only this grade and above relevant: all queries, some of them without groups."""
        if self.graded.shape[1] == 1 and grade == 1:
            return self
        queries, few = self.at_least(grade)
        count = np.zeros(len(self), np.int64)
        count[queries] = np.diff(few.offsets)
        offsets = np.concatenate([[0], np.cumsum(count)])
        return replace(few, offsets=offsets, candidates=self.candidates)

    def first(self) -> Integers:
        """(3, queries): items before each query's nearest group, in it, and relevant ones in it."""
        at = self.offsets[:-1]
        relevant = self.graded[at].sum(axis=1, dtype=np.int64)
        return np.stack([self.before[at], self.size[at], relevant])

    def part(self: Some, start: int, stop: int) -> Some:
        """The queries start to stop."""
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
        """Some of the groups, which belong to other queries."""
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
        """Of queries without a relevant item."""
        nothing = np.empty(0, np.int64)
        graded = np.empty((0, grades), np.int32)
        offsets = np.zeros(len(candidates) + 1, np.int64)
        return LocatedGroups(offsets, nothing, nothing, graded, candidates, np.empty(0))


@dataclass(frozen=True)
class SplitGroups:
    """Tie groups of some queries, and what each share of the gallery contributes to them.

    counts[0, g] are the items strictly between group g and the one before it, counts[1, g] those
    in it, counts[1 + i, g] those in it that are relevant with grade i: one column for each share.
    Where rows are sorted, the groups are those of another view than the block's.
    """

    queries: Integers
    """Their places in the block, ascending."""
    groups: TieGroups
    counts: npt.NDArray[Any]
    wanted: npt.NDArray[np.bool_]
    """The queries for which it was counted; the counts of others are zero."""
    candidates: Integers
    """(queries, columns): the items of each share that a query can rank."""

    @staticmethod
    def none() -> SplitGroups:
        """Of no query."""
        nothing = np.empty(0, np.int64)
        groups = TieGroups.single(np.empty((0, 1), np.int64), nothing)
        counts, candidates = np.empty((3, 0, 0), np.uint16), np.empty((0, 0), np.int64)
        return SplitGroups(nothing, groups, counts, np.empty(0, bool), candidates)

    def part(self, start: int, stop: int) -> SplitGroups:
        """Those of the block's queries start to stop."""
        first, last = np.searchsorted(self.queries, [start, stop]).tolist()
        groups = slice(*self.groups.offsets[[first, last]])
        return SplitGroups(
            self.queries[first:last] - start,
            self.groups.part(first, last),
            self.counts[:, groups],
            self.wanted[first:last],
            self.candidates[first:last],
        )

    def without(self, column: int) -> tuple[Integers, TieGroups]:
        """Without one share of the gallery: the places of the queries that keep a mate, and their
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
    """What a pass yields: some queries, their tie groups, and split ones if any were asked for."""

    rows: Integers
    groups: Any
    """TieGroups, or truerank.engine.cuda.ranked.Ranked."""
    split: SplitGroups


@dataclass
class Room:
    """Zeros for the split counts of several blocks, one block after the other."""

    zeros: npt.NDArray[Any]
    """(planes, groups, columns)."""
    taken: int = 0

    @staticmethod
    def of(shares: Shares, grades: int, groups: int) -> Room:
        """For so many groups at most."""
        return Room(np.zeros((2 + grades, groups, shares.columns), shares.dtype))

    def take(self, groups: int) -> npt.NDArray[Any]:
        """For the next so many."""
        self.taken += groups
        return self.zeros[:, self.taken - groups : self.taken]


@dataclass
class Counts:
    """Integer counts over the part of the gallery seen so far."""

    offsets: Integers
    distance: npt.NDArray[np.float64]
    graded: npt.NDArray[np.int32]
    between: Integers
    equal: Integers
    split: npt.NDArray[Any] | None = None

    @staticmethod
    def frame(
        query: Integers,
        distance: npt.NDArray[np.float64],
        grade: Integers,
        queries: int,
        grades: int,
    ) -> Counts:
        """Empty counts for the relevant distances of each query (pairs sorted by query)."""
        sizes = np.bincount(query, minlength=queries)
        first = np.cumsum(sizes) - sizes
        width = int(sizes.max()) if sizes.size else 0
        table = np.full((queries, width), np.inf)
        table[query, np.arange(len(query)) - first[query]] = distance
        table.sort(axis=1)
        held = np.arange(width)[None, :] < sizes[:, None]
        fresh = held.copy()
        fresh[:, 1:] &= table[:, 1:] != table[:, :-1]
        offsets = np.concatenate([[0], np.cumsum(fresh.sum(axis=1))])
        distinct = table[fresh]
        if grades == 1:
            start = np.flatnonzero(fresh[held])
            graded = np.diff(np.append(start, len(query))).astype(np.int32)[:, None]
        else:
            graded = np.zeros((len(distinct), grades), np.int32)
            kernels.tally_grades(query, distance, grade, offsets, distinct, graded)
        nothing = np.zeros(len(distinct), np.int64)
        return Counts(offsets, distinct, graded, nothing, nothing.copy())

    def empty_copy(self) -> Counts:
        """The same frame with nothing counted yet."""
        zeros = np.zeros_like(self.between)
        split = None if self.split is None else np.zeros_like(self.split)
        return Counts(self.offsets, self.distance, self.graded, zeros, zeros.copy(), split)

    def split_by(
        self,
        shares: Shares,
        rows: Integers,
        pairs: BlockPairs,
        relevant: npt.NDArray[np.float64],
        excluded: npt.NDArray[np.float64] | None = None,
        room: Room | None = None,
    ) -> None:
        """Count by share as well from now on; where the relevant pairs lie is known already.

        Excluded pairs, if their distances are given, are taken out beforehand: counts below zero
        wrap around, and back again once the pair is met.
        """
        room = room or Room.of(shares, self.graded.shape[1], len(self.distance))
        self.split = room.take(len(self.distance))
        frame = (self.offsets, self.distance)
        kernels.split_relevant(
            pairs.relevant.query,
            pairs.relevant.item,
            relevant,
            pairs.grade,
            *frame,
            shares.queries[rows],
            shares.item,
            self.split,
        )
        if excluded is not None:
            gone = pairs.excluded
            kernels.split_pairs(
                gone.query,
                gone.item,
                excluded,
                -1,
                *frame,
                shares.queries[rows],
                shares.item,
                self.split,
            )

    def add_tile(
        self,
        distances: npt.NDArray[np.float64],
        rows: Integers,
        tile: tuple[int, int],
        shares: Shares | None,
    ) -> None:
        """Count exact distances between these queries and a range of items."""
        self.add_tile_from(0, distances, rows, tile, shares)

    def add_tile_from(
        self,
        first: int,
        distances: npt.NDArray[np.float64],
        rows: Integers,
        tile: tuple[int, int],
        shares: Shares | None,
    ) -> None:
        """The same, for the queries from `first` on."""
        frame = (self.offsets[first:], self.distance, self.between, self.equal)
        if shares is None or self.split is None:
            kernels.count_tile(distances, *frame)
            return
        kernels.split_tile(
            distances, *frame, shares.queries[rows], shares.item[slice(*tile)], self.split
        )

    def digest(self) -> str:
        """A fingerprint of the frame."""
        total = blake2b(self.offsets.tobytes(), digest_size=8)
        total.update(self.distance.tobytes())
        return total.hexdigest()

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that counting changes, by name."""
        state: dict[str, npt.NDArray[Any]] = {"between": self.between, "equal": self.equal}
        if self.split is not None:
            state["split"] = self.split
        return state

    def __add__(self, other: Counts) -> Counts:
        total = self.empty_copy()
        total += self
        total += other
        return total

    def __iadd__(self, other: Counts) -> Counts:
        for mine, theirs in (
            (self.offsets, other.offsets),
            (self.distance, other.distance),
            (self.graded, other.graded),
        ):
            if mine is not theirs and not np.array_equal(mine, theirs):
                raise ValueError("counts of different queries cannot be added")
        self.between += other.between
        self.equal += other.equal
        if self.split is not None and other.split is not None:
            self.split += other.split
        return self

    def tie_groups(self, candidates: Integers) -> LocatedGroups:
        """Cumulated counts, once the whole gallery has been seen and exclusions are taken out."""
        if (self.equal < self.graded.sum(axis=1)).any() or (self.between < 0).any():
            raise ExactnessError(
                "a relevant item was not met at its own exact distance: the matrix product of this "
                "machine is not exact in float64; use another BLAS or device='reference'."
            )
        step = self.between + self.equal
        running = np.cumsum(step)
        queries = len(self.offsets) - 1
        base = np.concatenate([[0], running])[self.offsets[:-1]]
        owner = np.repeat(np.arange(queries), np.diff(self.offsets))
        before = running - self.equal - base[owner]
        return LocatedGroups(
            self.offsets, before, self.equal, self.graded, candidates, self.distance
        )

    def block(
        self, rows: Integers, candidates: Integers, excluded: PairList, shares: Shares | None
    ) -> Block:
        """The same as a pass yields it, split where that was asked for."""
        groups = self.tie_groups(candidates)
        if shares is None or self.split is None:
            return Block(rows, groups, SplitGroups.none())
        met = shares.candidates(len(rows), excluded)
        everybody = np.arange(len(rows))
        split = SplitGroups(everybody, groups, self.split, shares.queries[rows], met)
        return Block(rows, groups, split)
