"""The CMC curve without each fold: how far queries' first mates move up when others leave.

Hits at all ranks follow from one number a query and fold, the rank of the first mate without the
fold. What is added up are whole numbers, at a ladder of ranks; the sums are those that hit@k has.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.curve_moves import CurveMoves
from truerank.core.folds import FoldAssignment
from truerank.core.groups import TieGroups
from truerank.core.left_out import LeftOut
from truerank.jit import kernel
from truerank.metrics.reduced import rank_of_first

__all__ = ["FirstMateMoves", "moved_cmc", "ranks_of"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
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

    def count(self, rows: Integers, left: LeftOut, since: Integers | None = None) -> None:
        """Take in queries whose tie groups were counted by fold.

        `since` are the places on the ladder of ranks from which on each is wanted, if not from 0.
        """
        rank = 1 / rank_of_first(left)
        without = np.rint(np.where(np.isnan(rank), NONE_LEFT, rank)).astype(np.int64)
        self._counted.add(rows, ranks_of(self._first[:, rows]), without, since)

    def wanted(self, in_order: Integers, counted: npt.NDArray[np.bool_], enough: int) -> Integers:
        """From which place of the ladder on a query is to be counted as well; -1 if nowhere.

        As of hit@k: of the queries that miss at a rank, where fewer than `enough` were counted, the
        first so many in the order of samples.
        """
        since = np.full(len(counted), -1)
        first = ranks_of(self._first)
        for place, rank in enumerate(self._ladder.tolist()):
            in_order = in_order[first[in_order] > rank]
            if not len(in_order):
                break
            if np.count_nonzero(counted[in_order]) < enough:
                more = in_order[:enough]
                since[more[~counted[more] & (since[more] < 0)]] = place
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
        self._sampled.add(rows, ranks_of(self._first[:, rows]), without)

    def moves(self, counted: npt.NDArray[np.bool_], by_rank: bool) -> CurveMoves:
        """The curve without each fold; `counted` are the queries of which some were counted.

        With `by_rank` those of them that miss at a rank stand for all that do.
        """
        first = ranks_of(self._first)
        kinds = ((counted, self._counted, by_rank), (~counted, self._sampled, False))
        strata = [
            (np.flatnonzero((first > 0) & some), changes, ranked) for some, changes, ranked in kinds
        ]
        return moved_cmc(self.folds, first, self._ladder, strata)


class RankChanges:
    """How the first mates of some queries move up without each fold, added up from any threads."""

    def __init__(self, folds: FoldAssignment, ladder: Integers) -> None:
        self._folds, self._ladder, self._lock = folds, ladder, Lock()
        self.staying: Integers = np.zeros(folds.columns, np.int64)
        """Queries that were added for all ranks and do not leave with each column."""
        self._steps: Integers = np.zeros((folds.columns, len(ladder) + 1), np.int64)
        self._misses = np.zeros_like(self._steps)

    def add(
        self, rows: Integers, before: Integers, without: Integers, since: Integers | None = None
    ) -> None:
        """Add queries by the rank of their first mate, and (queries, columns) without each fold.

        They count from a place of the ladder on, where one is given for each.
        """
        staying, steps = np.zeros_like(self.staying), np.zeros_like(self._steps)
        misses = np.zeros_like(steps)
        places = np.zeros(len(rows), np.int64) if since is None else since
        mine = self._folds.query[rows]
        _add(before, without, mine, self._ladder, places, staying, steps, misses)
        with self._lock:
            self.staying += staying if since is None else 0
            self._steps += steps
            self._misses += misses

    @property
    def missing(self) -> Integers:
        """(columns, ranks): queries that were added, miss at each rank, and do not leave."""
        return np.cumsum(self._misses[:, :-1], axis=1)

    @property
    def gained(self) -> Integers:
        """(columns, ranks): queries that have a hit at each rank only without each fold."""
        return np.cumsum(self._steps[:, :-1], axis=1)


def moved_cmc(
    folds: FoldAssignment,
    first: Integers,
    ladder: Integers,
    strata: list[tuple[Integers, RankChanges, bool]],
) -> CurveMoves:
    """The CMC curve without each of the own folds.

    `first` is the rank of every query's first mate, 0 if it has none; each stratum holds queries of
    one kind, how some of them move, and whether only those that miss at a rank stand for all that
    do; none moves where the gallery stays as it is.
    """
    columns, own = folds.columns, folds.query
    rows = np.flatnonzero(first > 0)

    def hits(some: Integers) -> tuple[Integers, Integers]:
        """(ranks,), (columns, ranks): queries that hit at each rank, all and those of a fold."""
        place = np.searchsorted(ladder, first[some])
        found = np.zeros((columns, len(ladder) + 1), np.int64)
        for way in own[some].T:
            np.add.at(found, (way, place), 1)
        whole = np.bincount(place, minlength=len(ladder) + 1)
        return np.cumsum(whole[:-1]), np.cumsum(found[:, :-1], axis=1)

    total, of_fold = hits(rows)
    # without a fold that has all of them nothing is found, of nobody: such few units have no band
    left = np.maximum(len(rows) - np.bincount(own[rows].ravel(), minlength=columns), 1)
    base = (total - of_fold) / left[:, None]
    moved, noise = np.zeros((2, *base.shape))
    for some, changes, by_rank in strata:
        away = (len(some) - np.bincount(own[some].ravel(), minlength=columns))[:, None]
        counted, gained = changes.staying[:, None], changes.gained
        if by_rank:
            every, gone = hits(some)
            away, counted = away - (every - gone), changes.missing
        share = away / left[:, None]
        whole = np.maximum(counted, 1)
        centre = gained / whole
        around = np.maximum(gained - centre * (2 * gained - centre * counted), 0.0)
        unseen = np.clip(1.0 - counted / np.maximum(away, 1), 0.0, 1.0)
        variance = unseen * counted / np.maximum(counted - 1, 1) * around / whole**2
        moved += share * centre
        noise += share * share * variance
    part = folds.own
    count = part.stop - part.start
    # in steps of 2^-50, so that no order of the folds can show
    spread = np.rint(noise[part] * 2.0**50).astype(np.int64).sum(axis=0) / 2.0**50
    values, noise_of = (base + moved)[part], spread * (count - 1) / count
    sparse = len(rows) - total < FEWEST_MISSED
    # what the folds' own queries do tells how ranks move together: of the others only single ones
    # move up, here or there
    together = np.where(ladder <= LAST_RANK, base[part], np.nan)
    return CurveMoves("lower", "hit", values, noise_of, together, sparse, rises=1)


@kernel
def _add(
    before: Any,
    without: Any,
    mine: Any,
    ladder: Any,
    since: Any,
    staying: Any,
    steps: Any,
    misses: Any,
) -> None:
    """Count a query at all ranks of the ladder from its first mate's new one up to its old one."""
    for query in range(before.size):
        old = np.searchsorted(ladder, before[query])
        for column in range(without.shape[1]):
            leaves = without[query, column] == 0
            for way in range(mine.shape[1]):
                leaves |= mine[query, way] == column
            if leaves:
                continue
            staying[column] += 1
            misses[column, since[query]] += 1
            misses[column, old] -= 1
            if without[query, column] < before[query]:
                new = max(since[query], np.searchsorted(ladder, without[query, column]))
                if new < old:
                    steps[column, new] += 1
                    steps[column, old] -= 1
