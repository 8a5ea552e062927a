"""A block of distances that lies on a device: what observers ask of it is counted there.

Every answer is the one of truerank.engine.distance_block; what is not answered here is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.engine.cuda.transfer import DeviceCache, fetched, sent
from truerank.engine.cuts import Cuts
from truerank.engine.distance_block import (
    LARGEST,
    TINY,
    Borrow,
    Columns,
    Counters,
    DistanceBlock,
    DistanceRange,
    ExcludedPairs,
    Integers,
    underestimated,
)
from truerank.engine.threads import Workspace
from truerank.space import Distances, Rows

__all__ = ["DeviceCuts", "DeviceDistanceBlock"]

_SORTED = 1 << 24
"""Most distances in rows that are sorted at a time."""


@dataclass(frozen=True)
class DeviceCuts:
    """truerank.engine.cuts.Cuts on a device."""

    at: Any
    start: Any
    axis: Any
    """The start of the table of cells, and its cells for a unit of distance."""
    steps: int
    """Steps of bisection that find a place among the cuts of any one cell."""


class DeviceDistanceBlock(DistanceBlock):
    """A block of queries against the whole gallery, on a device."""

    def __init__(self, rows: Rows, distances: Any, kernels: ModuleType, cache: DeviceCache) -> None:
        super().__init__(rows, distances, compiled=True)
        self._tensor, self._kernels, self._cache = distances, kernels, cache

    @property
    def distances(self) -> Distances:
        """See DistanceBlock; fetched each time."""
        return fetched(self._tensor)

    def separate(self, excluded: ExcludedPairs) -> None:
        """See DistanceBlock."""
        self._tensor[excluded.query, excluded.item] = torch.inf

    def some(self, chosen: Rows) -> DistanceBlock:
        """See DistanceBlock."""
        return DistanceBlock(
            self.rows[chosen], fetched(self._tensor[self._send(chosen)]), self.compiled
        )

    def rooted(self) -> DistanceBlock:
        """See DistanceBlock: the square root of a float64 is the nearest one here as well."""
        roots = torch.sqrt(self._tensor)
        return DeviceDistanceBlock(self.rows, roots, self._kernels, self._cache)

    def nearer(self, limit: Distances) -> Any:
        """How many items each query has below its own limit; on the device."""
        return self._kernels.nearer(self._tensor, self._send(limit))

    def least(self) -> Distances:
        """See DistanceBlock."""
        return fetched(self._tensor.min(1).values)

    def ends(self) -> tuple[float, float]:
        """See DistanceBlock."""
        low, high = torch.aminmax(self._tensor)
        return float(low), float(high)

    def nearest(self, chosen: Rows, count: int) -> Distances:
        """See DistanceBlock."""
        rows = self._tensor[self._send(chosen)]
        return fetched(torch.sort(rows, dim=1).values[:, :count].contiguous())

    def ranked(self) -> Iterator[tuple[int, Distances]]:
        """See DistanceBlock."""
        step = max(1, _SORTED // self._tensor.shape[1])
        for start in range(0, len(self.rows), step):
            yield start, fetched(torch.sort(self._tensor[start : start + step], dim=1).values)

    def within(self, limit: float) -> Integers:
        """See DistanceBlock."""
        return fetched((self._tensor <= limit).sum(1))

    def largest(self, limit: float) -> float:
        """See DistanceBlock."""
        return float(torch.where(self._tensor <= limit, self._tensor, -torch.inf).max())

    def accepted(self, grid: Distances, low: float, width: float) -> Counters:
        """See DistanceBlock."""
        scale = underestimated(grid, width) if width > TINY else None
        counts = self._kernels.count_on_grid(self._tensor, self._cache(grid), low, scale)
        return fetched(counts)[:, :-1]

    def between(self, ranges: Sequence[DistanceRange], workspace: Workspace) -> list[Distances]:
        """See DistanceBlock."""
        ends = [(low, min(high, LARGEST)) for low, high in ranges]
        return [fetched(part) for part in self._kernels.between(self._tensor, ends)]

    def tally(self, cuts: Cuts, owner: Integers, borrow: Borrow, *, turned: bool = False) -> None:
        """See DistanceBlock."""
        owners, number = np.unique(owner, return_inverse=True)
        there = (self._on_device(cuts), self._send(number), len(owners))
        home = fetched(self._kernels.tally(self._tensor, *there, turned=turned))
        with borrow() as counts:
            counts[owners] += home.astype(counts.dtype)

    def _on_device(self, cuts: Cuts) -> DeviceCuts:
        return DeviceCuts(
            self._cache(cuts.at),
            self._cache(cuts.start),
            self._send(np.array([cuts.low, cuts.scale])),
            cuts.most.bit_length(),
        )

    def tally_by_fold(
        self,
        cuts: Cuts,
        owner: Integers,
        fold: Columns,
        columns: int,
        borrow: Borrow,
        *,
        turned: bool = False,
    ) -> None:
        """See DistanceBlock."""
        owners, number = np.unique(owner, return_inverse=True)
        there = (self._on_device(cuts), self._send(number), len(owners), self._send(fold), columns)
        home = fetched(self._kernels.tally_by_fold(self._tensor, *there, turned=turned))
        known = owners >= 0
        with borrow() as counts:
            counts[owners[known]] += home[known].astype(counts.dtype)

    def nearest_by_fold(
        self, limit: Distances, fold: Columns, least: Distances, within: Counters
    ) -> None:
        """See DistanceBlock."""
        most = self._send(limit[self.rows])[:, None]
        for way in fold.T:
            order = np.argsort(way, kind="stable")
            columns, start = np.unique(way[order], return_index=True)
            together = self._tensor[:, self._send(order)]  # the items of a fold side by side
            parts = [together[:, a:b] for a, b in pairwise([*start.tolist(), len(order)])]
            nearest = fetched(torch.stack([part.min(1).values for part in parts], 1))
            near = [(part <= most).sum(1, dtype=torch.int32) for part in parts]
            mine = np.ix_(self.rows, columns)
            least[mine] = np.minimum(least[mine], nearest)
            within[mine] += fetched(torch.stack(near, 1))

    def _send(self, array: npt.NDArray[Any]) -> Any:
        return sent(array, self._tensor.device)
