"""Filter, then refine: float32 products decide most comparisons, integers the rest.

Tiles of scores come from the fastest product there is. Its error bound (space.single) leaves a few
entries open; those are computed again in integers. A tile in which too many stay open is computed
in float64 like any other, so that no data can make this slower than the plain way by much. The
counts are the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.folds import GalleryFolds
from truerank.engine import filter_kernels
from truerank.engine.counts import Counts
from truerank.engine.threads import Workspace
from truerank.settings import current_settings
from truerank.space import Distances, Rows, Space
from truerank.space.single import SinglePrecision

__all__ = ["Buffers", "Filter", "Multiplication", "OpenPairs", "Singles", "Thresholds"]

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
