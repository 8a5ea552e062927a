"""Watched both ways: each float64 tile is made once, and seen by an audience from both sides."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from truerank.core.groups import Block
from truerank.engine.both_ways import BothWays, every_two
from truerank.engine.context import PassContext
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.symmetric import Begin, Inflight, count_all
from truerank.engine.threads import Tile, Workspace, show_all

__all__ = ["ShowBothWays", "WatchBothWays"]


class WatchBothWays:
    """See Strategy. What was seen is kept with the counts, where it can be."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        ways, space, audience = _strips(item), context.space(item), context.audience

        def prepare(inflight: Inflight) -> Begin:
            counts, guards = inflight.counts, inflight.guards

            def add(tile: Tile) -> None:
                for number, rows, items, distances in ways.sides(space, tile):
                    with guards[number]:
                        counts.add_tile_from(
                            rows[0], distances, np.arange(*rows), items, item.shares
                        )
                    ways.show(audience, number, items, distances)

            return lambda: add

        yield from count_all(item, context, context.watched_crew(), prepare, everyone=True)


class ShowBothWays:
    """The same without tie groups."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        ways, space, audience = _strips(item), context.space(item), context.audience

        def look(tile: Tile, unused: Workspace) -> None:
            for number, _, items, distances in ways.sides(space, tile):
                ways.show(audience, number, items, distances)

        show_all(every_two(ways.strips), context.request.threads, look)
        yield from ()


def _strips(item: WorkItem) -> BothWays:
    if item.both_ways is None:
        raise ValueError("there are no strips to see both ways")
    return item.both_ways
