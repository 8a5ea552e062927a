"""Folds of the units: which of them leave together, with their queries and gallery items.

A unit is what could have been another one: a class of some level of the labels, or a query where
there are no labels. Up to `MOST_SINGLY` units are left out one by one. More are dealt into folds,
in one or two ways: in an order made of the embeddings, so that renaming labels or moving rows
cannot move an interval; and in the order of the labels' names, which all models of a task share,
so that their replicates form pairs. Ids, where they are given, make one order for both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core.replicates import Replicates
from truerank.wording import count

__all__ = [
    "FEWEST_CLASSES",
    "FEWEST_FOLDS",
    "KEY",
    "MOST_FOLDS",
    "MOST_SINGLY",
    "PAIRED_FOLDS",
    "FoldAssignment",
    "GalleryFolds",
    "random_numbers",
    "why_too_few",
]

Integers = npt.NDArray[np.int64]
Counters = npt.NDArray[np.integer]

FEWEST_CLASSES = 10
"""With fewer classes than this an interval would rest on too few independent observations."""
MOST_SINGLY = 1000
"""Up to so many units each is left out; only what counts in large tables makes folds of fewer."""
FEWEST_FOLDS = 200
"""Up to so many units each is left out whatever it costs."""
MOST_FOLDS = 560
"""Folds of more units. As what they contribute adds up, the variance is the mean over all deals of
them into 20 larger folds, and as stable as that over 28 deals of 20 folds of units."""
PAIRED_FOLDS = 440
"""Folds by name, where those by embeddings are others: together as many as units left out singly.
Other names make other folds, so they are many, and a test's p hardly moves."""
KEY = 0
"""Which units leave together, and which queries are sampled, follows the data alone: with a seed of
the user's, an interval's width would be a matter of luck, and models would not form pairs."""


@dataclass(frozen=True)
class GalleryFolds:
    """The gallery cut into folds, in one or more ways at once; the ways' columns are distinct."""

    item: npt.NDArray[np.int16]
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
        """The smallest integer type that counts a fold's items: these tables are large."""
        most = self.sizes.max()
        return np.uint8 if most < 1 << 8 else np.uint16 if most < 1 << 16 else np.uint32

    def candidates(self, queries: int, excluded: tuple[Integers, Integers]) -> Counters:
        """(queries, columns): the items of each column that a query can rank, all but the excluded
        pairs of a query and an item."""
        met = np.tile(self.sizes.astype(np.int32), (queries, 1))
        query, item = excluded
        for way in self.item[item].T:
            np.subtract.at(met, (query, way), 1)
        return met


@dataclass(frozen=True)
class FoldAssignment:
    """Which fold each unit, and so each query and each gallery item, belongs to."""

    orders: tuple[Integers, ...]
    """The units in the order of their embeddings and in that of their names, or in one order for
    both where ids give it; those with a query that counts come first."""
    classes: int
    """Units with a query that counts."""
    query_codes: Integers
    gallery_codes: Integers
    priority: npt.NDArray[np.uint64]
    """A random number for each query; a sample is made of the smallest."""
    most: int
    """Most columns."""

    @cached_property
    def singly(self) -> bool:
        """Whether each unit is a fold of its own."""
        return len(self.orders[0]) <= self.most

    @cached_property
    def _ways(self) -> list[tuple[Integers, int]]:
        """The fold of each unit and the number of folds, in each way."""
        if self.singly:
            order = np.sort(self.orders[-1])
            fold = np.zeros(self._units, np.int64)
            fold[order] = np.arange(len(order))
            return [(fold, len(order))]
        if len(self.orders) == 1:
            folds = min(self.most, MOST_FOLDS)
            return [(self.deal(self.orders[0], folds), folds)]
        most = min(self.most, MOST_FOLDS + PAIRED_FOLDS)
        paired = max(most // 4, most - MOST_FOLDS)
        numbers = (most - paired, paired)
        return [
            (self.deal(order, folds), folds)
            for order, folds in zip(self.orders, numbers, strict=True)
        ]

    @property
    def _units(self) -> int:
        return max(int(codes.max(initial=-1)) for codes in (*self.orders, self.query_codes)) + 1

    def deal(self, order: Integers, folds: int) -> Integers:
        """The fold of each unit: consecutive ones go to different folds, those that count first."""
        fold = np.zeros(self._units, np.int64)
        numbers = random_numbers(KEY, len(order) + 2 * folds)
        taken = 0
        for part in (order[: self.classes], order[self.classes :]):
            for start in range(0, len(part), folds):
                places = np.argsort(numbers[taken : taken + folds], kind="stable")
                some = part[start : start + folds]
                fold[some] = places[: len(some)]
                taken += len(some)
        return fold

    def up_to(self, most: int) -> FoldAssignment:
        """The same units in at most so many columns, but no fewer than `FEWEST_FOLDS`."""
        return replace(self, most=max(most, FEWEST_FOLDS))

    def coarser(self, most: int) -> FoldAssignment:
        """The same, and no more columns than there are."""
        return self.up_to(min(self.most, most))

    @cached_property
    def columns(self) -> int:
        """Folds of all ways together."""
        return sum(folds for _, folds in self._ways)

    @property
    def own(self) -> slice:
        """The columns that a score's own interval is made of."""
        return slice(0, self._ways[0][1])

    @property
    def own_query(self) -> Integers:
        """The column of each query among its own ones."""
        return self.query[:, 0]

    @property
    def paired(self) -> slice:
        """The columns that all models of a task have in common."""
        return slice(self.columns - self._ways[-1][1], self.columns)

    @cached_property
    def of_unit(self) -> Integers:
        """(units, ways): the columns of each unit."""
        start = np.cumsum([0, *(folds for _, folds in self._ways)])
        return np.column_stack(
            [fold + at for (fold, _), at in zip(self._ways, start, strict=False)]
        )

    def gallery(self, queries: npt.NDArray[np.bool_]) -> GalleryFolds:
        """The columns of each gallery item, for these queries."""
        return GalleryFolds(self.items, self.columns, queries)

    @property
    def takes_items(self) -> bool:
        """Whether a fold leaves the gallery as well: in leave-one-out, where labels name it."""
        return len(self.gallery_codes) > 0

    @cached_property
    def items(self) -> npt.NDArray[np.int16]:
        """(items, ways): the columns of each gallery item in leave-one-out."""
        return self.of_unit[self.gallery_codes].astype(np.int16)

    @cached_property
    def query(self) -> Integers:
        """(queries, ways): the columns of each query, which leaves with its fold."""
        return self.of_unit[self.query_codes]

    def replicates(self, values: npt.NDArray[np.float64]) -> tuple[Replicates, Replicates]:
        """A score without each of the own and of the paired folds, from one for each column."""
        own, paired = (tuple(values[part].tolist()) for part in (self.own, self.paired))
        return Replicates(own), Replicates(paired)

    def sample(self, rows: Integers, count: int) -> Integers:
        """A sample of `count` of these queries, the same whatever the order of rows."""
        priority = self.priority[rows]
        if 0 < count < len(rows):
            rows = rows[priority <= np.partition(priority, count - 1)[count - 1]]
        return np.sort(self.in_order(rows)[:count])

    def in_order(self, rows: Integers) -> Integers:
        """These queries in the order in which samples take them."""
        priority = self.priority[rows]
        order = np.argsort(priority)
        ordered = priority[order]
        if (ordered[1:] == ordered[:-1]).any():  # rows may be equal
            order = np.lexsort((self.query_codes[rows], priority))
        return rows[order]


def random_numbers(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """Raw output of the Philox generator, whose definition no version of numpy can change."""
    return np.random.Philox(key=seed).random_raw(count)


def why_too_few(classes: int, unit: str, fewest: int, of: str = "") -> str:
    """Why an interval needs more independent observations; `of` names their level.

    Examples
    --------
    >>> why_too_few(10, "query", 30)
    '10 queries that count; an interval needs at least 30'
    """
    counting = "with a query that counts"
    if unit != "class":
        counting = "that counts" if classes == 1 else "that count"
    return f"{count(classes, unit)}{of} {counting}; an interval needs at least {fewest}"
