"""Watchers: what else is counted while the ranking pass has the exact distances in its hands.

A watcher sees every pair once, tile by tile or row by row, in any order and from several threads.
What it adds up are integers, so neither tiles nor threads can be seen in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import fill
from truerank.core.groups import LocatedGroups
from truerank.engine.cuts import Cuts
from truerank.engine.sight import Apart, Range, Sight
from truerank.engine.threads import Workspace
from truerank.space import Distances

__all__ = [
    "Audience",
    "Collector",
    "Extent",
    "Nearest",
    "Observer",
    "PerThread",
    "RankWatcher",
    "Rest",
    "Tables",
    "Tally",
    "Watcher",
    "Witness",
    "restore",
    "states",
    "total",
]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Rest = Callable[[], None]
SORTED = 1 << 22
"""Up to this many collected distances are sorted once for all."""


class Observer:
    """Whoever is shown distances."""

    whole_rows = False
    """Whether it must see the whole gallery at once."""
    whole_matrix = False
    """Whether it must see pairs that never meet as well."""


class Watcher(Observer, ABC):
    """Sees tiles of distances."""

    @abstractmethod
    def see(self, sight: Sight) -> list[Rest] | None:
        """Take in a block; what is left to do without its distances may be handed back."""

    def look(self, sight: Sight) -> None:
        """Take in a block, with nothing left to do."""
        for rest in self.see(sight) or ():
            rest()


class RankWatcher(Observer, ABC):
    """Sees whole rows of distances with their tie groups by the finest label."""

    whole_rows = True

    @abstractmethod
    def see(self, sight: Sight, groups: LocatedGroups) -> list[Rest] | None:
        """Take in a block; queries without a mate have no groups."""

    def look(self, sight: Sight, groups: LocatedGroups) -> None:
        """Take in a block, with nothing left to do."""
        for rest in self.see(sight, groups) or ():
            rest()


class Witness(Observer, ABC):
    """One whose sights can be kept, and given back to another one that was made alike."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """What it has seen so far, by name, in arrays of their own; while nothing is shown."""

    @abstractmethod
    def restore(self, state: dict[str, Array]) -> None:
        """Go on from there; a KeyError or a ValueError says that it is no state of this watcher."""


def states(witnesses: Sequence[Witness]) -> dict[str, Array]:
    """What all of them have seen."""
    return {
        f"{number}-{name}": array
        for number, witness in enumerate(witnesses)
        for name, array in witness.state().items()
    }


def restore(witnesses: Sequence[Witness], state: dict[str, Array]) -> None:
    """Give back what `states` said they had seen."""
    for number, witness in enumerate(witnesses):
        head = f"{number}-"
        mine = {name[len(head) :]: state[name] for name in state if name.startswith(head)}
        witness.restore(mine)


class Audience:
    """All watchers of a pass. What has at least `grade` counts as relevant for them."""

    def __init__(self, watchers: Sequence[Observer], *, grade: int = 1) -> None:
        tiled = [watcher for watcher in watchers if isinstance(watcher, Watcher)]
        self._matrix = [watcher for watcher in tiled if watcher.whole_matrix]
        self._tiled = [watcher for watcher in tiled if not watcher.whole_matrix]
        self._ranked = [watcher for watcher in watchers if isinstance(watcher, RankWatcher)]
        self._witnesses = [watcher for watcher in watchers if isinstance(watcher, Witness)]
        self._grade = grade
        self.whole_rows = any(watcher.whole_rows for watcher in watchers)
        """Whether anyone must see the whole gallery at once."""
        self.resumable = len(self._witnesses) == len(watchers)
        """Whether all that they have seen can be kept."""

    def see(self, sight: Sight, excluded: Apart) -> list[Rest]:
        """Show a tile, in which pairs that never meet become infinitely far apart; they stay so.

        What watchers leave to do is handed back.
        """
        left = [watcher.see(sight) for watcher in self._matrix]
        sight.separate(excluded)
        left += [watcher.see(sight) for watcher in self._tiled]
        return [rest for part in left for rest in part or ()]

    def see_rows(
        self, sight: Sight, excluded: Apart, groups: Callable[[], LocatedGroups]
    ) -> list[Rest]:
        """Show whole rows; their tie groups are asked for once pairs are set apart."""
        left = self.see(sight, excluded)
        finest = groups().binary(self._grade)
        for watcher in self._ranked:
            left += watcher.see(sight, finest) or ()
        return left

    def look(self, sight: Sight, excluded: Apart) -> None:
        """Show a tile, with nothing left to do."""
        for rest in self.see(sight, excluded):
            rest()

    def look_at_rows(
        self, sight: Sight, excluded: Apart, groups: Callable[[], LocatedGroups]
    ) -> None:
        """Show whole rows, with nothing left to do."""
        for rest in self.see_rows(sight, excluded, groups):
            rest()

    def state(self) -> dict[str, Array]:
        """What they have seen, while nothing is shown."""
        return states(self._witnesses)

    def restore(self, state: dict[str, Array]) -> None:
        """Let them go on from there."""
        restore(self._witnesses, state)


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

    def put(self, kept: Kept) -> None:
        """In place of everybody's."""
        self._held = {0: kept}


class Tables:
    """Tables of counts that are added up in the end, as many as were written to at a time."""

    def __init__(self, make: Callable[[], npt.NDArray[np.integer]]) -> None:
        self._make = make
        self.all: list[npt.NDArray[np.integer]] = []
        self._free: deque[npt.NDArray[np.integer]] = deque()

    @contextmanager
    def take(self) -> Iterator[npt.NDArray[np.integer]]:
        """One that nobody else has until it is given back."""
        try:
            table = self._free.pop()
        except IndexError:
            table = self._make()
            self.all.append(table)
        try:
            yield table
        finally:
            self._free.append(table)

    def total(self, rows: slice = slice(None)) -> Integers:
        """Their sum, in 64 bits; of some rows, if asked for."""
        return _sum([table[rows] for table in self.all or [self._make()]])

    def put(self, total: Integers) -> None:
        """One table that holds this, in place of all."""
        table = self._make()
        fill(np.empty(table.shape, np.int64), total)
        table[...] = total
        self.all, self._free = [table], deque([table])


def total(arrays: PerThread[Any]) -> Integers:
    """The sum over all threads, in 64 bits."""
    return _sum(arrays.all())


def _sum(arrays: Sequence[npt.NDArray[np.integer]]) -> Integers:
    first, *others = arrays
    found: Integers = first.astype(np.int64)
    for part in others:
        found += part
    return found


class Tally(Watcher, Witness):
    """Distances counted between cuts, for each owner: everything, each class, each query.

    `owner` numbers the owner of each query, `item_owner` that of each gallery item; with both, each
    pair counts twice, once for either side.
    """

    def __init__(
        self,
        cuts: Cuts,
        owner: Integers,
        owners: int,
        item_owner: Integers | None = None,
        *,
        most: int = 1 << 62,
    ) -> None:
        """`most` bounds the pairs of any one owner: counters may be small if it is."""
        self.cuts, self._owner, self._item_owner = cuts, owner, item_owner
        self._shape = (owners, len(cuts) + 1)
        kind = np.int32 if most < 1 << 31 else np.int64
        self._counts = Tables(lambda: np.zeros(self._shape, kind))

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        sight.tally(self.cuts, self._owner[sight.rows], self._counts.take)
        if self._item_owner is not None:
            owner = self._item_owner[sight.items]
            sight.tally(self.cuts, owner, self._counts.take, turned=True)

    def state(self) -> dict[str, Array]:
        """See Witness."""
        return {"counts": self._counts.total()}

    def restore(self, state: dict[str, Array]) -> None:
        """See Witness."""
        self._counts.put(state["counts"])

    @property
    def counts(self) -> Integers:
        """(owners, cuts + 1): distances up to each cut and above the one before."""
        return self._counts.total()

    def counts_of(self, owners: slice) -> Integers:
        """The same for some of the owners."""
        return self._counts.total(owners)

    @property
    def pooled(self) -> Integers:
        """(cuts + 1,): the same for all owners together, one of which may need 64 bits."""
        found = np.zeros(self._shape[1], np.int64)
        for part in self._counts.all:
            found += part.sum(axis=0, dtype=np.int64)
        return found

    @property
    def accepted(self) -> Integers:
        """(owners, cuts): distances up to each cut."""
        return np.cumsum(self.counts, axis=1)[:, :-1]


class Nearest(Watcher, Witness):
    """The distance of every query's nearest candidate, relevant or not; infinite if it has none."""

    def __init__(self, queries: int) -> None:
        self._least = PerThread(lambda: np.full(queries, np.inf))

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        mine = self._least.mine()
        mine[sight.rows] = np.minimum(mine[sight.rows], sight.least())

    def state(self) -> dict[str, Array]:
        """See Witness."""
        return {"distance": self.distance}

    def restore(self, state: dict[str, Array]) -> None:
        """See Witness."""
        fill(self.distance, state["distance"])
        self._least.put(state["distance"].copy())

    @property
    def distance(self) -> Distances:
        """By query."""
        return np.asarray(np.min(self._least.all(), axis=0), np.float64)


class Extent(Watcher):
    """The smallest and the largest distance of the whole matrix."""

    whole_matrix = True

    def __init__(self) -> None:
        self._ends: PerThread[list[float]] = PerThread(lambda: [np.inf, -np.inf])

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        ends = self._ends.mine()
        low, high = sight.ends()
        ends[:] = min(ends[0], low), max(ends[1], high)

    @property
    def ends(self) -> tuple[float, float]:
        """Smallest and largest."""
        parts = self._ends.all()
        return min(part[0] for part in parts), max(part[1] for part in parts)


class Collector(Watcher, Witness):
    """Every distance in one of the ranges (low, high]."""

    def __init__(self, ranges: list[Range]) -> None:
        self.ranges = ranges
        self._parts: PerThread[list[list[Distances]]] = PerThread(lambda: [[] for _ in ranges])
        self._places = PerThread(Workspace)
        self._sorted: dict[int, Distances] = {}

    def see(self, sight: Sight) -> None:
        """See Watcher."""
        found = sight.between(self.ranges, self._places.mine())
        for part, distances in zip(self._parts.mine(), found, strict=True):
            part.append(distances)

    def state(self) -> dict[str, Array]:
        """See Witness."""
        return {str(number): self._together(number) for number in range(len(self.ranges))}

    def restore(self, state: dict[str, Array]) -> None:
        """See Witness."""
        for kept in state.values():
            fill(np.empty(len(kept)), kept)
        self._parts.put([[state[str(number)]] for number in range(len(self.ranges))])

    def _together(self, number: int) -> Distances:
        parts = [part for thread in self._parts.all() for part in thread[number]]
        return np.concatenate([*parts, np.empty(0)])

    def distances(self, number: int, low: float, high: float) -> Distances:
        """The distances of one range that lie in (low, high], ascending."""
        if number not in self._sorted:
            parts = [part for thread in self._parts.all() for part in thread[number]]
            if sum(map(len, parts)) > SORTED:  # of so many, few are asked for
                parts = [part[(part > low) & (part <= high)] for part in parts]
                return np.sort(np.concatenate(parts))
            self._sorted[number] = np.sort(self._together(number))
        every = self._sorted[number]
        first, last = np.searchsorted(every, [low, high], side="right")
        return every[first:last]
