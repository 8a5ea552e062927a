"""The CMC curve without each fold: how far queries' first mates move up when others leave.

Hits at all ranks follow from one number a query and fold, the rank of the first mate without the
fold. What is added up are whole numbers, at a ladder of ranks; the sums are those that hit@k has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.curve_moves import CurveMoves
from truerank.core.folds import FoldAssignment
from truerank.core.groups import TieGroups
from truerank.core.left_out import LeftOut, first_ranks, mates_left
from truerank.jit import kernel

__all__ = ["FirstMateMoves", "moved_cmc", "ranks_of"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
FEWEST_MISSED = 5
"""With fewer queries that miss than this, how a curve would move is not known."""
LAST_RANK = 50
"""A simultaneous band is one around the curve up to this rank."""
NONE_LEFT = 0
"""The rank of the first mate of a query that has none left."""


def ranks_of(first: Integers) -> Integers:
    """The last possible ranks of first mates, from what TieGroups.first tells; 0 for none."""
    before, size, relevant = first
    return np.where(relevant > 0, before + size - relevant + 1, NONE_LEFT)


class FirstMateMoves:
    """What a pass in leave-one-out tells of the CMC curve without each fold.

    `first` is what TieGroups.first tells of every query, filled in while the pass goes on; `grade`
    that of mates by the finest label.
    """

    def __init__(
        self, folds: FoldAssignment, first: Integers, grade: int, ladder: Integers
    ) -> None:
        self.folds, self.grade, self._first, self._ladder = folds, grade, first, ladder
        self._counted, self._sampled = (RankChanges(folds, ladder) for _ in range(2))
        self._hits: _Hits | None = None

    def count(self, rows: Integers, left: LeftOut, since: Integers | None = None) -> None:
        """Take in queries whose tie groups were counted by fold.

        `since` are the places on the ladder of ranks from which on each is wanted, if not from 0;
        negative for those that are not.
        """
        wanted = np.arange(len(rows)) if since is None else np.flatnonzero(since >= 0)
        without = np.empty((len(wanted), self.folds.own.stop), np.int32)
        _first_ranks(left, wanted, without)  # own columns come first
        rows, since = rows[wanted], None if since is None else since[wanted]
        self._counted.add(rows, ranks_of(self._first[:, rows]), without, since)

    def wanted(
        self,
        among: Flags,
        sort: Callable[[Integers], Integers],
        counted: Flags,
        enough: int,
    ) -> Integers:
        """From which place of the ladder on a query is to be counted as well; -1 if nowhere.

        As of hit@k: of the queries that miss at a rank, where fewer than `enough` were counted, the
        first so many in the order of samples, into which `sort` brings some of those `among` which
        they are looked for.
        """
        since = np.full(len(counted), -1)
        first = ranks_of(self._first)
        seen = np.searchsorted(self._ladder, first[among & counted])
        missed = len(seen) - np.cumsum(np.bincount(seen, minlength=len(self._ladder) + 1))
        places = np.flatnonzero(missed[:-1] < enough)
        if len(places):
            # few queries miss at these ranks: the others need no order
            in_order = sort(np.flatnonzero(among & (first > self._ladder[places[0]])))
            found = np.full(len(in_order), -1)
            everyone, room = np.arange(len(in_order)), np.empty(enough, np.int64)
            _first_beyond(first[in_order], self._ladder, places, everyone, room, found)
            since[in_order] = np.where(counted[in_order], -1, found)
        return since

    def nothing_left(self, queries: int) -> Integers:
        """(queries, columns): ranks without each fold, to be filled by `leave`."""
        return np.full((queries, self.folds.columns), NONE_LEFT)

    def leave(self, table: Integers, places: Integers, fold: int, left: TieGroups) -> None:
        """Fill in the ranks of some queries without a fold."""
        chosen, some = left.at_least(self.grade)
        if len(some):
            table[places[chosen], fold] = ranks_of(some.first())

    def sample(self, rows: Integers, without: Integers) -> None:
        """Take in queries of a sample, by their ranks without each fold."""
        own = np.ascontiguousarray(without[:, self.folds.own])
        self._sampled.add(rows, ranks_of(self._first[:, rows]), own)

    def prepare(self) -> None:
        """Make what follows from the first mates alone, once they are all known."""
        self._hits = _Hits.of(self.folds, ranks_of(self._first), self._ladder)

    def moves(self, counted: Flags, by_rank: bool) -> CurveMoves:
        """The curve without each fold, once it is prepared; `counted` are the queries of which some
        were counted.

        With `by_rank` those of them that miss at a rank stand for all that do.
        """
        assert self._hits is not None
        strata = [(counted, self._counted, by_rank), (~counted, self._sampled, False)]
        return self._hits.moved(strata)


class RankChanges:
    """How the first mates of some queries move up without each of their own folds, added up from
    any threads."""

    def __init__(self, folds: FoldAssignment, ladder: Integers) -> None:
        self._folds, self._ladder, self._lock = folds, ladder, Lock()
        columns = folds.own.stop
        self._steps: Integers = np.zeros((columns, len(ladder) + 1), np.int64)
        # Of queries added for all ranks, and for some: how many they are, and where on the ladder
        # misses begin and end; for all columns alike, and what single columns have to take back.
        self._shared: Integers = np.zeros((2, len(ladder) + 2), np.int64)
        self._away: Integers = np.zeros((2, columns, len(ladder) + 2), np.int64)

    def add(
        self,
        rows: Integers,
        before: Integers,
        without: npt.NDArray[np.integer],
        since: Integers | None = None,
    ) -> None:
        """Add queries by the rank of their first mate, and (queries, columns) without each fold,
        which are written over.

        They count from a place of the ladder on, where one is given for each.
        """
        begin = np.zeros(len(rows), np.int64) if since is None else since
        mine, which = self._folds.own_query[rows], 0 if since is None else 1
        kept = self._shared[which], self._away[which]
        old = np.searchsorted(self._ladder, before)
        with self._lock:
            _add(before, old, without, mine, self._ladder, begin, *kept, self._steps)

    def move(self, found: Integers, left: Integers, by_rank: bool, to: Reals) -> None:
        """Add, to two tables of (columns, ranks), how far shares of hits move without each column,
        and the variance of that as the mean over a sample.

        `found` are the queries of each column that these stand for, by the places of their first
        mates on the ladder; `left` all that stay. With `by_rank` those that miss at a rank stand
        for all that do.
        """
        every = np.cumsum(found.sum(axis=0))
        _move(found, every, left, self._shared, self._away, self._steps, by_rank, *to)


def moved_cmc(folds: FoldAssignment, first: Integers, ladder: Integers) -> CurveMoves:
    """The CMC curve without each of the own folds, where the gallery stays as it is.

    `first` is the rank of every query's first mate, 0 if it has none.
    """
    return _Hits.of(folds, first, ladder).moved([])


@dataclass(frozen=True)
class _Hits:
    """Where on the ladder first mates are found, by the own folds of their queries."""

    folds: FoldAssignment
    ladder: Integers
    alive: Flags
    """Queries that have a mate."""
    place: Integers
    found: Integers
    """(columns, ranks): queries of each fold by the places of their first mates."""
    left: Integers
    """Queries that stay without each column."""
    base: Reals
    """(columns, ranks): hits of those."""

    @staticmethod
    def of(folds: FoldAssignment, first: Integers, ladder: Integers) -> _Hits:
        """From the rank of every query's first mate, 0 if it has none."""
        alive, place = first > 0, np.searchsorted(ladder, first)
        found = _by_fold(folds, place, len(ladder) + 1, alive)
        total, of_fold = np.cumsum(found.sum(axis=0)[:-1]), np.cumsum(found[:, :-1], axis=1)
        # without a fold that has all of them nothing is found, of nobody: such few units have no
        # band
        left = np.maximum(np.count_nonzero(alive) - found.sum(axis=1), 1)
        return _Hits(folds, ladder, alive, place, found, left, (total - of_fold) / left[:, None])

    def moved(self, strata: list[tuple[Flags, RankChanges, bool]]) -> CurveMoves:
        """The curve without each fold.

        Each stratum holds queries of one kind, how some of them move, and whether only those that
        miss at a rank stand for all that do; others do not move.
        """
        columns, rows = len(self.left), np.count_nonzero(self.alive)
        gained, noise = moves = np.zeros((2, *self.base.shape))
        for some, changes, by_rank in strata:
            mine = self.alive & some
            if number := np.count_nonzero(mine):
                found = self.found
                if number < rows:
                    found = _by_fold(self.folds, self.place, len(self.ladder) + 1, mine)
                changes.move(found, self.left, by_rank, moves)
        # in steps of 2^-50, so that no order of the folds can show
        spread = np.rint(noise * 2.0**50).astype(np.int64).sum(axis=0) / 2.0**50
        noise_of = spread * (columns - 1) / columns
        sparse = rows - np.cumsum(self.found.sum(axis=0)[:-1]) < FEWEST_MISSED
        # what the folds' own queries do tells how ranks move together: of the others only single
        # ones move up, here or there
        together = np.where(self.ladder <= LAST_RANK, self.base, np.nan)
        values = self.base + gained
        return CurveMoves("lower", "hit", values, noise_of, together, sparse, rises=1)


def _by_fold(folds: FoldAssignment, place: Integers, ranks: int, some: Flags) -> Integers:
    """(columns, ranks): some queries of each fold by the places of their first mates."""
    columns = folds.own.stop
    at = (folds.own_query * ranks + place)[some]
    return np.bincount(at, minlength=columns * ranks).reshape(columns, ranks)


@kernel
def _first_beyond(ranks: Any, ladder: Any, places: Any, left: Any, room: Any, out: Any) -> None:
    """The first of some places of the ladder at which each rank is among the first that lie beyond
    it, as many as there is room for; out stays -1 where it is at none.

    `left` are the places of those that may lie beyond it, all at first.
    """
    number = left.size
    for place in places:
        found = 0
        for at in range(number):
            if ranks[left[at]] > ladder[place]:
                room[found] = left[at]
                found += 1
                if found == room.size:
                    break
        for at in range(found):
            if out[room[at]] < 0:
                out[room[at]] = place
        if found < room.size:  # they are all that do, and others lie beyond no higher one
            number = found
            for at in range(found):
                left[at] = room[at]


@kernel
def _first_ranks(left: Any, wanted: Any, out: Any) -> None:
    """The ranks of some queries' first mates without each fold, NONE_LEFT where there is none."""
    mates, missing = np.empty(out.shape[1], np.int32), np.empty(out.shape[1], np.int32)
    for place in range(wanted.size):
        mates_left(left, wanted[place], mates)
        first_ranks(left, wanted[place], mates, missing, out[place])


@kernel
def _add(
    before: Any,
    places: Any,
    without: Any,
    mine: Any,
    ladder: Any,
    since: Any,
    shared: Any,
    away: Any,
    steps: Any,
) -> None:
    """Count a query at all ranks of the ladder from its first mate's new one up to its old one.

    `before` are the old ranks, and `places` where they stand on the ladder. A query misses from
    `since` up to its old rank without nearly every fold: that is `shared`, and `away` takes it back
    for the column that it leaves with and those that take all its mates.
    """
    for query in range(before.size):
        was = before[query]
        if was == 0:  # without a mate in any case
            continue
        from_on = since[query]
        old = places[query]
        shared[0] += 1
        shared[1 + from_on] += 1
        shared[1 + old] -= 1
        ranks = without[query]
        ranks[mine[query]] = 0
        for column in range(ranks.size):
            now = ranks[column]
            if now >= was:
                continue
            if now == 0:
                away[column, 0] += 1
                away[column, 1 + from_on] += 1
                away[column, 1 + old] -= 1
                continue
            new = old
            while new > from_on and ladder[new - 1] >= now:  # mostly next to the old one
                new -= 1
            if new < old:
                steps[column, new] += 1
                steps[column, old] -= 1


@kernel
def _move(
    found: Any,
    every: Any,
    left: Any,
    shared: Any,
    away: Any,
    steps: Any,
    by_rank: bool,
    moved: Any,
    noise: Any,
) -> None:
    """See RankChanges.move; `every` are the queries that are found up to each place."""
    last = every.size - 1
    for column in range(left.size):
        mine = np.int64(0)
        for place in range(every.size):
            mine += found[column, place]
        staying = shared[0, 0] - away[0, column, 0]
        here = missing = gained = np.int64(0)
        for rank in range(last):
            here += found[column, rank]
            missing += shared[0, 1 + rank] - away[0, column, 1 + rank]
            missing += shared[1, 1 + rank] - away[1, column, 1 + rank]
            gained += steps[column, rank]
            counted = missing if by_rank else staying
            others = every[last] - mine
            if by_rank:
                others -= every[rank] - here
            whole = max(counted, 1)
            share = others / left[column]
            centre = gained / whole
            around = max(gained - centre * (2 * gained - centre * counted), 0.0)
            unseen = min(max(1.0 - counted / max(others, 1), 0.0), 1.0)
            variance = unseen * counted / max(counted - 1, 1) * around / (whole * whole)
            moved[column, rank] += share * centre
            noise[column, rank] += share * share * variance
