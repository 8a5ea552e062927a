"""The queries of a pass: a request in, the rows that are still to be looked at out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from truerank.engine.request import Request
from truerank.space import Rows

__all__ = ["Queries"]


@dataclass(frozen=True, eq=False)
class Queries:
    """Rows in the order in which they are best looked at."""

    rows: Rows
    """Those that have a relevant item, by their number; without tie groups, all."""
    alone: Rows
    """Those that have none, and are looked at only because somebody watches."""
    behind: int = 0
    """Queries with a relevant item that had been seen before."""

    def __len__(self) -> int:
        return len(self.rows) + len(self.alone)

    def and_rows(self, rows: Rows) -> Queries:
        """With some more that have a relevant item."""
        return replace(self, rows=np.concatenate([self.rows, rows]))

    @staticmethod
    def none() -> Queries:
        """Nothing left to do."""
        return Queries.with_mates(np.empty(0, np.int64))

    @staticmethod
    def with_mates(rows: Rows) -> Queries:
        """Only such as have a relevant item."""
        return Queries(rows, rows[:0])

    @staticmethod
    def of(request: Request) -> Queries:
        """All that a request asks for."""
        view, seen, only = request.view, request.seen, request.only
        if not request.groups:
            return Queries.with_mates(np.arange(view.queries))
        wanted = view.mates > 0
        if only is not None:
            wanted[:] = False
            wanted[only] = view.mates[only] > 0
        every = int(np.count_nonzero(wanted))
        if seen is not None:
            wanted &= ~seen
        rows = np.flatnonzero(wanted)
        rows = rows[np.lexsort((view.kinds(rows), view.mates[rows]))]
        alone = rows[:0]
        if request.audience is not None:
            alone = np.arange(view.queries) if only is None else np.sort(only)
            alone = alone[view.mates[alone] == 0]
            if seen is not None:
                alone = alone[~seen[alone]]
        return Queries(rows, alone, every - len(rows))
