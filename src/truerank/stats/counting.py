"""Counting by fold: what a pass counts in leave-one-out, and how scores move without each fold.

The engine counts by fold of the gallery, for every metric that can be computed again without a fold
and for queries with few mates. The other values are computed again for a sample of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.arrays import distinct
from truerank.cached import cached_property
from truerank.core import registry
from truerank.core.column import Column
from truerank.core.curve_moves import CurveMoves
from truerank.core.folds import FoldAssignment, GalleryFolds
from truerank.core.groups import Block, SplitGroups
from truerank.core.jackknife import ChangeSums, Staying, left, moved
from truerank.core.left_out import LeftOut, Without
from truerank.core.metric import Metric
from truerank.core.replicates import Replicates
from truerank.engine.threads import Workers
from truerank.growth.columns import GrownColumns
from truerank.metrics.reduced import add_moves
from truerank.relevance import TreeView, View
from truerank.space import Space
from truerank.stats.computed_again import Sampled, headline
from truerank.stats.first_ranks import FirstMateMoves
from truerank.stats.fold_sets import FoldSets, most_counted
from truerank.stats.grown import GrownMoves
from truerank.stats.query_weights import QueryWeights
from truerank.stats.units import Unit
from truerank.task import TaskRules

__all__ = ["Plan"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
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
class Plan:
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
    ) -> Plan:
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
        return Plan(task, space, by_class, sets, view, uses, lowest, split_view, few, grown=grown)

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
        return bool(self.counted[self.few].all()) or self.task.no_mate == "zero"

    @cached_property
    def gallery_folds(self) -> GalleryFolds:
        """The folds by which the engine is to count, and for which queries."""
        return self._split_sets.gallery(self.counted)

    def collect(self, block: Integers, split: SplitGroups, workers: Workers) -> None:
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
        workers: Workers,
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
                none_counts=self.task.no_mate == "zero",
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
        return np.where(np.isnan(values), 0.0, values) if self.task.no_mate == "zero" else values

    def finish(self, device: str, workers: Workers) -> dict[Key, tuple[Replicates, Replicates]]:
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
        if self.task.no_mate == "zero":
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

    def _catch_up(self, device: str, workers: Workers) -> None:
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
        return engine.tie_groups(
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

    def _look_closer(self, device: str, workers: Workers) -> None:
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


def _way(metric: Metric) -> Without:
    """How a metric is computed without each fold, which is known of those that are counted."""
    reduced = registry.ranking(metric).reduced
    assert reduced is not None
    return reduced(metric)
