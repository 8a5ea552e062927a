"""Fold assignment: the units of an evaluation, in the orders in which they go to folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FEWEST_CLASSES, KEY, MOST_SINGLY, FoldAssignment, random_numbers
from truerank.labels import Encoded
from truerank.space import Space
from truerank.space.fingerprint import Fingerprints, mix
from truerank.stats.units import Unit
from truerank.task import TaskRules

__all__ = ["FoldAssignment", "deal", "deal_queries"]

Integers = npt.NDArray[np.int64]
_FIRST = random_numbers(KEY, 1)[0]


def deal(
    task: TaskRules, space: Space, unit: Unit, counted: npt.NDArray[np.bool_]
) -> FoldAssignment | None:
    """Assign the units of a leave-one-out task to folds; None if too few of them count.

    Units of similar size go to different folds, so that all folds hold about as many rows: the
    truth is an expectation over new units of the same sizes.
    """
    rows = mix(space.fingerprints() + mix(task.mates + 1))
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
