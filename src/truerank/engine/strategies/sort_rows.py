"""Sorted rows: many relevant items, as at the coarse levels of a hierarchy.

Looking each item up among them would cost more than sorting the row: whole rows of distances are
ranked once for all grades. With folds, the groups in the view of `split_view` are counted and split
from the same distances, for the queries that go with it and have few mates there.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.folds import GalleryFolds
from truerank.core.groups import Block, LocatedGroups, SplitGroups, TieGroups
from truerank.engine import row_kernels
from truerank.engine.context import PassContext
from truerank.engine.distance_block import DistanceBlock, ExcludedPairs
from truerank.engine.observers import Observers
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.rows_ahead import check_pairs, rows_ahead, whole_rows
from truerank.engine.strategies.split_rows import split_counts
from truerank.engine.threads import Tile, Workspace
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = ["SortRows"]


class SortRows:
    """Whole rows, sorted: for queries with many relevant items."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        request, space, tiles = context.request, context.space(item), context.tiles
        view, observers, split = request.view, request.observers, request.split_view

        def count(rows: Rows, workspace: Workspace) -> Block:
            return _sort_rows(space, rows, view, tiles, workspace, observers, item.folds, split)

        yield from rows_ahead(item, context, count)


def _sort_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[Tile],
    workspace: Workspace,
    observers: Observers | None,
    folds: GalleryFolds | None,
    split_view: tuple[View, npt.NDArray[np.bool_]] | None,
) -> Block:
    """Tie groups from sorted rows; they lie in the workspace."""
    distances = whole_rows(space, rows, tiles, workspace)
    grade = view.grade_rows(rows)
    excluded = view.exclusions.pairs(rows, view.items)
    grade[excluded.query, excluded.item] = 0
    # One mate of each query again, in integers: all of them would cost more than the product.
    last = grade.shape[1] - 1 - np.argmax(grade[:, ::-1] > 0, axis=1)
    check_pairs(space, rows, last, distances[np.arange(len(rows)), last])
    distances[excluded.query, excluded.item] = np.inf  # behind everything, and not ranked
    split = SplitGroups.none()
    if folds is not None and split_view is not None:
        other, chosen = split_view
        some = np.flatnonzero(chosen[rows] & (other.mates[rows] > 0))
        whole = distances if len(some) == len(rows) else distances[some]
        if len(some):
            pairs = other.block(rows[some])
            few = split_counts(space, rows[some], whole, other, pairs, folds).split
            split = replace(few, queries=some)
    most = view.mates[rows]
    first = np.cumsum(most) - most
    count = np.zeros(len(rows), np.int64)
    groups = int(most.sum()) + 1
    before = workspace.array("before", (groups,), np.int64)
    size = workspace.array("size", (groups,), np.int64)
    graded = workspace.array("graded", (groups, view.grades), np.int32)
    distance = np.empty(0 if observers is None else groups)  # which observers may keep
    bits = row_kernels.bucket_bits(space.gallery)
    row_kernels.rank_rows(distances, grade, bits, first, count, before, size, graded, distance)
    gone = np.bincount(excluded.query, minlength=len(rows))
    offsets = np.concatenate([[0], np.cumsum(count)])
    kept: Any = slice(offsets[-1])
    if offsets[-1] < groups - 1:  # some relevant items tie with each other
        owner = np.repeat(np.arange(len(rows)), count)
        kept = first[owner] + np.arange(offsets[-1]) - offsets[owner]
    before, size, graded = before[kept], size[kept], graded[kept]
    if observers is None:
        ranked = TieGroups(offsets, before, size, graded, space.gallery - gone)
        return Block(rows, ranked, split)
    located = LocatedGroups(offsets, before, size, graded, space.gallery - gone, distance[kept])
    observers.observe_rows_at_once(
        DistanceBlock(rows, distances, True), ExcludedPairs.of(excluded), lambda: located
    )
    return Block(rows, located, split)
