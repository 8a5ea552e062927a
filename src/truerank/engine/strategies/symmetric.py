"""Symmetric: each pair's score is computed once and counted for both of its rows.

Only the tiles on and above the diagonal are multiplied. A tile is counted for its rows and, turned
over, for its columns; the counts of all rows are therefore in flight at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from threading import Lock

import numpy as np

from truerank.core.folds import Shares
from truerank.core.groups import Block
from truerank.engine.both_ways import every_two, strips_of
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts, Room
from truerank.engine.filter import Filter, Thresholds
from truerank.engine.schedule import WorkItem
from truerank.engine.strategies.tiles import begin_counts
from truerank.engine.threads import Crew, Take, Tile
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = ["Begin", "Inflight", "Symmetric", "count_all"]

Begin = Callable[[], Callable[[Tile], None]]
"""What each thread calls once: what it adds tiles with is its own."""


@dataclass(eq=False)
class Inflight:
    """The counts of all rows, to which all threads add."""

    counts: Counts
    strips: list[Tile]
    queries: list[int]
    """Of each strip, the rows that are counted."""
    guards: list[Lock]
    """Of each strip: who adds to its rows holds it."""


class Symmetric:
    """See Strategy."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        way = Filter.of(context.space(item), item.shares)
        yield from count_all(
            item, context, context.crew(), lambda inflight: _filtered(way, inflight)
        )


def count_all(
    item: WorkItem,
    context: PassContext,
    crew: Crew,
    prepare: Callable[[Inflight], Begin],
    *,
    everyone: bool = False,
) -> Generator[Block, None, None]:
    """The tie groups of every block; the blocks hold ascending rows.

    With `everyone`, tiles are looked at for rows without groups as well.
    """
    view, space, side = context.request.view, context.space(item), context.limits.side
    counts, candidates = _begin_all(space, item.blocks, view, item.shares)
    strips = strips_of(space.gallery, side)
    held = (np.diff(counts.offsets) > 0) | everyone
    queries = [int(np.count_nonzero(held[start:stop])) for start, stop in strips]
    begin = prepare(Inflight(counts, strips, queries, [Lock() for _ in strips]))

    def pairs(tile: Tile) -> int:
        """Pairs of a query and an item in a tile, both ways."""
        i, j = tile
        one = queries[i] * (strips[j][1] - strips[j][0])
        other = queries[j] * (strips[i][1] - strips[i][0])
        return one if i == j else one + other

    def work(take: Take, finished: Callable[[Tile], None]) -> None:
        add = begin()
        while (tile := take()) is not None:
            add(tile)
            finished(tile)

    crew.complete(
        [tile for tile in every_two(strips) if pairs(tile)],
        work,
        lambda nothing: None,  # all threads add to the same counts
        pairs,
        f"symmetric-{side}-{counts.digest()}",
        counts.state(),
    )
    for block in item.blocks:
        excluded = view.exclusions.pairs(block, view.items)
        yield _part(counts, block).block(block, candidates[block], excluded, item.shares)


def _filtered(way: Filter, inflight: Inflight) -> Begin:
    counts, strips, queries = inflight.counts, inflight.strips, inflight.queries
    guards, every = inflight.guards, np.arange(strips[-1][1])
    single, thresholds = way.single, Thresholds(counts, every, way.single, way.shares)
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
    space: Space, blocks: tuple[Rows, ...], view: View, shares: Shares | None
) -> tuple[Counts, Rows]:
    """Counts of all rows of the space, with groups for the rows of the blocks only."""
    room = None
    if shares is not None:
        most = sum(int(view.mates[rows].sum()) for rows in blocks)
        room = Room.of(shares, view.grades, most)
    parts = [begin_counts(space, rows, view, shares, room) for rows in blocks]
    sizes = np.zeros(space.gallery, np.int64)
    candidates = np.zeros(space.gallery, np.int64)
    for rows, (counts, left) in zip(blocks, parts, strict=True):
        sizes[rows] = np.diff(counts.offsets)
        candidates[rows] = left
    columns = zip(*((c.distance, c.graded, c.between, c.equal) for c, _ in parts), strict=True)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    total = Counts(offsets, *(np.concatenate(column) for column in columns))
    total.split = None if room is None else room.zeros[:, : room.taken]
    return total, candidates


def _part(counts: Counts, rows: Rows) -> Counts:
    """The counts of these rows; any between them have no groups."""
    groups = slice(counts.offsets[rows[0]], counts.offsets[rows[-1] + 1])
    return Counts(
        np.concatenate([counts.offsets[rows], [groups.stop]]) - groups.start,
        counts.distance[groups],
        counts.graded[groups],
        counts.between[groups],
        counts.equal[groups],
        None if counts.split is None else counts.split[:, groups],
    )
