"""Negatives sampled for each class, so many for each of its positives, in place of all of them.

A seed gives every pair of a query and an item a digest, made of what the two rows hold. A class
takes its negative pairs with the lowest digests, so that a seed picks the same pairs however rows
are arranged and labels are named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.families.family import Positives
from truerank.families.opis.classes import ClassTable
from truerank.pairs import PairList
from truerank.space import Distances, Space
from truerank.space.fingerprint import Fingerprints, mix
from truerank.task import TaskRules

__all__ = ["SampledNegatives", "draw", "to_draw"]

Integers = npt.NDArray[np.int64]
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
