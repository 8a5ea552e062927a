"""Observed rows: whole rows that observers see with their tie groups, or without any."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache

import numpy as np

from truerank.core.folds import GalleryFolds
from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.distance_block import DistanceBlock, ExcludedPairs
from truerank.engine.observers import Observers
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.rows_ahead import check_pairs, rows_ahead, whole_rows
from truerank.engine.threads import PerThread, Tile, Workspace, run_in_threads
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = ["CountObservedRows", "ObserveRows", "count_rows"]


class CountObservedRows:
    """See Strategy. Few relevant items, or none, and observers that need whole rows."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        observers = context.observers
        held = PerThread(Workspace)

        def count(rows: Rows, _: Workspace) -> Block:
            """Tie groups of observed rows do not lie in the workspace: a thread needs only one."""
            return count_rows(space, rows, view, tiles, held.mine(), observers, item.folds)

        yield from rows_ahead(item, context, count)


class ObserveRows:
    """See Strategy. Whole rows for observers only, without tie groups."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        observers, compiled = context.observers, item.compiled

        def observe(rows: Rows, workspace: Workspace) -> None:
            excluded = ExcludedPairs.of(view.exclusions.pairs(rows, view.items))
            distances = whole_rows(space, rows, tiles, workspace)
            observers.observe_at_once(DistanceBlock(rows, distances, compiled), excluded)

        run_in_threads(item.blocks, context.request.threads, observe)
        yield from ()


def count_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[Tile],
    workspace: Workspace,
    observers: Observers,
    folds: GalleryFolds | None,
) -> Block:
    """Tie groups from exact distances, which observers see."""
    distances = whole_rows(space, rows, tiles, workspace)
    pairs = view.block(rows)
    relevant, excluded = pairs.relevant, pairs.excluded
    mates = distances[relevant.query, relevant.item]
    held, one = np.unique(relevant.query, return_index=True)
    check_pairs(space, rows[held], relevant.item[one], mates[one])
    counts = Counts.frame(relevant.query, mates, pairs.grade, len(rows), view.grades)
    gone = np.bincount(excluded.query, minlength=len(rows))

    @cache
    def counted() -> Block:
        if folds is not None:
            counts.split_by(folds, rows, pairs, mates)
        counts.add_tile(distances, rows, (0, space.gallery), folds)
        return counts.block(rows, space.gallery - gone, excluded, folds)

    block = DistanceBlock(rows, distances, True)
    observers.observe_rows_at_once(block, ExcludedPairs.of(excluded), lambda: counted().groups)
    return counted()
