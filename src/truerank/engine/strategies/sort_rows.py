"""Sorted rows: many relevant items, as at the coarse levels of a hierarchy.

Looking each item up among them would cost more than sorting the row: whole rows of distances are
ranked once for all grades. Rows without ties, nearly all of them for most models, come as ranks and
grades. With folds, the groups in the view of `split_view` are counted and split from the same
distances, for the queries that go with it and have few mates there.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.folds import GalleryFolds
from truerank.core.groups import Block, LocatedGroups, SplitGroups, TieGroups
from truerank.core.untied import UntiedGroups
from truerank.engine import row_kernels
from truerank.engine.context import PassContext
from truerank.engine.distance_block import DistanceBlock, ExcludedPairs
from truerank.engine.request import PassRequest
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.rows_ahead import check_pairs, rows_ahead, whole_rows
from truerank.engine.strategies.split_rows import split_counts
from truerank.engine.threads import PerThread, Tile, Workspace
from truerank.pairs import PairList
from truerank.space import Distances, Rows, Space

__all__ = ["SortRows"]


class SortRows:
    """Whole rows, sorted: for queries with many relevant items."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        request, space, tiles = context.request, context.space(item), context.tiles
        held = PerThread(Workspace)

        def count(rows: Rows, workspace: Workspace) -> list[Block]:
            """Tie groups lie in the workspace; a thread needs one set of distances only."""
            sorting = _Sorting.of(space, rows, request, tiles, held.mine(), item.folds)
            if request.observers is None and request.rankings:
                return sorting.ranked(workspace)
            return [sorting.grouped(np.arange(len(rows)), workspace)]

        for blocks in rows_ahead(item, context, count):
            yield from blocks


@dataclass(frozen=True)
class _Sorting:
    """Rows of distances and grades; what is excluded is infinitely far and has no grade."""

    space: Space
    rows: Rows
    request: PassRequest
    folds: GalleryFolds | None
    distances: Distances
    grade: npt.NDArray[np.int8]
    excluded: PairList
    candidates: Rows

    @staticmethod
    def of(
        space: Space,
        rows: Rows,
        request: PassRequest,
        tiles: list[Tile],
        workspace: Workspace,
        folds: GalleryFolds | None,
    ) -> _Sorting:
        """The rows of some queries."""
        view = request.view
        distances = whole_rows(space, rows, tiles, workspace)
        grade = view.grade_rows(rows)
        excluded = view.exclusions.pairs(rows, view.items)
        grade[excluded.query, excluded.item] = 0
        # One mate of each query again, in integers: all of them would cost more than the product.
        mate = np.argmax(grade, axis=1)
        check_pairs(space, rows, mate, distances[np.arange(len(rows)), mate])
        distances[excluded.query, excluded.item] = np.inf
        candidates = space.gallery - np.bincount(excluded.query, minlength=len(rows))
        return _Sorting(space, rows, request, folds, distances, grade, excluded, candidates)

    def ranked(self, workspace: Workspace) -> list[Block]:
        """Blocks of the rows in which nothing relevant ties, and of the others."""
        most = self.request.view.mates[self.rows]
        offsets = np.concatenate([[0], np.cumsum(most)])
        before = workspace.array("rank", (int(offsets[-1]),), np.int64)
        own = workspace.array("own", (int(offsets[-1]) + 1,), np.int8)
        tied = np.empty(len(self.rows), np.bool_)
        bits = row_kernels.bucket_bits(2 * int(most.max()))
        row_kernels.rank_untied(self.distances, self.grade, bits, offsets[:-1], before, own, tied)
        groups = UntiedGroups(offsets, before, own[:-1], self.request.view.grades, self.candidates)
        if not tied.any():
            return [Block(self.rows, groups, self._split(np.arange(len(self.rows))))]
        alone, others = np.flatnonzero(~tied), np.flatnonzero(tied)
        found = [self.grouped(others, workspace)]
        if len(alone):
            found.append(Block(self.rows[alone], groups.some(alone), self._split(alone)))
        return found

    def grouped(self, places: Rows, workspace: Workspace) -> Block:
        """The tie groups of some rows, which observers see."""
        view, observers, rows = self.request.view, self.request.observers, self.rows[places]
        distances, grade = self._some(self.distances, places), self._some(self.grade, places)
        most = view.mates[rows]
        first = np.cumsum(most) - most
        count = np.zeros(len(rows), np.int64)
        groups = int(most.sum()) + 1
        before = workspace.array("before", (groups,), np.int64)
        size = workspace.array("size", (groups,), np.int64)
        graded = workspace.array("graded", (groups, view.grades), np.int32)
        distance = np.empty(0 if observers is None else groups)  # which observers may keep
        bits = row_kernels.bucket_bits(self.space.gallery)
        row_kernels.rank_rows(distances, grade, bits, first, count, before, size, graded, distance)
        offsets = np.concatenate([[0], np.cumsum(count)])
        kept: Any = slice(offsets[-1])
        if offsets[-1] < groups - 1:  # some relevant items tie with each other
            owner = np.repeat(np.arange(len(rows)), count)
            kept = first[owner] + np.arange(offsets[-1]) - offsets[owner]
        known = (offsets, before[kept], size[kept], graded[kept], self.candidates[places])
        split = self._split(places)
        if observers is None:
            return Block(rows, TieGroups(*known), split)
        located = LocatedGroups(*known, distance[kept])
        observers.observe_rows_at_once(
            DistanceBlock(rows, distances, True), ExcludedPairs.of(self.excluded), lambda: located
        )
        return Block(rows, located, split)

    def _split(self, places: Rows) -> SplitGroups:
        """The split groups of those of some rows that go with the other view."""
        if self.folds is None or self.request.split_view is None:
            return SplitGroups.none()
        view, chosen = self.request.split_view
        rows = self.rows[places]
        some = np.flatnonzero(chosen[rows] & (view.mates[rows] > 0))
        if not len(some):
            return SplitGroups.none()
        whole, pairs = self._some(self.distances, places[some]), view.block(rows[some])
        few = split_counts(self.space, rows[some], whole, view, pairs, self.folds).split
        return replace(few, queries=some)

    def _some(self, table: npt.NDArray[Any], places: Rows) -> npt.NDArray[Any]:
        """Some rows of a table, which is not copied for all of them."""
        return table if len(places) == len(self.rows) else table[places]
