"""Reducers: what else is counted while a pass has the exact distances, such as histograms.

A reducer sees every pair once, tile by tile or row by row, in any order and from several
threads. It adds up integers, so neither tiles nor threads change its sums. Some count per
jackknife group of the gallery: groups are columns of a table, and an item counts in one column
of each assignment.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.checkpoint import fill
from truerank._util.threads import PerThread, Tables, Workspace
from truerank._util.types import Array, Integers
from truerank.core.tie_groups import LocatedGroups
from truerank.distance.base import Distances, Rows
from truerank.engine.blocks import Columns, Cuts, DistanceBlock, DistanceRange, ExcludedPairs

Part = dict[str, Any]
"""What an observer in another process has seen: arrays by name, small ones where rows are few."""
Deferred = Callable[[], None]
"""Work that needs the distances no more, and may be done later."""
SORTED = 1 << 22
"""Up to this many collected distances are sorted once for all."""


class Observer:
    """Something that sees the distances of a pass."""

    whole_rows = False
    """Whether it must see the whole gallery at once."""
    whole_matrix = False
    """Whether it must see pairs that never meet as well."""
    asks_for_cuts = False
    """Whether all that it asks of a block is what few exact distances decide: how many lie up to
    some cuts, which are the nearest."""

    def part(self, rows: Rows) -> Part:
        """What was seen, all of it of these queries, to be added to an observer that is alike."""
        raise NotImplementedError(f"{type(self).__name__} is seen by one process only")

    def add(self, rows: Rows, part: Part) -> None:
        """Add what another observer has seen of these queries, and nobody else has."""
        raise NotImplementedError(f"{type(self).__name__} is seen by one process only")


class PairObserver(Observer, ABC):
    """An observer of tiles of distances."""

    @abstractmethod
    def observe(self, block: DistanceBlock) -> list[Deferred] | None:
        """Observe a block; what is left to do without its distances may be handed back."""

    def observe_at_once(self, block: DistanceBlock) -> None:
        """Observe a block, with nothing left to do."""
        for deferred in self.observe(block) or ():
            deferred()

    def observe_both(self, block: DistanceBlock) -> None:
        """Observe a block, and the same pairs from their other side."""
        self.observe_at_once(block)
        self.observe_at_once(block.turned)


class RankObserver(Observer, ABC):
    """An observer of whole rows of distances with their tie groups by the finest label."""

    whole_rows = True

    @abstractmethod
    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> list[Deferred] | None:
        """Observe a block; queries without a mate have no groups."""

    def observe_at_once(self, block: DistanceBlock, groups: LocatedGroups) -> None:
        """Observe a block, with nothing left to do."""
        for deferred in self.observe(block, groups) or ():
            deferred()


class ResumableObserver(Observer, ABC):
    """An observer whose findings can be saved and restored in another one that was made alike."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """What the observer has seen so far, as arrays by name, copied between two blocks."""

    @abstractmethod
    def restore(self, state: dict[str, Array]) -> None:
        """Go on from a state; a KeyError or a ValueError says that it is no state of this one."""


def states(observers: Sequence[ResumableObserver]) -> dict[str, Array]:
    """What all the observers have seen, as arrays by number and name."""
    return {
        f"{number}-{name}": array
        for number, observer in enumerate(observers)
        for name, array in observer.state().items()
    }


def restore(observers: Sequence[ResumableObserver], state: dict[str, Array]) -> None:
    """Let the observers go on from what `states` returned."""
    for number, observer in enumerate(observers):
        head = f"{number}-"
        mine = {name[len(head) :]: state[name] for name in state if name.startswith(head)}
        observer.restore(mine)


class Observers:
    """All observers of a pass. What has at least `grade` counts as relevant for them."""

    def __init__(self, observers: Sequence[Observer], *, grade: int = 1) -> None:
        tiled = [observer for observer in observers if isinstance(observer, PairObserver)]
        self._matrix = [observer for observer in tiled if observer.whole_matrix]
        self._tiled = [observer for observer in tiled if not observer.whole_matrix]
        self._ranked = [observer for observer in observers if isinstance(observer, RankObserver)]
        self._resumable = [
            observer for observer in observers if isinstance(observer, ResumableObserver)
        ]
        self._grade, self._all = grade, list(observers)
        self.whole_rows = any(observer.whole_rows for observer in observers)
        """Whether an observer must see the whole gallery at once."""
        self.ask_for_cuts = all(observer.asks_for_cuts for observer in observers)
        """Whether float32 scores answer most of what the observers ask."""
        self.resumable = len(self._resumable) == len(observers)
        """Whether all that the observers have seen can be kept."""

    def observe(self, block: DistanceBlock, excluded: ExcludedPairs) -> list[Deferred]:
        """Let all observers see a tile, whose excluded pairs become infinitely far for good.

        What observers leave to do is handed back.
        """
        left = [observer.observe(block) for observer in self._matrix]
        block.separate(excluded)
        left += [observer.observe(block) for observer in self._tiled]
        return [deferred for part in left for deferred in part or ()]

    def observe_rows(
        self, block: DistanceBlock, excluded: ExcludedPairs, groups: Callable[[], LocatedGroups]
    ) -> list[Deferred]:
        """Let all observers see whole rows; tie groups are asked for once pairs are excluded."""
        left = self.observe(block, excluded)
        finest = groups().binary(self._grade)
        for observer in self._ranked:
            left += observer.observe(block, finest) or ()
        return left

    def observe_at_once(self, block: DistanceBlock, excluded: ExcludedPairs) -> None:
        """Let all observers see a tile, with nothing left to do."""
        for deferred in self.observe(block, excluded):
            deferred()

    def observe_both(self, block: DistanceBlock) -> None:
        """Let all observers see a tile from both sides, in which all pairs meet."""
        for observer in self._matrix + self._tiled:
            observer.observe_both(block)

    def observe_rows_at_once(
        self, block: DistanceBlock, excluded: ExcludedPairs, groups: Callable[[], LocatedGroups]
    ) -> None:
        """Let all observers see whole rows, with nothing left to do."""
        for deferred in self.observe_rows(block, excluded, groups):
            deferred()

    def parts(self, rows: Rows) -> list[Part]:
        """What each observer has seen, all of it of these queries."""
        return [observer.part(rows) for observer in self._all]

    def add(self, rows: Rows, parts: list[Part]) -> None:
        """Add what the observers of another process have seen of these queries."""
        for observer, part in zip(self._all, parts, strict=True):
            observer.add(rows, part)

    def state(self) -> dict[str, Array]:
        """What all observers have seen, between two blocks."""
        return states(self._resumable)

    def restore(self, state: dict[str, Array]) -> None:
        """Let all observers go on from a state."""
        restore(self._resumable, state)


class Tally(PairObserver, ResumableObserver):
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

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        block.tally(self.cuts, self._owner[block.rows], self._counts.borrow)
        if self._item_owner is not None:
            owner = self._item_owner[block.items]
            block.tally(self.cuts, owner, self._counts.borrow, turned=True)

    def observe_both(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        if self._item_owner is not None:
            super().observe_both(block)
        elif self._shape[0] > 1:
            sides = (self._owner[block.rows], self._owner[block.items])
            block.tally_both(self.cuts, *sides, self._counts.borrow)
        else:  # whose side it is does not show
            block.tally_twice(self.cuts, self._owner[block.rows], self._counts.borrow)

    def state(self) -> dict[str, Array]:
        """See ResumableObserver."""
        return {"counts": self._counts.total()}

    def restore(self, state: dict[str, Array]) -> None:
        """See ResumableObserver."""
        self._counts.put(state["counts"])

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return self._counts.part(None if self._item_owner is not None else self._owner[rows])

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self._counts.add(part)

    @property
    def counts(self) -> Integers:
        """(owners, cuts + 1): distances up to each cut and above the one before."""
        return self._counts.total()

    def counts_of(self, owners: slice) -> Integers:
        """(some owners, cuts + 1): distances up to each cut and above the one before."""
        return self._counts.total(owners)

    @property
    def pooled(self) -> Integers:
        """(cuts + 1,): the counts of all owners together, which may need 64 bits."""
        found = np.zeros(self._shape[1], np.int64)
        for part in self._counts.all:
            found += part.sum(axis=0, dtype=np.int64)
        return found

    @property
    def accepted(self) -> Integers:
        """(owners, cuts): distances up to each cut."""
        return np.cumsum(self.counts, axis=1)[:, :-1]


class NearestDistance(PairObserver, ResumableObserver):
    """The distance of every query's nearest candidate, relevant or not; infinite if it has none."""

    asks_for_cuts = True

    def __init__(self, queries: int) -> None:
        self._least = PerThread(lambda: np.full(queries, np.inf))

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        mine = self._least.mine()
        mine[block.rows] = np.minimum(mine[block.rows], block.least())

    def state(self) -> dict[str, Array]:
        """See ResumableObserver."""
        return {"distance": self.distance}

    def restore(self, state: dict[str, Array]) -> None:
        """See ResumableObserver."""
        fill(self.distance, state["distance"])
        self._least.put(state["distance"].copy())

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"distance": self.distance[rows]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        mine = self._least.mine()
        mine[rows] = np.minimum(mine[rows], part["distance"])

    @property
    def distance(self) -> Distances:
        """The distance of each query's nearest candidate."""
        return np.asarray(np.min(self._least.all(), axis=0), np.float64)


class Extent(PairObserver):
    """The smallest and the largest distance of the whole matrix."""

    whole_matrix = True

    def __init__(self) -> None:
        self._ends: PerThread[list[float]] = PerThread(lambda: [np.inf, -np.inf])

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        ends = self._ends.mine()
        low, high = block.ends()
        ends[:] = min(ends[0], low), max(ends[1], high)

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"ends": self.ends}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        ends, (low, high) = self._ends.mine(), part["ends"]
        ends[:] = min(ends[0], low), max(ends[1], high)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest distance."""
        parts = self._ends.all()
        return min(part[0] for part in parts), max(part[1] for part in parts)


class Collector(PairObserver, ResumableObserver):
    """Collects every distance in one of the ranges (low, high]."""

    def __init__(self, ranges: list[DistanceRange]) -> None:
        self.ranges = ranges
        self._parts: PerThread[list[list[Distances]]] = PerThread(lambda: [[] for _ in ranges])
        self._workspaces = PerThread(Workspace)
        self._sorted: dict[int, Distances] = {}

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        self._collect(block, 1)

    def observe_both(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        self._collect(block, 2)

    def _collect(self, block: DistanceBlock, times: int) -> None:
        found = block.between(self.ranges, self._workspaces.mine())
        for part, distances in zip(self._parts.mine(), found, strict=True):
            part += [distances] * times

    def state(self) -> dict[str, Array]:
        """See ResumableObserver."""
        return {str(number): self._together(number) for number in range(len(self.ranges))}

    def restore(self, state: dict[str, Array]) -> None:
        """See ResumableObserver."""
        for kept in state.values():
            fill(np.empty(len(kept)), kept)
        self._parts.put([[state[str(number)]] for number in range(len(self.ranges))])

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return self.state()

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        for number, distances in enumerate(self._parts.mine()):
            distances.append(part[str(number)])

    def _together(self, number: int) -> Distances:
        parts = [part for thread in self._parts.all() for part in thread[number]]
        return np.concatenate([*parts, np.empty(0)])

    def unordered(self) -> list[Distances]:
        """The distances of all ranges, in parts and in no particular order."""
        return [p for thread in self._parts.all() for some in thread for p in some if len(p)]

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


# Observers that count by fold of the gallery, so that scores without each fold can be told.
#
# Folds are columns of a table. The gallery is cut into folds in one or more ways, and an item
# counts in one column of every way.


class TallyByFold(PairObserver, ResumableObserver):
    """Distances up to cuts, for each owner of one side and each fold of the other side.

    With `turned` the items have owners and the queries folds; owners below zero do not count. What
    lies beyond the last cut, and so most pairs, is not counted.
    """

    def __init__(
        self,
        cuts: Cuts,
        owner: Integers,
        owners: int,
        fold: Columns,
        columns: int,
        *,
        turned: bool = False,
    ) -> None:
        self._cuts, self._owner, self._fold, self._turned = cuts, owner, fold, turned
        self._shape = (owners, columns, len(cuts))
        # No more pairs than the largest owner has with the largest fold: small tables stay nearer.
        sizes = (np.bincount(ends) for ends in (owner[owner >= 0], fold.ravel()))
        most = math.prod(int(size.max(initial=0)) for size in sizes)
        kind = np.uint16 if most < 1 << 16 else np.int32
        self._counts = Tables(lambda: np.zeros(self._shape, kind))

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        sides = (block.items, block.rows) if self._turned else (block.rows, block.items)
        owner, fold = self._owner[sides[0]], self._fold[sides[1]]
        borrow = self._counts.borrow
        block.tally_by_fold(self._cuts, owner, fold, self._shape[1], borrow, turned=self._turned)

    def observe_both(self, block: DistanceBlock) -> None:
        """See PairObserver; the queries are the gallery, and have folds as well."""
        if self._turned:
            super().observe_both(block)
            return
        owners = (self._owner[block.rows], self._owner[block.items])
        folds = (self._fold[block.rows], self._fold[block.items])
        block.tally_both_by_fold(self._cuts, owners, folds, self._counts.borrow)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """See ResumableObserver."""
        return {"counts": self._counts.total()}

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """See ResumableObserver."""
        self._counts.put(state["counts"])

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return self._counts.part(None if self._turned else self._owner[rows])

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self._counts.add(part)

    def counts_in(self, column: int) -> Integers:
        """(owners, cuts): distances to items of a fold up to each cut and above the one before."""
        return self._counts.total((slice(None), column))

    def summed(self, columns: slice) -> Integers:
        """(owners, cuts): the same of some folds together."""
        return self._counts.summed(1, (slice(None), columns))

    @property
    def every(self) -> Integers:
        """(owners, columns): distances up to the last cut."""
        return self._counts.summed(2)


class NearestByFold(PairObserver, ResumableObserver):
    """The nearest item of every query in every fold, and the items there up to a given limit."""

    def __init__(self, limit: Distances, fold: Columns, columns: int) -> None:
        self._limit, self._fold = limit, fold
        shape = (len(limit), columns)
        self._found = PerThread(lambda: (np.full(shape, np.inf), np.zeros(shape, np.int32)))

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        block.nearest_by_fold(self._limit, self._fold[block.items], *self._found.mine())

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """See ResumableObserver."""
        return {"least": self.least, "within": self.within}

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """See ResumableObserver."""
        for name, array in self.state().items():
            fill(array, state[name])
        self._found.put((state["least"].copy(), state["within"].astype(np.int32)))

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"least": self.least[rows], "within": self.within[rows]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        least, within = self._found.mine()
        least[rows] = np.minimum(least[rows], part["least"])
        within[rows] += part["within"].astype(np.int32)

    @property
    def least(self) -> Distances:
        """(queries, columns): the distance of the nearest item, infinite if there is none."""
        return np.asarray(np.min([least for least, _ in self._found.all()], axis=0), np.float64)

    @property
    def within(self) -> Integers:
        """(queries, columns): items up to the query's limit."""
        parts = [within for _, within in self._found.all()]
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64), np.int64)
