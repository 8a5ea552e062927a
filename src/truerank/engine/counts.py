"""Counts: the mergeable result of looking at part of the gallery.

For each query, its distinct relevant distances u_1 < u_2 < ... are known beforehand. A gallery
tile adds, for each of them, how many items lie strictly between u_{g-1} and u_g and how many lie
exactly at u_g. These are integers: tiles add up in any order and any grouping to the same arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.folds import GalleryFolds
from truerank.core.groups import Block, LocatedGroups, SplitGroups
from truerank.engine import kernels
from truerank.errors import ExactnessError
from truerank.pairs import PairList
from truerank.relevance import BlockPairs

__all__ = ["Counts", "SplitBuffer"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass
class SplitBuffer:
    """One array for the split counts of several blocks, which reserve their parts in turn."""

    zeros: npt.NDArray[Any]
    """(planes, groups, columns)."""
    reserved: int = 0

    @staticmethod
    def of(folds: GalleryFolds, grades: int, groups: int) -> SplitBuffer:
        """Zeros for at most so many groups."""
        return SplitBuffer(np.zeros((2 + grades, groups, folds.columns), folds.dtype))

    def reserve(self, groups: int) -> npt.NDArray[Any]:
        """The part of the next so many groups."""
        self.reserved += groups
        return self.zeros[:, self.reserved - groups : self.reserved]


@dataclass
class Counts:
    """Integer counts over the part of the gallery seen so far."""

    offsets: Integers
    distance: npt.NDArray[np.float64]
    graded: npt.NDArray[np.int32]
    between: Integers
    equal: Integers
    split: npt.NDArray[Any] | None = None
    """Counts by fold, of the queries that are to be split."""
    place: Integers | None = None
    """Where each query's groups stand in `split`; -1 for those that are not split."""

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
        """Counts at the same distances, with nothing counted yet."""
        zeros = np.zeros_like(self.between)
        split = None if self.split is None else np.zeros_like(self.split)
        frame = (self.offsets, self.distance, self.graded)
        return Counts(*frame, zeros, zeros.copy(), split, self.place)

    def split_by(
        self,
        folds: GalleryFolds,
        rows: Integers,
        pairs: BlockPairs,
        relevant: npt.NDArray[np.float64],
        excluded: npt.NDArray[np.float64] | None = None,
        buffer: SplitBuffer | None = None,
    ) -> None:
        """Count by fold as well from now on; where the relevant pairs lie is known already.

        Excluded pairs, if their distances are given, are taken out beforehand: counts below zero
        wrap around, and back again once the pair is met.
        """
        wanted = folds.queries[rows]
        sizes = np.where(wanted, np.diff(self.offsets), 0)
        self.place = np.where(wanted, np.cumsum(sizes) - sizes, -1)
        total = int(sizes.sum())
        buffer = buffer or SplitBuffer.of(folds, self.graded.shape[1], total)
        self.split = buffer.reserve(total)
        frame = (self.offsets, self.distance)
        kernels.split_relevant(
            pairs.relevant.query,
            pairs.relevant.item,
            relevant,
            pairs.grade,
            *frame,
            self.place,
            folds.item,
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
                self.place,
                folds.item,
                self.split,
            )

    def add_tile(
        self,
        distances: npt.NDArray[np.float64],
        rows: Integers,
        tile: tuple[int, int],
        folds: GalleryFolds | None,
    ) -> None:
        """Count exact distances between these queries and a range of items."""
        self.add_tile_from(0, distances, rows, tile, folds)

    def add_tile_from(
        self,
        first: int,
        distances: npt.NDArray[np.float64],
        rows: Integers,
        tile: tuple[int, int],
        folds: GalleryFolds | None,
    ) -> None:
        """Count exact distances of the queries from `first` on and a range of items."""
        frame = (self.offsets[first:], self.distance, self.between, self.equal)
        if folds is None or self.split is None or self.place is None:
            kernels.count_tile(distances, *frame)
            return
        kernels.split_tile(
            distances, *frame, self.place[first:], folds.item[slice(*tile)], self.split
        )

    def add_pairs(
        self,
        query: Integers,
        item: Integers,
        distances: npt.NDArray[np.float64],
        folds: GalleryFolds | None,
    ) -> None:
        """Count exact distances of single pairs of a query and an item."""
        frame = (self.offsets, self.distance)
        kernels.count_pairs(query, distances, 1, *frame, self.between, self.equal)
        if folds is not None and self.split is not None:
            where = (self.place, folds.item, self.split)
            kernels.split_pairs(query, item, distances, 1, *frame, *where)

    def farthest(self) -> npt.NDArray[np.float64]:
        """The distance of each query's farthest relevant item, -inf where it has none."""
        held = np.diff(self.offsets) > 0
        found = np.full(len(held), -np.inf)
        found[held] = self.distance[self.offsets[1:][held] - 1]
        return found

    def digest(self) -> str:
        """A fingerprint of the queries' relevant distances."""
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
        self, rows: Integers, candidates: Integers, excluded: PairList, folds: GalleryFolds | None
    ) -> Block:
        """The block that a pass yields, its tie groups split where that was asked for."""
        groups = self.tie_groups(candidates)
        if folds is None or self.split is None:
            return Block(rows, groups, SplitGroups.none())
        return Block(rows, groups, SplitGroups.of(rows, groups, self.split, excluded, folds))
