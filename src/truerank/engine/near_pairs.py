"""Near pairs: those of a tile that count in the ranking of their row or of their column.

The queries are the gallery. Most pairs lie beyond the farthest mate of either end; the others are
listed once, and counted from both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from truerank.core.folds import GalleryFolds
from truerank.engine import kernels
from truerank.engine.counts import Counts
from truerank.engine.threads import Tile
from truerank.space import Distances

__all__ = ["NearPairs"]

SHARE = 1 / 8
"""Pairs of a tile that are listed at a time."""


class NearPairs:
    """Adds tiles to the counts of both of their sides; one for each thread, used for every tile."""

    def __init__(self, counts: Counts, farthest: Distances, side: int) -> None:
        """`farthest` is each query's farthest relevant distance; tiles have up to side x side."""
        self._counts, self._farthest = counts, farthest
        room = int(side * side * SHARE) + side
        self._query, self._item = np.empty((2, room), np.int64)
        self._near = np.empty(room)

    def add(
        self,
        distances: Distances,
        rows: Tile,
        columns: Tile,
        folds: GalleryFolds | None,
        guards: Sequence[AbstractContextManager[Any]],
    ) -> None:
        """Count a tile off the diagonal; a guard is held while the counts of its side change."""
        within = (self._farthest[slice(*rows)], self._farthest[slice(*columns)])
        lists = (self._query, self._item, self._near)
        row = 0
        while row < len(distances):
            row, listed = kernels.near_pairs(distances, row, *within, *lists)
            query, item = self._query[:listed] + rows[0], self._item[:listed] + columns[0]
            for guard, ours, others in zip(guards, (query, item), (item, query), strict=True):
                with guard:
                    self._counts.add_pairs(ours, others, self._near[:listed], folds)
