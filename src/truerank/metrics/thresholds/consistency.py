"""Threshold consistency over classes: OPIS, eps-OPIS, the utility of classes and its curve.

A class's utility at a threshold is the harmonic mean of its specificity and its sensitivity.
OPIS is the variance of that over classes, averaged over the range of thresholds that two FAR
targets set; eps-OPIS is the squared gap between the best and the worst share eps of the
classes. Class i has as positives its relevant pairs and as negatives the pairs with exactly one
end in i. Positives are exact; negatives are counted on cells of the range (which brackets every
utility), kept as events where they are few, or sampled per class by a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from weakref import proxy

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.threads import PerThread
from truerank._util.types import Flags, Integers, Reals
from truerank.core.curve import Curve
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.distance.base import Distances, Rows, Space
from truerank.distance.digests import Fingerprints, mix
from truerank.engine.blocks import Cuts, DistanceBlock
from truerank.engine.reducers import PairObserver, Part, ResumableObserver, Tally
from truerank.metrics.thresholds import consistency_kernels
from truerank.metrics.thresholds.consistency_kernels import _accumulate
from truerank.metrics.thresholds.definitions import (
    certain,
    far_targets,
    threshold_at_far,
    undefined,
)
from truerank.metrics.thresholds.family import Context, Family, Positives
from truerank.metrics.thresholds.pair_pool import Pairs, quantile_range
from truerank.task.relevance import PairList
from truerank.task.task import TaskRules

# Counts of each class over thresholds: what the consistency of one threshold is judged by.


CLASS_CELLS = 2048
MOST_NUMBERS = 1 << 23
"""Most counters of classes x cells."""
TOGETHER = 256
"""Classes whose counts a thread adds up at a time."""


@dataclass(frozen=True)
class ClassTable:
    """Counts of every class that has positives and negatives, at ascending cuts.

    In leave-one-out positives are counted in both orders, negatives once for each class.
    """

    classes: Integers
    """Codes of the classes."""
    cuts: Distances
    positives: Integers
    """(classes, cuts): positives accepted at each cut."""
    negatives: Integers
    """(classes, cuts): negatives accepted at each cut."""
    genuine: Integers
    """(classes,): all positives of a class."""
    impostors: Integers
    """(classes,): all negatives of a class."""


class ClassTally:
    """Counts classes at cuts while a pass goes by."""

    def __init__(self, task: TaskRules, positives: Positives, cuts: Distances) -> None:
        self._task, self._positives = task, positives
        self._count = int(max(task.query_codes.max(), task.gallery_codes.max())) + 1
        items = None
        if not task.leave_one_out:  # items without a label get a class beyond all others
            items = np.where(task.gallery_codes < 0, self._count, task.gallery_codes)
        largest = np.bincount(task.query_codes).max() * task.items
        if items is not None:
            largest += np.bincount(items).max() * task.queries
        self.tally = Tally(
            Cuts.of(cuts), task.query_codes, self._count + 1, items, most=int(largest)
        )
        self.times = 1 if items is None else 2
        """How often a pair is counted."""

    def table(self, *, without_positives: bool = False, threads: int = 1) -> ClassTable:
        """The counts, once the pass is over; with classes that have no positives if asked for."""
        cuts = self.tally.cuts.at
        counts = np.empty((self._count, len(cuts) + 1), np.int64)
        code = self._task.query_codes[self._positives.query]
        place = np.searchsorted(cuts, self._positives.distance, side="left")
        true = np.bincount(code * counts.shape[1] + place, minlength=counts.size)
        true = true.reshape(counts.shape)
        times = 1 if self._task.leave_one_out else 2  # met from the query's and the item's side

        def add_up(start: int) -> None:
            some = slice(start, min(start + TOGETHER, self._count))
            counts[some] = self.tally.counts_of(some)
            _accumulate(counts[some], true[some], times)

        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(add_up, range(0, self._count, TOGETHER)):
                pass
        genuine, impostors = true[:, -1], counts[:, -1]
        kept = np.flatnonzero(((genuine > 0) | without_positives) & (impostors > 0))
        if len(kept) < self._count:
            counts, true = counts[kept], true[kept]
        ends = (true[:, -1], counts[:, -1])
        return ClassTable(kept, cuts, true[:, :-1], counts[:, :-1], *ends)


class ClassEvents(PairObserver):
    """Collects every negative pair in (low, high], by class and distance.

    With a gallery a pair is there for the query's class and again for the item's.
    """

    def __init__(self, task: TaskRules, low: float, high: float) -> None:
        self._task, self._low, self._high = task, low, high
        self._parts = PerThread[list[tuple[Integers, Distances]]](list)

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        inside = block.distances <= self._high
        inside &= block.distances > self._low
        row, item = np.nonzero(inside)
        query = self._task.query_codes[block.rows[row]]
        other = self._task.gallery_codes[item + block.first]
        differ = query != other
        distance = block.distances[row[differ], item[differ]]
        mine = self._parts.mine()
        mine.append((query[differ], distance))
        if not self._task.leave_one_out:
            labelled = other[differ] >= 0
            mine.append((other[differ][labelled], distance[labelled]))

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return dict(zip(("code", "distance"), self.events(), strict=True))

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self._parts.mine().append((part["code"], part["distance"]))

    def events(self) -> tuple[Integers, Distances]:
        """Classes and distances, in no particular order."""
        parts = [part for thread in self._parts.all() for part in thread]
        return (
            np.concatenate([code for code, _ in parts] or [np.empty(0, np.int64)]),
            np.concatenate([distance for _, distance in parts] or [np.empty(0)]),
        )


def cells(low: float, high: float, classes: int) -> Distances:
    """Equal cells from low to high, both included, as many as memory allows."""
    count = min(CLASS_CELLS, max(64, MOST_NUMBERS // max(1, classes)))
    return np.unique(np.concatenate([np.linspace(low, high, count + 1), [low, high]]))


# Negatives sampled for each class, so many for each of its positives, in place of all of them.
#
# A seed gives every pair of a query and an item a digest, made of what the two rows hold. A class
# takes its negative pairs with the lowest digests, so that a seed picks the same pairs however
# rows are arranged and labels are named.


_CHUNK = 1 << 20
"""Negatives that are drawn at a time, those of a class together."""


@dataclass(frozen=True)
class SampledNegatives:
    """All positives of a leave-one-out task, and some negatives of every class that has any."""

    positives: Positives
    positive_code: Integers
    """Class of each positive."""
    code: Integers
    """Class of each negative that was drawn, in the order of their distances."""
    distance: Distances
    """Distance of each negative that was drawn, ascending."""

    @property
    def genuine(self) -> int:
        """Number of positives, in both orders."""
        return len(self.positives)

    @property
    def impostors(self) -> int:
        """Number of negatives."""
        return len(self.distance)

    def impostor(self, rank: int) -> float:
        """The rank-th smallest negative distance, infinite beyond the last."""
        return float(self.distance[rank - 1]) if rank <= len(self.distance) else np.inf

    def observed_below(self, distance: float) -> float | None:
        """The largest pair distance below this one; None if there is none."""
        below = [
            float(values[place - 1])
            for values in (self.positives.ascending, self.distance)
            if (place := int(np.searchsorted(values, distance)))
        ]
        return max(below, default=None)

    def table(self, low: float, high: float) -> ClassTable:
        """Counts of the classes at two distances."""
        cuts = np.array([low, high])
        count = int(self.positive_code.max(initial=-1)) + 1

        def up_to(code: Integers, distance: Distances, ends: Distances) -> Integers:
            return np.column_stack(
                [np.bincount(code[distance <= end], minlength=count) for end in ends]
            )

        every = np.append(cuts, np.inf)
        positives = up_to(self.positive_code, self.positives.distance, every)
        negatives = up_to(self.code, self.distance, every)
        kept = np.flatnonzero((positives[:, 2] > 0) & (negatives[:, 2] > 0))
        return ClassTable(
            kept,
            cuts,
            positives[kept, :2],
            negatives[kept, :2],
            positives[kept, 2],
            negatives[kept, 2],
        )

    def events(self, low: float, high: float) -> tuple[Integers, Distances]:
        """Classes and distances of the negatives in (low, high]."""
        first, last = np.searchsorted(self.distance, [low, high], side="right")
        return self.code[first:last], self.distance[first:last]


@dataclass(frozen=True)
class _Digests:
    """Digests of pairs: query[q] + item[g] modulo 2^64, each term uniform and free of the other.

    The items of a query whose digests are at most r lie on an arc of the sorted terms of items,
    from -query[q] on: they are found without a look at the others.
    """

    query: Fingerprints
    item: Fingerprints
    """Terms of the items, ascending."""
    column: Integers
    """The item of each."""

    @staticmethod
    def of(task: TaskRules, space: Space, seed: int) -> _Digests:
        """The digests of a leave-one-out task under a seed."""
        rows = mix(space.fingerprints() + mix(np.array([seed + 1])))
        item = mix(~rows)[slice(None) if task.columns is None else task.columns]
        column = np.argsort(item)
        return _Digests(mix(rows), item[column], column)

    def up_to(self, rows: Integers, reach: Fingerprints) -> tuple[PairList, Fingerprints]:
        """The pairs of these rows, numbered from 0, with digests up to each one's reach."""
        begin = ~self.query[rows] + np.uint64(1)
        end = begin + reach
        first = np.searchsorted(self.item, begin)
        count = np.searchsorted(self.item, end, side="right") - first
        count += np.where(end < begin, len(self.item), 0)  # past 2^64 the arc goes on from 0
        query = np.repeat(np.arange(len(rows)), count)
        step = np.arange(len(query)) - np.repeat(np.cumsum(count) - count, count)
        place = (first[query] + step) % len(self.item)
        return PairList(query, self.column[place]), self.query[rows][query] + self.item[place]


def to_draw(task: TaskRules, positives: Positives, each: int) -> Integers:
    """How many negatives are drawn for each class."""
    pairs = np.bincount(task.query_codes[positives.query], minlength=len(_candidates(task)))
    wanted: Integers = np.minimum(each * -(-pairs // 2), _candidates(task))
    return wanted


def _candidates(task: TaskRules) -> Integers:
    """For each class, pairs of a query in it and an item of the gallery that is not."""
    size = np.bincount(task.query_codes)
    own = np.bincount(task.gallery_codes[task.gallery_codes >= 0], minlength=len(size))
    return size * (task.items - own[: len(size)])


def draw(
    task: TaskRules, space: Space, positives: Positives, each: int, seed: int
) -> SampledNegatives:
    """Draw `each` negatives for every positive pair of a class, or all that there are.

    Pairs that never meet are not drawn. Pairs of equal digests hold equal rows: where only some of
    them are taken, it does not matter which, and the nearest are.
    """
    digests, wanted = _Digests.of(task, space, seed), to_draw(task, positives, each)
    asked = np.flatnonzero(wanted)
    runs = np.cumsum(wanted[asked]) // _CHUNK
    codes, distances = [np.empty(0, np.int64)], [np.empty(0)]
    for classes in np.split(asked, np.flatnonzero(np.diff(runs)) + 1):
        query, item, digest = _lowest(task, digests, classes, wanted)
        code, distance = task.query_codes[query], space.pairs(query, item)
        order = np.lexsort((distance, digest, code))
        code, distance = code[order], distance[order]
        kept = np.arange(len(code)) - np.searchsorted(code, code) < wanted[code]
        codes.append(code[kept])
        distances.append(distance[kept])
    code, distance = np.concatenate(codes), np.concatenate(distances)
    ascending = np.lexsort((code, distance))
    ours = task.query_codes[positives.query]
    return SampledNegatives(positives, ours, code[ascending], distance[ascending])


def _lowest(
    task: TaskRules, digests: _Digests, classes: Integers, wanted: Integers
) -> tuple[Integers, Integers, Fingerprints]:
    """The negative pairs of some classes with the lowest digests, as many as wanted or more.

    Only of a class that has fewer are all returned.
    """
    rows = np.flatnonzero(np.isin(task.query_codes, classes))
    own = task.query_codes[rows]
    share = (1.5 * wanted + 16) / np.maximum(_candidates(task), 1)
    while True:
        reach = np.full(len(share), np.iinfo(np.uint64).max)
        some = np.flatnonzero(share < 1)
        reach[some] = (share[some] * 2.0**64).astype(np.uint64)
        pairs, digest = digests.up_to(rows, reach[own])
        kept = task.gallery_codes[pairs.item] != own[pairs.query]
        kept &= ~task.view.exclusions.covers(rows, pairs, task.items)
        found = np.bincount(own[pairs.query[kept]], minlength=len(share))
        short = classes[(found < wanted)[classes] & (share < 1)[classes]]
        if not len(short):
            return rows[pairs.query[kept]], pairs.item[kept], digest[kept]
        share[short] *= 4


# The classes' utilities over a range of thresholds, as step functions or brackets of them.


UTILITY_CELLS = 32
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
    pieces = consistency_kernels.exact(
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
        stop = min(start + UTILITY_CELLS, len(border) - 1)
        before, after = np.searchsorted(at, border[[start, stop]])
        inside = slice(before, after)
        now = true + _by_class(code[:before], count)
        columns = (first + start, first + stop + 1)
        size = after - before + stop - start
        pieces = [np.zeros(size), np.zeros(size), np.zeros(size)]
        classes = [np.zeros((2, count)), np.zeros(count), np.zeros(count)]
        held = consistency_kernels.bracketed(
            border[start : stop + 1], at[inside], code[inside], now,
            consistency_kernels.turned(table.negatives, *columns), table.genuine, table.impostors,
            formula.square, formula.precise, _one(count), *pieces, *classes,
        )  # fmt: skip
        return [part[:held] for part in pieces], classes

    with ThreadPoolExecutor(threads) as pool:
        runs = list(pool.map(some, range(0, len(border) - 1, UTILITY_CELLS)))
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


# What a pass collects for OPIS: classes counted between the thresholds of two FAR targets.


class CountedClasses(Family):
    """The pool of pairs, and the utilities of classes between two thresholds."""

    def __init__(self, context: Context, metrics: list[Metric], pairs: Pairs) -> None:
        super().__init__(context, metrics)
        self.pairs, self.pool = pairs, pairs.pool
        tallies: list[ResumableObserver] = []
        self._tally = self._foreseen_tally()
        if self._tally is not None and self.pool.whole_curve:
            tallies = [self._tally.tally]
        self.observers = [*tallies, *self.pool.observers]
        self._utilities: dict[tuple[object, ...], Utilities | None] = {}
        self._sampled: dict[tuple[int, int], SampledNegatives] = {}
        mine = proxy(self)  # no cycle: what is held here goes with its last user
        pairs.companions.append(lambda: mine.joining())

    # -- what is collected --------------------------------------------------------------------

    @cached_property
    def _calibration(self) -> list[Fraction] | None:
        """The FAR targets of the first OPIS whose range they set, if classes can be counted."""
        asked = [m for m in self.metrics if not m["frr"] and not m["negatives"]]
        if not asked or self.context.task.levels is None or not self.context.positives:
            return None
        return far_targets(asked[0])

    def _foreseen_tally(self) -> ClassTally | None:
        """Counts on cells around the default range, where a sample can foretell it."""
        asked, sample = self._calibration, self.context.sample
        if asked is None or not len(sample):
            return None
        ends = [quantile_range(sample, float(target)) for target in asked]
        if not np.isfinite(ends[0][0]):  # a rate that the sample does not resolve
            return None
        cuts = self._cells(ends[0][0], ends[1][1])
        if self.pool.whole_curve:
            return self._tally_of(cuts)
        tally = self._tally_of(np.union1d(cuts, self.pool.cuts.at))  # one serves both
        self.pool.count_with(tally.tally, tally.times)
        return tally

    def joining(self) -> list[PairObserver]:
        """Observers that join another pass of the pool, to count classes no sample foretold."""
        many = self.context.pairs > self.context.limits.breakpoints
        if self._calibration is None or self._tally is not None or not many:
            return []
        low, high = (self.pool.around(target) for target in self._calibration)
        if not -np.inf < low[0] < high[1] < np.inf:
            return []
        self._tally = self._tally_of(self._cells(low[0], high[1]))
        return [self._tally.tally]

    def _tally_of(self, cuts: Distances) -> ClassTally:
        return ClassTally(self.context.task, self.context.positives, cuts)

    def _cells(self, low: float, high: float) -> Distances:
        return cells(low, high, len(np.unique(self.context.task.query_codes)))

    # -- utilities ----------------------------------------------------------------------------

    def formula(self, metric: Metric) -> Formula:
        """The formula of the utility that a metric compares."""
        weight = metric["c"]
        positive = 0.5 if self.context.task.leave_one_out else 1.0
        return Formula(
            float(weight * weight), positive if metric["utility"] == "precision" else 0.0
        )

    def utilities(self, metric: Metric, low: float, high: float) -> Utilities | None:
        """The utilities of the classes between two distances; None if no class has any."""
        context = self.context
        small = context.pairs <= context.limits.breakpoints
        exact = metric["integral"] == "exact" or small
        formula, sample = self.formula(metric), self.sampled(metric)
        key = (low, high, formula, exact, metric["negatives"], metric["seed"])
        if key not in self._utilities and sample is not None:
            self._utilities[key] = measure_sampled(sample, context.space, low, high, formula)
        if key not in self._utilities:
            tally = self._tally
            self._utilities[key] = measure_all(
                context.task,
                context.space,
                context.positives,
                low,
                high,
                formula,
                exact=exact,
                seen=None if tally is None else tally.table(threads=context.threads),
                sweep=context.sweep,
                threads=context.threads,
            )
        return self._utilities[key]

    def sampled(self, metric: Metric) -> SampledNegatives | None:
        """The negatives that a metric asks to sample, if it does."""
        if metric["negatives"] is None:
            return None
        context = self.context
        each, seed = metric["negatives"], metric["seed"]
        if (each, seed) not in self._sampled:
            sample = draw(context.task, context.space, context.positives, each, seed)
            self._sampled[each, seed] = sample
        return self._sampled[each, seed]


# Threshold consistency (OPIS): how far apart the classes are at one and the same threshold.


NO_SAMPLE = "not defined: negatives= draws pairs of one set, and there is a separate gallery"
SHUFFLES = 16
NOISE_POINTS = 64


@dataclass(frozen=True)
class ClassUtility:
    """One class: its mean utility over the range, and the threshold that would serve it best."""

    label: Any
    mean: float
    best: float
    best_threshold: float | None


@dataclass(frozen=True)
class Consistency:
    """The range over which OPIS was taken, and what is reported beside it."""

    low: float
    high: float
    """The range of thresholds, in the distance's own unit."""
    far: tuple[float, float]
    classes: int
    left_out: int
    """Classes without a pair of their own, which have no sensitivity."""
    noise: float
    """OPIS of the same positive distances shuffled among the classes."""
    ranked: list[ClassUtility]
    """The classes, worst first."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the five worst and the five best classes."""
        return {
            "low": self.low,
            "high": self.high,
            "far": list(self.far),
            "classes": self.classes,
            "left_out": self.left_out,
            "noise": self.noise,
            "worst": [vars(one) | {"label": str(one.label)} for one in self.ranked[:5]],
            "best": [vars(one) | {"label": str(one.label)} for one in self.ranked[:-6:-1]],
        }


def calibration_range(family: CountedClasses, metric: Metric) -> tuple[float, float] | str:
    """The distances between which thresholds are compared, or why there are none."""
    pool = family.sampled(metric) or family.pool
    if not pool.genuine or not pool.impostors:
        return "not defined: it needs pairs of one class and pairs of two"
    low, high = (threshold_at_far(pool, target)[1] for target in metric["far"])
    if metric["frr"] is not None:
        missed = math.floor(metric["frr"] * pool.genuine)
        low = float(pool.positives.ascending[max(0, pool.genuine - missed - 1)])
    if low is None:  # the nearest negative is nearer than everything else
        low = pool.impostor(1)
    if high is None or not low < high:
        targets = metric.text("far").replace(":", " and ")
        return f"not defined: no thresholds lie between the FAR targets {targets}"
    return low, high


def _range(family: CountedClasses, metric: Metric) -> tuple[float, float] | str:
    """The distances between which a metric compares thresholds, or why it is not defined."""
    context = family.context
    if context.task.levels is None:
        return "not defined: it compares classes, which relevance= does not name"
    if metric["negatives"] is not None:
        if not context.task.leave_one_out:
            return NO_SAMPLE
        drawn = int(to_draw(context.task, context.positives, metric["negatives"]).sum())
        most = context.limits.drawn
        if drawn > most:
            return (
                f"not defined: it would draw {drawn:,} negatives, and at most {most:,} are held; "
                "leave negatives= out"
            )
    return calibration_range(family, metric)


def _opis(family: CountedClasses, metric: Metric) -> Score:
    ends = _range(family, metric)
    if isinstance(ends, str):
        return undefined(metric, ends)
    seen = family.utilities(metric, *ends)
    if seen is None:
        return undefined(metric, "not defined: no class has positive and negative pairs")
    if metric["eps"] is not None:
        formula = family.formula(metric)
        low, high = divide(seen, metric["eps"], formula.square)
    else:
        low, high = average(seen)
    value = low if low == high else (low + high) / 2
    bracket = None if low == high else (low, high)
    return certain(metric, value, len(seen.table.classes), bracket=bracket)


def measured(
    family: CountedClasses, metric: Metric
) -> tuple[tuple[float, float], Utilities] | None:
    """The distances between which thresholds are compared, and the classes' utilities there."""
    ends = _range(family, metric)
    seen = None if isinstance(ends, str) else family.utilities(metric, *ends)
    return None if isinstance(ends, str) or seen is None else (ends, seen)


def report(family: CountedClasses, metric: Metric) -> Consistency | None:
    """What is reported beside an OPIS; None where it is not defined."""
    found = measured(family, metric)
    if found is None:
        return None
    ends, seen = found
    pool, context = family.pool, family.context
    task = context.task
    names = task.named_levels.finest.values
    means = seen.areas.mean(axis=0)
    best_at = context.space.in_unit(seen.best_at)
    ranked = [
        ClassUtility(
            names[seen.table.classes[i]],
            float(means[i]),
            float(seen.best[i]),
            float(best_at[i]) if np.isfinite(seen.best_at[i]) else None,
        )
        for i in np.lexsort((seen.table.classes, means))
    ]
    inside = pool.cuts.at[(pool.cuts.at > ends[0]) & (pool.cuts.at < ends[1])]
    inside = inside[:: max(1, len(inside) // NOISE_POINTS)]
    points = np.concatenate([[ends[0]], inside])
    places = context.space.linear(np.append(points, ends[1]))
    sizes, ours = seen.table.genuine, pool.positives.ascending
    if task.leave_one_out and not (sizes % 2).any():  # both orders of a pair are one pair
        sizes, ours = sizes // 2, ours[::2]
    floor = noise(
        ours[: int(sizes.sum())],
        sizes,
        points,
        1 - pool.up_to(points) / pool.impostors,
        np.diff(places),
        family.formula(metric).square,
        context.seed,
        context.threads,
    )
    low, high = (context.units.in_unit(end) for end in ends)
    first, second = (float(target) for target in metric["far"])
    return Consistency(
        float(low if low is not None else np.nan),
        float(high if high is not None else np.nan),
        (first, second),
        len(seen.table.classes),
        len(np.unique(task.query_codes)) - len(seen.table.classes),
        floor,
        ranked,
    )


def average(seen: Utilities) -> tuple[float, float]:
    """Bounds of the mean spread over the range."""
    width = np.diff(seen.borders)
    total = math.fsum(width.tolist())
    low = math.fsum((np.maximum(seen.spreads - seen.errors, 0.0) * width).tolist()) / total
    if not seen.errors.any():
        return low, low
    return low, math.fsum(((seen.spreads + seen.errors) * width).tolist()) / total


def weights(areas: Reals, count: int) -> Reals:
    """Weights of so many classes with the smallest areas; those tied at the cut share the rest."""
    last = np.sort(areas)[count - 1]
    below, tied = areas < last, areas == last
    return np.asarray(below + tied * ((count - int(below.sum())) / int(tied.sum())), np.float64)


def divide(seen: Utilities, share: Fraction, square: float) -> tuple[float, float]:
    """Bounds of the mean squared gap between the utilities of the best and the worst classes."""
    if seen.events is not None:
        count = math.ceil(share * len(seen.areas[0]))
        groups = [weights(sign * seen.areas[0], count) for sign in (1, -1)]
        worst, best = (_group(seen, seen.events, group, count, square) for group in groups)
        gap = (worst - best) ** 2
        value = math.fsum((gap * np.diff(seen.borders)).tolist())
        value /= math.fsum(np.diff(seen.borders).tolist())
        return value, value
    ends = []
    for sign in (1, -1):
        low, high = np.sort(sign * seen.areas, axis=0)
        ends.append(_group_bounds(seen, low, high, share, square))
    (worst_low, worst_high), (best_low, best_high) = ends
    most = np.maximum(np.abs(best_high - worst_low), np.abs(worst_high - best_low))
    disjoint = (worst_high < best_low) | (best_high < worst_low)
    nearest = np.minimum(np.abs(best_low - worst_high), np.abs(worst_low - best_high))
    least = np.where(disjoint, nearest, 0.0)
    width = np.diff(seen.cells)
    total = math.fsum(width.tolist())
    return (
        math.fsum((least**2 * width).tolist()) / total,
        math.fsum((most**2 * width).tolist()) / total,
    )


def _group(seen: Utilities, events: Events, group: Reals, total: int, square: float) -> Reals:
    """Utility, on each piece, of the mean specificity and sensitivity of weighted classes.

    `total` is the sum of the weights, a whole number: added up as floats, the order of the classes
    would show in it.
    """
    code, place, positive = events
    table, unit = seen.table, 2.0**60 / total
    true, false = seen.start
    rates = []
    for counts, base, flags in (
        (table.genuine, true, positive),
        (table.impostors, false, ~positive),
    ):
        step = np.rint(group / counts * unit).astype(np.int64)
        at_start = int((step * base).sum())
        change = np.where(flags, step[code], 0)
        running = at_start + np.concatenate([[0], np.cumsum(change)])
        rates.append(running[np.searchsorted(place, seen.borders[:-1], side="right")])
    sensitivity, false_rate = (rate / unit / total for rate in rates)
    return combine(sensitivity, 1 - false_rate, square)


def _group_bounds(
    seen: Utilities, low: Reals, high: Reals, share: Fraction, square: float
) -> tuple[Reals, Reals]:
    """Bounds of _group on cells, whichever of the possible classes are among the smallest."""
    table = seen.table
    count = math.ceil(share * len(low))
    sorted_low, sorted_high = np.sort(low), np.sort(high)
    sure = np.searchsorted(sorted_low, high, side="right") <= count
    possible = np.searchsorted(sorted_high, low, side="left") < count
    unsure = possible & ~sure
    first, last = seen.columns
    true = table.positives[:, first : last + 1] / table.genuine[:, None]
    false = 1 - table.negatives[:, first : last + 1] / table.impostors[:, None]
    open_ = count - int(sure.sum())

    one = 2.0 ** min(50, 62 - count.bit_length())  # integers, so that their order cannot show

    def held(rate: Reals, pick: Callable[..., Any]) -> Reals:
        """The mean rate of the group; the unsure places go to the lowest or the highest."""
        steps = np.rint(rate * one).astype(np.int64)
        total = steps[sure].sum(axis=0)
        if open_:
            total = total + open_ * pick(steps[unsure], axis=0)
        return np.asarray(total / one / count, np.float64)

    return (
        combine(held(true[:, :-1], np.min), held(false[:, 1:], np.min), square),
        combine(held(true[:, 1:], np.max), held(false[:, :-1], np.max), square),
    )


def combine(sensitivity: Reals, specificity: Reals, square: float) -> Reals:
    """(1 + c^2) a b / (c^2 a + b), 0 where both are."""
    below = square * specificity + sensitivity
    product = (1 + square) * specificity * sensitivity
    return np.divide(product, below, out=np.zeros_like(below), where=below > 0)


def class_utility(
    true: Reals, false: Reals, genuine: Reals, impostors: Reals, formula: Formula
) -> Reals:
    """The utility of each class, from what it accepts and all that it has."""
    other = 1 - false / impostors
    if formula.precise:
        weighed = formula.precise * true
        below = weighed + false
        other = np.divide(weighed, below, out=np.zeros_like(below), where=below > 0)
    return combine(true / genuine, other, formula.square)


def class_mean(values: Reals) -> Reals:
    """The mean over classes, in integers, so that their order cannot show."""
    one = 2.0 ** min(50, 62 - len(values).bit_length())
    return np.asarray(np.rint(values * one).astype(np.int64).sum(axis=0) / one / len(values))


def noise(
    positives: Reals,
    sizes: npt.NDArray[np.int64],
    points: Reals,
    specificity: Reals,
    width: Reals,
    square: float,
    seed: int,
    threads: int = 1,
) -> float:
    """OPIS when the positive distances are dealt at random to classes of these sizes.

    All classes have one specificity, so this is a lower bound of the noise: pairs with a common
    sample go together in truth.
    """
    sizes = np.sort(sizes)
    place = np.searchsorted(points, np.sort(positives), side="left")
    one = 2.0 ** min(50, 62 - len(sizes).bit_length())

    def deal(number: int) -> float:
        drawn = np.random.Philox(seed).jumped(number).random_raw(len(place))
        first, second = np.zeros((2, len(points)), np.int64)
        consistency_kernels.dealt(
            place.copy(), drawn, sizes, specificity, square, one, first, second
        )
        mean = first / one / len(sizes)
        spread = np.maximum(second / one / len(sizes) - mean * mean, 0.0)
        return math.fsum((spread * width).tolist()) / math.fsum(width.tolist())

    with ThreadPoolExecutor(threads) as pool:
        return math.fsum(pool.map(deal, range(SHUFFLES))) / SHUFFLES


SCORES = {"opis": _opis}
"""The function that gives each metric's Score."""


# The utility of the classes over the thresholds of the calibration range, as a curve.


POINTS = 100
SINGLE = 12
"""Classes served worst, and as many served best, that have a column of their own."""
CLASS = "class "
"""How the names of their columns begin."""
QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


def utility_curve(family: CountedClasses, metric: Metric) -> Curve | None:
    """The curve of the utility that a metric compares; None where it is not defined."""
    found = measured(family, metric)
    if found is None:
        return None
    (low, high), seen = found
    if seen.events is not None:
        table = _from_events(family, seen, np.linspace(low, high, POINTS + 1))
    else:
        first, last = seen.columns
        columns = np.unique(np.linspace(first, last, POINTS + 1).astype(np.int64))
        table = replace(
            seen.table,
            cuts=np.clip(seen.table.cuts[columns], low, high),
            positives=seen.table.positives[:, columns],
            negatives=seen.table.negatives[:, columns],
        )
    utility = class_utility(
        table.positives.astype(np.float64),
        table.negatives.astype(np.float64),
        table.genuine[:, None].astype(np.float64),
        table.impostors[:, None].astype(np.float64),
        family.formula(metric),
    )
    ranked = np.lexsort((table.classes, seen.areas.mean(axis=0)))
    if len(ranked) > 2 * SINGLE:
        ranked = np.append(ranked[:SINGLE], ranked[-SINGLE:])
    names = family.context.task.named_levels.finest.values
    ordered = np.sort(utility, axis=0)
    places = {name: int(share * (len(ordered) - 1) + 0.5) for name, share in QUANTILES.items()}
    return Curve(
        "utility",
        {
            "threshold": family.context.space.in_unit(table.cuts),
            "mean": class_mean(utility),
            **{name: ordered[place] for name, place in places.items()},
            **{f"{CLASS}{names[table.classes[i]]}": utility[i] for i in ranked},
        },
    )


def _from_events(family: CountedClasses, seen: Utilities, cuts: Distances) -> ClassTable:
    """Counts of the classes at some distances of the range, from every step of their counts."""
    assert seen.events is not None
    code, place, positive = seen.events
    space, tables = family.context.space, []
    cell = np.searchsorted(space.linear(cuts), place, side="left")
    for start, flags in zip(seen.start, (positive, ~positive), strict=True):
        steps: Integers = np.zeros((len(start), len(cuts) + 1), np.int64)
        np.add.at(steps, (code[flags], cell[flags]), 1)
        tables.append(start[:, None] + np.cumsum(steps[:, :-1], axis=1))
    return replace(seen.table, cuts=cuts, positives=tables[0], negatives=tables[1])
