"""Counts by fold of the gallery, beside those of a tally, for the queries that want them.

The kernels that count an item for a query count it for the item's folds as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.core.folds import GalleryFolds
from truerank.engine.cuda.transfer import fetched

__all__ = ["COMPARISONS", "Splitting", "tables_of"]

COMPARISONS = 1 << 26
"""Comparisons of single pairs with thresholds that are made at a time."""


@dataclass(frozen=True)
class Splitting:
    """Tables of (queries to split, thresholds, columns), as a tally's `bins` and `equal`."""

    fold: Any
    """(items, ways): the columns of each item's folds."""
    place: Any
    """The place of each query of the block in the tables; -1 for those that are not split."""
    bins: Any
    equal: Any

    @staticmethod
    def of(fold: Any, columns: int, wanted: Any, thresholds: int) -> Splitting:
        """Tables with nothing counted yet."""
        place = torch.where(wanted, torch.cumsum(wanted, 0) - 1, -1).to(torch.int32)
        shape = (int(wanted.sum()), thresholds + 1, columns)
        bins = torch.zeros(shape, dtype=torch.int32, device=place.device)
        return Splitting(fold, place, bins, torch.zeros_like(bins[:, 1:].contiguous()))

    @property
    def columns(self) -> int:
        """The number of columns, in all ways together."""
        return int(self.bins.shape[2])

    @property
    def ways(self) -> int:
        """The number of ways in which the gallery is cut into folds."""
        return int(self.fold.shape[1])

    def part(self, rows: Any) -> Splitting:
        """A view of some of the queries: what is counted there is counted here."""
        return replace(self, place=self.place[rows])

    def items(self, start: int, stop: int) -> Splitting:
        """A view of the same tables for tiles that hold a range of items."""
        return replace(self, fold=self.fold[start:stop])

    @property
    def rows(self) -> Any:
        """The queries of the block that are split."""
        return torch.nonzero(self.place >= 0).flatten()

    def forget(self) -> None:
        """Set the counts of these queries to zero."""
        mine = self.place[self.rows].long()
        self.bins[mine] = 0
        self.equal[mine] = 0

    def take_out(self, query: Any, item: Any, distance: Any, edges: Any) -> None:
        """Take excluded pairs out again, which have been counted like any other."""
        query, item, distance = self._wanted(query, item, distance)
        step = max(1, COMPARISONS // edges.shape[1])
        for start in range(0, len(query), step):
            some = slice(start, start + step)
            mine, among = self.place[query[some]].long(), edges[query[some]]
            at = torch.searchsorted(among, distance[some, None]).flatten()
            same = (distance[some, None] == among).any(1)
            for way in self.fold.T:
                column = way[item[some]].long()
                _add(self.bins, (mine, at + same, column), -1)
                _add(self.equal, (mine[same], at[same], column[same]), -1)

    def counts(
        self,
        query: Any,
        item: Any,
        grade: Any,
        at: Any,
        edges: Any,
        grades: int,
        folds: GalleryFolds,
    ) -> npt.NDArray[Any]:
        """The table of truerank.core.groups.SplitGroups, once the whole gallery is counted.

        Relevant pairs lie at thresholds `at`.
        """
        query, item, grade, at = self._wanted(query, item, grade, at)
        mine = self.place[query].long()
        between = self.bins[:, :-1].clone()
        between[:, 1:] -= self.equal[:, :-1]
        relevant = torch.zeros((grades, *self.equal.shape), dtype=torch.int32, device=edges.device)
        for way in self.fold.T:
            _add(relevant, (grade - 1, mine, at, way[item].long()), 1)
        held = edges[self.rows] > -torch.inf
        table = torch.stack([between, self.equal, *relevant])[:, held]
        narrow = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
        wide = np.dtype(folds.dtype).itemsize
        return fetched(table.to(narrow[wide])).view(folds.dtype)

    def candidates(self, query: Any, item: Any, folds: GalleryFolds) -> npt.NDArray[np.int32]:
        """(split queries, columns): the items of each fold that they can rank, all but
        these excluded ones."""
        query, item = self._wanted(query, item)
        mine = self.place[query].long()
        sizes = torch.from_numpy(folds.sizes.astype(np.int32)).to(mine.device)
        met = sizes.repeat(len(self.bins), 1)
        for way in self.fold.T:
            _add(met, (mine, way[item].long()), -1)
        found: npt.NDArray[np.int32] = fetched(met)
        return found

    def _wanted(self, query: Any, *others: Any) -> tuple[Any, ...]:
        mine = self.place[query] >= 0
        return (query[mine], *(other[mine] for other in others))


def _add(table: Any, at: tuple[Any, ...], step: int) -> None:
    """Add to entries, which may come more than once: of integers no order shows.

    By their places in the whole table that is one launch; by several indices torch sorts them.
    """
    place = at[0]
    for size, index in zip(table.shape[1:], at[1:], strict=True):
        place = place * size + index
    table.view(-1).index_add_(0, place, torch.full_like(place, step, dtype=table.dtype))


def tables_of(split: Splitting | None) -> tuple[Any, Any, Any, Any]:
    """What kernels are given of a splitting."""
    if split is None:
        return None, None, None, None
    return split.fold, split.place, split.bins, split.equal
