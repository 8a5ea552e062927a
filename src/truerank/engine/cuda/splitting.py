"""Counts by share of the gallery, beside a tally's: for the queries of a block that want them.

The kernels that count an item for a query count it for the item's shares as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.core.folds import Shares
from truerank.engine.cuda.transfer import fetched

__all__ = ["COMPARISONS", "Splitting"]

COMPARISONS = 1 << 26
"""Of single pairs with thresholds, at a time."""


@dataclass(frozen=True)
class Splitting:
    """Tables of (queries that want it, thresholds, columns), as a tally's `bins` and `equal`."""

    share: Any
    """(items, ways): the columns of each item's shares."""
    place: Any
    """The place of each query of the block in the tables; -1 of those that do not want it."""
    bins: Any
    equal: Any

    @staticmethod
    def of(share: Any, columns: int, wanted: Any, thresholds: int) -> Splitting:
        """Nothing counted yet."""
        place = torch.where(wanted, torch.cumsum(wanted, 0) - 1, -1).to(torch.int32)
        shape = (int(wanted.sum()), thresholds + 1, columns)
        bins = torch.zeros(shape, dtype=torch.int32, device=place.device)
        return Splitting(share, place, bins, torch.zeros_like(bins[:, 1:].contiguous()))

    @property
    def columns(self) -> int:
        """Of all ways together."""
        return int(self.bins.shape[2])

    @property
    def ways(self) -> int:
        """To cut the gallery into shares."""
        return int(self.share.shape[1])

    def part(self, rows: Any) -> Splitting:
        """Some of the queries; what is counted there is counted here."""
        return replace(self, place=self.place[rows])

    def items(self, start: int, stop: int) -> Splitting:
        """The same for a range of items."""
        return replace(self, share=self.share[start:stop])

    @property
    def rows(self) -> Any:
        """The queries that want it."""
        return torch.nonzero(self.place >= 0).flatten()

    def forget(self) -> None:
        """Begin anew."""
        mine = self.place[self.rows].long()
        self.bins[mine] = 0
        self.equal[mine] = 0

    def take_out(self, query: Any, item: Any, distance: Any, edges: Any) -> None:
        """Excluded pairs have been counted like any other; take them out again."""
        query, item, distance = self._wanted(query, item, distance)
        step = max(1, COMPARISONS // edges.shape[1])
        for start in range(0, len(query), step):
            some = slice(start, start + step)
            mine, among = self.place[query[some]].long(), edges[query[some]]
            at = torch.searchsorted(among, distance[some, None]).flatten()
            same = (distance[some, None] == among).any(1)
            for way in self.share.T:
                column = way[item[some]].long()
                _add(self.bins, (mine, at + same, column), -1)
                _add(self.equal, (mine[same], at[same], column[same]), -1)

    def counts(
        self, query: Any, item: Any, grade: Any, at: Any, edges: Any, grades: int, shares: Shares
    ) -> npt.NDArray[Any]:
        """truerank.engine.counts.Split's table, once the whole gallery has been seen.

        Relevant pairs lie at thresholds `at`.
        """
        query, item, grade, at = self._wanted(query, item, grade, at)
        mine = self.place[query].long()
        between = self.bins[:, :-1].clone()
        between[:, 1:] -= self.equal[:, :-1]
        relevant = torch.zeros((grades, *self.equal.shape), dtype=torch.int32, device=edges.device)
        for way in self.share.T:
            _add(relevant, (grade - 1, mine, at, way[item].long()), 1)
        held = edges[self.rows] > -torch.inf
        table = torch.stack([between, self.equal, *relevant])[:, held]
        if shares.dtype is np.uint16:
            table = table.to(torch.int16)
        return fetched(table).view(shares.dtype)

    def candidates(self, query: Any, item: Any, shares: Shares) -> npt.NDArray[np.int64]:
        """(queries that want it, columns): the items of each share that they can rank, all but
        these excluded ones."""
        query, item = self._wanted(query, item)
        mine = self.place[query].long()
        met = torch.from_numpy(shares.sizes).to(mine.device).repeat(len(self.bins), 1)
        for way in self.share.T:
            _add(met, (mine, way[item].long()), -1)
        found: npt.NDArray[np.int64] = fetched(met)
        return found

    def _wanted(self, query: Any, *others: Any) -> tuple[Any, ...]:
        mine = self.place[query] >= 0
        return (query[mine], *(other[mine] for other in others))


def _add(table: Any, at: tuple[Any, ...], step: int) -> None:
    """Add to entries, which may come more than once."""
    steps = torch.full_like(at[0], step, dtype=table.dtype)
    table.index_put_(at, steps, accumulate=True)
