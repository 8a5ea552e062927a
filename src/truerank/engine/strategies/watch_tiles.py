"""Watched tiles: float64 tiles that an audience sees once they are counted, or without that.

Watchers see float64: their cuts are about as close as the error bound of a float32 product.
"""

from __future__ import annotations

from collections.abc import Generator

from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.schedule import WorkItem
from truerank.engine.sight import Apart, Sight
from truerank.engine.strategies.tiles import Begin, count_blocks
from truerank.engine.threads import Tile, Workspace, show_all
from truerank.pairs import PairList
from truerank.space import Rows

__all__ = ["ShowTiles", "WatchTiles"]


class WatchTiles:
    """See Strategy."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        space, audience = context.space(item), context.audience

        def prepare(rows: Rows, frame: Counts, excluded: PairList) -> Begin:
            distances, apart = space.block(rows), Apart.of(excluded)

            def add(counts: Counts, tile: Tile) -> None:
                near = distances(*tile)
                counts.add_tile(near, rows, tile, item.shares)
                audience.look(Sight(rows, near, True, tile[0]), apart)

            return lambda: add

        yield from count_blocks(item, context, prepare)


class ShowTiles:
    """The same without tie groups; a thread has rows of its own."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        audience, compiled = context.audience, item.compiled

        def look(rows: Rows, workspace: Workspace) -> None:
            apart = Apart.of(view.exclusions.pairs(rows, view.items))
            tile = space.block(rows)
            for start, stop in tiles:
                audience.look(Sight(rows, tile(start, stop), compiled, start), apart)

        show_all(item.blocks, context.request.threads, look)
        yield from ()
