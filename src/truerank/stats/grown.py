"""Replicates of scores at gallery sizes: how they move without each fold of the classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.column import Column
from truerank.core.folds import FEWEST_FOLDS, FoldAssignment
from truerank.core.groups import SplitGroups
from truerank.core.jackknife import ChangeSums, Staying, left, moved
from truerank.core.metric import Metric
from truerank.core.replicates import Replicates
from truerank.growth.columns import GrownColumns
from truerank.growth.moves import Moving
from truerank.stats.units import Unit
from truerank.task import TaskRules
from truerank.task.levels import level_of

__all__ = ["GrownMoves"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


WORK = 1e6
FEWEST, MOST, ALL = 64, 256, 1024
"""How many queries' moves are computed follows from their groups x folds, within limits: what
leaves with the queries of a fold is most of the error, and known of all of them. Up to ALL queries
nothing is sampled as long as that is as little work."""
AT_ONCE = 1 << 22
"""Groups x folds that wait until their moves are computed: what they share is computed once."""


@dataclass(frozen=True)
class _Waiting:
    """Queries whose moves are still to be computed, of columns of one grade."""

    where: tuple[bool, Unit]
    grade: int
    moving: Moving
    columns: list[Column]
    who: list[Flags]
    """The queries that are looked at, of each column."""
    folds: FoldAssignment
    weights: Reals


class GrownMoves:
    """How queries move at each size, added up while a pass goes on and afterwards.

    Queries are counted in the pass (True) or computed again for a sample (False); the two kinds are
    kept apart. Metrics whose mates may leave without the query do not take part.
    """

    def __init__(self, grown: GrownColumns, uses: list[tuple[Column, Unit]]) -> None:
        self._grown = grown
        self._uses = {(column.metric, unit): column for column, unit in uses}
        self._sums: dict[tuple[bool, int, Metric, Unit], ChangeSums] = {}
        self._open: list[_Waiting] = []
        self._larger: dict[Unit, tuple[FoldAssignment, Integers]] = {}
        self._stays: list[tuple[FoldAssignment, Integers, Reals, tuple[Integers, Staying]]] = []
        self._lock = Lock()
        self.found: dict[tuple[int, Metric, Unit], tuple[Replicates, Replicates]] = {}
        """The replicates at each size, once they are made."""

    @staticmethod
    def of(
        task: TaskRules, grown: GrownColumns | None, uses: list[tuple[Column, Unit]]
    ) -> GrownMoves | None:
        """The moves of columns at gallery sizes, None if there are none."""
        if grown is None:
            return None
        mine = [
            (column, unit)
            for column, unit in uses
            if column.metric in grown.places and _whole(task, column.metric, unit)
        ]
        return GrownMoves(grown, mine) if mine else None

    def sample(self, counted: Flags, mates: Integers, folds: FoldAssignment) -> Flags:
        """Those of the queries counted in the pass that are enough for the moves at sizes."""
        rows = np.flatnonzero(counted)
        chosen = np.zeros(len(counted), bool)
        if len(rows):
            steps = float(mates[rows].mean()) * _larger(folds).columns
            enough = int(WORK / steps)
            most = ALL if len(rows) <= min(ALL, enough) else MOST
            count = min(max(enough, FEWEST), most)
            chosen[folds.sample(rows, count)] = True
        return chosen

    def add(
        self,
        where: tuple[bool, Unit],
        who: Mapping[Metric, Flags],
        rows: Integers,
        split: SplitGroups,
        folds: FoldAssignment,
        weights: Callable[[int], Reals],
    ) -> None:
        """Add some queries, split by the folds of a unit; of each metric only those of `who`. They
        wait for `settle`."""
        unit = where[1]
        columns = [self._uses[m, unit] for m in who if (m, unit) in self._uses]
        few, larger = self._folds(unit, folds)
        for grade in {column.grade for column in columns}:
            some = [column for column in columns if column.grade == grade]
            counts = [who[column.metric] for column in some]
            for moving in Moving.all(split, grade, larger, folds.of_unit.shape[1]):
                mine = replace(moving, queries=rows[moving.queries])
                waiting = _Waiting(where, grade, mine, some, counts, few, weights(grade))
                self._open.append(waiting)
        if sum(one.moving.lost.size for one in self._open) > AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Add up the moves of all queries that were added."""
        with self._lock:
            alike: dict[tuple[Any, ...], list[_Waiting]] = {}
            for one in (self._open.pop(0) for _ in range(len(self._open))):
                alike.setdefault((one.where, one.grade, *one.moving.kin.kind), []).append(one)
            for some in alike.values():
                self._add_up(some[0], Moving.joined([one.moving for one in some]))

    def _add_up(self, waiting: _Waiting, moving: Moving) -> None:
        (counted, unit), rows = waiting.where, moving.queries
        metrics = [column.metric for column in waiting.columns]
        both = zip(waiting.columns, waiting.who, strict=True)
        held = [who[rows] & ~np.isnan(column.values[0, rows]) for column, who in both]
        own, weight = waiting.folds.query[rows], waiting.weights[rows]
        for place, at, change in self._grown.growth.moves(moving.kin, moving.lost, metrics):
            key = (counted, place, metrics[at], unit)
            sums = self._sums.setdefault(key, ChangeSums(waiting.folds.columns))
            if held[at].all():
                sums.add(change, own, weight)
            else:
                sums.add(change[held[at]], own[held[at]], weight[held[at]])

    def replicate(
        self,
        metric: Metric,
        unit: Unit,
        folds: FoldAssignment,
        rows: Integers,
        strata: Mapping[bool, Integers],
        weight: Reals,
    ) -> None:
        """Make a metric's replicates at each size, of the queries that count."""
        if (metric, unit) not in self._uses:
            return
        at, (few, _) = self._grown.places[metric], self._folds(unit, folds)
        own, whole = self._staying(few, rows, weight)
        parts = {counted: self._staying(few, of, weight)[1] for counted, of in strata.items()}
        for place, values in enumerate(self._grown.values[:, at, 0]):
            mine = [
                (part, self._sums[counted, place, metric, unit])
                for counted, part in parts.items()
                if (counted, place, metric, unit) in self._sums
            ]
            zeroed = np.where(np.isnan(values), 0.0, values)[rows]
            base = left(weight[rows] * zeroed, own, few.columns)
            self.found[place, metric, unit] = moved(few, base, whole, mine)

    def _staying(
        self, folds: FoldAssignment, rows: Integers, weight: Reals
    ) -> tuple[Integers, Staying]:
        """The folds of some queries, and what stays of them without each; made once for metrics
        that share them."""
        for known, mine, heavy, found in self._stays:
            if known is folds and heavy is weight and np.array_equal(mine, rows):
                return found
        found = (folds.query[rows], Staying.of(folds, rows, weight))
        self._stays.append((folds, rows, weight, found))
        return found

    def _folds(self, unit: Unit, folds: FoldAssignment) -> tuple[FoldAssignment, Integers]:
        """The larger folds of a unit, made once, and which of them hold each of its folds."""
        if unit not in self._larger:
            few = _larger(folds)
            self._larger[unit] = (few, _columns(folds, few))
        return self._larger[unit]


def _larger(folds: FoldAssignment) -> FoldAssignment:
    """Folds of several units each, where every unit is a fold and there are many of them."""
    return folds.coarser(FEWEST_FOLDS) if folds.singly else folds


def _columns(folds: FoldAssignment, larger: FoldAssignment) -> Integers:
    """(columns, ways): the larger folds that hold each of the folds."""
    if larger.columns == folds.columns:
        return np.arange(folds.columns)[:, None]
    found = np.zeros((folds.columns, larger.of_unit.shape[1]), np.int64)
    units = folds.orders[-1]
    found[folds.of_unit[units, 0]] = larger.of_unit[units]
    return found


def _whole(task: TaskRules, metric: Metric, unit: Unit) -> bool:
    """Whether a query's mates leave only together with it."""
    level = level_of(task, metric)
    return unit.level == level or (unit.level < level and task.named_levels.is_tree)
