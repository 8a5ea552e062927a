"""Exact rankings cut at k: what lies beyond is one tie group, as in a list of k places.

A tie group that the cut divides gives some of its items to the list, any of them. So a query's
groups become several, each with its probability: lower and upper are the least and the greatest
over them, expected is their mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.groups import Measure, TieGroups
from truerank.errors import InputError

__all__ = ["CutGroups"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
MOST_WAYS = 100_000
"""Ways to divide one tie group that are looked at."""


@dataclass(frozen=True)
class CutGroups:
    """Tie groups of queries whose rankings are cut, in all ways in which that can be."""

    ways: TieGroups
    """Groups of every way of every query."""
    offsets: Integers
    """Query q owns the ways offsets[q] to offsets[q + 1]."""
    weight: Reals
    """The probability of each way."""

    @staticmethod
    def of(groups: TieGroups, k: Integers) -> CutGroups:
        """The groups cut behind the first k items, a number for each query."""
        queries = len(groups)
        owner = np.repeat(np.arange(queries), np.diff(groups.offsets))
        limit, end = k[owner], groups.before + groups.size
        divided = np.flatnonzero((groups.before < limit) & (limit < end))
        divisions = {
            int(owner[at]): divide(
                tuple(groups.graded[at].tolist()),
                int(groups.size[at]),
                int(limit[at] - groups.before[at]),
            )
            for at in divided.tolist()
        }
        count = np.ones(queries, np.int64)
        count[list(divisions)] = [len(weights) for _, weights in divisions.values()]
        way_of = np.repeat(np.arange(queries), count)
        offsets = np.concatenate([[0], np.cumsum(count)])
        weight = np.ones(len(way_of))
        listed = np.zeros((len(way_of), groups.graded.shape[1]), np.int64)
        for query, (some, weights) in divisions.items():
            listed[offsets[query] : offsets[query + 1]] = some
            weight[offsets[query] : offsets[query + 1]] = weights

        whole = _chosen(groups, end <= limit, owner).some(way_of)
        at_cut = np.full(queries, -1)
        at_cut[owner[divided]] = divided
        cut = np.flatnonzero(listed.any(axis=1))
        group = at_cut[way_of[cut]]
        missing = groups.totals[way_of] - whole.totals - listed
        behind = np.flatnonzero(missing.any(axis=1))
        owing = way_of[behind]
        owners = np.repeat(np.arange(len(way_of)), np.diff(whole.offsets))
        owners = np.concatenate([owners, cut, behind])
        order = np.argsort(owners, kind="stable")  # whole ones, the divided one, what lies behind
        before = [whole.before, groups.before[group], k[owing]]
        size = [whole.size, k[way_of[cut]] - groups.before[group], (groups.candidates - k)[owing]]
        graded: list[npt.NDArray[Any]] = [whole.graded, listed[cut], missing[behind]]
        ways = TieGroups(
            np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(way_of)))]),
            np.concatenate(before)[order],
            np.concatenate(size)[order],
            np.concatenate(graded)[order].astype(np.int32),
            groups.candidates[way_of],
        )
        return CutGroups(ways, offsets, weight)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def values(self, metric: Any, scale: Any, measure: Measure) -> Reals:
        """See TieGroups."""
        every = self.ways.values(metric, scale, measure)
        start = self.offsets[:-1]
        lower = np.minimum.reduceat(every[0], start)
        upper = np.maximum.reduceat(every[2], start)
        expected = every[1][start]
        for query in np.flatnonzero(np.diff(self.offsets) > 1).tolist():
            own = slice(*self.offsets[query : query + 2])
            expected[query] = math.fsum((every[1][own] * self.weight[own]).tolist())
        return np.stack([lower, np.clip(expected, lower, upper), upper])

    def at_least(self, grade: int) -> tuple[Integers, CutGroups]:
        """See TieGroups: every way has all the mates, so that a query stays with all of them."""
        return self._kept(*self.ways.at_least(grade))

    def among_graded(self) -> tuple[Integers, CutGroups]:
        """See TieGroups."""
        return self._kept(*self.ways.among_graded())

    def _kept(self, kept: Integers, few: TieGroups) -> tuple[Integers, CutGroups]:
        owner = np.repeat(np.arange(len(self)), np.diff(self.offsets))[kept]
        queries, count = np.unique(owner, return_counts=True)
        offsets = np.concatenate([[0], np.cumsum(count)])
        return queries, CutGroups(few, offsets, self.weight[kept])

    @property
    def totals(self) -> Integers:
        """See TieGroups."""
        return self.ways.totals[self.offsets[:-1]]

    @property
    def candidates(self) -> Integers:
        """See TieGroups."""
        return self.ways.candidates[self.offsets[:-1]]

    @property
    def mixed(self) -> Integers:
        """See TieGroups; of the first way of each query."""
        return self.ways.mixed[self.offsets[:-1]]

    def first(self) -> Integers:
        """See TieGroups; of the first way of each query."""
        return self.ways.first()[:, self.offsets[:-1]]

    def nearest_level(self) -> Integers:
        """See TieGroups; of the worst way of each query."""
        return np.minimum.reduceat(self.ways.nearest_level(), self.offsets[:-1])


def _chosen(groups: TieGroups, kept: npt.NDArray[np.bool_], owner: Integers) -> TieGroups:
    """Some of the groups of all queries, which then may have none."""
    own = np.bincount(owner[kept], minlength=len(groups))
    return TieGroups(
        np.concatenate([[0], np.cumsum(own)]),
        groups.before[kept],
        groups.size[kept],
        groups.graded[kept],
        groups.candidates,
    )


@lru_cache(maxsize=4096)
def divide(graded: tuple[int, ...], size: int, first: int) -> tuple[Integers, Reals]:
    """How many of each grade the first so many of a tie group can hold, and how likely that is.

    Examples
    --------
    >>> divide((1,), 3, 2)
    (array([[0],
           [1]]), array([0.33333333, 0.66666667]))
    """
    others = size - sum(graded)
    if math.prod(min(number, first) + 1 for number in graded) > MOST_WAYS:
        raise InputError(
            f"a tie group of {size} items, {', '.join(map(str, graded))} of them of each grade, "
            f"can be cut behind {first} in more than {MOST_WAYS:,} ways; choose another k."
        )
    ways = [way for way in _ways(graded, first) if first - sum(way) <= others]
    every = math.comb(size, first)
    weights = [
        math.prod(math.comb(number, x) for number, x in zip(graded, way, strict=True))
        * math.comb(others, first - sum(way))
        / every
        for way in ways
    ]
    return np.array(ways, np.int64), np.array(weights)


def _ways(graded: tuple[int, ...], first: int) -> Iterator[tuple[int, ...]]:
    for way in product(*(range(min(number, first) + 1) for number in graded)):
        if sum(way) <= first:
            yield way
