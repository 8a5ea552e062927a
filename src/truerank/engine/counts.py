"""Counts of tie groups per query, mergeable over tiles, in float64 or behind a float32 filter.

For each query the distinct relevant distances u_1 < u_2 < ... are known beforehand. A gallery
tile adds, for each of them, how many items lie strictly between u_{g-1} and u_g and how many
exactly at u_g. These are integers: tiles add up in any order and grouping to the same arrays.
The filter decides most comparisons by float32 products and the few within their error bound
(distance/grid.py) by integers; a tile with too many such entries is computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import ExactnessError
from truerank._util.settings import current_settings
from truerank._util.threads import Tile, Workspace
from truerank._util.types import Integers
from truerank.core.jackknife import GalleryFolds
from truerank.core.tie_groups import Block, LocatedGroups, SplitGroups
from truerank.distance.base import Distances, Rows, Space
from truerank.distance.grid import SinglePrecision
from truerank.engine import count_kernels, filter_kernels
from truerank.task.relevance import BlockPairs, PairList


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
            count_kernels.tally_grades(query, distance, grade, offsets, distinct, graded)
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
        count_kernels.split_relevant(
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
            count_kernels.split_pairs(
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
            count_kernels.count_tile(distances, *frame)
            return
        count_kernels.split_tile(
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
        count_kernels.count_pairs(query, distances, 1, *frame, self.between, self.equal)
        if folds is not None and self.split is not None:
            where = (self.place, folds.item, self.split)
            count_kernels.split_pairs(query, item, distances, 1, *frame, *where)

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


# Filter, then refine: float32 products decide most comparisons, integers the rest.
#
# Tiles of scores come from the fastest product there is. Its error bound (space.single) leaves a
# few entries open; those are computed again in integers. A tile in which too many stay open is
# computed in float64 like any other, so that no data can make this slower than the plain way by
# much. The counts are the same integers.


Singles = npt.NDArray[np.float32]

OPEN_SHARE = 1 / 16
"""Pairs of a tile that may stay open: a single pair costs some ten times as much as in a tile."""
_ROWS_AT_ONCE = 1 << 14
SLICED_ROWS, SLICED_ITEMS = 720, 240
"""Tiles in which slices are multiplied: what they give stays in the cache until it is added up."""


class Thresholds:
    """The interval of scores around each relevant distance of some queries."""

    def __init__(
        self,
        counts: Counts,
        rows: Rows,
        single: SinglePrecision,
    ) -> None:
        self.rows = rows
        self.split = counts.place
        """Where the queries are counted by fold as well, -1 for those that are not."""
        self.low = np.empty(len(counts.distance), np.float32)
        self.high = np.empty(len(counts.distance), np.float32)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = slice(first, first + _ROWS_AT_ONCE)
            offsets = counts.offsets[first : first + _ROWS_AT_ONCE + 1]
            groups = slice(offsets[0], offsets[-1])
            owner = np.repeat(rows[some], np.diff(offsets))
            ends = single.intervals(owner, counts.distance[groups])
            self.low[groups], self.high[groups] = ends


class Multiplication:
    """Products of float32 rows, slice by slice; one for each thread."""

    def __init__(self, single: SinglePrecision) -> None:
        self._slices = single.slices
        self._parts = np.empty(0, np.float32)

    def __call__(self, left: Singles, right: Singles, out: Singles, start: int = 0) -> None:
        """Write left x right to the columns of `out` from `start` on."""
        if len(self._slices) == 1:
            np.matmul(left, right.T, out=out[:, start : start + len(right)])
            return
        if not self._parts.size:
            self._parts = np.empty(len(self._slices) * SLICED_ROWS * SLICED_ITEMS, np.float32)
        for top in range(0, len(left), SLICED_ROWS):
            some = left[top : top + SLICED_ROWS]
            for first in range(0, len(right), SLICED_ITEMS):
                items = right[first : first + SLICED_ITEMS]
                shape = (len(self._slices), len(some), len(items))
                parts = self._parts[: math.prod(shape)].reshape(shape)
                for part, where in zip(parts, self._slices, strict=True):
                    np.matmul(some[:, where], items[:, where].T, out=part)
                filter_kernels.add_up(parts, out, top, start + first)


class OpenPairs:
    """Room for the pairs of a tile that stay open, and for those of one more row."""

    def __init__(self, query: Rows, item: Rows) -> None:
        self.query, self.item = query, item

    @staticmethod
    def within(workspace: Workspace, height: int, width: int) -> OpenPairs:
        """Room in a workspace, for a tile of this size."""
        entries = int(height * width * OPEN_SHARE) + max(height, width)
        query = workspace.array("open queries", (entries,), np.int64)
        return OpenPairs(query, workspace.array("open items", (entries,), np.int64))


class Buffers(OpenPairs):
    """What one thread needs for tiles of up to height x width, used again for every tile."""

    def __init__(self, height: int, width: int, single: SinglePrecision) -> None:
        most = height * width
        self.left = np.empty((height, single.dimension), np.float32)
        self.right = np.empty((width, single.dimension), np.float32)
        self._multiply = Multiplication(single)
        self._scores = np.empty(most, np.float32)
        self._turned = np.empty(most, np.float32)
        entries = int(most * OPEN_SHARE) + max(height, width)
        super().__init__(np.empty(entries, np.int64), np.empty(entries, np.int64))

    def product(self, left: Singles, right: Singles) -> Singles:
        """The tile left x right, valid until the next one."""
        shape = len(left), len(right)
        scores = self._scores[: shape[0] * shape[1]].reshape(shape)
        self._multiply(left, right, scores)
        return scores

    def turned(self, scores: Singles) -> Singles:
        """The tile turned over: its items are the queries."""
        out = self._turned[: scores.size].reshape(scores.shape[::-1])
        np.copyto(out, scores.T)
        return out


class Filter:
    """Adds tiles of scores to counts, exactly; remembers whether that is worth while."""

    def __init__(
        self, space: Space, single: SinglePrecision, folds: GalleryFolds | None = None
    ) -> None:
        self.space, self.single, self.folds = space, single, folds
        self._tried = self._failed = 0
        self._patience = current_settings().patience
        self._items_at_once = current_settings().gallery_rows

    @staticmethod
    def of(space: Space, folds: GalleryFolds | None) -> Filter:
        """The filter of a space that has float32 scores."""
        if space.single is None:
            raise ValueError("this space has no float32 scores")
        return Filter(space, space.single, folds)

    @staticmethod
    def close(space: Space, folds: GalleryFolds | None) -> Filter:
        """A filter by products in slices, close enough to the truth for observers."""
        if space.single is None:
            raise ValueError("this space has no float32 scores")
        return Filter(space, space.single.in_slices(), folds)

    @property
    def pays(self) -> bool:
        """Whether float32 has decided most tiles so far."""
        return self._failed <= self._patience + self._tried // 4

    def tried(self, *, failed: bool) -> None:
        """Remember that a tile was looked at, and whether too much of it stayed open."""
        self._tried += 1
        self._failed += failed

    def buffers(self, height: int, width: int) -> Buffers:
        """A thread's buffers for tiles of up to this size."""
        return Buffers(height, width, self.single)

    def add(
        self,
        scores: Singles,
        thresholds: Thresholds,
        counts: Counts,
        first: int,
        start: int,
        buffers: OpenPairs,
        guard: AbstractContextManager[Any],
    ) -> None:
        """Count a tile: its rows are the queries from `first` on, its columns items from `start`.

        `guard` is held while counts change.
        """
        height, width = scores.shape
        entries = int(scores.size * OPEN_SHARE) + width
        query, item = buffers.query[:entries], buffers.item[:entries]
        with guard:
            taken, listed = filter_kernels.count_scores(
                scores,
                first,
                counts.offsets,
                thresholds.low,
                thresholds.high,
                counts.between,
                query,
                item,
            )
        query, item = query[:listed], item[:listed] + start
        distances = self.space.pairs(thresholds.rows[query], item)
        with guard:
            counts.add_pairs(query, item, distances, self.folds)
            if self.folds is not None and thresholds.split is not None:
                filter_kernels.split_scores(
                    scores[:taken],
                    first,
                    counts.offsets,
                    thresholds.low,
                    thresholds.high,
                    thresholds.split[first : first + taken],
                    self.folds.item[start : start + width],
                    counts.split,
                )
        self.tried(failed=taken < height)
        if taken < height:
            self.add_exact(
                thresholds.rows, counts, first + taken, first + height, start, start + width, guard
            )

    def add_exact(
        self,
        rows: Rows,
        counts: Counts,
        first: int,
        last: int,
        start: int,
        stop: int,
        guard: AbstractContextManager[Any],
    ) -> None:
        """Count the tile of the queries first to last and the items start to stop in float64."""
        rows = rows[first:last]
        for tile, distances in self.exact_tiles(rows, start, stop):
            with guard:
                counts.add_tile_from(first, distances, rows, tile, self.folds)

    def exact_tiles(
        self, rows: Rows, start: int, stop: int
    ) -> Iterator[tuple[tuple[int, int], Distances]]:
        """The distances of these queries and the items start to stop in float64, tile by tile."""
        distances = self.space.block(rows)
        for begin in range(start, stop, self._items_at_once):
            tile = begin, min(begin + self._items_at_once, stop)
            yield tile, distances(*tile)


# Near pairs: those of a tile that count in the ranking of their row or of their column.
#
# The queries are the gallery. Most pairs lie beyond the farthest mate of either end; the others
# are listed once, and counted from both sides.


SHARE = 1 / 8
"""Pairs of a tile that are listed at a time."""


class NearPairs:
    """Adds tiles to the counts of both of their sides; one for each thread, used for every tile."""

    def __init__(self, counts: Counts, farthest: Distances, side: int) -> None:
        """`farthest` is each query's farthest relevant distance; tiles have up to side x side."""
        self._counts, self._farthest = counts, farthest
        room = int(side * side * SHARE) + side
        self._query, self._item = np.empty((2, room), np.int64)
        self._near = np.empty(room)

    def add(
        self,
        distances: Distances,
        rows: Tile,
        columns: Tile,
        folds: GalleryFolds | None,
        guards: Sequence[AbstractContextManager[Any]],
    ) -> None:
        """Count a tile off the diagonal; a guard is held while the counts of its side change."""
        within = (self._farthest[slice(*rows)], self._farthest[slice(*columns)])
        lists = (self._query, self._item, self._near)
        row = 0
        while row < len(distances):
            row, listed = count_kernels.near_pairs(distances, row, *within, *lists)
            query, item = self._query[:listed] + rows[0], self._item[:listed] + columns[0]
            for guard, ours, others in zip(guards, (query, item), (item, query), strict=True):
                with guard:
                    self._counts.add_pairs(ours, others, self._near[:listed], folds)
