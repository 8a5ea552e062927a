"""Jackknife replicates of ranking metrics: counted in the pass, or computed for a sample.

The engine counts per jackknife group of the gallery, for every metric that can be computed
without a group and for queries with few relevant items. The other values are computed again for
a sample of queries, one group after the other. The replicates of scores at gallery sizes and
the weight of each query in a mean (each query alike, or each class) are here too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from truerank._util.arrays import distinct
from truerank._util.cached import cached_property
from truerank._util.threads import HelperThreads
from truerank._util.types import Flags, Integers, Reals
from truerank.core import registry
from truerank.core.curve import CurveMoves
from truerank.core.jackknife import (
    FEWEST_FOLDS,
    ChangeSums,
    FoldAssignment,
    GalleryFolds,
    Replicates,
    Staying,
    left,
    moved,
)
from truerank.core.metric import DeleteKernel, Metric
from truerank.core.score import Column
from truerank.core.tie_groups import Block, LeftOut, SplitGroups
from truerank.distance.base import Space
from truerank.engine import runner
from truerank.intervals.first_item_replicates import FirstMateMoves
from truerank.intervals.jackknife_groups import FoldSets, most_counted
from truerank.metrics.gallery_sizes import GrownColumns, Moving
from truerank.metrics.ranking import add_moves
from truerank.task.relevance import TreeView, View
from truerank.task.task import TaskRules, Unit, level_of

Use = tuple[Column, Unit]
"""A column, and the units by which its score is to be replicated."""
Key = tuple[Metric, Unit]

FEW = 0.05
"""Queries with at most this share of the gallery as mates are counted without each fold; it is no
setting, because it decides which values an interval is made of."""
ENOUGH = 400
"""Queries that may move, of each metric, whose moves are known at the least: of a metric that few
queries miss there are few in a sample of all."""
PARALLEL_QUERIES = 1 << 17
"""Queries of whom replicates are worth one thread more: with fewer, threads wait for the
interpreter."""
COLLECTING = 4
"""Most threads that collect values without folds: more would wait for the interpreter."""
AT_A_TIME = 1 << 18
"""Queries x folds that are looked at together: what is computed of them stays in the cache."""


@dataclass
class JackknifePlan:
    """What one pass counts by fold: its view, and which of its columns and queries."""

    task: TaskRules
    space: Space
    by_class: bool
    sets: FoldSets
    view: View
    uses: list[Use]
    lowest: int
    """Grades from here on are counted by fold."""
    split_view: View
    """The view in which the grades from `lowest` on are relevant."""
    few: Flags
    """Queries with few mates in `split_view`."""
    cmc: tuple[Unit, FirstMateMoves] | None = None
    """Where the pass tells of the CMC curve: the unit that it moves by, and how it does."""
    grown: GrownColumns | None = None
    """Columns at gallery sizes, if any were asked for."""

    def __post_init__(self) -> None:
        self.known = np.zeros(len(self.few), bool)
        """Queries whose values without each fold are known."""
        self._sums = {
            (column.metric, unit): ChangeSums(self.sets.folds[unit].columns)
            for column, unit in self.uses
            if registry.ranking(column.metric).reduced is not None and column.grade >= self.lowest
        }
        self._collecting: Callable[[], Any] = list
        """Waits for what is collected beside."""
        self._chosen: tuple[dict[Key, Flags], Integers] | None = None
        """Queries that are to be counted as well, once they are chosen: those of each metric, and
        from which place of the ladder on the first rank of each is wanted, -1 if nowhere."""
        self.moves = GrownMoves.of(self.task, self.grown, self.uses)
        self._weights = QueryWeights(self.task, self.view, self.by_class)
        self.cmc_moves: CurveMoves | None = None
        """The CMC curve without each fold, once all is counted; None if that is not known."""

    @staticmethod
    def of(
        task: TaskRules,
        space: Space,
        folds: dict[Unit, FoldAssignment],
        view: View,
        uses: list[Use],
        grown: GrownColumns | None = None,
        *,
        by_class: bool,
    ) -> JackknifePlan:
        """The plan of a pass: a tree is split from the level on at which most have few mates."""
        most = FEW * space.gallery
        split_view, lowest = view, 1
        if isinstance(view, TreeView):
            lowest = view.lowest
            while lowest < view.grades and np.median(split_view.mates) > most:
                lowest += 1
                split_view = task.tree_view(lowest)
        few = (split_view.mates > 0) & (split_view.mates <= most)
        sets = FoldSets(folds).some({unit for _, unit in uses})
        return JackknifePlan(
            task, space, by_class, sets, view, uses, lowest, split_view, few, grown=grown
        )

    @property
    def splits(self) -> bool:
        """Whether the pass counts by fold at all."""
        return bool(self._sums)

    @cached_property
    def _split_sets(self) -> FoldSets:
        """The folds by which the pass counts: those of columns that are counted."""
        return self.sets.some({unit for _, unit in self._sums})

    @cached_property
    def counted(self) -> Flags:
        """Queries with few mates that are counted by fold."""
        rows, counted = np.flatnonzero(self.few), np.zeros(len(self.few), bool)
        # other metrics' units must not change whose values an interval is made of
        count = most_counted(self.split_view.mates[rows], distinct(self.task.query_codes))
        counted[self.sets.sample(rows, count)] = True
        return counted

    @cached_property
    def _may_all_move(self) -> bool:
        """Whether a sample is one of all queries; or of those only that are not at their best.

        Without some of the others a query at its best stays there, unless it can lose its mates
        and count as 0.
        """
        return bool(self.counted[self.few].all()) or self.task.unmated == "zero"

    @cached_property
    def gallery_folds(self) -> GalleryFolds:
        """The folds by which the engine is to count, and for which queries."""
        return self._split_sets.gallery(self.counted)

    def collect(self, block: Integers, split: SplitGroups, workers: HelperThreads) -> None:
        """Collect values of a block's queries without each fold, where its groups are split.

        Other threads are at it while this one goes on, until the next block or the end.
        """
        self._collected()
        rows = block[split.queries]
        moving = {
            (column.metric, unit): self._moving(column, rows)
            for column, unit in self.uses
            if (column.metric, unit) in self._sums
        }
        jobs = self._jobs(rows, split, moving, workers)
        self._collecting = workers.begin(_call, jobs, COLLECTING)
        if self.moves is not None:
            self._collect_moves(block, split)
        self.known[rows] = True

    def _collected(self) -> None:
        """Wait for what is collected beside."""
        collecting, self._collecting = self._collecting, list
        collecting()

    def _jobs(
        self,
        rows: Integers,
        split: SplitGroups,
        wanted: dict[Key, Flags],
        workers: HelperThreads,
        since: Integers | None = None,
    ) -> list[Callable[[], None]]:
        """Parts of the work to add up how queries move: `wanted` says whose values are, of each
        metric; `since` from where on their first ranks are."""
        count = len(rows)
        least = -(-count * split.candidates.shape[1] // AT_A_TIME)
        threads = min(workers.threads, COLLECTING)
        cuts = np.linspace(0, count, threads * -(-least // threads) + 1).astype(int).tolist()
        return [
            partial(
                self._collect_some,
                rows[start:stop],
                split.run(start, stop),
                {key: flags[start:stop] for key, flags in wanted.items()},
                None if since is None else since[start:stop],
            )
            for start, stop in pairwise(cuts)
            if start < stop
        ]

    def _collect_some(
        self, rows: Integers, split: SplitGroups, wanted: dict[Key, Flags], since: Integers | None
    ) -> None:
        made: dict[tuple[int, Unit], LeftOut] = {}
        alike: dict[tuple[int, Unit], list[Column]] = {}
        for column, unit in self.uses:
            key = column.metric, unit
            if key in wanted and wanted[key].any():
                alike.setdefault((column.grade, unit), []).append(column)
        for (grade, unit), columns in alike.items():
            keys = [(column.metric, unit) for column in columns]
            moved = add_moves(
                self._left_out(split, (grade, unit), made),
                [_way(column.metric) for column in columns],
                np.stack([wanted[key] for key in keys]),
                np.stack([headline(c.metric, c.values)[rows] for c in columns]),
                self.sets.folds[unit].query[rows],
                self._weights.of(grade)[rows],
                none_counts=self.task.unmated == "zero",
            )
            for key, sums in zip(keys, moved, strict=True):
                self._sums[key].take(sums)
        if self.cmc is not None and self.counts_first:
            unit, first = self.cmc
            first.count(rows, self._left_out(split, (first.grade, unit), made), since)

    def _collect_moves(self, block: Integers, split: SplitGroups) -> None:
        """Collect how some of these queries move at gallery sizes."""
        among = np.flatnonzero(self._moved[block[split.queries]])
        for unit in self._split_sets.folds if among.size else ():
            some = split.some(among).only(self._split_sets.of(unit))
            of_unit = {metric: self.few for metric, its in self._sums if its == unit}
            self._move((True, unit), of_unit, block[some.queries], some)

    @cached_property
    def _moved(self) -> Flags:
        """Queries counted by fold whose moves at gallery sizes are looked at, too."""
        assert self.moves is not None
        folds = next(iter(self.sets.folds.values()))
        return self.moves.sample(self.counted, self.split_view.mates, folds)

    def _move(
        self, where: tuple[bool, Unit], who: dict[Metric, Flags], rows: Integers, split: SplitGroups
    ) -> None:
        if self.moves is not None:
            folds = self.sets.folds[where[1]]
            self.moves.add(where, who, rows, split, folds, self._weights.of)

    def _left_out(
        self, split: SplitGroups, key: tuple[int, Unit], made: dict[tuple[int, Unit], LeftOut]
    ) -> LeftOut:
        """What is needed to compute by a grade without each fold of a unit, made once."""
        if key not in made:
            made[key] = LeftOut.of(split.only(self._split_sets.of(key[1])), key[0])
        return made[key]

    @property
    def counts_first(self) -> bool:
        """Whether first mates are among what is counted by fold."""
        return self.cmc is not None and self.cmc[0] in self._split_sets.folds

    def _move_cmc(self) -> None:
        if self.cmc is not None:
            counted = self.few & self.counts_first
            self.cmc_moves = self.cmc[1].moves(counted, not self._may_all_move)

    def _moving(self, column: Column, rows: Any = slice(None)) -> Flags:
        """Which of these queries have few mates and a value that may be another without some of
        the others."""
        values = headline(column.metric, column.values)[rows]
        moving: Flags = self.few[rows] & ~np.isnan(values)
        if not self._may_all_move:
            moving &= values != registry.definition(column.metric).range[1]
        return moving

    def _settled(self, values: Reals) -> Reals:
        """Values without folds; a query without any mate left may count as 0."""
        return np.where(np.isnan(values), 0.0, values) if self.task.unmated == "zero" else values

    def finish(
        self, device: str, workers: HelperThreads
    ) -> dict[Key, tuple[Replicates, Replicates]]:
        """The replicates of every column, once all blocks are in."""
        # what follows from the values alone is made while more is counted
        several = 2 + len(self.few) // PARALLEL_QUERIES
        prepare: list[Callable[[], Any]] = [partial(self._staying, use) for use in self.uses]
        if self.cmc is not None:
            prepare.append(self.cmc[1].prepare)
        prepared = workers.begin(_call, prepare, several)
        self._catch_up(device, workers)
        self._look_closer(device, workers)
        rest = {column.metric: self._rest(column, unit) for column, unit in self.uses}
        sampled = [use for use in self.uses if len(rest[use[0].metric])]
        found = self._sampled(sampled, rest, device, workers.threads)
        if self.moves is not None:
            self.moves.settle()
        self._collected()
        staying = prepared()[: len(self.uses)]
        self._move_cmc()
        replicates = {}
        for (column, unit), (base, whole, few, others) in zip(self.uses, staying, strict=True):
            key = column.metric, unit
            parts = [(few, self._sums[key])] if key in self._sums else []
            parts += [(others, found[key])] if key in found else []
            replicates[key] = moved(self.sets.folds[unit], base, whole, parts)
        if self.moves is not None:
            workers.share(lambda use: self._replicate_moves(*use), self.uses, several)
        return replicates

    def _rest(self, column: Column, unit: Unit) -> Integers:
        """The queries of a column that are not counted by fold."""
        alive = ~np.isnan(column.values[0])
        return np.flatnonzero(alive & ~self.few if (column.metric, unit) in self._sums else alive)

    def _counting(self, column: Column) -> Integers:
        """The queries that a column's score is a mean over."""
        if self.task.unmated == "zero":
            return np.arange(len(self.few))
        return np.flatnonzero(~np.isnan(headline(column.metric, column.values)))

    def _staying(self, use: Use) -> tuple[Reals, Staying, Staying, Staying]:
        """Without each fold: the weighted values of who stays added up, who that is, and who of
        them may move, of those that are counted by fold and of the others."""
        column, unit = use
        folds, weights = self.sets.folds[unit], self._weights.of(column.grade)
        rows, values = self._counting(column), headline(column.metric, column.values)
        values = np.where(np.isnan(values), 0.0, values)[rows]
        who = (rows, np.flatnonzero(self._moving(column)), self._rest(column, unit))
        base = left(weights[rows] * values, folds.query, folds.columns, rows)
        whole, few, others = (Staying.of(folds, some, weights) for some in who)
        return base, whole, few, others

    def _replicate_moves(self, column: Column, unit: Unit) -> None:
        """Make the replicates of a column at gallery sizes."""
        assert self.moves is not None
        whose = {False: self._rest(column, unit)}
        if (column.metric, unit) in self._sums:
            whose[True] = np.flatnonzero(self.few & ~np.isnan(column.values[0]))
        folds, weights = self.sets.folds[unit], self._weights.of(column.grade)
        rows = self._counting(column)
        self.moves.replicate(column.metric, unit, folds, rows, whose, weights)

    def _catch_up(self, device: str, workers: HelperThreads) -> None:
        """Count by fold what no block brought: a GPU's rows, or those of an earlier run."""
        if not self._sums or not len(missing := np.flatnonzero(self.counted & ~self.known)):
            return
        with closing(self._split(missing, self.gallery_folds, device, workers.threads)) as blocks:
            for block in blocks:
                self.collect(block.rows, block.split, workers)

    def _split(
        self, rows: Integers, folds: GalleryFolds, device: str, threads: int
    ) -> Generator[Block, None, None]:
        """Blocks of some queries, counted by fold in a pass of their own."""
        view, space = self.split_view, self.space
        return runner.tie_groups(
            view, space, device=device, threads=threads, folds=folds, only=rows
        )

    def choose(self) -> None:
        """Choose, once all values are known, of whom more is counted by fold: of metrics that few
        queries miss, more of those that may move. `finish` does it if need be; a caller who begins
        other work before that saves time by choosing first."""
        more: dict[Key, Flags] = {}
        since = np.full(len(self.few), -1)
        for column, unit in self.uses:
            moving = self._moving(column)
            if (column.metric, unit) in self._sums and (moving & self.counted).sum() < ENOUGH:
                wanted = np.zeros(len(moving), bool)
                wanted[self.sets.sample(np.flatnonzero(moving), ENOUGH)] = True
                more[column.metric, unit] = wanted & ~self.counted
        if self.cmc is not None and self.counts_first and not self._may_all_move:
            since = self.cmc[1].wanted(self.few, self.sets.in_order, self.counted, ENOUGH)
        self._chosen = more, since

    def _look_closer(self, device: str, workers: HelperThreads) -> None:
        """Count by fold those who were chosen."""
        if self._chosen is None:
            self.choose()
        assert self._chosen is not None
        more, since = self._chosen
        every = since >= 0
        for wanted in more.values():
            every |= wanted
        if not every.any():
            return
        folds, rows = self._split_sets.gallery(every), np.flatnonzero(every)
        with closing(self._split(rows, folds, device, workers.threads)) as blocks:
            for block in blocks:
                mine = block.rows[block.split.queries]
                here = {key: wanted[mine] for key, wanted in more.items()}
                jobs = self._jobs(mine, block.split, here, workers, since[mine])
                workers.share(_call, jobs, COLLECTING)

    def _sampled(
        self, uses: list[Use], rest: dict[Metric, Integers], device: str, threads: int
    ) -> dict[Key, ChangeSums]:
        """How queries move that are not counted in the pass, from a sample for each unit."""
        found: dict[Key, ChangeSums] = {}
        for unit, folds in self.sets.folds.items():
            mine = [use for use in uses if use[1] == unit]
            if not mine:
                continue
            rows = np.unique(np.concatenate([rest[column.metric] for column, _ in mine]))
            again = Sampled.of(self.view, self.space, folds, rows)
            moving = self.cmc[1] if self.cmc is not None and self.cmc[0] == unit else None
            changes = self._compute(mine, rest, again, device, threads, moving)
            for use in mine:
                metric = use[0].metric
                among = np.isin(again.sample, rest[metric])
                sums = found[metric, unit] = ChangeSums(folds.columns)
                rows = again.sample[among]
                weights = self._weights.of(use[0].grade)[rows]
                sums.add(changes[metric][among], folds.query[rows], weights)
        return found

    def _compute(
        self,
        uses: list[Use],
        rest: dict[Metric, Integers],
        again: Sampled,
        device: str,
        threads: int,
        moving: FirstMateMoves | None,
    ) -> dict[Metric, Reals]:
        """How each sampled query's value moves without each fold; NaN if no mate is left."""
        columns = [column for column, _ in uses]
        who = {c.metric: np.isin(np.arange(self.task.queries), rest[c.metric]) for c in columns}

        def move(block: Block) -> None:
            self._move((False, uses[0][1]), who, block.rows[block.split.queries], block.split)

        sample = again.sample
        values, ranks = again.without(columns, moving, move, device, threads)
        if moving is not None and ranks is not None:
            others = ~(self.few[sample] & self.counts_first)
            moving.sample(sample[others], ranks[others])
        return {
            c.metric: self._settled(values[c.metric])
            - headline(c.metric, c.values)[sample][:, None]
            for c in columns
        }


def _call(job: Callable[[], Any]) -> Any:
    return job()


def _way(metric: Metric) -> DeleteKernel:
    """How a metric is computed without each fold, which is known of those that are counted."""
    reduced = registry.ranking(metric).reduced
    assert reduced is not None
    return reduced(metric)


# Values computed again: some queries ranked anew without each fold, one fold after the other.
#
# In come the columns and a sample of queries; out comes each column's value of every sampled query
# without every fold. So it is done where a pass does not count by fold.


WORK = 1e6
FEWEST_SAMPLED, MOST_SAMPLED = 32, 512
"""The size of a sample follows from the tie groups to walk, within limits."""


def headline(metric: Metric, values: Reals) -> Reals:
    """The end of (lower, expected, upper) that is the score."""
    chosen: Reals = values[0 if registry.definition(metric).higher_is_better else 2]
    return chosen


@dataclass(frozen=True)
class Sampled:
    """Queries to be ranked again, and the folds of the gallery that leave."""

    view: View
    space: Space
    folds: FoldAssignment
    sample: Integers

    @staticmethod
    def of(view: View, space: Space, folds: FoldAssignment, rows: Integers) -> Sampled:
        """A sample of these queries, as large as is worth the time."""
        steps = folds.columns * max(1.0, float(view.mates[rows].mean()))
        count = min(max(int(WORK / steps), FEWEST_SAMPLED), MOST_SAMPLED)
        return Sampled(view, space, folds, folds.sample(rows, count))

    def without(
        self,
        columns: list[Column],
        moving: FirstMateMoves | None,
        each: Callable[[Block], None],
        device: str,
        threads: int,
    ) -> tuple[dict[Metric, Reals], Integers | None]:
        """(queries, folds) of each column, NaN if no mate is left; and the same of first ranks.

        `each` is shown every block as well; `moving` knows the first ranks, where they are wanted.
        """
        sample, folds = self.sample, self.folds
        wanted = np.zeros(len(self.view.mates), bool)
        wanted[sample] = True
        place = np.cumsum(wanted) - 1
        values: dict[Metric, Reals] = {
            c.metric: np.full((len(sample), folds.columns), np.nan) for c in columns
        }
        ranks = None if moving is None else moving.nothing_left(len(sample))

        def leave(fold: int, block: Block) -> None:
            kept, left = block.split.without(fold)
            if moving is not None and ranks is not None:
                moving.leave(ranks, place[block.rows[kept]], fold, left)
            parts = {0: (kept, left)}
            for column in columns:
                if column.grade not in parts:
                    chosen, some = left.at_least(column.grade)
                    parts[column.grade] = (kept[chosen], some)
                some_kept, some = parts[column.grade]
                if len(some_kept):
                    per_query = registry.ranking(column.metric).per_query
                    found = per_query(some, column.metric, column.scale)
                    at = place[block.rows[some_kept]]
                    values[column.metric][at, fold] = headline(column.metric, found)

        blocks = runner.tie_groups(
            self.view,
            self.space,
            device=device,
            threads=threads,
            folds=folds.gallery(wanted),
            only=sample,
        )
        with closing(blocks), ThreadPoolExecutor(threads) as pool:
            for block in blocks:
                for _ in pool.map(partial(leave, block=block), range(folds.columns)):
                    pass
                each(block)
        return values, ranks


# The weight of every query in a mean: each counts alike, or each class does.


@dataclass
class QueryWeights:
    """Weights in means over queries, or over classes, of one notion of relevance.

    It remembers what it has computed; two threads may compute the same at once.
    """

    task: TaskRules
    view: View
    by_class: bool
    _of_grade: dict[int, Reals] = field(default_factory=dict)

    def of(self, grade: int) -> Reals:
        """The weights where mates from a grade on count; one over the class's queries that do."""
        if grade not in self._of_grade:
            if not self.by_class:
                return self._of_grade.setdefault(grade, np.ones(self.task.queries))
            codes, counts = self.task.query_codes, np.ones(self.task.queries, bool)
            if self.task.unmated != "zero":
                is_tree = isinstance(self.view, TreeView) and grade > self.view.lowest
                view = self.task.tree_view(grade) if is_tree else self.view
                counts = view.mates > 0
            size = np.bincount(codes[counts], minlength=int(codes.max()) + 1)
            self._of_grade[grade] = 1.0 / np.maximum(size[codes], 1)
        return self._of_grade[grade]


# Replicates of scores at gallery sizes: how they move without each fold of the classes.


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
