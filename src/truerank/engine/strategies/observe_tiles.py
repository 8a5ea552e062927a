"""Observed tiles: float64 tiles that observers see once they are counted, or without that.

Observers see float64: their cuts are about as close as the error bound of a float32 product.
"""

from __future__ import annotations

from collections.abc import Generator

from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.distance_block import DistanceBlock, ExcludedPairs
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.tiles import Begin, Prepare, count_blocks
from truerank.engine.threads import Tile, Workspace, run_in_threads
from truerank.pairs import PairList
from truerank.space import Rows

__all__ = ["CountObservedTiles", "ObserveTiles"]


class CountObservedTiles:
    """Float64 tiles, counted and then seen by observers."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        yield from count_blocks(item, context, self.prepare(item, context))

    def prepare(self, item: WorkItem, context: PassContext) -> Prepare:
        """See Tiled."""
        space, observers = context.space(item), context.observers

        def prepare(rows: Rows, frame: Counts, excluded: PairList) -> Begin:
            distances, by_item = space.block(rows), ExcludedPairs.of(excluded)

            def add(counts: Counts, tile: Tile) -> None:
                near = distances(*tile)
                counts.add_tile(near, rows, tile, item.folds)
                observers.observe_at_once(DistanceBlock(rows, near, True, tile[0]), by_item)

            return lambda: add

        return prepare


class ObserveTiles:
    """See Strategy. Tiles for observers only, without tie groups; a thread has its own rows."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        observers, compiled = context.observers, item.compiled

        def observe(rows: Rows, workspace: Workspace) -> None:
            excluded = ExcludedPairs.of(view.exclusions.pairs(rows, view.items))
            tile = space.block(rows)
            for start, stop in tiles:
                observers.observe_at_once(
                    DistanceBlock(rows, tile(start, stop), compiled, start), excluded
                )

        run_in_threads(item.blocks, context.request.threads, observe)
        yield from ()
