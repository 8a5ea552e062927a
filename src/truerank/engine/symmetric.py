"""Leave-one-out: each pair's score is computed once and counted for both of its rows.

Only the tiles on and above the diagonal are multiplied. A tile is counted for its rows and, turned
over, for its columns; the counts of all rows are therefore in flight at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations_with_replacement, pairwise
from threading import Lock

import numpy as np

from truerank.engine.counts import Counts, Shares, TieGroups
from truerank.engine.cpu import begin_counts
from truerank.engine.crew import Crew, Take, Tile
from truerank.engine.filter import Filter, Thresholds
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = ["count_all"]

SQUARE = 32
"""Strips on either side of a square of tiles."""


def count_all(
    space: Space, blocks: Iterable[Rows], view: View, side: int, crew: Crew, way: Filter
) -> Iterator[tuple[Rows, TieGroups]]:
    """The tie groups of every block; the blocks hold ascending rows."""
    blocks = list(blocks)
    counts, candidates = _begin_all(space, blocks, view, way.shares)
    single = way.single
    every = np.arange(space.gallery)
    thresholds = Thresholds(counts, every, single, way.shares)
    strips: list[Tile] = list(pairwise([*range(0, space.gallery, side), space.gallery]))
    held = np.diff(counts.offsets) > 0
    queries = [int(np.count_nonzero(held[start:stop])) for start, stop in strips]
    guards = [Lock() for _ in strips]

    def pairs(tile: Tile) -> int:
        """Pairs of a query and an item in a tile, both ways."""
        i, j = tile
        one = queries[i] * (strips[j][1] - strips[j][0])
        other = queries[j] * (strips[i][1] - strips[i][0])
        return one if i == j else one + other

    def work(take: Take, finished: Callable[[Tile], None]) -> None:
        buffers = way.buffers(side, side)
        while (tile := take()) is not None:
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
            finished(tile)

    tiles = [tile for tile in combinations_with_replacement(range(len(strips)), 2) if pairs(tile)]
    tiles.sort(key=_turn)
    crew.complete(
        tiles,
        work,
        lambda nothing: None,  # all threads add to the same counts
        pairs,
        f"symmetric-{side}-{counts.digest()}",
        counts.state(),
    )
    for block in blocks:
        wanted = None if way.shares is None else way.shares.queries[block]
        yield block, _part(counts, block).tie_groups(candidates[block], wanted)


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
    parts = [begin_counts(space, rows, view, shares) for rows in blocks]
    sizes = np.zeros(space.gallery, np.int64)
    candidates = np.zeros(space.gallery, np.int64)
    for rows, (counts, left) in zip(blocks, parts, strict=True):
        sizes[rows] = np.diff(counts.offsets)
        candidates[rows] = left
    columns = zip(*((c.distance, c.graded, c.between, c.equal) for c, _ in parts), strict=True)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    total = Counts(offsets, *(np.concatenate(column) for column in columns))
    split = [counts.split for counts, _ in parts if counts.split is not None]
    total.split = np.concatenate(split, axis=1) if split else None
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
