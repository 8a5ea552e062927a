"""A block of close distances: float32 scores answer what is asked, integers what they leave open.

How many lie up to a cut, and which are the nearest, needs the exact distance of few pairs: those
within the error bound of a cut, or of the last of the nearest. Whatever else is asked, or leaves
too much open, is answered from exact distances of the block, which are then made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.engine import close_kernels, kernels
from truerank.engine.close_kernels import NEVER
from truerank.engine.distance_block import (
    LARGEST,
    TINY,
    Counters,
    DistanceBlock,
    ExcludedPairs,
    Integers,
    underestimated,
)
from truerank.engine.filter import Filter, Singles
from truerank.engine.threads import Workspace
from truerank.space import Distances, Rows

__all__ = ["CloseBlock"]

OPEN_SHARE = 1 / 6
"""Pairs that may stay open: to decide one costs as much as some five in an exact product."""
NEAR_SHARE = 1 / 5
"""Pairs that may be among the nearest, before whole rows are made for them: such rows are often
few, and the whole gallery is widened to float64 for them."""
MOST_OF_A_CELL = 1 / 4
"""Where the error bound is more than this share of a grid's step, hardly anything is certain."""
EXACT_ROWS = 128
"""Rows whose exact distances are made at a time, where too many pairs stay open."""
TOGETHER = 128
"""Items whose rows stay in a core's own cache."""


class CloseBlock(DistanceBlock):
    """See DistanceBlock: whole rows. Scores are changed where pairs never meet."""

    def __init__(self, way: Filter, rows: Rows, scores: Singles, workspace: Workspace) -> None:
        """The workspace has room for pairs that stay open."""
        super().__init__(rows, np.empty((0, 0)), True)
        self._way, self._scores, self._workspace = way, scores, workspace
        self._middle, self._reach = way.single.middle, way.single.reach

    @cached_property
    def distances(self) -> Distances:
        """See DistanceBlock; made only if asked for."""
        return self._exactly(np.arange(len(self.rows))).distances

    @property
    def items(self) -> slice:
        """See DistanceBlock."""
        return slice(0, self._scores.shape[1])

    def separate(self, excluded: ExcludedPairs) -> None:
        """See DistanceBlock."""
        self._scores[excluded.query, excluded.item] = NEVER

    def accepted(self, grid: Distances, low: float, width: float) -> Counters:
        """See DistanceBlock."""
        place = (grid, low, underestimated(grid, width) if width > TINY else 0.0)
        if not self._reach * place[-1] < MOST_OF_A_CELL:
            return super().accepted(grid, low, width)
        counts = np.zeros((len(self.rows), len(grid) + 2), np.int32)
        room = int(self._scores.size * OPEN_SHARE) + 2 * self._scores.shape[1]
        lists = [self._workspace.array(name, (room,), np.int32) for name in ("query", "item")]
        taken, listed = close_kernels.count_on_grid(
            self._scores, self._middle, self._reach, *place[1:], counts, *lists
        )
        query, item = (some[:listed] for some in lists)
        close_kernels.count_pairs_on_grid(query, self._decide(query, item), *place, counts)
        kernels.add_up_grid(counts[:taken])
        self._way.tried(failed=taken < len(counts))
        for first in range(taken, len(counts), EXACT_ROWS):
            rest = np.arange(first, min(first + EXACT_ROWS, len(counts)))
            mine = counts[first : first + len(rest)]
            kernels.count_on_grid(self._exactly(rest).distances, *place, mine)
        return counts[:, :-2]

    def least(self) -> Distances:
        """See DistanceBlock."""
        return self.nearest(np.arange(len(self.rows)), 1)[:, 0]

    def nearest(self, chosen: Rows, count: int) -> Distances:
        """See DistanceBlock."""
        some = self._scores if len(chosen) == len(self.rows) else self._scores[chosen]
        count = min(count, some.shape[1])
        if count > NEAR_SHARE * some.shape[1]:
            return self._exactly(chosen).nearest(np.arange(len(chosen)), count)
        last = some.max(axis=1) if count == 1 else np.partition(some, -count, axis=1)[:, -count]
        # Scores that differ by more than the reach are those of distances that differ by twice as
        # much: such an item is farther than all with at least the last score.
        least = np.nextafter((last - np.float64(self._reach)).astype(np.float32), NEVER)
        query, item = np.nonzero((some >= least[:, None]) & (some > NEVER))
        if len(query) > 2 * NEAR_SHARE * some.size + len(chosen):
            return self._exactly(chosen).nearest(np.arange(len(chosen)), count)
        sizes = np.bincount(query, minlength=len(chosen))
        found = np.full((len(chosen), max(count, int(sizes.max(initial=0)))), np.inf)
        place = np.arange(len(query)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found[query, place] = self._decide(chosen[query], item)
        found.sort(axis=1)
        return found[:, :count]

    def within(self, limit: float) -> Integers:
        """See DistanceBlock."""
        at = (self._middle - min(limit, LARGEST)) / 2
        with np.errstate(over="ignore"):
            low, high = np.float32(at - self._reach / 2), np.float32(at + self._reach / 2)
        low, high = np.nextafter(low, NEVER), np.nextafter(high, -NEVER)
        inside = self._scores > high
        query, item = np.nonzero((self._scores >= low) & (self._scores > NEVER) & ~inside)
        if len(query) > OPEN_SHARE * self._scores.size + self._scores.shape[1]:
            return super().within(limit)
        accepted = self._decide(query, item) <= limit
        counts: Integers = np.bincount(query[accepted], minlength=len(self.rows))
        counts += np.count_nonzero(inside, axis=1)
        return counts

    def _decide(self, query: npt.NDArray[Any], item: npt.NDArray[Any]) -> Distances:
        """The exact distances of some pairs, by their places in the block.

        Items that lie together are looked at together: their rows are then in the cache.
        """
        heap = item // TOGETHER
        if self._scores.shape[1] <= TOGETHER << 16:
            heap = heap.astype(np.uint16)  # so small numbers are sorted by dealing them out
        order = np.argsort(heap, kind="stable")
        found = np.empty(len(order))
        items = item[order].astype(np.int64)
        found[order] = self._way.space.pairs(self.rows[query[order]], items)
        return found

    def _exactly(self, chosen: Rows) -> DistanceBlock:
        """Some of the rows, with all of their distances."""
        rows, scores = self.rows[chosen], self._scores[chosen]
        distances = np.empty(scores.shape)
        for tile, exact in self._way.exact_tiles(rows, 0, scores.shape[1]):
            distances[:, slice(*tile)] = exact
        distances[scores == NEVER] = np.inf
        return DistanceBlock(rows, distances, True)
