"""Close rows: whole rows of float32 scores, for observers to whom cuts are all that matters."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext

import numpy as np

from truerank.core.groups import Block
from truerank.engine.close_block import CloseBlock
from truerank.engine.context import PassContext
from truerank.engine.distance_block import ExcludedPairs
from truerank.engine.filter import Filter, Multiplication, OpenPairs, Thresholds
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.observe_rows import count_rows
from truerank.engine.strategies.rows_ahead import rows_ahead
from truerank.engine.strategies.tiles import begin_counts
from truerank.engine.threads import PerThread, Workspace
from truerank.space import Rows

__all__ = ["CountCloseRows"]


class CountCloseRows:
    """See Strategy. Few relevant items, or none, and observers that ask for cuts of whole rows."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        observers, way = context.observers, Filter.close(space, item.folds)
        single, width = way.single, max(stop - start for start, stop in tiles)
        held = PerThread(Workspace)
        multiplications = PerThread(lambda: Multiplication(single))

        def count(rows: Rows, _: Workspace) -> Block:
            """Tie groups of observed rows do not lie in the workspace: a thread needs only one."""
            workspace, multiply = held.mine(), multiplications.mine()
            if not way.pays:
                return count_rows(space, rows, view, tiles, workspace, observers, item.folds)
            counts, candidates = begin_counts(space, rows, view, item.folds)
            scores = workspace.array("scores", (len(rows), space.gallery), np.float32)
            right = workspace.array("right", (width, single.dimension), np.float32)
            left = single.queries(rows)
            for start, stop in tiles:
                multiply(left, single.items(start, stop, right), scores, start)
            open_pairs = OpenPairs.within(workspace, *scores.shape)
            thresholds = Thresholds(counts, rows, single)
            way.add(scores, thresholds, counts, 0, 0, open_pairs, nullcontext())
            excluded = view.exclusions.pairs(rows, view.items)
            block = counts.block(rows, candidates, excluded, item.folds)
            close = CloseBlock(way, rows, scores, workspace)
            observers.observe_rows_at_once(close, ExcludedPairs.of(excluded), lambda: block.groups)
            return block

        yield from rows_ahead(item, context, count)
