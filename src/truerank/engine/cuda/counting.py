"""Few relevant items: every item of the gallery counted at the query's distinct mate distances.

A block's thresholds form a matrix `edges`, a row for each query, nearest mate first, right-aligned
behind -inf. The counts are integers, whichever path filled them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.core.groups import LocatedGroups, TieGroups
from truerank.engine.cuda.splitting import COMPARISONS, Splitting
from truerank.engine.cuda.transfer import fetched
from truerank.errors import ExactnessError

__all__ = ["NOTHING", "DeviceTally", "Frame"]

Integers = npt.NDArray[np.int64]

NOTHING = float("-inf")


@dataclass(frozen=True)
class Frame:
    """The distinct relevant distances of a block of queries, and the items at them."""

    edges: Any
    """(queries, most distinct distances) float64."""
    graded: Any
    """(groups, grades): relevant items of each grade at each distance, query after query."""
    order: Any
    """The order of each query's relevant pairs by distance, behind as many empty places as it has
    fewer pairs than others."""
    fresh: Any
    """Which places of `order` have another distance than the place before."""

    def places(self, query: Any) -> Any:
        """The threshold at which each relevant pair lies."""
        sizes = torch.bincount(query, minlength=len(self.fresh))
        first = torch.cumsum(sizes, 0) - sizes
        width = self.fresh.shape[1]
        held = torch.arange(width, device=query.device) >= (width - sizes)[:, None]
        behind = self.fresh.sum(1, keepdim=True) - torch.cumsum(self.fresh, 1)
        at = torch.empty_like(query)
        pair = (first[:, None] + self.order)[held]
        at[pair] = self.edges.shape[1] - 1 - behind[held]
        return at

    @staticmethod
    def of(query: Any, distance: Any, grade: Any, queries: int, grades: int) -> Frame:
        """The frame of relevant pairs, which are sorted by query."""
        sizes = torch.bincount(query, minlength=queries)
        first = torch.cumsum(sizes, 0) - sizes
        width = int(sizes.max())
        table = torch.full((queries, width), NOTHING, dtype=torch.float64, device=query.device)
        column = torch.arange(len(query), device=query.device) - first[query]
        table[query, column] = distance
        table, order = torch.sort(table, dim=1)
        held = table != NOTHING
        fresh = held.clone()
        fresh[:, 1:] &= table[:, 1:] != table[:, :-1]
        group = torch.cumsum(fresh.flatten(), 0).view_as(table)[held] - 1
        groups = int(fresh.sum())
        if grades == 1:
            graded = torch.bincount(group, minlength=groups)[:, None]
        else:
            worth = torch.zeros(table.shape, dtype=torch.int64, device=query.device)
            worth[query, column] = grade
            worth = torch.gather(worth, 1, order)[held] - 1
            graded = torch.bincount(group * grades + worth, minlength=groups * grades)
            graded = graded.view(groups, grades)
        if groups < len(query):  # relevant items that tie share a threshold
            table = torch.sort(torch.where(fresh, table, NOTHING), dim=1).values
            most = int(fresh.sum(1).max())
            table = table[:, width - most :].contiguous()
        return Frame(table, graded, order, fresh)


class DeviceTally:
    """Counts at each threshold, while the gallery goes by."""

    def __init__(
        self, edges: Any, less: Any, equal: Any, bins: Any, split: Splitting | None = None
    ) -> None:
        self.edges, self.less, self.equal = edges, less, equal
        self.bins = bins
        """An item in bin j is nearer than threshold j and all that follow."""
        self.split = split

    @staticmethod
    def of(edges: Any, split: Splitting | None = None) -> DeviceTally:
        """A tally with nothing counted yet."""
        rows, m = edges.shape
        less = torch.zeros((rows, m), dtype=torch.int32, device=edges.device)
        bins = torch.zeros((rows, m + 1), dtype=torch.int32, device=edges.device)
        return DeviceTally(edges, less, torch.zeros_like(less), bins, split)

    def part(self, rows: slice) -> DeviceTally:
        """A view of some of the queries: what is counted there is counted here."""
        split = None if self.split is None else self.split.part(rows)
        return DeviceTally(
            self.edges[rows], self.less[rows], self.equal[rows], self.bins[rows], split
        )

    def at(self, start: int, stop: int) -> DeviceTally:
        """The same tally for tiles that hold a range of items."""
        split = None if self.split is None else self.split.items(start, stop)
        return DeviceTally(self.edges, self.less, self.equal, self.bins, split)

    def again(self, rows: Any) -> DeviceTally:
        """A tally of some of the queries, with nothing counted yet."""
        split = None
        if self.split is not None:
            split = self.split.part(rows)
            split.forget()
        return DeviceTally.of(self.edges[rows], split)

    def forget(self) -> None:
        """Begin anew."""
        for table in (self.less, self.equal, self.bins):
            table.zero_()
        if self.split is not None:
            self.split.forget()

    def replace(self, rows: Any, other: DeviceTally) -> None:
        """Take these rows' counts from another tally of the same thresholds."""
        self.less[rows], self.equal[rows], self.bins[rows] = other.less, other.equal, other.bins

    def take_out(self, query: Any, distance: Any) -> None:
        """Take excluded pairs out again, which have been counted like any other."""
        step = max(1, COMPARISONS // self.edges.shape[1])
        for start in range(0, len(query), step):
            some = query[start : start + step]
            d = distance[start : start + step, None]
            edges = self.edges[some]
            self.less.index_add_(0, some, (d < edges).to(torch.int32), alpha=-1)
            self.equal.index_add_(0, some, (d == edges).to(torch.int32), alpha=-1)

    def tie_groups(self, graded: Any, candidates: Any, *, distances: bool = False) -> TieGroups:
        """Tie groups once the whole gallery is counted; with their distances if asked for."""
        held = self.edges != NOTHING
        place = torch.nonzero(held.flatten()).flatten()
        nearer = self.less + torch.cumsum(self.bins, 1, dtype=torch.int32)[:, :-1]
        before, size = nearer.flatten()[place], self.equal.flatten()[place]
        if bool(((size < graded.sum(1)) | (before < 0)).any()):
            raise ExactnessError(
                "a relevant item was not met at its own exact distance: the matrix product of this "
                "GPU is not exact in float64; use device='cpu'."
            )
        offsets = np.zeros(len(held) + 1, np.int64)
        offsets[1:] = fetched(torch.cumsum(held.sum(1), 0))
        before, size = fetched(torch.stack([before, size]).long())
        groups = (offsets, before, size, fetched(graded.to(torch.int32)), fetched(candidates))
        if not distances:
            return TieGroups(*groups)
        return LocatedGroups(*groups, fetched(self.edges.flatten()[place]))
