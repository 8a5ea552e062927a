"""Classes dealt into twenty random shares, which the delete-group jackknife removes one at a time.

Twice: once in an order made of the embeddings themselves, so that renaming labels or moving rows
cannot move an interval; once in the order of the labels' names, which is the same for every model
of a task, so that two models' replicates form pairs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FEWEST_CLASSES, Dealing
from truerank.space import Space
from truerank.space.fingerprint import Fingerprints, mix
from truerank.task import TaskRules

__all__ = ["MOST_SHARES", "Dealing", "deal", "deal_queries", "random_numbers"]

Integers = npt.NDArray[np.int64]

MOST_SHARES = 20
PAIRED_SEED = 0
"""The shares by name do not follow the user's seed: results to be compared must have the same."""


def random_numbers(seed: int, count: int) -> Fingerprints:
    """Raw output of the Philox generator, whose definition no version of numpy can change."""
    return np.random.Philox(key=seed).random_raw(count)


def deal(
    task: TaskRules, space: Space, counted: npt.NDArray[np.bool_], seed: int
) -> Dealing | None:
    """Deal the classes of a leave-one-out task; None if too few have a query that counts.

    Classes of similar size are dealt together, one to each share, so that all shares hold about as
    many rows: the truth is an expectation over new classes of the same sizes.
    """
    rows = mix(space.fingerprints() + mix(task.mates + 1))
    # equal classes are told apart by the nodes above them
    levels = [level.codes[0] for level in task.named_levels.columns]
    return _dealing(rows, task.query_codes, task.gallery_codes, levels, counted, seed)


def deal_queries(
    rows: Fingerprints, units: Integers, counted: npt.NDArray[np.bool_], seed: int
) -> Dealing | None:
    """Deal the queries of a gallery of its own by their units, which stays as it is.

    `rows` is a number for each query that tells what it is asked of which items.
    """
    return _dealing(rows, units, np.empty(0, np.int64), [units], counted, seed)


def _dealing(
    rows: Fingerprints,
    codes: Integers,
    gallery_codes: Integers,
    levels: list[Integers],
    counted: npt.NDArray[np.bool_],
    seed: int,
) -> Dealing | None:
    count = int(codes.max()) + 1
    size = np.bincount(codes, minlength=count)
    alive = np.bincount(codes[counted], minlength=count) > 0
    classes = int(alive.sum())
    if classes < FEWEST_CLASSES:
        return None
    shares = min(MOST_SHARES, classes)
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
    own, paired = (order[size[order] > 0] for order in orders)  # some have items alone
    return Dealing(
        _deal(own, count, classes, shares, seed),
        _deal(paired, count, classes, shares, PAIRED_SEED),
        shares,
        classes,
        codes,
        gallery_codes,
        mix(mix(rows + prints[-1][codes]) + key),
    )


def _deal(order: Integers, count: int, alive: int, shares: int, seed: int) -> Integers:
    """Consecutive classes go to different shares; those that count are dealt by themselves."""
    share = np.zeros(count, np.int64)
    numbers = random_numbers(seed, len(order) + 2 * shares)
    taken = 0
    for part in (order[:alive], order[alive:]):
        for start in range(0, len(part), shares):
            places = np.argsort(numbers[taken : taken + shares], kind="stable")
            some = part[start : start + shares]
            share[some] = places[: len(some)]
            taken += len(some)
    return share
