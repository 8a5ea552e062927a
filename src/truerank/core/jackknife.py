"""Delete-group jackknife: groups of sampling units, sums of changes without each, replicates.

A sampling unit is a class of some level of the labels, or a query where there are no labels.
Few units are deleted one by one (up to MOST_SINGLY). More of them form jackknife groups, in one
or two assignments: one follows an order made of the embeddings, so that renaming labels or
permuting rows cannot change an interval; the other follows the order of the labels' names,
which all models of a task share, so that their replicates can be paired. Ids, where given, make
one order for both.

With a group deleted, a score loses the group's queries, and the other queries change because
the group is missing from the gallery. The first is known of every query; the second is measured
on a sample of queries (all of them where that is cheap), whose noise is subtracted from the
variance. Sums are taken in integers, so they do not depend on the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.text import count
from truerank._util.types import Integers, Reals
from truerank.core.sum_kernels import COARSE, ONE, _add_rows, _count_of_folds, _sum_of_folds

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
    """The gallery divided into jackknife groups, in one or more ways at once."""

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


# The delete-group jackknife: scores without each fold of the units, as queries and as gallery.


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


# Replicates: a score without each fold of the classes, and the error that they stand for.


@dataclass(frozen=True)
class Replicates:
    """A score without each fold; `noise` is what sampling adds to the sum of their squares."""

    values: tuple[float, ...]
    noise: float = 0.0

    @cached_property
    def _away(self) -> tuple[float, list[float]]:
        """How far the values lie from their mean, and the power of two that this is in units of.

        Of its size the squares neither overflow nor vanish, whatever unit a threshold has.
        """
        centre = math.fsum(self.values) / len(self.values)
        away = [value - centre for value in self.values]
        unit = math.ldexp(1.0, math.frexp(max(map(abs, away)))[1] - 1)
        return unit, [step / unit for step in away]

    @cached_property
    def _squared(self) -> list[float]:
        return [step**2 for step in self._away[1]]

    @cached_property
    def _squares(self) -> tuple[float, float]:
        """The sum of squares around the mean, with the sample's noise and without it.

        The noise is an estimate too: at least a quarter of what is seen is taken for real.
        """
        unit, seen = self._away[0], math.fsum(self._squared)
        return seen, max(seen - self.noise / unit / unit, seen / 4)

    def standard_error(self) -> float:
        """The standard error of the score that was computed with all folds."""
        count = len(self.values)
        return self._away[0] * math.sqrt((count - 1) / count * self._squares[1])

    @property
    def freedom(self) -> int:
        """Degrees of freedom, fewer where noise was taken out (Satterthwaite)."""
        seen, real = self._squares
        if seen == 0.0:
            return len(self.values) - 1
        return max(3, math.floor((len(self.values) - 1) * (real / seen) ** 2))

    @property
    def heavy_freedom(self) -> float:
        """Degrees of freedom, fewer still where a few folds move the score most.

        The variance of n squares of kurtosis k is that of 2n/(k - (n - 3)/(n - 1)) normal ones. It
        is no whole number: a few degrees more or less would widen an interval by leaps.
        """
        count = len(self.values)
        total = self._squares[0]
        if total == 0.0 or count < 4:
            return self.freedom
        kurtosis = count * math.fsum([(square / total) ** 2 for square in self._squared])
        worth = 2 * count / max(kurtosis - (count - 3) / (count - 1), 2 * count / (count - 1))
        return max(3.0, min(float(self.freedom), worth))

    def minus(self, other: Replicates) -> Replicates:
        """Replicates of a difference of two scores over the same folds."""
        pairs = zip(self.values, other.values, strict=True)
        return Replicates(tuple(a - b for a, b in pairs), self.noise + other.noise)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"values": list(self.values), "noise": self.noise}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Replicates:
        """The inverse of to_dict."""
        if "shares" in data:
            return DyadicReplicates.of(*([float(v) for v in data[n]] for n in ("values", "shares")))
        return Replicates(tuple(float(value) for value in data["values"]), float(data["noise"]))

    @staticmethod
    def mean(parts: list[Replicates]) -> Replicates:
        """Replicates of a mean of scores."""
        if len(parts) == 1:
            return parts[0]
        count = len(parts)
        if any(isinstance(part, DyadicReplicates) for part in parts):
            return DyadicReplicates.combined(parts, [1 / count] * count)
        columns = zip(*(part.values for part in parts), strict=True)
        noise = math.fsum(part.noise for part in parts) / count**2
        return Replicates(tuple(math.fsum(column) / count for column in columns), noise)


def squares(values: Sequence[float]) -> float:
    """The sum of squares around the mean; in any order it has the same bits."""
    centre = math.fsum(values) / max(len(values), 1)
    away = [value - centre for value in values]
    return math.fsum(step * step for step in away)


@dataclass(frozen=True)
class DyadicReplicates(Replicates):
    """Replicates over people, of a list of trials that belong to two people each.

    A trial of two people leaves with either, so its squares are seen twice: the noise is one of the
    two, measured without each share of these trials. Shares differ and average like scores do, as
    the noise does not: what two models have in common cancels in both.
    """

    shares: tuple[float, ...] = ()
    """The score without each share of the trials of two people."""

    @staticmethod
    def of(values: Sequence[float], shares: Sequence[float]) -> DyadicReplicates:
        """Replicates with the noise that the shares measure."""
        return DyadicReplicates(tuple(values), squares(shares), tuple(shares))

    @staticmethod
    def combined(parts: Sequence[Replicates], weights: Sequence[float]) -> DyadicReplicates:
        """Replicates of a weighted sum of scores on one list of trials."""
        both = []
        for name in ("values", "shares"):
            columns = zip(*(getattr(part, name) for part in parts), strict=True)
            both.append([math.fsum(map(mul, weights, column)) for column in columns])
        return DyadicReplicates.of(*both)

    def minus(self, other: Replicates) -> Replicates:
        """Replicates of a difference of two scores on one list of trials."""
        return DyadicReplicates.combined((self, other), (1.0, -1.0))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return super().to_dict() | {"shares": list(self.shares)}
