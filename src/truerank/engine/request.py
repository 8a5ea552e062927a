"""A request: all that is asked of one pass, as it was asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from truerank.arrays import stable_order
from truerank.core.folds import GalleryFolds
from truerank.engine.observers import Observers
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = ["PassRequest", "Queries"]


@dataclass(frozen=True, eq=False)
class PassRequest:
    """One pass over queries x gallery; see truerank.engine.tie_groups for what is meant."""

    view: View
    space: Space
    device: str
    """The device as resolved: reference, cpu or cuda."""
    threads: int
    groups: bool = True
    """Whether tie groups are wanted; if not, observers see all pairs."""
    observers: Observers | None = None
    seen: npt.NDArray[np.bool_] | None = None
    """Queries that are left out."""
    only: Rows | None = None
    """The queries to look at; None for all."""
    rankings: bool = False
    """Whether rankings without ties may stay on a device."""
    folds: GalleryFolds | None = None
    """How groups are split by fold; None if they are not."""
    split_view: tuple[View, npt.NDArray[np.bool_]] | None = None
    """The view in which groups of sorted rows are split, and the queries that go with it."""
    keep: bool = True
    """Whether a block's tie groups stay valid when the next block is asked for."""

    @property
    def splitting(self) -> bool:
        """Whether the pass is there for nothing but the split groups of some queries."""
        return self.only is not None and self.observers is None and self.folds is not None


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries that are left to do, in the order in which they are best done."""

    rows: Rows
    """Queries that have a relevant item, by their number of mates; without tie groups, all."""
    no_mate_rows: Rows
    """Queries that have no relevant item, and are there for the observers only."""
    behind: int = 0
    """Queries with a relevant item that had been seen before."""

    def __len__(self) -> int:
        return len(self.rows) + len(self.no_mate_rows)

    def and_rows(self, rows: Rows) -> Queries:
        """The queries, and some more that have a relevant item."""
        return replace(self, rows=np.concatenate([self.rows, rows]))

    @staticmethod
    def none() -> Queries:
        """No queries: nothing is left to do."""
        return Queries.with_mates(np.empty(0, np.int64))

    @staticmethod
    def with_mates(rows: Rows) -> Queries:
        """Queries that all have a relevant item."""
        return Queries(rows, rows[:0])

    @staticmethod
    def of(request: PassRequest) -> Queries:
        """All queries that a request asks for."""
        view, seen, only = request.view, request.seen, request.only
        if not request.groups:
            rows = np.arange(view.queries)
            return Queries.with_mates(rows if seen is None else rows[~seen])
        wanted = view.mates > 0
        if only is not None:
            wanted[:] = False
            wanted[only] = view.mates[only] > 0
        every = int(np.count_nonzero(wanted))
        if seen is not None:
            wanted &= ~seen
        rows = np.flatnonzero(wanted)
        if request.device != "cuda":  # whose blocks are in ascending order
            rows = rows[stable_order(view.kinds(rows))]
        rows = rows[stable_order(view.mates[rows])]
        no_mate_rows = rows[:0]
        if request.observers is not None:
            no_mate_rows = np.arange(view.queries) if only is None else np.sort(only)
            no_mate_rows = no_mate_rows[view.mates[no_mate_rows] == 0]
            if seen is not None:
                no_mate_rows = no_mate_rows[~seen[no_mate_rows]]
        return Queries(rows, no_mate_rows, every - len(rows))
