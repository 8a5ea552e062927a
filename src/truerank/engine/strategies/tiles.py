"""Counting tile by tile: few relevant items, or none, whose distances are known beforehand.

The distances are computed in integers, and tiles are counted against them: memory is one tile a
thread, plus the mates of the queries in flight. How a tile is counted is up to the strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from truerank.core.folds import GalleryFolds
from truerank.core.groups import Block
from truerank.engine import kernels
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts, SplitBuffer
from truerank.engine.schedule import WorkItem
from truerank.engine.threads import NextTile, Tile, TilePool
from truerank.pairs import PairList
from truerank.relevance import View
from truerank.space import Distances, Rows, Space

__all__ = ["Add", "Begin", "Prepare", "begin_counts", "count_blocks"]

Add = Callable[[Counts, Tile], None]
Begin = Callable[[], Add]
"""Called once in each thread; returns the function with which the thread adds tiles."""
Prepare = Callable[[Rows, Counts, PairList], Begin]
"""Called for a block with its rows, counts to begin with, and pairs that never meet."""


def begin_counts(
    space: Space,
    rows: Rows,
    view: View,
    folds: GalleryFolds | None = None,
    buffer: SplitBuffer | None = None,
) -> tuple[Counts, Rows]:
    """The relevant distances of these queries, in integers, and how many items each can rank.

    Pairs that never meet will be met in the tiles: they are taken out beforehand.
    """
    pairs = view.block(rows)
    mates = _mates(space, rows, view, pairs.relevant)
    counts = Counts.frame(pairs.relevant.query, mates, pairs.grade, len(rows), view.grades)
    excluded = pairs.excluded
    gone = space.pairs(rows[excluded.query], excluded.item)
    kernels.count_pairs(
        excluded.query,
        gone,
        -1,
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
    )
    if folds is not None:
        counts.split_by(folds, rows, pairs, mates, gone, buffer)
    return counts, space.gallery - np.bincount(excluded.query, minlength=len(rows))


def _mates(space: Space, rows: Rows, view: View, relevant: PairList) -> Distances:
    """The distances of relevant pairs, in integers.

    Queries of one kind come together, whatever their order: they have the same mates, whose rows
    then stay in the cache.
    """
    kinds = view.kinds(rows)
    if (kinds[1:] >= kinds[:-1]).all():
        return space.pairs(rows[relevant.query], relevant.item)
    order = np.argsort(kinds, kind="stable")
    sizes = np.bincount(relevant.query, minlength=len(rows))
    first = (np.cumsum(sizes) - sizes)[order]
    sizes = sizes[order]
    place = np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(len(relevant))
    found = np.empty(len(relevant))
    found[place] = space.pairs(rows[relevant.query[place]], relevant.item[place])
    return found


def count_blocks(
    item: WorkItem, context: PassContext, prepare: Prepare
) -> Generator[Block, None, None]:
    """Tie groups block by block; all threads share the tiles of a block."""
    tile_pool = context.tile_pool()
    for rows in item.blocks:
        found = _count_block(item, context, tile_pool, rows, prepare)
        if context.has_mates(rows):
            yield found


def _count_block(
    item: WorkItem, context: PassContext, tile_pool: TilePool, rows: Rows, prepare: Prepare
) -> Block:
    view, tiles = context.request.view, context.tiles
    total, candidates = begin_counts(context.space(item), rows, view, item.folds)
    excluded = view.exclusions.pairs(rows, view.items)
    begin = prepare(rows, total, excluded)

    def work(next_tile: NextTile, finished: Callable[[Tile], None]) -> Counts:
        counts, add = total.empty_copy(), begin()
        while (tile := next_tile()) is not None:
            add(counts, tile)
            finished(tile)
        return counts

    tile_pool.complete(
        tiles,
        work,
        total.__iadd__,
        lambda tile: len(rows) * (tile[1] - tile[0]),
        f"block-{tiles[0][1]}-{total.digest()}",
        total.state(),
    )
    return total.block(rows, candidates, excluded, item.folds)
