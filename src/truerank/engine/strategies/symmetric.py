"""Symmetric: each pair's score is computed once and counted for both of its rows.

Only the tiles on and above the diagonal are multiplied. A tile is counted for its rows and, turned
over, for its columns; the counts of all rows are therefore in flight at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from threading import Lock

import numpy as np

from truerank.core.folds import GalleryFolds
from truerank.core.groups import Block
from truerank.engine.both_ways import every_two, strips_of
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts, SplitBuffer
from truerank.engine.filter import Filter, Thresholds
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.tiles import begin_counts
from truerank.engine.threads import NextTile, Tile, TilePool
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = ["Begin", "SharedCounts", "Symmetric", "count_all"]

Begin = Callable[[], Callable[[Tile], None]]
"""Called once in each thread; returns the function with which the thread adds tiles."""


@dataclass(eq=False)
class SharedCounts:
    """The counts of all rows, to which all threads add."""

    counts: Counts
    strips: list[Tile]
    queries: list[int]
    """How many rows of each strip are counted."""
    guards: list[Lock]
    """A lock for each strip, held while its rows are added to."""


class Symmetric:
    """Tiles of which each serves both of its sides."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        way = Filter.of(context.space(item), item.folds)
        strips = strips_of(context.space(item).gallery, context.limits.side)
        yield from count_all(
            item, context, strips, context.tile_pool(), lambda shared: _filtered(way, shared)
        )


def count_all(
    item: WorkItem,
    context: PassContext,
    strips: list[Tile],
    tile_pool: TilePool,
    prepare: Callable[[SharedCounts], Begin],
    *,
    everyone: bool = False,
) -> Generator[Block, None, None]:
    """The tie groups of every block; the blocks hold ascending rows.

    With `everyone`, tiles are made for rows without groups as well.
    """
    view, space = context.request.view, context.space(item)
    counts, candidates = _begin_all(space, item.blocks, view, item.folds)
    held = (np.diff(counts.offsets) > 0) | everyone
    queries = [int(np.count_nonzero(held[start:stop])) for start, stop in strips]
    begin = prepare(SharedCounts(counts, strips, queries, [Lock() for _ in strips]))

    def pairs(tile: Tile) -> int:
        """Pairs of a query and an item in a tile, both ways."""
        i, j = tile
        one = queries[i] * (strips[j][1] - strips[j][0])
        other = queries[j] * (strips[i][1] - strips[i][0])
        return one if i == j else one + other

    def work(next_tile: NextTile, finished: Callable[[Tile], None]) -> None:
        add = begin()
        while (tile := next_tile()) is not None:
            add(tile)
            finished(tile)

    tile_pool.complete(
        [tile for tile in every_two(strips) if pairs(tile)],
        work,
        lambda nothing: None,  # all threads add to the same counts
        pairs,
        f"symmetric-{strips[0][1]}-{counts.digest()}",
        counts.state(),
    )
    for block in item.blocks:
        excluded = view.exclusions.pairs(block, view.items)
        yield _part(counts, block).block(block, candidates[block], excluded, item.folds)


def _filtered(way: Filter, shared: SharedCounts) -> Begin:
    counts, strips, queries = shared.counts, shared.strips, shared.queries
    guards, every = shared.guards, np.arange(strips[-1][1])
    single, thresholds = way.single, Thresholds(counts, every, way.single)
    side = max(stop - start for start, stop in strips)

    def begin() -> Callable[[Tile], None]:
        buffers = way.buffers(side, side)

        def add(tile: Tile) -> None:
            i, j = tile
            rows, columns = strips[i], strips[j]
            if way.pays:
                left = single.items(*rows, buffers.left)
                scores = buffers.product(left, single.items(*columns, buffers.right))
                if queries[i]:
                    way.add(scores, thresholds, counts, rows[0], columns[0], buffers, guards[i])
                if i != j and queries[j]:
                    turned = buffers.turned(scores)
                    way.add(turned, thresholds, counts, columns[0], rows[0], buffers, guards[j])
            else:
                way.add_exact(every, counts, *rows, *columns, guards[i])
                if i != j:
                    way.add_exact(every, counts, *columns, *rows, guards[j])

        return add

    return begin


def _begin_all(
    space: Space, blocks: tuple[Rows, ...], view: View, folds: GalleryFolds | None
) -> tuple[Counts, Rows]:
    """Counts of all rows of the space, with groups for the rows of the blocks only."""
    buffer = None
    if folds is not None:
        most = sum(int(view.mates[rows[folds.queries[rows]]].sum()) for rows in blocks)
        buffer = SplitBuffer.of(folds, view.grades, most)
    parts = [begin_counts(space, rows, view, folds, buffer) for rows in blocks]
    sizes = np.zeros(space.gallery, np.int64)
    candidates = np.zeros(space.gallery, np.int64)
    for rows, (counts, left) in zip(blocks, parts, strict=True):
        sizes[rows] = np.diff(counts.offsets)
        candidates[rows] = left
    columns = zip(*((c.distance, c.graded, c.between, c.equal) for c, _ in parts), strict=True)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    total = Counts(offsets, *(np.concatenate(column) for column in columns))
    if buffer is not None:
        total.split = buffer.zeros[:, : buffer.reserved]
        total.place = np.full(space.gallery, -1)
        start = 0
        for rows, (counts, _) in zip(blocks, parts, strict=True):
            if counts.place is not None and counts.split is not None:
                total.place[rows] = np.where(counts.place < 0, -1, counts.place + start)
                start += counts.split.shape[1]
    return total, candidates


def _part(counts: Counts, rows: Rows) -> Counts:
    """The counts of these rows; any between them have no groups."""
    groups = slice(counts.offsets[rows[0]], counts.offsets[rows[-1] + 1])
    split, place = counts.split, counts.place
    if split is not None and place is not None:
        place = place[rows]
        held = np.flatnonzero(place >= 0)
        first = place[held[0]] if len(held) else 0
        sizes = np.diff(counts.offsets)[rows]
        split = split[:, first : first + int(sizes[held].sum())]
        place = np.where(place < 0, -1, place - first)
    return Counts(
        np.concatenate([counts.offsets[rows], [groups.stop]]) - groups.start,
        counts.distance[groups],
        counts.graded[groups],
        counts.between[groups],
        counts.equal[groups],
        split,
        place,
    )
