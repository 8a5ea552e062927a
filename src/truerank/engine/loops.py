"""Strategies of the CPU and the GPUs: loops that turn blocks of rows into tie groups.

Tile by tile: queries with few relevant items, whose distances are computed beforehand in
integers, so that tiles are counted against them; memory is one tile per thread. Symmetric: each
pair is computed once and counted for its row and its column; the counts of all rows are in
memory at once. Whole rows: queries with many relevant items, whose rows of distances are sorted
once for all grades. On GPUs: engine/cuda counts or ranks. Each form also exists with reducers
that see the distances, always in float64 where they see tiles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from truerank._util.errors import ExactnessError
from truerank._util.threads import NextTile, PerThread, Tile, TilePool, Workspace, run_in_threads
from truerank.core.jackknife import GalleryFolds
from truerank.core.tie_groups import Block, LocatedGroups, SplitGroups, TieGroups, UntiedGroups
from truerank.distance.base import Distances, Rows, Space
from truerank.engine import count_kernels, rank_kernels
from truerank.engine.blocks import CloseBlock, DistanceBlock, ExcludedPairs
from truerank.engine.counts import (
    Counts,
    Filter,
    Multiplication,
    NearPairs,
    OpenPairs,
    SplitBuffer,
    Thresholds,
)
from truerank.engine.cuda import front
from truerank.engine.reducers import Observers
from truerank.engine.schedule import (
    PassContext,
    PassRequest,
    SymmetricStrips,
    WorkItem,
    every_two,
    strips_of,
)
from truerank.task.relevance import BlockPairs, PairList, View

# The protocol of all strategies.


class Strategy(Protocol):
    """One way to count rows, or to let observers see them."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, Rows | None]:
        """Yield the tie groups of the item's queries; return the rows that could not be done.

        Queries without a relevant item are seen by the observers, and not yielded.
        """


class Tiled(Protocol):
    """A strategy that counts tiles, each alone: a worker of a cluster may have some of them."""

    def prepare(self, item: WorkItem, context: PassContext) -> Prepare:
        """How tiles are added to the counts of a block."""


# Counting tile by tile: few relevant items, or none, whose distances are known beforehand.


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
    count_kernels.count_pairs(
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


# Count: float64 tiles of distances against a block's relevant ones.


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


# Filter: float32 tiles decide most comparisons with a block's relevant distances.


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
            return _filtered_tiles(way, rows, frame, width)

        return prepare


def _filtered_tiles(way: Filter, rows: Rows, frame: Counts, width: int) -> Begin:
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


# Observed tiles: float64 tiles that observers see once they are counted, or without that.
#
# Observers see float64: their cuts are about as close as the error bound of a float32 product.


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


# Symmetric: each pair's score is computed once and counted for both of its rows.


BeginBothWays = Callable[[], Callable[[Tile], None]]
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
            item,
            context,
            strips,
            context.tile_pool(),
            lambda shared: _filtered_both_ways(way, shared),
        )


def count_all(
    item: WorkItem,
    context: PassContext,
    strips: list[Tile],
    tile_pool: TilePool,
    prepare: Callable[[SharedCounts], BeginBothWays],
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


def _filtered_both_ways(way: Filter, shared: SharedCounts) -> BeginBothWays:
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


# Observed both ways: each float64 tile is made once, and seen by observers from both sides.


class CountObservedBothWays:
    """See Strategy. What was seen is kept with the counts, where it can be."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        ways, space, observers = _strips(item), context.space(item), context.observers

        def prepare(shared: SharedCounts) -> BeginBothWays:
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


def _strips(item: WorkItem) -> SymmetricStrips:
    if item.both_ways is None:
        raise ValueError("there are no strips to see both ways")
    return item.both_ways


# Whole rows of distances: each thread takes a block of queries, ahead of the caller.


Found = TypeVar("Found")


def rows_ahead(
    item: WorkItem, context: PassContext, count: Callable[[Rows, Workspace], Found]
) -> Generator[Found, None, None]:
    """What is counted of each block, in order; it may lie in the block's own workspace."""
    pool, keep = context.pool, context.request.keep
    blocks = iter(item.blocks)
    ahead: deque[tuple[Rows, Workspace, Future[Found]]] = deque()
    free: list[Workspace] = []

    def begin(some: int) -> None:
        for block in islice(blocks, some):
            workspace = free.pop() if free else Workspace()
            ahead.append((block, workspace, pool.submit(count, block, workspace)))

    try:
        begin(context.request.threads)
        while ahead:
            block, workspace, work = ahead.popleft()
            found = work.result()
            begin(1)
            if context.has_mates(block):
                yield found
            if not keep:
                free.append(workspace)
            context.advance(block)
    finally:
        for _, _, work in ahead:  # on an interrupt, what has not begun is not begun
            work.cancel()


def whole_rows(space: Space, rows: Rows, tiles: list[Tile], workspace: Workspace) -> Distances:
    """Distances of some queries to the whole gallery; they lie in the workspace."""
    distances = workspace.array("distances", (len(rows), space.gallery), np.float64)
    if space.holds_gallery:  # the product is written where it belongs
        space.fill_rows(rows, distances)
        return distances
    tile = space.block(rows)
    for start, stop in tiles:
        distances[:, start:stop] = tile(start, stop)
    return distances


def check_pairs(space: Space, query: Rows, item: Rows, distances: Distances) -> None:
    """Raise unless these distances are those of integer arithmetic."""
    if not np.array_equal(distances, space.pairs(query, item)):
        raise ExactnessError(
            "a distance differs from integer arithmetic: the matrix product of this machine is not "
            "exact in float64; use another BLAS or device='reference'."
        )


# Observed rows: whole rows that observers see with their tie groups, or without any.


class CountObservedRows:
    """See Strategy. Few relevant items, or none, and observers that need whole rows."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        observers = context.observers
        held = PerThread(Workspace)

        def count(rows: Rows, _: Workspace) -> Block:
            """Tie groups of observed rows do not lie in the workspace: a thread needs only one."""
            return count_rows(space, rows, view, tiles, held.mine(), observers, item.folds)

        yield from rows_ahead(item, context, count)


class ObserveRows:
    """See Strategy. Whole rows for observers only, without tie groups."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        observers, compiled = context.observers, item.compiled

        def observe(rows: Rows, workspace: Workspace) -> None:
            excluded = ExcludedPairs.of(view.exclusions.pairs(rows, view.items))
            distances = whole_rows(space, rows, tiles, workspace)
            observers.observe_at_once(DistanceBlock(rows, distances, compiled), excluded)

        run_in_threads(item.blocks, context.request.threads, observe)
        yield from ()


def count_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[Tile],
    workspace: Workspace,
    observers: Observers,
    folds: GalleryFolds | None,
) -> Block:
    """Tie groups from exact distances, which observers see."""
    distances = whole_rows(space, rows, tiles, workspace)
    pairs = view.block(rows)
    relevant, excluded = pairs.relevant, pairs.excluded
    mates = distances[relevant.query, relevant.item]
    held, one = np.unique(relevant.query, return_index=True)
    check_pairs(space, rows[held], relevant.item[one], mates[one])
    counts = Counts.frame(relevant.query, mates, pairs.grade, len(rows), view.grades)
    gone = np.bincount(excluded.query, minlength=len(rows))

    @cache
    def counted() -> Block:
        if folds is not None:
            counts.split_by(folds, rows, pairs, mates)
        counts.add_tile(distances, rows, (0, space.gallery), folds)
        return counts.block(rows, space.gallery - gone, excluded, folds)

    block = DistanceBlock(rows, distances, True)
    observers.observe_rows_at_once(block, ExcludedPairs.of(excluded), lambda: counted().groups)
    return counted()


# Close rows: whole rows of float32 scores, for observers to whom cuts are all that matters.


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


# Sorted rows: many relevant items, as at the coarse levels of a hierarchy.
#
# Looking each item up among them would cost more than sorting the row: whole rows of distances
# are ranked once for all grades. Rows without ties, nearly all of them for most models, come as
# ranks and grades. With folds, the groups in the view of `split_view` are counted and split from
# the same distances, for the queries that go with it and have few mates there.


class SortRows:
    """Whole rows, sorted: for queries with many relevant items."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        request, space, tiles = context.request, context.space(item), context.tiles
        held = PerThread(Workspace)

        def count(rows: Rows, workspace: Workspace) -> list[Block]:
            """Tie groups lie in the workspace; a thread needs one set of distances only."""
            sorting = _Sorting.of(space, rows, request, tiles, held.mine(), item.folds)
            if request.observers is None and request.rankings:
                return sorting.ranked(workspace)
            return [sorting.grouped(np.arange(len(rows)), workspace)]

        for blocks in rows_ahead(item, context, count):
            yield from blocks


@dataclass(frozen=True)
class _Sorting:
    """Rows of distances and grades; what is excluded is infinitely far and has no grade."""

    space: Space
    rows: Rows
    request: PassRequest
    folds: GalleryFolds | None
    distances: Distances
    grade: npt.NDArray[np.int8]
    excluded: PairList
    candidates: Rows

    @staticmethod
    def of(
        space: Space,
        rows: Rows,
        request: PassRequest,
        tiles: list[Tile],
        workspace: Workspace,
        folds: GalleryFolds | None,
    ) -> _Sorting:
        """The rows of some queries."""
        view = request.view
        distances = whole_rows(space, rows, tiles, workspace)
        grade = view.grade_rows(rows)
        excluded = view.exclusions.pairs(rows, view.items)
        grade[excluded.query, excluded.item] = 0
        # One mate of each query again, in integers: all of them would cost more than the product.
        mate = np.argmax(grade, axis=1)
        check_pairs(space, rows, mate, distances[np.arange(len(rows)), mate])
        distances[excluded.query, excluded.item] = np.inf
        candidates = space.gallery - np.bincount(excluded.query, minlength=len(rows))
        return _Sorting(space, rows, request, folds, distances, grade, excluded, candidates)

    def ranked(self, workspace: Workspace) -> list[Block]:
        """Blocks of the rows in which nothing relevant ties, and of the others."""
        most = self.request.view.mates[self.rows]
        offsets = np.concatenate([[0], np.cumsum(most)])
        before = workspace.array("rank", (int(offsets[-1]),), np.int64)
        own = workspace.array("own", (int(offsets[-1]) + 1,), np.int8)
        tied = np.empty(len(self.rows), np.bool_)
        bits = rank_kernels.bucket_bits(2 * int(most.max()))
        rank_kernels.rank_untied(self.distances, self.grade, bits, offsets[:-1], before, own, tied)
        groups = UntiedGroups(offsets, before, own[:-1], self.request.view.grades, self.candidates)
        if not tied.any():
            return [Block(self.rows, groups, self._split(np.arange(len(self.rows))))]
        alone, others = np.flatnonzero(~tied), np.flatnonzero(tied)
        found = [self.grouped(others, workspace)]
        if len(alone):
            found.append(Block(self.rows[alone], groups.some(alone), self._split(alone)))
        return found

    def grouped(self, places: Rows, workspace: Workspace) -> Block:
        """The tie groups of some rows, which observers see."""
        view, observers, rows = self.request.view, self.request.observers, self.rows[places]
        distances, grade = self._some(self.distances, places), self._some(self.grade, places)
        most = view.mates[rows]
        first = np.cumsum(most) - most
        count = np.zeros(len(rows), np.int64)
        groups = int(most.sum()) + 1
        before = workspace.array("before", (groups,), np.int64)
        size = workspace.array("size", (groups,), np.int64)
        graded = workspace.array("graded", (groups, view.grades), np.int32)
        distance = np.empty(0 if observers is None else groups)  # which observers may keep
        bits = rank_kernels.bucket_bits(self.space.gallery)
        rank_kernels.rank_rows(distances, grade, bits, first, count, before, size, graded, distance)
        offsets = np.concatenate([[0], np.cumsum(count)])
        kept: Any = slice(offsets[-1])
        if offsets[-1] < groups - 1:  # some relevant items tie with each other
            owner = np.repeat(np.arange(len(rows)), count)
            kept = first[owner] + np.arange(offsets[-1]) - offsets[owner]
        known = (offsets, before[kept], size[kept], graded[kept], self.candidates[places])
        split = self._split(places)
        if observers is None:
            return Block(rows, TieGroups(*known), split)
        located = LocatedGroups(*known, distance[kept])
        observers.observe_rows_at_once(
            DistanceBlock(rows, distances, True), ExcludedPairs.of(self.excluded), lambda: located
        )
        return Block(rows, located, split)

    def _split(self, places: Rows) -> SplitGroups:
        """The split groups of those of some rows that go with the other view."""
        if self.folds is None or self.request.split_view is None:
            return SplitGroups.none()
        view, chosen = self.request.split_view
        rows = self.rows[places]
        some = np.flatnonzero(chosen[rows] & (view.mates[rows] > 0))
        if not len(some):
            return SplitGroups.none()
        whole, pairs = self._some(self.distances, places[some]), view.block(rows[some])
        few = split_counts(self.space, rows[some], whole, view, pairs, self.folds).split
        return replace(few, queries=some)

    def _some(self, table: npt.NDArray[Any], places: Rows) -> npt.NDArray[Any]:
        """Some rows of a table, which is not copied for all of them."""
        return table if len(places) == len(self.rows) else table[places]


# Split rows: many relevant items whose groups are split by fold of the gallery.
#
# Whole rows, since a thread's own split counts of all queries would take far more memory than
# distances. There are no observers, and no other view to split in.


class SplitRows:
    """Whole rows, counted by fold of the gallery."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        view, space, tiles = context.request.view, context.space(item), context.tiles
        folds = item.folds
        if folds is None:
            raise ValueError("there are no folds to split rows by")

        def count(rows: Rows, workspace: Workspace) -> Block:
            distances = whole_rows(space, rows, tiles, workspace)
            pairs = view.block(rows)
            held, one = np.unique(pairs.relevant.query, return_index=True)
            mate = pairs.relevant.item[one]
            check_pairs(space, rows[held], mate, distances[held, mate])
            distances[pairs.excluded.query, pairs.excluded.item] = np.inf
            return split_counts(space, rows, distances, view, pairs, folds)

        yield from rows_ahead(item, context, count)


def split_counts(
    space: Space,
    rows: Rows,
    distances: Distances,
    view: View,
    pairs: BlockPairs,
    folds: GalleryFolds,
) -> Block:
    """Tie groups of whole rows, whose excluded items are at infinity, split by fold in a view."""
    mates = distances[pairs.relevant.query, pairs.relevant.item]
    counts = Counts.frame(pairs.relevant.query, mates, pairs.grade, len(rows), view.grades)
    counts.split_by(folds, rows, pairs, mates)
    counts.add_tile(distances, rows, (0, space.gallery), folds)
    gone = np.bincount(pairs.excluded.query, minlength=len(rows))
    return counts.block(rows, space.gallery - gone, pairs.excluded, folds)


# Counted by GPUs: few relevant items, tie groups from the device.


class CudaCount:
    """Few relevant items, counted by GPUs."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        yield from context.gpus.tie_groups(iter(item.blocks), folds=item.folds)


class CudaCountBothWays:
    """Few relevant items, and queries that are items too: a GPU multiplies each pair once."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        yield from context.gpus.tie_groups_both_ways(item.blocks, folds=item.folds)


# Ranked by GPUs: many relevant items, rankings that stay on the device where nothing ties.


class CudaRank:
    """See Strategy. Rows with ties are handed back."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, Rows]:
        """See Strategy."""
        tied: list[Rows] = []
        yield from context.gpus.rankings(iter(item.blocks), tied)
        return np.concatenate(tied)


# Observed on GPUs: rows that stay on the device while observers see them.
#
# With tie groups, threads go through the rows of a block while the device counts the next.


class CudaCountObserved:
    """Few relevant items, counted by GPUs, while observers see the rows."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        gpus, threads = context.gpus, context.request.threads
        no_mates = [rows for rows in item.blocks if not context.has_mates(rows)]
        few = (rows for rows in item.blocks if context.has_mates(rows))
        without_mate = (Block(rows, gpus.no_groups(rows), SplitGroups.none()) for rows in no_mates)
        blocks = chain(without_mate, gpus.tie_groups(few, distances=True, folds=item.folds))
        yield from _observed(
            gpus, blocks, item.observed, context.observers, threads, context.advance
        )


class CudaObserve:
    """See Strategy. Rows for observers only, without tie groups."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        gpus, observers = context.gpus, context.observers

        def observe(rows: Rows, _: Workspace) -> None:
            for deferred in gpus.observe(rows, observers):
                deferred()

        run_in_threads(item.blocks, gpus.observing, observe)
        yield from ()


def _observed(
    gpus: front.Engine,
    blocks: Iterator[Block],
    height: int,
    observers: Observers,
    threads: int,
    advance: Callable[[Rows], None],
) -> Generator[Block, None, None]:
    """The blocks that have groups, while threads let observers see the rows of all blocks."""
    under_way: deque[tuple[Rows, Future[list[Future[None]]]]] = deque()

    def finish() -> None:
        while under_way:
            rows, pending = under_way.popleft()
            for deferred in pending.result():
                deferred.result()
            advance(rows)

    with ThreadPoolExecutor(threads) as pool, ThreadPoolExecutor(gpus.observing) as observing:

        def observe(rows: Rows, groups: LocatedGroups) -> list[Future[None]]:
            return [
                pool.submit(deferred) for deferred in gpus.observe_rows(rows, observers, groups)
            ]

        try:
            for block in blocks:
                finish()  # what is observed is kept no longer than that
                rows, groups = block.rows, block.groups
                for start in range(0, len(rows), height):
                    stop = min(start + height, len(rows))
                    part = groups.part(start, stop)
                    under_way.append(
                        (rows[start:stop], observing.submit(observe, rows[start:stop], part))
                    )
                if len(groups.size):
                    yield block
            finish()
        finally:
            for _, pending in under_way:  # on an interrupt, what has not begun is not begun
                pending.cancel()
