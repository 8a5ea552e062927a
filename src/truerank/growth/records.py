"""Records of what mates contribute at all sizes, of queries with R mates and M others.

The j-th mate with b others before it contributes the same in whatever query: what (b, j) is worth
is computed once and kept. Few of all pairs occur, since most mates come early.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric
from truerank.growth import group_kernels, kernels
from truerank.growth.laws import known_law

__all__ = ["Boxes", "Map", "Records", "Terms"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Boxes = tuple[Integers, Integers, Integers, Integers]
"""The least and the largest b, and the least and the largest j, of all (b, j) in each of some
boxes."""
NO_CUT = 1 << 40
"""A cut-off beyond any rank."""
FEWEST_SLOTS = 1 << 10
AT_A_TIME = 1 << 12
"""Records that are worth a thread."""
_MATES = {"all": kernels.ALL, "first": kernels.FIRST, "last": kernels.LAST}
_TERMS = {"precision": kernels.PRECISION, "found": kernels.FOUND, "before": kernels.BEFORE}


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
            which.append(kernels.FIRST if alone else _MATES[law.mates])
        order = np.argsort(which, kind="stable")
        told = [np.array(part, np.int64)[order] for part in (what, cuts, which)]
        return Terms(relevant, told[0], told[1], told[2], order)

    @property
    def every(self) -> int:
        """Terms to which all mates contribute."""
        return int(np.count_nonzero(self.which == kernels.ALL))


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
        length = kernels.window_length(self._others)
        width = terms.relevant * terms.every + len(terms.which) - terms.every
        spare = (np.empty(length), np.empty(length), np.empty(width), np.empty(self.length))
        return (*law, terms.every, self._slots, self._values, *spare, *more)

    def sums_of_mates(self, offsets: Integers, seen: Integers, places: Integers) -> Reals:
        """(queries, terms and sizes): sums over mates, each in a group of its own, whose records
        stand at these places."""
        out = np.empty((len(offsets) - 1, self.length))
        terms = self._terms
        told = (terms.relevant, terms.every * len(self._drawn), offsets, seen, places)
        group_kernels.sums_of_mates(*told, self._values, out)
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
        for _ in each(lambda part: group_kernels.fill(*self.told(part)), parts):
            pass

    def _ask(self, boxes: Boxes, places: Integers) -> Iterator[Integers]:
        """(b, j, place) of the records of boxes that have had no place."""
        box, terms = 0, self._terms
        numbers = (terms.relevant, terms.every * len(self._drawn), self.length)
        while True:
            asked = np.empty((len(self._slots) // 2 - self._count, 3), np.int64)
            box, count, self.used = group_kernels.ask(
                self._slots, *numbers, self.used, self._room, box, *boxes, places, asked
            )
            self._count += count
            yield asked[:count].copy()
            if box == len(boxes[0]):
                return
            slots = _no_slots(4 * len(self._slots))
            group_kernels.rehash(self._slots, slots, terms.relevant)
            self._slots = slots


def _no_slots(count: int) -> Integers:
    slots = np.empty((count, 2), np.int64)
    slots[:, 0] = -1
    return slots
