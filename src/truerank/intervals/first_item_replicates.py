"""Jackknife replicates of the CMC curve and of the severity of errors, from first items.

Hits at all ranks follow from one number per query and jackknife group: the rank of the first
relevant item without the group. Integers are added up at a ladder of ranks; the sums are those
of hit@k. A bar of the severity is the share of mated queries (by the finest label) whose first
item shares exactly that many levels.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np
import numpy.typing as npt

from truerank._util.types import Flags, Integers, Reals
from truerank.core.curve import BandMoves, CurveMoves
from truerank.core.jackknife import ChangeSums, FoldAssignment, Stratum, replicates
from truerank.core.tie_groups import Block, LeftOut, TieGroups
from truerank.distance.base import Space
from truerank.engine import runner
from truerank.intervals.interval_kernels import _add, _first_beyond, _first_ranks, _move
from truerank.intervals.jackknife_groups import most_counted
from truerank.task.relevance import View

# The CMC curve without each fold: how far queries' first mates move up when others leave.
#
# Hits at all ranks follow from one number a query and fold, the rank of the first mate without the
# fold. What is added up are whole numbers, at a ladder of ranks; the sums are those that hit@k
# has.


FEWEST_MISSED = 5
"""With fewer queries that miss than this, how a curve would move is not known."""
LAST_RANK = 50
"""A simultaneous band is one around the curve up to this rank."""
NO_RANK_LEFT = 0
"""The rank of the first mate of a query that has none left."""


def ranks_of(first: Integers) -> Integers:
    """The last possible ranks of first mates, from what TieGroups.first tells; 0 for none."""
    before, size, relevant = first
    return np.where(relevant > 0, before + size - relevant + 1, NO_RANK_LEFT)


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
        return np.full((queries, self.folds.columns), NO_RANK_LEFT)

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


# The severity of errors without each fold: what first items share once others have left.
#
# Of the queries with a mate by the finest label, each bar is the share whose first item shares
# just so many levels. A fold's queries leave, which is known of all; and with it go items that
# stood before others, so that further queries find something else first: that is seen on a sample
# (all of them, where that is cheap). A mate by the finest label leaves with its query alone.


NO_LEVEL_LEFT = -1
AT_LIMIT = "every share is 0 % or 100 %, so that the spread cannot be estimated"


def levels_without(
    view: View, space: Space, folds: FoldAssignment, may_move: Integers, device: str, threads: int
) -> tuple[Integers, Integers]:
    """Some of the queries that may move, and the levels that each shares with its first item
    without each fold: (queries, columns), -1 where no mate is left.

    They are as many as a pass counts by fold for precision@1: they change by a whole hit, too.
    """
    sample = folds.sample(may_move, most_counted(view.mates[may_move], folds.columns))
    wanted = np.zeros(view.queries, bool)
    wanted[sample] = True
    place = np.cumsum(wanted) - 1
    levels = np.full((len(sample), folds.columns), NO_LEVEL_LEFT)

    def leave(column: int, block: Block) -> None:
        kept, left = block.split.without(column)
        if len(kept):
            levels[place[block.rows[kept]], column] = left.nearest_level()

    blocks = runner.tie_groups(
        view, space, device=device, threads=threads, folds=folds.gallery(wanted), only=sample
    )
    with closing(blocks), ThreadPoolExecutor(threads) as pool:
        for block in blocks:
            for _ in pool.map(partial(leave, block=block), range(folds.columns)):
                pass
    return sample, levels


def moved_severity(
    folds: FoldAssignment,
    nearest: Integers,
    findable: Flags,
    depth: int,
    may_move: Integers,
    seen: tuple[Integers, Integers] | None,
) -> BandMoves:
    """The bars without each fold, of first items that share 0 to depth - 1 levels.

    `seen` are the queries that were looked at for all that may move, and their levels without each
    fold; None where the gallery stays as it is.
    """
    rows, weight = np.flatnonzero(findable), np.ones(len(nearest))
    counts = np.bincount(nearest[rows], minlength=depth)[:depth]
    if np.isin(counts, (0, len(rows))).all():
        return AT_LIMIT
    found = []
    for level in range(depth):
        is_here = (nearest == level).astype(np.float64)
        strata = []
        if seen is not None:
            sample, levels = seen
            change = np.where(
                levels == NO_LEVEL_LEFT, np.nan, (levels == level) - is_here[sample][:, None]
            )
            sums = ChangeSums(folds.columns)
            sums.add(change, folds.query[sample], weight[sample])
            strata.append(Stratum(may_move, sums))
        found.append(replicates(folds, rows, is_here[rows], strata, weight)[0])
    values = np.array([bar.values for bar in found]).T
    return CurveMoves("value", None, values, np.array([bar.noise for bar in found]))
