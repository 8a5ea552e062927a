"""Filter: float32 tiles decide most comparisons with a block's relevant distances."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext

from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.filter import Filter, Thresholds
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.tiles import Add, Begin, Prepare, count_blocks
from truerank.engine.threads import Tile
from truerank.pairs import PairList
from truerank.space import Rows

__all__ = ["Filtered"]

FILTER_ROWS = 512
"""Queries in a float32 tile: with some hundred items, it stays in a core's own cache."""


class Filtered:
    """Float32 tiles decide what their bound can; the rest is refined in integers."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        yield from count_blocks(item, context, self.prepare(item, context))

    def prepare(self, item: WorkItem, context: PassContext) -> Prepare:
        """See Tiled."""
        way = Filter.of(context.space(item), item.folds)
        width = max(stop - start for start, stop in context.tiles)

        def prepare(rows: Rows, frame: Counts, excluded: PairList) -> Begin:
            return _filtered(way, rows, frame, width)

        return prepare


def _filtered(way: Filter, rows: Rows, frame: Counts, width: int) -> Begin:
    thresholds = Thresholds(frame, rows, way.single)
    left = way.single.queries(rows)
    guard: AbstractContextManager[None] = nullcontext()  # each thread has counts of its own

    def begin() -> Add:
        buffers = way.buffers(FILTER_ROWS, width)

        def add(counts: Counts, tile: Tile) -> None:
            right = way.single.items(*tile, buffers.right)
            for first in range(0, len(rows), FILTER_ROWS):
                last = min(first + FILTER_ROWS, len(rows))
                if way.pays:
                    scores = buffers.product(left[first:last], right)
                    way.add(scores, thresholds, counts, first, tile[0], buffers, guard)
                else:
                    way.add_exact(rows, counts, first, last, *tile, guard)

        return add

    return begin
