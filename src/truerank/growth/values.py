"""Ranking metrics in galleries of fewer items: tie groups in, (lower, expected, upper) out.

Queries with as many mates and as many others share what their mates contribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.groups import TieGroups
from truerank.core.metric import Metric
from truerank.growth import group_kernels
from truerank.growth.kin import Kin
from truerank.growth.laws import drawn_of, known_law
from truerank.growth.records import Boxes, Map, Records, Terms

__all__ = ["Growth"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
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
            count = group_kernels.moved_places(kin.last, lost, np.zeros(most, np.int64), places)
            g, before = places[:, :count]
            boxes = (before, before, (kin.seen + 1)[g], (kin.seen + kin.mates)[g])
            [held] = records.hold([boxes])
            out = np.empty((length, len(kin.offsets) - 1, columns))
            spare = (np.empty((most, length)), np.zeros(most, np.int64), np.empty(length))
            groups = (kin.last, kin.seen, kin.mates, kin.offsets, lost, held)
            group_kernels.moves(*records.told(*groups, *spare, np.empty((columns, length)), out))
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
        group_kernels.mixtures(*records.told(*self._distinct, chance, total, given))
        expected = self._contributions(records, kin.before, self._number, given)
        return np.stack([lower, expected, upper])

    def _contributions(
        self, records: Records, before: Integers, number: Integers, given: Reals
    ) -> Reals:
        """Sums of what groups contribute; those with a number contribute what is given."""
        kin = self.kin
        out = np.zeros((len(kin.offsets) - 1, records.length))
        groups = (kin.offsets, before, kin.seen, kin.mates, number, given)
        group_kernels.contributions(*records.told(*groups, np.empty(records.length), out))
        return out


def _divisor(metric: Metric, kin: Kin, drawn: int) -> int:
    """What a sum of contributions is divided by; negative where they are losses."""
    law, relevant = known_law(metric), kin.relevant
    if law.divisor == "preference":
        return -relevant * max(min(relevant, drawn), 1)
    cut = relevant if metric.cut in (None, "r") else int(metric.cut)
    return {"r": relevant, "cut": cut, "smaller": min(relevant, cut), "one": 1}[law.divisor]
