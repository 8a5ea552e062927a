"""Both ways: the queries are the gallery, and a tile of distances serves its rows and its columns.

Only the tiles on and above the diagonal are made; observers see such a tile twice, in float64.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise

import numpy as np

from truerank.engine.distance_block import DistanceBlock, ExcludedPairs
from truerank.engine.observers import Observers
from truerank.engine.threads import Tile
from truerank.relevance import View
from truerank.space import Distances, Space

__all__ = ["BothWays", "every_two", "strips_of"]

SQUARE = 32
"""Strips on either side of a square of tiles."""
WIDER = 5 / 3
"""How much wider these strips are than those of float32 tiles: the product is then faster."""


class BothWays:
    """Strips of rows, with the pairs of each strip that never meet."""

    def __init__(self, strips: list[Tile], excluded: list[ExcludedPairs]) -> None:
        self.strips, self._excluded = strips, excluded

    @staticmethod
    def of(view: View, side: int, most: int) -> BothWays | None:
        """Strips of a view; None where more than `most` pairs never meet, for all are held."""
        strips, excluded, total = strips_of(view.items, int(side * WIDER)), [], 0
        for start, stop in strips:
            pairs = view.exclusions.pairs(np.arange(start, stop), view.items)
            total += len(pairs)
            if total > most:
                return None
            excluded.append(ExcludedPairs.of(pairs))
        return BothWays(strips, excluded)

    def distances(self, space: Space, tile: Tile) -> Distances:
        """The distances of a tile, from the side of its rows."""
        rows, columns = (self.strips[number] for number in tile)
        return space.block(np.arange(*rows))(*columns)

    def observe(self, observers: Observers, tile: Tile, distances: Distances) -> None:
        """Let observers see a tile from both sides; on the diagonal they are one."""
        rows, columns = (self.strips[number] for number in tile)
        gone, gone_too = (self._excluded[number] for number in tile)
        block = DistanceBlock(np.arange(*rows), distances, True, columns[0])
        if rows == columns:
            observers.observe_at_once(block, gone)
        elif gone.meet(slice(*columns)) or gone_too.meet(slice(*rows)):
            turned = block.turned  # pairs that never meet may do so the other way round
            observers.observe_at_once(block, gone)
            observers.observe_at_once(turned, gone_too)
        else:
            observers.observe_both(block)


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
