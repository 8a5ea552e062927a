"""Fold assignment: classes go to twenty random folds, which the jackknife removes one at a time.

There are two assignments: one in an order made of the embeddings themselves, so that renaming
labels or moving rows cannot move an interval; one in the order of the labels' names, which is the
same for every model of a task, so that two models' replicates form pairs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FEWEST_CLASSES, FoldAssignment
from truerank.space import Space
from truerank.space.fingerprint import Fingerprints, mix
from truerank.task import TaskRules

__all__ = ["MOST_FOLDS", "FoldAssignment", "deal", "deal_queries", "random_numbers"]

Integers = npt.NDArray[np.int64]

MOST_FOLDS = 20
PAIRED_SEED = 0
"""The folds by name do not follow the user's seed: results to be compared must have the same."""


def random_numbers(seed: int, count: int) -> Fingerprints:
    """Raw output of the Philox generator, whose definition no version of numpy can change."""
    return np.random.Philox(key=seed).random_raw(count)


def deal(
    task: TaskRules, space: Space, counted: npt.NDArray[np.bool_], seed: int
) -> FoldAssignment | None:
    """Assign the classes of a leave-one-out task to folds; None if too few of them count.

    Classes of similar size go to different folds, so that all folds hold about as
    many rows: the truth is an expectation over new classes of the same sizes.
    """
    rows = mix(space.fingerprints() + mix(task.mates + 1))
    # classes with equal contents differ in the nodes above them
    levels = [level.codes[0] for level in task.named_levels.columns]
    return _folds(rows, task.query_codes, task.gallery_codes, levels, counted, seed)


def deal_queries(
    rows: Fingerprints,
    units: Integers,
    counted: npt.NDArray[np.bool_],
    seed: int,
    most: int = MOST_FOLDS,
) -> FoldAssignment | None:
    """Assign queries to folds by their units; the gallery is of its own and stays as it is.

    `rows` is a number for each query, made of its content and of its mates.
    """
    return _folds(rows, units, np.empty(0, np.int64), [units], counted, seed, most)


def _folds(
    rows: Fingerprints,
    codes: Integers,
    gallery_codes: Integers,
    levels: list[Integers],
    counted: npt.NDArray[np.bool_],
    seed: int,
    most: int = MOST_FOLDS,
) -> FoldAssignment | None:
    count = int(codes.max()) + 1
    size = np.bincount(codes, minlength=count)
    alive = np.bincount(codes[counted], minlength=count) > 0
    classes = int(alive.sum())
    if classes < FEWEST_CLASSES:
        return None
    folds = min(most, classes)
    prints = []
    for level in levels:
        total = np.zeros(int(level.max()) + 1, np.uint64)
        np.add.at(total, level, rows)
        of_class = np.zeros(count, np.uint64)
        of_class[codes] = total[level]
        prints.append(of_class)
    names = np.arange(count)
    key = random_numbers(seed, 1)[0]
    orders = [np.lexsort((*by, size, ~alive)) for by in (prints, [names])]
    own, paired = (order[size[order] > 0] for order in orders)  # some classes have no query
    return FoldAssignment(
        _deal(own, count, classes, folds, seed),
        _deal(paired, count, classes, folds, PAIRED_SEED),
        folds,
        classes,
        codes,
        gallery_codes,
        mix(mix(rows + prints[-1][codes]) + key),
    )


def _deal(order: Integers, count: int, alive: int, folds: int, seed: int) -> Integers:
    """The fold of each class: consecutive ones go to different folds, those that count first."""
    fold = np.zeros(count, np.int64)
    numbers = random_numbers(seed, len(order) + 2 * folds)
    taken = 0
    for part in (order[:alive], order[alive:]):
        for start in range(0, len(part), folds):
            places = np.argsort(numbers[taken : taken + folds], kind="stable")
            some = part[start : start + folds]
            fold[some] = places[: len(some)]
            taken += len(some)
    return fold
