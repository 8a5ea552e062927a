"""Ranking metrics in smaller galleries: exact means over all sub-galleries of a size.

A query keeps its relevant items, and of its M irrelevant items m are drawn without replacement.
The number of them before a relevant item is hypergeometric, so every mean over all
sub-galleries is a short sum. What the j-th relevant item with b irrelevant items before it
contributes is the same in every query with equal numbers of both, and is computed once. Without
a jackknife group the drawn share of the irrelevant items stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.types import Integers, Reals
from truerank.core import registry
from truerank.core.metric import Law, Metric, RankingDefinition
from truerank.core.score import Column, as_run
from truerank.core.tie_groups import LeftOut, SplitGroups, TieGroups
from truerank.metrics import gallery_size_kernels

# Which metrics have a law of gallery size, and how many of its others a query keeps.


def law_of(metric: Metric) -> Law | None:
    """The law of a metric, None if it has none."""
    known = registry.definition(metric)
    if not isinstance(known, RankingDefinition) or known.law is None:
        return None
    return known.law(metric)


def why_no_law(metric: Metric) -> str:
    """Why a metric is not told for smaller galleries."""
    known = registry.definition(metric)
    if known.graded:
        return "grades leave open which items would stay in a smaller gallery"
    if isinstance(known, RankingDefinition):
        return "its mean over smaller galleries has no closed form here"
    if known.family == "clustering":
        return "clusters of a smaller gallery would differ"
    if known.family == "openset":
        return (
            "any item may be the accepted one, and irrelevant items that are drawn are not followed"
        )
    return "it counts pairs, whose shares a smaller gallery keeps, or it is an integral"


def drawn_of(others: int, size: int, gallery: int) -> int:
    """m = round(M n / N) others of a query, halves to even."""
    return round(Fraction(others * size, gallery))


def known_law(metric: Metric) -> Law:
    """The law of a metric that has one."""
    law = law_of(metric)
    if law is None:
        raise TypeError(f"{metric} has no law of gallery size")
    return law


# Tie groups of kin: queries that have as many mates and as many other items as one another.


@dataclass(frozen=True)
class Kin:
    """Groups of queries with R mates and M others each; a query owns those from its offset on."""

    relevant: int
    others: int
    offsets: Integers
    before: Integers
    """Others strictly nearer."""
    tied: Integers
    mates: Integers
    seen: Integers
    """Mates strictly nearer."""
    numbers: Integers
    """The groups' places among those of all queries."""

    @property
    def kind(self) -> tuple[int, int]:
        """What kin have in common: R and M."""
        return self.relevant, self.others

    @cached_property
    def last(self) -> Integers:
        """Others before mates that come last in their groups."""
        return self.before + self.tied

    @staticmethod
    def all(groups: TieGroups) -> Iterator[tuple[Integers | slice, Kin]]:
        """The places of queries with as many mates and as many others, and their groups."""
        mates = groups.mates
        others = groups.candidates - mates
        sizes = np.diff(groups.offsets)
        total = np.concatenate([[0], np.cumsum(groups.relevant)])
        seen = total[:-1] - np.repeat(total[groups.offsets[:-1]], sizes)
        columns = (groups.before - seen, groups.size - groups.relevant, groups.relevant, seen)
        base = int(others.max(initial=0)) + 1
        kinds, number = np.unique(mates * base + others, return_inverse=True)
        if len(kinds) == 1:
            every = np.arange(len(seen))
            relevant, rest = divmod(int(kinds[0]), base)
            yield slice(0, len(mates)), Kin(relevant, rest, groups.offsets, *columns, every)
            return
        order = np.argsort(number, kind="stable")
        cuts = np.searchsorted(number[order], np.arange(len(kinds) + 1))
        for place, kind in enumerate(kinds.tolist()):
            queries = order[cuts[place] : cuts[place + 1]]
            offsets = np.concatenate([[0], np.cumsum(sizes[queries])])
            mine = np.arange(offsets[-1])
            mine += np.repeat(groups.offsets[queries] - offsets[:-1], sizes[queries])
            before, tied, own, prior = (column[mine] for column in columns)
            relevant, rest = divmod(kind, base)
            yield queries, Kin(relevant, rest, offsets, before, tied, own, prior, mine)

    @staticmethod
    def joined(kins: list[Kin]) -> Kin:
        """All queries of kin with as many mates and others, one after the other."""
        ends = np.cumsum([0, *(kin.offsets[-1] for kin in kins)])
        offsets = [kin.offsets[:-1] + start for kin, start in zip(kins, ends, strict=False)]
        columns = ("before", "tied", "mates", "seen", "numbers")
        return Kin(
            *kins[0].kind,
            np.concatenate([*offsets, ends[-1:]]),
            *(np.concatenate([getattr(kin, name) for kin in kins]) for name in columns),
        )


# Records of what mates contribute at all sizes, of queries with R mates and M others.
#
# The j-th mate with b others before it contributes the same in whatever query: what (b, j) is
# worth is computed once and kept. Few of all pairs occur, since most mates come early.


Boxes = tuple[Integers, Integers, Integers, Integers]
"""The least and the largest b, and the least and the largest j, of all (b, j) in each of some
boxes."""
NO_CUT = 1 << 40
"""A cut-off beyond any rank."""
FEWEST_SLOTS = 1 << 10
AT_A_TIME = 1 << 12
"""Records that are worth a thread."""
_MATES = {
    "all": gallery_size_kernels.ALL,
    "first": gallery_size_kernels.FIRST,
    "last": gallery_size_kernels.LAST,
}
_TERMS = {
    "precision": gallery_size_kernels.PRECISION,
    "found": gallery_size_kernels.FOUND,
    "before": gallery_size_kernels.BEFORE,
}


class Map(Protocol):
    """A way to call a function for each of several things: `map`, or a pool's."""

    def __call__(self, function: Any, things: Iterable[Any], /) -> Iterable[Any]:
        """What the function returns, in the order of the things."""


@dataclass(frozen=True)
class Terms:
    """What mates contribute to several metrics, of queries with R mates; those that look at all
    mates come first."""

    relevant: int
    what: Integers
    cut: Integers
    which: Integers
    order: Integers
    """The place of each term among the metrics."""

    @staticmethod
    def of(metrics: list[Metric], relevant: int) -> Terms:
        """The terms of some metrics."""
        what, cuts, which = [], [], []
        for metric in metrics:
            law = known_law(metric)
            cut = NO_CUT if metric.cut is None else metric.cut
            cut = relevant if cut == "r" or law.up_to_r else int(cut)
            what.append(_TERMS[law.term])
            cuts.append(cut)
            alone = law.term == "found" and cut == 1  # no mate but the first can be found there
            which.append(gallery_size_kernels.FIRST if alone else _MATES[law.mates])
        order = np.argsort(which, kind="stable")
        told = [np.array(part, np.int64)[order] for part in (what, cuts, which)]
        return Terms(relevant, told[0], told[1], told[2], order)

    @property
    def every(self) -> int:
        """Terms to which all mates contribute."""
        return int(np.count_nonzero(self.which == gallery_size_kernels.ALL))


class Records:
    """What mates contribute to some terms with `drawn` of the others there, at each size.

    There is room for so many numbers; what has no place is computed whenever it is needed.
    """

    def __init__(self, others: int, drawn: list[int], terms: Terms, room: int) -> None:
        self._others, self._drawn, self._terms = others, np.array(drawn, np.int64), terms
        self.length = len(terms.what) * len(drawn)
        """Numbers of the longest record."""
        self._room, self.used, self._count = room, 0, 0
        self._slots, self._values = _no_slots(FEWEST_SLOTS), np.empty(0)

    def told(self, *more: Any) -> tuple[Any, ...]:
        """What kernels begin with, and what follows; what they compute in is for one thread."""
        terms = self._terms
        law = (self._others, self._drawn, terms.relevant, terms.what, terms.cut, terms.which)
        length = gallery_size_kernels.window_length(self._others)
        width = terms.relevant * terms.every + len(terms.which) - terms.every
        spare = (np.empty(length), np.empty(length), np.empty(width), np.empty(self.length))
        return (*law, terms.every, self._slots, self._values, *spare, *more)

    def sums_of_mates(self, offsets: Integers, seen: Integers, places: Integers) -> Reals:
        """(queries, terms and sizes): sums over mates, each in a group of its own, whose records
        stand at these places."""
        out = np.empty((len(offsets) - 1, self.length))
        terms = self._terms
        told = (terms.relevant, terms.every * len(self._drawn), offsets, seen, places)
        gallery_size_kernels.sums_of_mates(*told, self._values, out)
        return out

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """The places of size and metric, for each of the terms and sizes: its own is the third."""
        sizes = len(self._drawn)
        for term, at in enumerate(self._terms.order.tolist()):
            for place in range(sizes):
                yield place, at, term * sizes + place

    def hold(self, every: list[Boxes], each: Map = map) -> list[Integers]:
        """Make sure of the records of boxes, while there is room; returns the place of a record of
        each box, -1 without one."""
        places = [np.empty(len(boxes[0]), np.int64) for boxes in every]
        both = zip(every, places, strict=True)
        self._fill([one for some in both for one in self._ask(*some)], each)
        return places

    def _fill(self, asked: list[Integers], each: Map) -> None:
        new = np.concatenate([np.empty((0, 3), np.int64), *asked])
        if not len(new):
            return
        if self.used > len(self._values):
            more = np.empty(max(self.used, 2 * len(self._values)))
            more[: len(self._values)] = self._values
            self._values = more
        new = new[np.argsort(new[:, 0] * (self._terms.relevant + 1) + new[:, 1])]
        cuts = np.searchsorted(new[:, 0], new[::AT_A_TIME, 0]).tolist()  # no b is in two parts
        parts = [new[start:stop] for start, stop in pairwise([*cuts, len(new)])]
        for _ in each(lambda part: gallery_size_kernels.fill(*self.told(part)), parts):
            pass

    def _ask(self, boxes: Boxes, places: Integers) -> Iterator[Integers]:
        """(b, j, place) of the records of boxes that have had no place."""
        box, terms = 0, self._terms
        numbers = (terms.relevant, terms.every * len(self._drawn), self.length)
        while True:
            asked = np.empty((len(self._slots) // 2 - self._count, 3), np.int64)
            box, count, self.used = gallery_size_kernels.ask(
                self._slots, *numbers, self.used, self._room, box, *boxes, places, asked
            )
            self._count += count
            yield asked[:count].copy()
            if box == len(boxes[0]):
                return
            slots = _no_slots(4 * len(self._slots))
            gallery_size_kernels.rehash(self._slots, slots, terms.relevant)
            self._slots = slots


def _no_slots(count: int) -> Integers:
    slots = np.empty((count, 2), np.int64)
    slots[:, 0] = -1
    return slots


# Ranking metrics in galleries of fewer items: tie groups in, (lower, expected, upper) out.
#
# Queries with as many mates and as many others share what their mates contribute.


Counts = npt.NDArray[np.int32]
ROOM = 1 << 24
"""Most numbers of the records that are kept from call to call."""


class Growth:
    """The values of queries at some sizes of a gallery of N items; records have `room` for so many
    numbers. Threads wait for each other."""

    def __init__(self, sizes: tuple[int, ...], gallery: int, room: int | None = None) -> None:
        self.sizes, self.gallery = sizes, gallery
        self._room = ROOM if room is None else room
        self._held: dict[tuple[Any, ...], Records] = {}
        self._lock = Lock()

    def values(self, groups: TieGroups, metrics: list[Metric]) -> Reals:
        """(sizes, metrics, 3, queries): lower, expected and upper, on average over all
        sub-galleries."""
        out = np.empty((len(self.sizes), len(metrics), 3, len(groups)))
        for queries, kin in Kin.all(groups):
            for _, place, at, found in self.of_kin([kin], metrics):
                out[place, at][:, queries] = found
        return out

    def of_kin(
        self, kins: list[Kin], metrics: list[Metric], each: Map = map
    ) -> Iterator[tuple[int, int, int, Reals]]:
        """The places of kin, size and metric and (3, queries), or one for all three where nothing
        ties; all kin have as many mates and as many others."""
        with self._lock:
            records, drawn = self._records(kins[0], metrics)
            some = [_Sums(kin) for kin in kins]
            places = records.hold([one.alone() for one in some], each)
            records.hold([boxes for one in some for boxes in one.tied()], each)
            both = zip(some, places, strict=True)
            sums = list(each(lambda pair: pair[0].of(records, pair[1]), both))
        rows = list(records.rows())
        divisor = np.array([_divisor(metrics[at], kins[0], drawn[place]) for place, at, _ in rows])
        losses = [row for _, at, row in rows if known_law(metrics[at]).divisor == "preference"]
        for number, parts in enumerate(sums):
            parts /= divisor
            parts[:, :, losses] += 1.0
            if len(parts) > 1:
                parts[1] = np.minimum(np.maximum(parts[1], parts[0]), parts[2])
            for place, at, row in rows:
                yield number, place, at, parts[:, :, row]

    def moves(
        self, kin: Kin, lost: Counts, metrics: list[Metric]
    ) -> Iterator[tuple[int, int, Reals]]:
        """The places of size and metric and (queries, folds): how lower values move where each fold
        takes lost[group, fold] of the others before the last place of each group."""
        with self._lock:
            records, drawn = self._records(kin, metrics)
            columns, length, most = lost.shape[1], records.length, int(lost.max(initial=0)) + 1
            places = np.empty((2, len(lost) * (min(most, columns) + 1)), np.int64)
            count = gallery_size_kernels.moved_places(
                kin.last, lost, np.zeros(most, np.int64), places
            )
            g, before = places[:, :count]
            boxes = (before, before, (kin.seen + 1)[g], (kin.seen + kin.mates)[g])
            [held] = records.hold([boxes])
            out = np.empty((length, len(kin.offsets) - 1, columns))
            spare = (np.empty((most, length)), np.zeros(most, np.int64), np.empty(length))
            groups = (kin.last, kin.seen, kin.mates, kin.offsets, lost, held)
            gallery_size_kernels.moves(
                *records.told(*groups, *spare, np.empty((columns, length)), out)
            )
        for place, at, row in records.rows():
            out[row] /= _divisor(metrics[at], kin, drawn[place])
            yield place, at, out[row]

    def _records(self, kin: Kin, metrics: list[Metric]) -> tuple[Records, list[int]]:
        """The records of queries like these, and how many of their others they have at each
        size."""
        key = (kin.relevant, kin.others, *metrics)
        drawn = [drawn_of(kin.others, size, self.gallery) for size in self.sizes]
        if sum(one.used for one in self._held.values()) > self._room:
            self._held.clear()
        if key not in self._held:
            terms = Terms.of(metrics, kin.relevant)
            self._held[key] = Records(kin.others, drawn, terms, self._room)
        return self._held[key], drawn


class _Sums:
    """Sums of what mates contribute, of some kin."""

    def __init__(self, kin: Kin) -> None:
        self.kin = kin
        self._ties = bool(kin.tied.any())
        if self._ties:
            # Equal groups contribute equally; ties in bulk come in few distinct groups.
            open_ = np.flatnonzero(kin.tied)
            columns = (kin.before, kin.tied, kin.seen, kin.mates)
            signature = np.column_stack([column[open_] for column in columns])
            distinct, number = np.unique(signature, axis=0, return_inverse=True)
            self._distinct = [np.ascontiguousarray(column) for column in distinct.T]
            self._number = np.full(len(kin.before), -1)
            self._number[open_] = number.ravel()

    def alone(self) -> Boxes:
        """The records that are needed if nothing ties."""
        kin = self.kin
        return kin.last, kin.last, kin.seen + 1, kin.seen + kin.mates

    def tied(self) -> Iterator[Boxes]:
        """The further records that ties need."""
        kin = self.kin
        if self._ties:
            yield kin.before, kin.before, kin.seen + 1, kin.seen + kin.mates
            before, tied, seen, mates = self._distinct
            yield before, before + tied, seen + 1, seen + mates

    def of(self, records: Records, places: Integers) -> Reals:
        """(3, queries, terms and sizes): lower, expected and upper sums of contributions; one for
        all three where nothing ties. `places` are those that the records have of `alone`."""
        kin = self.kin
        if not self._ties and kin.mates.max() == 1 and places.min() >= 0:
            return records.sums_of_mates(kin.offsets, kin.seen, places)[None]
        nobody, nothing = np.empty(0, np.int64), np.empty((0, 0))
        lower = self._contributions(records, kin.last, nobody, nothing)
        if not self._ties:
            return lower[None]
        upper = self._contributions(records, kin.before, nobody, nothing)
        given = np.zeros((len(self._distinct[0]), records.length))
        total, chance = np.empty(records.length), np.empty(int(kin.tied.max()) + 1)
        gallery_size_kernels.mixtures(*records.told(*self._distinct, chance, total, given))
        expected = self._contributions(records, kin.before, self._number, given)
        return np.stack([lower, expected, upper])

    def _contributions(
        self, records: Records, before: Integers, number: Integers, given: Reals
    ) -> Reals:
        """Sums of what groups contribute; those with a number contribute what is given."""
        kin = self.kin
        out = np.zeros((len(kin.offsets) - 1, records.length))
        groups = (kin.offsets, before, kin.seen, kin.mates, number, given)
        gallery_size_kernels.contributions(*records.told(*groups, np.empty(records.length), out))
        return out


def _divisor(metric: Metric, kin: Kin, drawn: int) -> int:
    """What a sum of contributions is divided by; negative where they are losses."""
    law, relevant = known_law(metric), kin.relevant
    if law.divisor == "preference":
        return -relevant * max(min(relevant, drawn), 1)
    cut = relevant if metric.cut in (None, "r") else int(metric.cut)
    return {"r": relevant, "cut": cut, "smaller": min(relevant, cut), "one": 1}[law.divisor]


# Columns at gallery sizes: every query's values of some metrics, as they come in.


ENOUGH = 1 << 20
"""Tie groups that are worth a call: what they share is computed once for all of them."""


class GrownColumns:
    """The columns of a pass that have a law, at each size."""

    def __init__(self, growth: Growth, columns: list[Column], queries: int) -> None:
        self.growth = growth
        self.columns = [column for column in columns if law_of(column.metric) is not None]
        self.places = {column.metric: at for at, column in enumerate(self.columns)}
        """The place of each metric's column."""
        shape = (len(growth.sizes), len(self.columns), 3, queries)
        self.values = np.full(shape, np.nan)
        self._open: list[tuple[int, Integers, Kin]] = []

    def fill(self, rows: Integers, parts: Mapping[int, tuple[Integers, Any]]) -> None:
        """Take some queries, from any thread, to be filled in by `settle`; `parts` are those with a
        mate of each grade, and their groups."""
        for grade in {column.grade for column in self.columns}:
            chosen, some = parts[grade]
            groups = some if isinstance(some, TieGroups) else some.tie_groups()
            if len(groups):
                mine = rows[chosen]
                kins = Kin.all(groups)
                self._open += [(grade, mine[queries], kin) for queries, kin in kins]

    @property
    def is_enough(self) -> bool:
        """Whether so many queries came in that they are to be filled in."""
        return sum(len(kin.before) for _, _, kin in self._open) >= ENOUGH

    def settle(self, each: Map = map) -> None:
        """Fill in the queries that came in."""
        alike: dict[tuple[int, ...], list[tuple[Integers, Kin]]] = {}
        for grade, rows, kin in self._open:
            alike.setdefault((grade, *kin.kind), []).append((rows, kin))
        self._open.clear()
        for (grade, *_), some in alike.items():
            columns = [at for at, column in enumerate(self.columns) if column.grade == grade]
            metrics = [self.columns[at].metric for at in columns]
            runs = [as_run(rows) for rows, _ in some]
            found = self.growth.of_kin([kin for _, kin in some], metrics, each)
            for number, place, at, values in found:
                self.values[place, columns[at]][:, runs[number]] = values

    def at(self, size: int) -> list[Column]:
        """The filled columns at one of the sizes, with as many candidates as it leaves; those of a
        grade share their arrays of mates and candidates."""
        place = self.growth.sizes.index(size)
        counts: dict[int, tuple[Integers, Integers]] = {}
        found = []
        for column, values in zip(self.columns, self.values[place], strict=True):
            if column.grade not in counts:
                mates = column.totals.sum(axis=1)
                others, number = np.unique(column.candidates - mates, return_inverse=True)
                drawn = [drawn_of(int(some), size, self.growth.gallery) for some in others]
                left = mates + np.array(drawn, np.int64)[number]
                counts[column.grade] = (column.totals, left)
            found.append(
                Column(column.metric, column.grade, column.scale, values, *counts[column.grade])
            )
        return found


# How values in smaller galleries move without each fold of the gallery.
#
# The share of the others that is there stays, so that without a fold a mate has as many of them
# less before it as the fold holds; in the whole gallery this is what the metrics' own kernels
# count. The query's mates must not leave with another fold than the query itself.


@dataclass(frozen=True)
class Moving:
    """Some kin, and what they lose with each fold of the gallery."""

    queries: Integers
    """The places of the queries."""
    kin: Kin
    lost: Counts
    """(groups, folds): others before the last place in each group that leave with each fold."""

    @staticmethod
    def all(split: SplitGroups, grade: int, larger: Integers, ways: int) -> Iterator[Moving]:
        """The queries of groups split by fold in so many ways, with grades from `grade` on
        relevant. `larger` has, for each fold of the split groups, the folds in which it is left
        out, one in each way."""
        alive, groups, lost = _lost(split, LeftOut.of(split, grade), larger, ways)
        for queries, kin in Kin.all(groups):
            yield Moving(alive[queries], kin, lost[kin.numbers])

    @staticmethod
    def joined(some: list[Moving]) -> Moving:
        """Those of kin with as many mates and others, one after the other."""
        if len(some) == 1:
            return some[0]
        queries, lost = (
            np.concatenate([getattr(one, name) for one in some]) for name in ("queries", "lost")
        )
        return Moving(queries, Kin.joined([one.kin for one in some]), lost)


def _lost(
    split: SplitGroups, left: LeftOut, larger: Integers, ways: int
) -> tuple[Integers, TieGroups, Counts]:
    """The places of queries that have a mate, their groups that hold one, and how many of the
    others before the last place in each leave with each of the larger folds."""
    leaving = np.zeros((len(left.size), int(larger.max()) + 1), np.int32)
    counts, groups = (left.between, left.equal, left.gone), (left.before, left.size, left.relevant)
    gallery_size_kernels.leaving(*counts, larger, ways, left.offsets, *groups, leaving)
    kept = np.flatnonzero(left.relevant)
    owner = np.repeat(np.arange(len(left.offsets) - 1), np.diff(left.offsets))
    count = np.bincount(owner[kept], minlength=len(left.offsets) - 1)
    alive = np.flatnonzero(count)
    kept_groups = TieGroups(
        np.concatenate([[0], np.cumsum(count[alive])]),
        left.before[kept],
        left.size[kept],
        left.relevant[kept].astype(np.int32)[:, None],
        split.groups.candidates[alive],
    )
    return alive, kept_groups, leaving[kept]
