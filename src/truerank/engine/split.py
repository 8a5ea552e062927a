"""Watchers that keep the shares of the gallery apart, so that a score without each can be told.

Shares come as columns, one for each way in which the gallery was dealt: an item counts in one
column of every way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.engine.cuts import Cuts, place
from truerank.engine.watch import PerThread, Sight, Watcher, total
from truerank.jit import kernel
from truerank.space import Distances

__all__ = ["NearestByShare", "TallyByShare"]

Integers = npt.NDArray[np.int64]
Columns = npt.NDArray[np.integer]
CHUNK = 512


class TallyByShare(Watcher):
    """Distances up to cuts, for each owner of one side and each share of the other side.

    With `turned` the items have owners and the queries shares; owners below zero are nobody. What
    lies beyond the last cut, and so most pairs, is not counted.
    """

    def __init__(
        self,
        cuts: Cuts,
        owner: Integers,
        owners: int,
        share: Columns,
        columns: int,
        *,
        turned: bool = False,
    ) -> None:
        self._cuts, self._owner, self._share, self._turned = cuts, owner, share, turned
        self._shape = (owners, columns, len(cuts))
        self._counts = PerThread(lambda: np.zeros(self._shape, np.int32))

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        distances = sight.distances
        items = slice(sight.first, sight.first + distances.shape[1])
        if self._turned:
            distances = np.ascontiguousarray(distances.T)
            owner, share = self._owner[items], self._share[sight.rows]
        else:
            owner, share = self._owner[sight.rows], self._share[items]
        mine = self._counts.mine()
        if sight.compiled:
            cuts = self._cuts
            _tally(distances, cuts.at, cuts.start, cuts.low, cuts.scale, owner, share, mine)
            return
        columns, cells = self._shape[1:]
        for row, number in zip(distances, owner, strict=True):
            held = np.flatnonzero(row <= self._cuts.at[-1]) if number >= 0 else ()
            cell = np.searchsorted(self._cuts.at, row[held], side="left")
            for way in share[held].T:
                found = np.bincount(way.astype(np.int64) * cells + cell, minlength=columns * cells)
                mine[number] += found.reshape(columns, cells).astype(np.int32)

    @property
    def counts(self) -> Integers:
        """(owners, columns, cuts): distances up to each cut and above the one before."""
        return total(self._counts)


class NearestByShare(Watcher):
    """Of every query and share: the nearest item, and the items no farther than a given limit."""

    def __init__(self, limit: Distances, share: Columns, columns: int) -> None:
        self._limit, self._share = limit, share
        shape = (len(limit), columns)
        self._found = PerThread(lambda: (np.full(shape, np.inf), np.zeros(shape, np.int32)))

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        least, within = self._found.mine()
        share = self._share[sight.first : sight.first + sight.distances.shape[1]]
        if sight.compiled:
            _nearest(sight.distances, sight.rows, self._limit, share, least, within)
            return
        inside = sight.distances <= self._limit[sight.rows][:, None]
        for column in np.unique(share):
            items = np.flatnonzero((share == column).any(axis=1))
            least[sight.rows, column] = np.minimum(
                least[sight.rows, column], sight.distances[:, items].min(axis=1)
            )
            within[sight.rows, column] += inside[:, items].sum(axis=1, dtype=np.int32)

    @property
    def least(self) -> Distances:
        """(queries, columns): the distance of the nearest item, infinite if there is none."""
        return np.asarray(np.min([least for least, _ in self._found.all()], axis=0), np.float64)

    @property
    def within(self) -> Integers:
        """(queries, columns): items up to the query's limit."""
        parts = [within for _, within in self._found.all()]
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64), np.int64)


@kernel
def _tally(
    distances: Any,
    at: Any,
    start: Any,
    low: float,
    scale: float,
    owner: Any,
    share: Any,
    counts: Any,
) -> None:
    """Pairs up to the last cut, usually few."""
    highest = at[at.size - 1]
    near = np.empty(distances.shape[1] + 1, np.int64)
    for q in range(distances.shape[0]):
        if owner[q] < 0:
            continue
        row = distances[q]
        mine = counts[owner[q]]
        count = 0
        for item in range(row.size):  # a list without a branch that is guessed wrong
            near[count] = item
            count += row[item] <= highest
        for item in near[:count]:
            cell = place(row[item], at, start, low, scale)
            for way in range(share.shape[1]):
                mine[share[item, way], cell] += 1


@kernel
def _nearest(distances: Any, rows: Any, limit: Any, share: Any, least: Any, within: Any) -> None:
    for i in range(rows.size):
        q = rows[i]
        row = distances[i]
        nearest = least[q]
        count = within[q]
        most = limit[q]
        for begin in range(0, row.size, CHUNK):
            matters = max(most, nearest.max())  # soon little is nearer than what was seen
            for item in range(begin, min(begin + CHUNK, row.size)):
                d = row[item]
                if d > matters:
                    continue
                for way in range(share.shape[1]):
                    column = share[item, way]
                    nearest[column] = min(nearest[column], d)
                    if d <= most:
                        count[column] += 1
