"""The classes' utilities over a range of thresholds, as step functions or brackets of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.engine.observers import PairObserver
from truerank.families.family import Positives
from truerank.families.opis import kernels as utility
from truerank.families.opis.classes import (
    ClassEvents,
    ClassTable,
    ClassTally,
    cells,
)
from truerank.families.opis.sampled import SampledNegatives
from truerank.space import Distances, Space
from truerank.task import TaskRules

__all__ = ["Events", "Formula", "Utilities", "measure_all", "measure_sampled"]

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
CELLS = 32
"""Cells that a thread walks through at a time; how many threads there are cannot be seen."""


Events = tuple[Integers, Reals, Flags]
"""Class and place of steps, and whether they are of a positive."""


@dataclass(frozen=True)
class Formula:
    """Which utility: its weight c^2, and precision instead of specificity."""

    square: float = 1.0
    precise: float = 0.0
    """0 for specificity; for precision, 1 over the number of times that a positive is counted."""


@dataclass(frozen=True)
class Utilities:
    """The utilities of classes between two thresholds, on the axis that is averaged over."""

    borders: Reals
    """Pieces reach from each border to the next."""
    spreads: Reals
    """Mean squared deviation of the classes' utilities on each piece."""
    errors: Reals
    """A bound of how far each spread is from the truth; zero where all is exact."""
    areas: Reals
    """(2, classes): bounds of each class's mean utility."""
    best: Reals
    """Highest utility of each class."""
    best_at: Distances
    """The distance from which each class has its highest utility."""
    table: ClassTable
    """Counts at the ends of the range, or at every cell."""
    cells: Reals
    """The borders of cells inside the range."""
    columns: tuple[int, int]
    """The first and the last column of the table that the cells use."""
    start: tuple[Integers, Integers]
    """Positives and negatives accepted at the start of the range (fewest negatives)."""
    events: Events | None = None
    """Every step of a class's counts, where all is exact."""


def measure_all(
    task: TaskRules,
    space: Space,
    positives: Positives,
    low: float,
    high: float,
    formula: Formula,
    *,
    exact: bool,
    seen: ClassTable | None,
    sweep: Callable[[list[PairObserver]], None],
    threads: int,
) -> Utilities | None:
    """Utilities between two distances; None if no class has positives and negatives.

    `seen` are counts on cells from an earlier pass; where they do not cover the range, or all is
    to be exact, another pass is made.
    """
    events = None
    if exact or seen is None or not (seen.cuts[0] <= low and high <= seen.cuts[-1]):
        classes = len(np.unique(task.query_codes))
        cuts = np.array([low, high]) if exact else cells(low, high, classes)
        tally = ClassTally(task, positives, cuts)
        observers: list[PairObserver] = [tally.tally]
        if exact:
            events = ClassEvents(task, low, high)
            observers.append(events)
        sweep(observers)
        seen = tally.table(threads=threads)
    if not len(seen.classes):
        return None
    number = np.full(int(max(task.query_codes.max(), task.gallery_codes.max())) + 1, -1)
    number[seen.classes] = np.arange(len(seen.classes))
    inside = (positives.distance > low) & (positives.distance <= high)
    code = number[task.query_codes[positives.query[inside]]]
    distance = positives.distance[inside]
    if events is None:
        nearer = number[task.query_codes[positives.query[positives.distance <= low]]]
        kept = code >= 0
        steps = (code[kept], distance[kept], nearer)
        return _bracketed(seen, space, low, high, *steps, formula, threads)
    other, negative = events.events()
    codes = np.concatenate([code, number[other]])
    distances = np.concatenate([distance, negative])
    flags = np.arange(len(codes)) < len(code)
    kept = codes >= 0
    return _exact(seen, space, low, high, codes[kept], distances[kept], flags[kept], formula)


def measure_sampled(
    sample: SampledNegatives, space: Space, low: float, high: float, formula: Formula
) -> Utilities | None:
    """Utilities between two distances with sampled negatives, so few that all is exact."""
    table = sample.table(low, high)
    if not len(table.classes):
        return None
    number = np.full(int(sample.positive_code.max()) + 1, -1)
    number[table.classes] = np.arange(len(table.classes))
    inside = (sample.positives.distance > low) & (sample.positives.distance <= high)
    other, negative = sample.events(low, high)
    codes = number[np.concatenate([sample.positive_code[inside], other])]
    distances = np.concatenate([sample.positives.distance[inside], negative])
    flags = np.arange(len(codes)) < np.count_nonzero(inside)
    kept = codes >= 0
    return _exact(table, space, low, high, codes[kept], distances[kept], flags[kept], formula)


def _one(classes: int) -> float:
    return 2.0 ** min(50, 62 - classes.bit_length())


def _exact(
    table: ClassTable,
    space: Space,
    low: float,
    high: float,
    code: Integers,
    distance: Distances,
    positive: Flags,
    formula: Formula,
) -> Utilities:
    count = len(table.classes)
    order = np.lexsort((code, distance))
    at = space.linear(distance[order])
    start, end = (float(x) for x in space.linear(np.array([low, high])))
    spreads, borders = np.zeros(len(at) + 1), np.zeros(len(at) + 2)
    borders[0] = start
    areas, best, best_at = np.zeros(count), np.zeros(count), np.zeros(count)
    column = int(np.searchsorted(table.cuts, low))
    pieces = utility.exact(
        at, code[order], positive[order], table.positives[:, column].copy(),
        table.negatives[:, column].copy(), table.genuine, table.impostors,
        formula.square, formula.precise, _one(count),
        end, spreads, borders, areas, best, best_at,
    )  # fmt: skip
    borders[pieces] = end
    return Utilities(
        borders[: pieces + 1],
        spreads[:pieces],
        np.zeros(pieces),
        np.stack([areas, areas]) / (end - start),
        best,
        _back(best_at, np.append(start, at), np.append(low, distance[order])),
        table,
        np.array([start, end]),
        (column, column + 1),
        (table.positives[:, column], table.negatives[:, column]),
        (code[order], at, positive[order]),
    )


def _bracketed(
    table: ClassTable,
    space: Space,
    low: float,
    high: float,
    code: Integers,
    distance: Distances,
    nearer: Integers,
    formula: Formula,
    threads: int,
) -> Utilities:
    """`nearer` are the classes of the positives up to `low`; -1 is a class that is left out."""
    count = len(table.classes)
    true = _by_class(nearer, count)
    first = int(np.searchsorted(table.cuts, low, side="right")) - 1
    last = int(np.searchsorted(table.cuts, high, side="left"))
    raw = np.concatenate([[low], table.cuts[first + 1 : last], [high]])
    order = np.lexsort((code, distance))
    code, at, border = code[order], space.linear(distance[order]), space.linear(raw)

    def some(start: int) -> tuple[list[Reals], list[Reals]]:
        """A run of cells: its pieces, and what becomes of each class there."""
        stop = min(start + CELLS, len(border) - 1)
        before, after = np.searchsorted(at, border[[start, stop]])
        inside = slice(before, after)
        now = true + _by_class(code[:before], count)
        columns = (first + start, first + stop + 1)
        size = after - before + stop - start
        pieces = [np.zeros(size), np.zeros(size), np.zeros(size)]
        classes = [np.zeros((2, count)), np.zeros(count), np.zeros(count)]
        held = utility.bracketed(
            border[start : stop + 1], at[inside], code[inside], now,
            utility.turned(table.negatives, *columns), table.genuine, table.impostors,
            formula.square, formula.precise, _one(count), *pieces, *classes,
        )  # fmt: skip
        return [part[:held] for part in pieces], classes

    with ThreadPoolExecutor(threads) as pool:
        runs = list(pool.map(some, range(0, len(border) - 1, CELLS)))
    each = zip(*(pieces for pieces, _ in runs), strict=True)
    spreads, errors, borders = (np.concatenate(parts) for parts in each)
    areas, best, best_at = runs[0][1]
    for _, (more, highest, where) in runs[1:]:
        areas += more
        best_at = np.where(highest > best, where, best_at)
        best = np.maximum(best, highest)
    places = np.concatenate([border, at])
    raws = np.concatenate([raw, distance[order]])
    sorting = np.argsort(places, kind="stable")
    return Utilities(
        np.append(borders, border[-1]),
        spreads,
        errors,
        areas / (border[-1] - border[0]),
        best,
        _back(best_at, places[sorting], raws[sorting]),
        table,
        border,
        (first, last),
        (true, table.negatives[:, first]),
    )


def _by_class(code: Integers, count: int) -> Integers:
    """How many there are of each class; -1 is none of them."""
    return np.bincount(code[code >= 0], minlength=count)


def _back(at: Reals, places: Reals, distances: Distances) -> Distances:
    """The distances that stand at places on the axis; places and distances ascend together."""
    return np.asarray(distances[np.searchsorted(places, at)], np.float64)
