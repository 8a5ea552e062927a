"""Folds of the classes: which classes leave together, with their queries and gallery items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from truerank.wording import count

__all__ = ["FEWEST_CLASSES", "FoldAssignment", "GalleryFolds", "why_too_few"]

Integers = npt.NDArray[np.int64]

FEWEST_CLASSES = 10
"""With fewer classes than this an interval would rest on too few independent observations."""


@dataclass(frozen=True)
class GalleryFolds:
    """The gallery cut into folds, in one or more ways at once; the ways' columns are distinct."""

    item: npt.NDArray[np.uint8]
    """(items, ways): the column of each item's fold in each way."""
    columns: int
    queries: npt.NDArray[np.bool_]
    """Which queries' tie groups are to be split; those of other queries are left at zero."""

    @cached_property
    def sizes(self) -> Integers:
        """Items of each column."""
        return np.bincount(self.item.ravel(), minlength=self.columns)

    @property
    def dtype(self) -> type:
        """The integer type that counts a fold's items; 16 bits, where they do, halve the memory."""
        return np.uint16 if self.sizes.max() < 1 << 16 else np.uint32

    def candidates(self, queries: int, excluded: tuple[Integers, Integers]) -> Integers:
        """(queries, columns): the items of each column that a query can rank, all but the excluded
        pairs of a query and an item."""
        met = np.tile(self.sizes, (queries, 1))
        query, item = excluded
        for way in self.item[item].T:
            np.subtract.at(met, (query, way), 1)
        return met


@dataclass(frozen=True)
class FoldAssignment:
    """Which fold each class, and so each query and each gallery item, belongs to."""

    own: Integers
    """Fold of each class, assigned in the order of the embeddings."""
    paired: Integers
    """Fold of each class, assigned in the order of the names."""
    count: int
    classes: int
    """Classes with a query that counts."""
    query_codes: Integers
    gallery_codes: Integers
    priority: npt.NDArray[np.uint64]
    """A random number for each query; a sample is made of the smallest."""

    def gallery(self, queries: npt.NDArray[np.bool_]) -> GalleryFolds:
        """The columns of each gallery item, its own fold and the paired one, for these queries."""
        return GalleryFolds(self.items, 2 * self.count, queries)

    @property
    def takes_items(self) -> bool:
        """Whether a fold leaves the gallery as well: in leave-one-out, where labels name it."""
        return len(self.gallery_codes) > 0

    @cached_property
    def items(self) -> npt.NDArray[np.uint8]:
        """(items, 2): the columns of each gallery item in leave-one-out."""
        return self._columns(self.gallery_codes).astype(np.uint8)

    @cached_property
    def query(self) -> Integers:
        """(queries, 2): the columns of each query, which leaves with its fold."""
        return self._columns(self.query_codes)

    def sample(self, rows: Integers, count: int) -> Integers:
        """A sample of `count` of these queries, the same whatever the order of rows."""
        order = np.argsort(self.priority[rows], kind="stable")
        return np.sort(rows[order[:count]])

    def _columns(self, codes: Integers) -> Integers:
        return np.column_stack([self.own[codes], self.count + self.paired[codes]])


def why_too_few(classes: int, unit: str, fewest: int) -> str:
    """Why an interval needs more independent observations.

    Examples
    --------
    >>> why_too_few(10, "query", 30)
    '10 queries that count; an interval needs at least 30'
    """
    counting = "with a query that counts"
    if unit != "class":
        counting = "that counts" if classes == 1 else "that count"
    return f"{count(classes, unit)} {counting}; an interval needs at least {fewest}"
