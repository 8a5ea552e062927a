"""Both ways: the queries are the gallery, and a tile of distances serves its rows and its columns.

Only the tiles on and above the diagonal are made; watchers see such a tile twice, in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, pairwise

import numpy as np

from truerank.engine.sight import Apart, Sight
from truerank.engine.threads import Tile
from truerank.engine.watch import Audience
from truerank.relevance import View
from truerank.space import Distances, Space

__all__ = ["BothWays", "every_two", "strips_of"]

SQUARE = 32
"""Strips on either side of a square of tiles."""


class BothWays:
    """Strips of rows, with the pairs in each that never meet."""

    def __init__(self, strips: list[Tile], apart: list[Apart]) -> None:
        self.strips, self._apart = strips, apart

    @staticmethod
    def of(view: View, side: int, most: int) -> BothWays | None:
        """None where more than so many pairs never meet: all of them are held."""
        strips, apart, total = strips_of(view.items, side), [], 0
        for start, stop in strips:
            excluded = view.exclusions.pairs(np.arange(start, stop), view.items)
            total += len(excluded)
            if total > most:
                return None
            apart.append(Apart.of(excluded))
        return BothWays(strips, apart)

    def sides(self, space: Space, tile: Tile) -> Iterator[tuple[int, Tile, Tile, Distances]]:
        """The number of the strip that has the queries, queries, items and their distances."""
        i, j = tile
        rows, columns = self.strips[i], self.strips[j]
        distances = space.block(np.arange(*rows))(*columns)
        turned = None if i == j else np.ascontiguousarray(distances.T)
        yield i, rows, columns, distances
        if turned is not None:
            yield j, columns, rows, turned

    def show(self, audience: Audience, number: int, items: Tile, distances: Distances) -> None:
        """Let watchers see one side."""
        rows = np.arange(*self.strips[number])
        audience.look(Sight(rows, distances, True, items[0]), self._apart[number])


def strips_of(rows: int, side: int) -> list[Tile]:
    """So many rows, from start to stop, in strips."""
    return list(pairwise([*range(0, rows, side), rows]))


def every_two(strips: list[Tile]) -> list[Tile]:
    """Every two strips once, in the order in which they are best looked at."""
    return sorted(combinations_with_replacement(range(len(strips)), 2), key=_turn)


def _turn(tile: Tile) -> tuple[int, int, int]:
    """When a tile's turn comes.

    Square by square, so that rows that come from a file are read again less often. In a square
    along its diagonals, so that threads seldom wait for each other's strip; the main diagonal,
    where mates crowd if rows come class by class, last.
    """
    i, j = tile
    return i // SQUARE, j // SQUARE, -((j - i) % SQUARE)
