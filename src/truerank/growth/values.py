"""Ranking metrics in galleries of fewer items: tie groups in, (lower, expected, upper) out.

Queries with as many mates and as many others share their sums, which are kept in tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.groups import TieGroups
from truerank.core.law import Law
from truerank.core.metric import Metric, RankingDefinition
from truerank.growth import group_kernels, kernels

__all__ = [
    "Call",
    "Growth",
    "Kin",
    "Terms",
    "Workshop",
    "divisor_of",
    "drawn_of",
    "law_of",
    "why_no_law",
]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
NO_CUT = 1 << 40
"""A cut-off beyond any rank."""
TABLE = 1 << 22
"""Most numbers of a table: a row for each number of others before a mate."""
HELD = 1 << 24
"""Most numbers of the tables that a thread keeps from block to block."""
_MATES = {"all": kernels.ALL, "first": kernels.FIRST, "last": kernels.LAST}
_TERMS = {"precision": kernels.PRECISION, "found": kernels.FOUND, "before": kernels.BEFORE}


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
        return "clusters of a smaller gallery would be others"
    if known.family == "openset":
        return "any item may be the accepted one, and which are drawn beside mates is not followed"
    return "it counts pairs, of which a smaller gallery has as large a share, or it is an integral"


def drawn_of(others: int, size: int, gallery: int) -> int:
    """m = round(M n / N) others of a query, halves to even."""
    return round(Fraction(others * size, gallery))


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
            law = _law(metric)
            cut = NO_CUT if metric.cut is None else metric.cut
            cut = relevant if cut == "r" or law.up_to_r else int(cut)
            what.append(_TERMS[law.term])
            cuts.append(cut)
            alone = law.term == "found" and cut == 1  # no mate but the first can be found there
            which.append(kernels.FIRST if alone else _MATES[law.mates])
        order = np.argsort(which, kind="stable")
        told = [np.array(part)[order] for part in (what, cuts, which)]
        return Terms(relevant, told[0], told[1], told[2], order)

    @property
    def every(self) -> int:
        """Terms to which all mates contribute."""
        return int(np.count_nonzero(self.which == kernels.ALL))

    @property
    def width(self) -> int:
        """Numbers that belong to one number of others before a mate."""
        return self.relevant * self.every + len(self.which) - self.every


class Table:
    """Rows of contributions by the number of others before a mate, filled on demand."""

    def __init__(self, terms: Terms, rows: int) -> None:
        self.known = np.zeros(rows, np.uint8)
        self.values = np.empty(rows * terms.width)


class Workshop:
    """The tables of one thread at a time."""

    def __init__(self) -> None:
        self._tables: dict[tuple[Any, ...], Table] = {}

    def table(self, key: tuple[Any, ...], terms: Terms, rows: int) -> Table:
        """The table of these terms, kept from block to block as long as there is room."""
        if key not in self._tables:
            if sum(one.values.size for one in self._tables.values()) > HELD:
                self._tables.clear()
            self._tables[key] = Table(terms, rows)
        return self._tables[key]


@dataclass(frozen=True)
class Ordered:
    """Groups by the number of others before them, in which rows of a table follow one another."""

    order: Integers
    owner: Integers
    """The query of each group."""
    before: Integers
    seen: Integers
    mates: Integers


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

    @cached_property
    def last(self) -> Integers:
        """Others before mates that come last in their groups."""
        return self.before + self.tied

    @cached_property
    def by_last(self) -> Ordered:
        """The groups in the order of `last`."""
        return self._ordered(self.last)

    @cached_property
    def by_first(self) -> Ordered:
        """The groups in the order of `before`."""
        return self._ordered(self.before)

    def _ordered(self, before: Integers) -> Ordered:
        order = _ascending(before)
        owner = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return Ordered(order, *(part[order] for part in (owner, before, self.seen, self.mates)))

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


def _ascending(values: Integers) -> Integers:
    """The places of values in ascending order; numbers of 16 bits are sorted by their digits."""
    small = not len(values) or values.max() < 1 << 16
    return np.argsort(values.astype(np.uint16) if small else values, kind="stable")


class Growth:
    """The values of queries at some sizes of a gallery of N items.

    `queries` has the number of queries with each number of mates: it decides what tables are for.
    """

    def __init__(self, sizes: tuple[int, ...], gallery: int, queries: Integers) -> None:
        self.sizes, self.gallery, self._queries = sizes, gallery, queries
        self._free: deque[Workshop] = deque()
        self._terms: dict[tuple[int, tuple[Metric, ...]], Terms] = {}

    @contextmanager
    def workshop(self) -> Iterator[Workshop]:
        """Tables that no other thread has until they are given back."""
        try:
            mine = self._free.pop()
        except IndexError:
            mine = Workshop()
        try:
            yield mine
        finally:
            self._free.append(mine)

    def call(self, kin: Kin, drawn: int, metrics: list[Metric], shop: Workshop) -> Call:
        """The kernels of these queries with so many of their others drawn."""
        key = (kin.relevant, tuple(metrics))
        terms = self._terms.get(key) or self._terms.setdefault(key, Terms.of(metrics, kin.relevant))
        rows = min(kin.others + 1, TABLE // terms.width)
        alike = self._queries[kin.relevant] if kin.relevant < len(self._queries) else 0
        if not kin.tied.any() and 2 * alike * kin.relevant < kin.others:
            rows = 0  # most of them would be used once
        return Call(kin, drawn, terms, rows, shop)

    def values(self, groups: TieGroups, metrics: list[Metric]) -> Reals:
        """(sizes, metrics, 3, queries): lower, expected and upper, on average over all
        sub-galleries."""
        out = np.empty((len(self.sizes), len(metrics), 3, len(groups)))
        with self.workshop() as shop:
            for queries, kin in Kin.all(groups):
                for place, size in enumerate(self.sizes):
                    drawn = drawn_of(kin.others, size, self.gallery)
                    sums = self.call(kin, drawn, metrics, shop).sums(kin)
                    for at, metric in enumerate(metrics):
                        out[place, at][:, queries] = divided(metric, sums[:, at], kin, drawn)
        return out


class Call:
    """The kernels of one number of others, one number of them drawn and some terms."""

    def __init__(self, kin: Kin, drawn: int, terms: Terms, rows: int, shop: Workshop) -> None:
        self._terms = terms
        law = (kin.others, drawn, terms.relevant)
        named = (terms.what.tobytes(), terms.cut.tobytes(), terms.which.tobytes())
        held = shop.table((*law, *named, rows), terms, rows)
        length = kernels.window_length(kin.others)
        self._told = (
            *law,
            terms.what,
            terms.cut,
            terms.which,
            terms.every,
            held.known,
            held.values,
            np.empty(length),
            np.empty(length),
            np.empty(terms.width),
        )

    def sums(self, kin: Kin) -> Reals:
        """(3, metrics, queries): lower, expected and upper sums of contributions; one of each for
        all three where nothing ties."""
        nobody = np.full(len(kin.before), -1)
        lower = self._contributions(kin, kin.by_last, nobody, np.empty((0, 0)))
        if not kin.tied.any():
            return lower[None]
        upper = self._contributions(kin, kin.by_first, nobody, np.empty((0, 0)))
        # Equal groups contribute equally; ties in bulk come in few distinct groups.
        open_ = np.flatnonzero(kin.tied)
        columns = (kin.before, kin.tied, kin.seen, kin.mates)
        signature = np.column_stack([column[open_] for column in columns])
        distinct, number = np.unique(signature, axis=0, return_inverse=True)
        nobody[open_] = number.ravel()
        expected = self._contributions(kin, kin.by_first, nobody, self._mixtures(distinct))
        return np.stack([lower, expected, upper])

    def _contributions(self, kin: Kin, groups: Ordered, number: Integers, given: Reals) -> Reals:
        """(metrics, queries): sums of what groups contribute; those with a number contribute what
        is given."""
        out = np.zeros((len(kin.offsets) - 1, len(self._terms.what)))
        columns = (groups.owner, groups.before, groups.seen, groups.mates, number[groups.order])
        group_kernels.contributions(*self._told, *columns, given, out)
        return np.ascontiguousarray(out[:, np.argsort(self._terms.order)].T)

    def _mixtures(self, signature: Integers) -> Reals:
        """(groups, terms): the same in random order, of (before, tied, seen, mates)."""
        before, tied, seen, mates = (np.ascontiguousarray(column) for column in signature.T)
        out = np.empty((len(signature), len(self._terms.what)))
        chance = np.empty(int(tied.max()) + 1)
        group_kernels.mixtures(*self._told, before, tied, seen, mates, chance, out)
        return out

    def moves(self, kin: Kin, lost: npt.NDArray[np.int32]) -> list[Reals]:
        """For each metric (queries, folds): how lower sums move without so many of the others
        before the last place of each group."""
        terms = len(self._terms.what)
        out = np.zeros((terms, len(kin.offsets) - 1, lost.shape[1]))
        most = int(lost.max(initial=0)) + 1
        change, marked = np.empty((most, terms)), np.zeros(most, np.int64)
        groups = (kin.last, kin.seen, kin.mates, kin.offsets)
        group_kernels.moves(*self._told, *groups, lost, change, marked, out)
        return [out[place] for place in np.argsort(self._terms.order)]


def divided(metric: Metric, sums: Reals, kin: Kin, drawn: int) -> Reals:
    """(3, queries), or one for all three: lower, expected and upper from sums of contributions."""
    values = sums / divisor_of(metric, kin, drawn)
    if _law(metric).divisor == "preference":
        values = 1.0 + values
    if len(values) == 1:
        return np.asarray(values, np.float64)
    values[1] = np.minimum(np.maximum(values[1], values[0]), values[2])
    return np.asarray(values, np.float64)


def divisor_of(metric: Metric, kin: Kin, drawn: int) -> int:
    """What a sum of contributions is divided by; negative where they are losses."""
    law, relevant = _law(metric), kin.relevant
    if law.divisor == "preference":
        return -relevant * max(min(relevant, drawn), 1)
    cut = relevant if metric.cut in (None, "r") else int(metric.cut)
    return {"r": relevant, "cut": cut, "smaller": min(relevant, cut), "one": 1}[law.divisor]


def _law(metric: Metric) -> Law:
    law = law_of(metric)
    if law is None:
        raise TypeError(f"{metric} has no law of gallery size")
    return law
