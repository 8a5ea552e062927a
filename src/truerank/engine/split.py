"""Watchers that keep the shares of the gallery apart, so that a score without each can be told.

Shares come as columns, one for each way in which the gallery was dealt: an item counts in one
column of every way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import fill
from truerank.engine.cuts import Cuts
from truerank.engine.sight import Columns, Sight
from truerank.engine.watch import PerThread, Tables, Watcher, Witness
from truerank.space import Distances

__all__ = ["NearestByShare", "TallyByShare"]

Integers = npt.NDArray[np.int64]


class TallyByShare(Watcher, Witness):
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
        self._counts = Tables(lambda: np.zeros(self._shape, np.int32))

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        sides = (sight.items, sight.rows) if self._turned else (sight.rows, sight.items)
        owner, share = self._owner[sides[0]], self._share[sides[1]]
        take = self._counts.take
        sight.tally_by_share(self._cuts, owner, share, self._shape[1], take, turned=self._turned)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """See Witness."""
        return {"counts": self._counts.total()}

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """See Witness."""
        self._counts.put(state["counts"])

    @property
    def counts(self) -> Integers:
        """(owners, columns, cuts): distances up to each cut and above the one before."""
        return self._counts.total()


class NearestByShare(Watcher, Witness):
    """Of every query and share: the nearest item, and the items no farther than a given limit."""

    def __init__(self, limit: Distances, share: Columns, columns: int) -> None:
        self._limit, self._share = limit, share
        shape = (len(limit), columns)
        self._found = PerThread(lambda: (np.full(shape, np.inf), np.zeros(shape, np.int32)))

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        sight.nearest_by_share(self._limit, self._share[sight.items], *self._found.mine())

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """See Witness."""
        return {"least": self.least, "within": self.within}

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """See Witness."""
        for name, array in self.state().items():
            fill(array, state[name])
        self._found.put((state["least"].copy(), state["within"].astype(np.int32)))

    @property
    def least(self) -> Distances:
        """(queries, columns): the distance of the nearest item, infinite if there is none."""
        return np.asarray(np.min([least for least, _ in self._found.all()], axis=0), np.float64)

    @property
    def within(self) -> Integers:
        """(queries, columns): items up to the query's limit."""
        parts = [within for _, within in self._found.all()]
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64), np.int64)
