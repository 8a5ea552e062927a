"""Observed both ways: each float64 tile is made once, and seen by observers from both sides."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from truerank.core.groups import Block
from truerank.engine.both_ways import BothWays, every_two
from truerank.engine.context import PassContext
from truerank.engine.near_pairs import NearPairs
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.symmetric import Begin, SharedCounts, count_all
from truerank.engine.threads import Tile, Workspace, run_in_threads

__all__ = ["CountObservedBothWays", "ObserveBothWays"]


class CountObservedBothWays:
    """See Strategy. What was seen is kept with the counts, where it can be."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        ways, space, observers = _strips(item), context.space(item), context.observers

        def prepare(shared: SharedCounts) -> Begin:
            counts, guards, farthest = shared.counts, shared.guards, shared.counts.farthest()
            side = max(stop - start for start, stop in ways.strips)

            def begin() -> Callable[[Tile], None]:
                near_pairs = NearPairs(counts, farthest, side)

                def add(tile: Tile) -> None:
                    i, j = tile
                    rows, columns = ways.strips[i], ways.strips[j]
                    distances = ways.distances(space, tile)
                    if i == j:
                        where = (np.arange(*rows), columns, item.folds)
                        with guards[i]:
                            counts.add_tile_from(rows[0], distances, *where)
                    else:
                        both = (guards[i], guards[j])
                        near_pairs.add(distances, rows, columns, item.folds, both)
                    ways.observe(observers, tile, distances)

                return add

            return begin

        tile_pool = context.observed_tile_pool()
        yield from count_all(item, context, ways.strips, tile_pool, prepare, everyone=True)


class ObserveBothWays:
    """See Strategy. Tiles for observers only, without tie groups."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        ways, space, observers = _strips(item), context.space(item), context.observers

        def observe(tile: Tile, unused: Workspace) -> None:
            ways.observe(observers, tile, ways.distances(space, tile))

        run_in_threads(every_two(ways.strips), context.request.threads, observe)
        yield from ()


def _strips(item: WorkItem) -> BothWays:
    if item.both_ways is None:
        raise ValueError("there are no strips to see both ways")
    return item.both_ways
