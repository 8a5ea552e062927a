"""Jackknife groups of the queries and items of one evaluation, for each of its sampling units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.settings import current_limits
from truerank._util.types import Flags, Integers
from truerank.core.jackknife import (
    FEWEST_CLASSES,
    KEY,
    MOST_SINGLY,
    FoldAssignment,
    GalleryFolds,
    random_numbers,
)
from truerank.distance.base import Space
from truerank.distance.digests import Fingerprints, mix
from truerank.task.labels import Encoded
from truerank.task.task import TaskRules, Unit

# Fold assignment: the units of an evaluation, in the orders in which they go to folds.


_FIRST = random_numbers(KEY, 1)[0]


def deal(
    task: TaskRules, space: Space, unit: Unit, counted: npt.NDArray[np.bool_]
) -> FoldAssignment | None:
    """Assign the units of a leave-one-out task to folds; None if too few of them count.

    Units of similar size go to different folds, so that all folds hold about as many rows: the
    truth is an expectation over new units of the same sizes.
    """
    rows = mix(space.fingerprints() + mix(task.n_relevant + 1))
    query, gallery = unit.codes(task)
    # units with equal contents differ in the nodes above them, rows in those of their own
    above = [code for code, _ in (over.codes(task) for over in unit.above(task))]
    own = [level.codes[0] for level in task.named_levels.columns]
    return _folds(rows, query, gallery, above, own[-1], task.id_names, counted)


def deal_queries(
    rows: Fingerprints,
    units: Integers,
    counted: npt.NDArray[np.bool_],
    ids: Encoded | None = None,
) -> FoldAssignment | None:
    """Assign queries to folds by their units; the gallery is of its own and stays as it is.

    `rows` is a number for each query, made of its content and of its mates.
    """
    nothing = np.empty(0, np.int64)
    return _folds(rows, units, nothing, [units], units, ids, counted)


def _folds(
    rows: Fingerprints,
    codes: Integers,
    gallery_codes: Integers,
    levels: list[Integers],
    finest: Integers,
    ids: Encoded | None,
    counted: npt.NDArray[np.bool_],
) -> FoldAssignment | None:
    count = int(codes.max()) + 1
    size = np.bincount(codes, minlength=count)
    alive = np.bincount(codes[counted], minlength=count) > 0
    classes = int(alive.sum())
    if classes < FEWEST_CLASSES:
        return None
    prints = []
    for level in levels:
        of_class = np.zeros(count, np.uint64)
        of_class[codes] = _totals(rows, level)[level]
        prints.append(of_class)
    names = np.arange(count)
    keys: list[list[npt.NDArray[Any]]] = [[*prints], [names]]
    numbered = None if ids is None else _ranks(ids)
    if numbered is not None:
        first = np.full(count, len(ids.values) if ids is not None else 0)
        np.minimum.at(first, codes, numbered)
        if len(np.unique(first[size > 0])) == np.count_nonzero(size):
            keys = [[first]]
    orders = [np.lexsort((*by, size, ~alive)) for by in keys]
    orders = [order[size[order] > 0] for order in orders]  # some classes have no query
    mine = mix(rows + _totals(rows, finest)[finest])
    if numbered is not None and len(np.unique(numbered)) == len(numbered):
        mine = mix(numbered.astype(np.uint64))
    return FoldAssignment(
        tuple(orders), classes, codes, gallery_codes, mix(mine + _FIRST), MOST_SINGLY
    )


def _totals(rows: Fingerprints, level: Integers) -> Fingerprints:
    """The sum of the numbers of each node's rows."""
    total = np.zeros(int(level.max()) + 1, np.uint64)
    np.add.at(total, level, rows)
    return total


def _ranks(ids: Encoded) -> Integers:
    """The place of each query's id among all ids in order, whatever the order of rows."""
    text = [repr(value) for value in ids.values]
    rank = np.empty(len(text), np.int64)
    rank[sorted(range(len(text)), key=text.__getitem__)] = np.arange(len(text))
    return rank[ids.codes[0]]


# The folds of several units of intervals side by side.


MOST_COUNTED = 1 << 16
"""An eighth of the queries with few mates is counted by fold, but, without limits, no more."""
MOST_CELLS, LEAST_COUNTED = 6_000_000, 512
"""Most mates x folds of the queries counted by fold; and queries that are counted all the same."""


def most_counted(mates: Integers, units: int) -> int:
    """How many queries are counted by fold, of those that have so many mates each."""
    count = max(current_limits().counted, min(len(mates) // 8, MOST_COUNTED))
    average = float(mates.mean()) if len(mates) else 1.0
    return min(count, max(LEAST_COUNTED, int(MOST_CELLS / average / min(units, MOST_SINGLY))))


@dataclass(frozen=True)
class FoldSets:
    """The folds of several units side by side, as columns of one table."""

    folds: dict[Unit, FoldAssignment]

    @property
    def columns(self) -> int:
        """The columns of all units together."""
        return sum(folds.columns for folds in self.folds.values())

    def of(self, unit: Unit) -> slice:
        """The columns of one unit."""
        start = 0
        for other, folds in self.folds.items():
            if other == unit:
                return slice(start, start + folds.columns)
            start += folds.columns
        raise KeyError(unit)

    def gallery(self, queries: Flags) -> GalleryFolds:
        """The folds by which the engine is to count, for these queries."""
        ways = [folds.items + self.of(unit).start for unit, folds in self.folds.items()]
        item = np.ascontiguousarray(np.hstack(ways).astype(np.int16))
        return GalleryFolds(item, self.columns, queries)

    def some(self, units: set[Unit]) -> FoldSets:
        """The folds of some of the units."""
        return FoldSets({unit: folds for unit, folds in self.folds.items() if unit in units})

    def sample(self, rows: Integers, count: int) -> Integers:
        """A sample of these queries; what units there are does not matter."""
        return next(iter(self.folds.values())).sample(rows, count)

    def in_order(self, rows: Integers) -> Integers:
        """These queries in the order in which samples take them."""
        return next(iter(self.folds.values())).in_order(rows)
