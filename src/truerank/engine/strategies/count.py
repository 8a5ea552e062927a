"""Count: float64 tiles of distances against a block's relevant ones."""

from __future__ import annotations

from collections.abc import Generator

from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.tiles import Begin, Prepare, count_blocks
from truerank.engine.threads import Tile
from truerank.pairs import PairList
from truerank.space import Rows

__all__ = ["Count"]


class Count:
    """Float64 tiles, counted against the relevant distances of a block."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        yield from count_blocks(item, context, self.prepare(item, context))

    def prepare(self, item: WorkItem, context: PassContext) -> Prepare:
        """See Tiled."""
        space = context.space(item)

        def prepare(rows: Rows, frame: Counts, excluded: PairList) -> Begin:
            distances = space.block(rows)

            def add(counts: Counts, tile: Tile) -> None:
                counts.add_tile(distances(*tile), rows, tile, item.folds)

            return lambda: add

        return prepare
