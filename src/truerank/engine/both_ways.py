"""Both ways: the queries are the gallery, and a tile of distances serves its rows and its columns.

Only the tiles on and above the diagonal are made; observers see such a tile twice, in float64.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise
from typing import NamedTuple

import numpy as np

from truerank.engine.distance_block import DistanceBlock, ExcludedPairs
from truerank.engine.observers import Observers
from truerank.engine.threads import Tile
from truerank.relevance import View
from truerank.space import Distances, Space

__all__ = ["BothWays", "every_two", "strips_of"]

SQUARE = 32
"""Strips on either side of a square of tiles."""


class Side(NamedTuple):
    """A tile as one of its strips sees it."""

    strip: int
    """The number of the strip that has the queries."""
    rows: Tile
    items: Tile
    distances: Distances


class BothWays:
    """Strips of rows, with the pairs of each strip that never meet."""

    def __init__(self, strips: list[Tile], excluded: list[ExcludedPairs]) -> None:
        self.strips, self._excluded = strips, excluded

    @staticmethod
    def of(view: View, side: int, most: int) -> BothWays | None:
        """Strips of a view; None where more than `most` pairs never meet, for all are held."""
        strips, excluded, total = strips_of(view.items, side), [], 0
        for start, stop in strips:
            pairs = view.exclusions.pairs(np.arange(start, stop), view.items)
            total += len(pairs)
            if total > most:
                return None
            excluded.append(ExcludedPairs.of(pairs))
        return BothWays(strips, excluded)

    def sides(self, space: Space, tile: Tile) -> list[Side]:
        """Both sides of a tile; on the diagonal they are one."""
        i, j = tile
        rows, columns = self.strips[i], self.strips[j]
        distances = space.block(np.arange(*rows))(*columns)
        one = Side(i, rows, columns, distances)
        return [one] if i == j else [one, Side(j, columns, rows, np.ascontiguousarray(distances.T))]

    def observe(self, observers: Observers, sides: list[Side]) -> None:
        """Let observers see all sides of a tile."""
        blocks = [
            DistanceBlock(np.arange(*side.rows), side.distances, True, side.items[0])
            for side in sides
        ]
        excluded = [self._excluded[side.strip] for side in sides]
        each = list(zip(blocks, excluded, strict=True))
        if len(blocks) == 2 and not any(gone.meet(block.items) for block, gone in each):
            observers.observe_both(*blocks)
            return
        for block, gone in each:
            observers.observe_at_once(block, gone)


def strips_of(rows: int, side: int) -> list[Tile]:
    """Rows cut into strips of `side` rows, each from start to stop; of few rows at least four, for
    the tiles on the diagonal are made as a whole."""
    side = min(side, -(-rows // 4))
    return list(pairwise([*range(0, rows, side), rows]))


def every_two(strips: list[Tile]) -> list[Tile]:
    """Every two strips once, in the order in which their tiles are best made."""
    return sorted(combinations_with_replacement(range(len(strips)), 2), key=_turn)


def _turn(tile: Tile) -> tuple[int, int, int]:
    """A key that sorts tiles by when their turn comes.

    Square by square, so that rows that come from a file are read again less often. In a square
    along its diagonals, so that threads seldom wait for each other's strip; the main diagonal,
    where mates crowd if rows come class by class, last.
    """
    i, j = tile
    return i // SQUARE, j // SQUARE, -((j - i) % SQUARE)
