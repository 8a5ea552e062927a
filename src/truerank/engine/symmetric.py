"""Leave-one-out: each pair's score is computed once and counted for both of its rows.

Only the tiles on and above the diagonal are multiplied. A tile is counted for its rows and, turned
over, for its columns; the counts of all rows are therefore in flight at once. Watchers see such a
tile twice, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations_with_replacement, pairwise
from threading import Lock

import numpy as np

from truerank.engine.counts import Block, Counts, Room, Shares
from truerank.engine.cpu import begin_counts
from truerank.engine.crew import Crew, Take, Tile
from truerank.engine.filter import Filter, Thresholds
from truerank.engine.sight import Apart, Sight
from truerank.engine.watch import Audience
from truerank.relevance import View
from truerank.space import Distances, Rows, Space

__all__ = ["BothWays", "count_all"]

SQUARE = 32
"""Strips on either side of a square of tiles."""


class BothWays:
    """Strips of rows, whose float64 tiles watchers see from both sides."""

    def __init__(self, space: Space, side: int, apart: list[Apart]) -> None:
        self._space, self._apart = space, apart
        self.strips = _strips(space.gallery, side)

    @staticmethod
    def of(space: Space, view: View, side: int, most: int) -> BothWays | None:
        """None where more than so many pairs never meet: all of them are held."""
        apart, total = [], 0
        for start, stop in _strips(space.gallery, side):
            excluded = view.exclusions.pairs(np.arange(start, stop), view.items)
            total += len(excluded)
            if total > most:
                return None
            apart.append(Apart.of(excluded))
        return BothWays(space, side, apart)

    def tiles(self) -> list[Tile]:
        """Every two strips once."""
        return _tiles(self.strips)

    def sides(self, tile: Tile) -> Iterator[tuple[int, Tile, Tile, Distances]]:
        """The number of the strip that has the queries, queries, items and their distances."""
        i, j = tile
        rows, columns = self.strips[i], self.strips[j]
        distances = self._space.block(np.arange(*rows))(*columns)
        turned = None if i == j else np.ascontiguousarray(distances.T)
        yield i, rows, columns, distances
        if turned is not None:
            yield j, columns, rows, turned

    def show(self, audience: Audience, number: int, items: Tile, distances: Distances) -> None:
        """Let watchers see one side."""
        rows = np.arange(*self.strips[number])
        audience.look(Sight(rows, distances, True, items[0]), self._apart[number])


def _tiles(strips: list[Tile]) -> list[Tile]:
    """Every two strips once, in the order in which they are best looked at."""
    return sorted(combinations_with_replacement(range(len(strips)), 2), key=_turn)


def _strips(rows: int, side: int) -> list[Tile]:
    return list(pairwise([*range(0, rows, side), rows]))


def count_all(
    space: Space,
    blocks: Iterable[Rows],
    view: View,
    side: int,
    crew: Crew,
    way: Filter | tuple[BothWays, Audience],
    shares: Shares | None = None,
) -> Iterator[Block]:
    """The tie groups of every block; the blocks hold ascending rows.

    By the filter, or in float64 while an audience watches.
    """
    blocks = list(blocks)
    counts, candidates = _begin_all(space, blocks, view, shares)
    every = np.arange(space.gallery)
    strips = _strips(space.gallery, side)
    held = (np.diff(counts.offsets) > 0) | (not isinstance(way, Filter))
    queries = [int(np.count_nonzero(held[start:stop])) for start, stop in strips]
    guards = [Lock() for _ in strips]
    if isinstance(way, Filter):
        thresholds = Thresholds(counts, every, way.single, shares)
        begin = _filtered(way, thresholds, counts, strips, queries, guards)
    else:
        begin = _shown(*way, counts, shares, guards)

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

    tiles = [tile for tile in _tiles(strips) if pairs(tile)]
    crew.complete(
        tiles,
        work,
        lambda nothing: None,  # all threads add to the same counts
        pairs,
        f"symmetric-{side}-{counts.digest()}",
        counts.state(),
    )
    for block in blocks:
        excluded = view.exclusions.pairs(block, view.items)
        yield _part(counts, block).block(block, candidates[block], excluded, shares)


Begin = Callable[[], Callable[[Tile], None]]
"""What each thread calls once: what it adds tiles with is its own."""


def _filtered(
    way: Filter,
    thresholds: Thresholds,
    counts: Counts,
    strips: list[Tile],
    queries: list[int],
    guards: list[Lock],
) -> Begin:
    single, every = way.single, thresholds.rows
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


def _shown(
    ways: BothWays,
    audience: Audience,
    counts: Counts,
    shares: Shares | None,
    guards: list[Lock],
) -> Begin:
    def add(tile: Tile) -> None:
        for number, rows, items, distances in ways.sides(tile):
            with guards[number]:
                counts.add_tile_from(rows[0], distances, np.arange(*rows), items, shares)
            ways.show(audience, number, items, distances)

    return lambda: add


def _turn(tile: Tile) -> tuple[int, int, int]:
    """When a tile's turn comes.

    Square by square, so that rows that come from a file are read again less often. In a square
    along its diagonals, so that threads seldom wait for each other's strip; the main diagonal,
    where mates crowd if rows come class by class, last.
    """
    i, j = tile
    return i // SQUARE, j // SQUARE, -((j - i) % SQUARE)


def _begin_all(
    space: Space, blocks: list[Rows], view: View, shares: Shares | None
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
