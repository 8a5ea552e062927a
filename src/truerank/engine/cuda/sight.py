"""A block of distances that lies on a device: what watchers ask of it is counted there.

Every answer is the one of truerank.engine.sight; what is not answered here is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.engine.cuda.transfer import fetched, sent
from truerank.engine.cuts import Cuts
from truerank.engine.sight import (
    LARGEST,
    TINY,
    Apart,
    Columns,
    Counters,
    Integers,
    Range,
    Sight,
    underestimated,
)
from truerank.engine.workspace import Workspace
from truerank.space import Distances, Rows

__all__ = ["DeviceSight"]

_SORTED = 1 << 24
"""Most distances in rows that are sorted at a time."""


class DeviceSight(Sight):
    """A block of queries against the whole gallery."""

    def __init__(self, rows: Rows, distances: Any, kernels: ModuleType) -> None:
        super().__init__(rows, distances, compiled=True)
        self._tensor, self._kernels = distances, kernels

    @property
    def distances(self) -> Distances:
        """See Sight; fetched each time."""
        return fetched(self._tensor)

    def separate(self, apart: Apart) -> None:
        """See Sight."""
        self._tensor[apart.query, apart.item] = torch.inf

    def some(self, chosen: Rows) -> Sight:
        """See Sight."""
        return Sight(self.rows[chosen], fetched(self._tensor[self._send(chosen)]), self.compiled)

    def least(self) -> Distances:
        """See Sight."""
        return fetched(self._tensor.min(1).values)

    def ends(self) -> tuple[float, float]:
        """See Sight."""
        low, high = torch.aminmax(self._tensor)
        return float(low), float(high)

    def nearest(self, chosen: Rows, count: int) -> Distances:
        """See Sight."""
        rows = self._tensor[self._send(chosen)]
        return fetched(torch.sort(rows, dim=1).values[:, :count].contiguous())

    def ranked(self) -> Iterator[tuple[int, Distances]]:
        """See Sight."""
        step = max(1, _SORTED // self._tensor.shape[1])
        for start in range(0, len(self.rows), step):
            yield start, fetched(torch.sort(self._tensor[start : start + step], dim=1).values)

    def within(self, limit: float) -> Integers:
        """See Sight."""
        return fetched((self._tensor <= limit).sum(1))

    def accepted(self, grid: Distances, low: float, width: float) -> Counters:
        """See Sight."""
        scale = underestimated(grid, width) if width > TINY else None
        counts = self._kernels.count_on_grid(self._tensor, self._send(grid), low, scale)
        return fetched(counts)[:, :-1]

    def between(self, ranges: Sequence[Range], places: Workspace) -> list[tuple[Rows, Distances]]:
        """See Sight."""
        found = []
        for low, high in ranges:
            inside = (self._tensor > low) & (self._tensor <= min(high, LARGEST))
            query, item = torch.nonzero(inside, as_tuple=True)
            found.append((fetched(query), fetched(self._tensor[query, item])))
        return found

    def tally(
        self, cuts: Cuts, owner: Integers, counts: npt.NDArray[Any], *, turned: bool = False
    ) -> None:
        """See Sight."""
        owners, number = np.unique(owner, return_inverse=True)
        who = self._send(number)
        cells = len(cuts) + 1
        query, item, cell, near = self._near(cuts)
        side = 0 if turned else 1
        beyond = (self._tensor < torch.inf).sum(side) - near.sum(side)
        mine = who[item if turned else query] * cells + cell
        found = torch.bincount(mine, minlength=len(owners) * cells)
        found.index_add_(0, who * cells + len(cuts), beyond)
        counts[owners] += fetched(found.view(-1, cells)).astype(counts.dtype)

    def tally_by_share(
        self, cuts: Cuts, owner: Integers, share: Columns, counts: Counters, *, turned: bool = False
    ) -> None:
        """See Sight."""
        owners, number = np.unique(owner, return_inverse=True)
        who, columns = self._send(number), counts.shape[1]
        query, item, cell, _ = self._near(cuts)
        mine, other = (item, query) if turned else (query, item)
        base = who[mine] * columns
        size = len(owners) * columns * len(cuts)
        found = torch.zeros(size, dtype=torch.int64, device=self._tensor.device)
        for way in share.T:
            column = self._send(way.astype(np.int64))[other]
            found += torch.bincount((base + column) * len(cuts) + cell, minlength=size)
        known = owners >= 0
        parts = fetched(found.view(len(owners), columns, len(cuts)))
        counts[owners[known]] += parts[known].astype(counts.dtype)

    def _near(self, cuts: Cuts) -> tuple[Any, Any, Any, Any]:
        """Query, item and cell of the pairs up to the last cut, and which pairs these are."""
        near = self._tensor <= float(cuts.at[-1])
        query, item = torch.nonzero(near, as_tuple=True)
        cell = torch.searchsorted(self._send(cuts.at), self._tensor[query, item])
        return query, item, cell, near

    def nearest_by_share(
        self, limit: Distances, share: Columns, least: Distances, within: Counters
    ) -> None:
        """See Sight."""
        most = self._send(limit[self.rows])[:, None]
        for column in np.unique(share):
            items = self._send(np.flatnonzero((share == column).any(axis=1)))
            some = self._tensor[:, items]
            nearest = fetched(some.min(1).values)
            least[self.rows, column] = np.minimum(least[self.rows, column], nearest)
            within[self.rows, column] += fetched((some <= most).sum(1, dtype=torch.int32))

    def _send(self, array: npt.NDArray[Any]) -> Any:
        return sent(array, self._tensor.device)
