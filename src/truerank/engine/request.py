"""A request: all that is asked of one pass, as it was asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from truerank.core.folds import Shares
from truerank.engine.watch import Audience
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = ["Queries", "Request"]


@dataclass(frozen=True, eq=False)
class Request:
    """One pass over queries x gallery; see truerank.engine.tie_groups for what is meant."""

    view: View
    space: Space
    device: str
    """Resolved: reference, cpu or cuda."""
    threads: int
    groups: bool = True
    """Whether tie groups are wanted; if not, all pairs are shown to the audience."""
    audience: Audience | None = None
    seen: npt.NDArray[np.bool_] | None = None
    """Queries that are left out."""
    only: Rows | None = None
    """The queries to look at; None for all."""
    rankings: bool = False
    """Whether rankings without ties may stay on a device."""
    shares: Shares | None = None
    """How groups are split."""
    apart: tuple[View, npt.NDArray[np.bool_]] | None = None
    """The view in which groups of sorted rows are split, and the queries that go with it."""
    keep: bool = True
    """Whether a block's tie groups stay valid when the next block is asked for."""

    @property
    def splitting(self) -> bool:
        """Whether some queries are looked at for nothing but their split groups."""
        return self.only is not None and self.audience is None and self.shares is not None


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
