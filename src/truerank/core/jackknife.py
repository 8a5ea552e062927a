"""The delete-group jackknife: scores without each fold of the units, as queries and as gallery.

Without a fold, a score loses the fold's queries, and the others move because the fold is gone
from the gallery. The first is known of every query; the second is measured on a sample of queries
(all of them, where that is cheap), whose own noise is taken out of the variance. Sums are taken in
integers, so that they do not depend on the order of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank.core.replicates import Replicates
from truerank.jit import kernel

if TYPE_CHECKING:
    from truerank.core.folds import FoldAssignment

__all__ = [
    "AT_A_TIME",
    "COARSE",
    "ONE",
    "ChangeSums",
    "Staying",
    "Stratum",
    "add_row",
    "add_whole",
    "fixed",
    "left",
    "moved",
    "replicates",
]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
ONE = 2.0**40
"""Values are summed in units of 2^-40, their squares in units of the square of 2^-22."""
COARSE = 2.0**22
AT_A_TIME = 256
"""So many values, or squares, of at most 1 add up in a float64 without rounding."""


class ChangeSums:
    """How queries move without each fold, added up from any threads in any order."""

    def __init__(self, columns: int) -> None:
        self._sums: Integers = np.zeros((6, columns), np.int64)
        self._lock = Lock()

    def add(self, change: Reals, mine: Integers, weights: Reals) -> None:
        """Add the changes of some queries (NaN: no mate left), which leave with columns `mine`."""
        total, sums = np.zeros_like(self._sums), np.zeros(self._sums.shape)
        _add_rows(change, mine, weights, bool((weights == 1.0).all()), sums, total)
        self.take(total)

    def __reduce__(self) -> tuple[Any, ...]:
        return ChangeSums, (self._sums.shape[1],)

    @property
    def total(self) -> Integers:
        """What was added up so far, which another one can `take`."""
        return self._sums.copy()

    def take(self, total: Integers) -> None:
        """Add what another one has added up."""
        with self._lock:
            self._sums += total

    def centre(self, population: Integers) -> tuple[Reals, Reals]:
        """Weighted mean change without each fold, and its variance as the mean of a sample."""
        count = self._sums[0]
        whole, moved, heavy, cross = self._sums[1:5] / ONE
        squares = self._sums[5] / COARSE**2
        total = np.where(whole == 0.0, 1.0, whole)
        centre = moved / total
        around = np.maximum(squares - centre * (2 * cross - centre * heavy), 0.0)
        unseen = np.clip(1.0 - count / np.maximum(population, 1), 0.0, 1.0)
        variance = unseen * count / np.maximum(count - 1, 1) * around / total**2
        return centre, variance


@dataclass(frozen=True)
class Stratum:
    """Queries of one kind, and how some of them move without each fold."""

    rows: Integers
    changes: ChangeSums


def fixed(values: Reals) -> Integers:
    """Values in units of 2^-40, so that their sums do not depend on an order."""
    return np.rint(values * ONE).astype(np.int64)


@dataclass(frozen=True)
class Staying:
    """Some queries without each fold: what those weigh that stay, and how many they are."""

    weight: Reals
    count: Integers

    @staticmethod
    def of(folds: FoldAssignment, rows: Integers, weight: Reals) -> Staying:
        """Of queries that leave with their folds; `weight` has an entry for every query."""
        gone, mine = np.zeros(folds.columns, np.int64), weight[rows]
        _count_of_folds(rows, folds.query, gone)
        count = len(rows) - gone
        if (mine == 1.0).all():
            return Staying(count.astype(np.float64), count)
        return Staying(left(mine, folds.query, folds.columns, rows), count)


def replicates(
    folds: FoldAssignment,
    rows: Integers,
    values: Reals | None,
    strata: list[Stratum],
    weight: Reals,
    sums: Integers | None = None,
) -> tuple[Replicates, Replicates]:
    """Replicates over the own and over the paired folds, from the queries that count.

    `values` are those of `rows`; `weight` has an entry for every query. Where values differ from
    fold to fold, `sums` has the weighted ones of the queries that stay, added up by `fixed`.
    """
    if values is not None:
        base = left(weight[rows] * values, folds.query, folds.columns, rows)
    else:
        assert sums is not None
        base = sums / ONE
    parts = [(Staying.of(folds, one.rows, weight), one.changes) for one in strata]
    return moved(folds, base, Staying.of(folds, rows, weight), parts)


def moved(
    folds: FoldAssignment, base: Reals, whole: Staying, parts: list[tuple[Staying, ChangeSums]]
) -> tuple[Replicates, Replicates]:
    """Replicates from the weighted sums of the queries that stay, and from how parts of them move
    because each fold is gone from the gallery."""
    without = base / whole.weight
    change = np.zeros(folds.columns)
    noise = np.zeros(folds.columns)
    for part, changes in parts:
        share = part.weight / whole.weight
        centre, variance = changes.centre(part.count)
        change += share * centre
        noise += share * share * variance
    without = without + change

    def replicated(columns: slice) -> Replicates:
        found = without[columns]
        spread = math.fsum(noise[columns]) * (len(found) - 1) / len(found)
        return Replicates(tuple(found.tolist()), spread)

    return replicated(folds.own), replicated(folds.paired)


def left(values: Reals, own: Integers, columns: int, rows: Integers | None = None) -> Reals:
    """Sums over the queries that stay when each fold leaves; they leave with columns `own`.

    `rows` are the places in `own` that the values belong to, if they are not all of them.
    """
    places = np.arange(len(values)) if rows is None else rows
    halves = np.zeros((2, columns + 1), np.int64)
    _sum_of_folds(values, places, own, halves)
    high, low = halves[:, -1:] - halves[:, :-1]
    if np.abs(high).max(initial=0) < 1 << 30:
        return np.asarray(((high << 32) + low) / ONE, np.float64)
    # from some eight million values of 1 on, sums of whole ones outgrow 64 bits
    whole = zip(high.tolist(), low.tolist(), strict=True)
    return np.array([float((top << 32) + rest) for top, rest in whole]) / ONE


@kernel
def _count_of_folds(rows: Any, own: Any, out: Any) -> None:
    for row in rows:
        for way in range(own.shape[1]):
            out[own[row, way]] += 1


@kernel
def _sum_of_folds(values: Any, rows: Any, own: Any, out: Any) -> None:
    """Add up the high and the low 32 bits of `fixed` values by column; of all, in the last one."""
    last = out.shape[1] - 1
    for place in range(rows.size):
        steps = np.int64(np.rint(values[place] * ONE))
        high = steps >> 32
        low = steps & 0xFFFFFFFF
        out[0, last] += high
        out[1, last] += low
        for way in range(own.shape[1]):
            column = own[rows[place], way]
            out[0, column] += high
            out[1, column] += low


@kernel
def add_row(values: Any, before: float, mine: Any, weight: float, alike: bool, sums: Any) -> None:
    """Add how far a query's values without each fold lie from the one `before`: its number,
    weight, weighted change, squared weight and its products with the change and its square, where
    the query stays. These are whole numbers, in float64 so that columns are vectors; at most
    AT_A_TIME queries are added to them.

    `values` are written over. Where all queries weigh 1 `alike`, add_whole fills in the rest.
    """
    columns = values.size
    for column in range(columns):
        values[column] -= before
    for way in range(mine.size):
        values[mine[way]] = np.nan
    if alike:
        for column in range(columns):
            stays = values[column] == values[column]
            moved = values[column] if stays else 0.0
            steps = np.rint(moved * COARSE)
            sums[0, column] += 1.0 if stays else 0.0
            sums[2, column] += np.rint(moved * ONE)
            sums[5, column] += steps * steps
        return
    unit = np.rint(weight * ONE)
    heavy = np.rint(weight * weight * ONE)
    for column in range(columns):
        stays = values[column] == values[column]
        here = 1.0 if stays else 0.0
        moved = weight * values[column] if stays else 0.0
        steps = np.rint(moved * COARSE)
        sums[0, column] += here
        sums[1, column] += here * unit
        sums[2, column] += np.rint(moved * ONE)
        sums[3, column] += here * heavy
        sums[4, column] += np.rint(weight * moved * ONE)
        sums[5, column] += steps * steps


@kernel
def add_whole(sums: Any, alike: bool, total: Any) -> None:
    """Add what at most AT_A_TIME calls of add_row have added up to sums of any number, and take it
    off there."""
    for column in range(total.shape[1]):
        if alike:
            sums[1, column] = sums[3, column] = sums[0, column] * ONE
            sums[4, column] = sums[2, column]
        for i in range(6):
            total[i, column] += np.int64(sums[i, column])
            sums[i, column] = 0.0


@kernel
def _add_rows(change: Any, mine: Any, weights: Any, alike: bool, sums: Any, total: Any) -> None:
    row = np.empty(change.shape[1])
    for query in range(change.shape[0]):
        for column in range(row.size):
            row[column] = change[query, column]
        add_row(row, 0.0, mine[query], weights[query], alike, sums)
        if query % AT_A_TIME == AT_A_TIME - 1:
            add_whole(sums, alike, total)
    add_whole(sums, alike, total)
