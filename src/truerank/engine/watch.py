"""Watchers: what else is counted while the ranking pass has the exact distances in its hands.

A watcher sees every query's whole row once, in any order and from several threads. What it adds up
are integers, so neither blocks nor threads can be seen in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock, get_ident
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from truerank.engine.counts import TieGroups
from truerank.engine.cuts import Cuts, tally
from truerank.space import Distances, Rows

__all__ = [
    "LARGEST",
    "Audience",
    "Collector",
    "Extent",
    "Nearest",
    "PerThread",
    "Sight",
    "Tally",
    "Watcher",
]

Integers = npt.NDArray[np.int64]
LARGEST = np.finfo(np.float64).max
"""Pairs that never meet are beyond it."""


@dataclass(frozen=True)
class Sight:
    """A block of queries against the whole gallery; valid only while it is looked at."""

    rows: Rows
    distances: Distances
    """(rows, gallery), infinite where a pair never meets."""
    groups: TieGroups | None
    """Tie groups by the finest label, no groups for queries without a mate; None in a sweep."""
    compiled: bool
    """Whether compiled kernels may be used; the reference engine has numpy alone."""


class Watcher(ABC):
    """Sees blocks of whole rows."""

    whole_matrix = False
    """Whether it must see pairs that never meet as well."""

    @abstractmethod
    def see(self, sight: Sight) -> None:
        """Take in a block."""


class Audience:
    """All watchers of a pass. What has at least `grade` counts as relevant for them."""

    def __init__(self, watchers: Sequence[Watcher], *, grade: int = 1, compiled: bool) -> None:
        self._matrix = [watcher for watcher in watchers if watcher.whole_matrix]
        self._ranked = [watcher for watcher in watchers if not watcher.whole_matrix]
        self._grade, self._compiled = grade, compiled

    def matrix(self, rows: Rows, distances: Distances) -> None:
        """Show rows as they are."""
        for watcher in self._matrix:
            watcher.see(Sight(rows, distances, None, self._compiled))

    def ranked(self, rows: Rows, distances: Distances, groups: TieGroups | None) -> None:
        """Show rows in which pairs that never meet are infinitely far apart."""
        groups = None if groups is None else groups.binary(self._grade)
        for watcher in self._ranked:
            watcher.see(Sight(rows, distances, groups, self._compiled))


Kept = TypeVar("Kept")


class PerThread(Generic[Kept]):
    """One accumulator for each thread that asks for it."""

    def __init__(self, make: Callable[[], Kept]) -> None:
        self._make, self._lock = make, Lock()
        self._held: dict[int, Kept] = {}

    def mine(self) -> Kept:
        """This thread's own."""
        with self._lock:
            if get_ident() not in self._held:
                self._held[get_ident()] = self._make()
            return self._held[get_ident()]

    def all(self) -> list[Kept]:
        """Everybody's; the first is made if nobody has asked yet."""
        return list(self._held.values()) or [self._make()]


class Tally(Watcher):
    """Distances counted between cuts, for each owner: everything, each class, each query.

    `owner` numbers the owner of each query, `item_owner` that of each gallery item; with both, each
    pair counts twice, once for either side.
    """

    def __init__(
        self, cuts: Cuts, owner: Integers, owners: int, item_owner: Integers | None = None
    ) -> None:
        self.cuts, self._owner, self._item_owner = cuts, owner, item_owner
        self._shape = (owners, len(cuts) + 1)
        self._counts = PerThread(lambda: np.zeros(self._shape, np.int64))

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        mine = self._counts.mine()
        owner = self._owner[sight.rows]
        tally(sight.distances, self.cuts, owner, mine, compiled=sight.compiled)
        if self._item_owner is not None:
            columns = np.ascontiguousarray(sight.distances.T)
            tally(columns, self.cuts, self._item_owner, mine, compiled=sight.compiled)

    @property
    def counts(self) -> Integers:
        """(owners, cuts + 1): distances up to each cut and above the one before."""
        total = np.zeros(self._shape, np.int64)
        for part in self._counts.all():
            total += part
        return total

    @property
    def accepted(self) -> Integers:
        """(owners, cuts): distances up to each cut."""
        return np.cumsum(self.counts, axis=1)[:, :-1]


class Nearest(Watcher):
    """The distance of every query's nearest candidate, relevant or not; infinite if it has none."""

    def __init__(self, queries: int) -> None:
        self.distance = np.full(queries, np.inf)

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        self.distance[sight.rows] = sight.distances.min(axis=1)


class Extent(Watcher):
    """The smallest and the largest distance of the whole matrix."""

    whole_matrix = True

    def __init__(self) -> None:
        self._ends: PerThread[list[float]] = PerThread(lambda: [np.inf, -np.inf])

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        ends = self._ends.mine()
        ends[0] = min(ends[0], float(sight.distances.min()))
        ends[1] = max(ends[1], float(sight.distances.max()))

    @property
    def ends(self) -> tuple[float, float]:
        """Smallest and largest."""
        parts = self._ends.all()
        return min(part[0] for part in parts), max(part[1] for part in parts)


class Collector(Watcher):
    """Every pair with a distance in one of the ranges (low, high]."""

    def __init__(self, ranges: list[tuple[float, float]], *, queries: bool = False) -> None:
        self.ranges, self._queries = ranges, queries
        self._parts: PerThread[list[list[tuple[Integers, Distances]]]] = PerThread(
            lambda: [[] for _ in ranges]
        )

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        mine = self._parts.mine()
        flat = sight.distances.ravel()
        width = sight.distances.shape[1]
        nobody = np.empty(0, np.int64)
        for (low, high), part in zip(self.ranges, mine, strict=True):
            inside = flat <= min(high, LARGEST)
            inside &= flat > low
            found = np.flatnonzero(inside)
            part.append((sight.rows[found // width] if self._queries else nobody, flat[found]))

    def pairs(self, number: int) -> tuple[Integers, Distances]:
        """Queries (if asked for) and distances of one range, in no particular order."""
        parts = [part for thread in self._parts.all() for part in thread[number]]
        return (
            np.concatenate([query for query, _ in parts] or [np.empty(0, np.int64)]),
            np.concatenate([distance for _, distance in parts] or [np.empty(0)]),
        )

    def distances(self, number: int) -> Distances:
        """The distances of one range, ascending."""
        return np.sort(self.pairs(number)[1])
