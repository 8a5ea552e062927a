"""Estimation: which interval each score gets, and what the passes must count for it.

In leave-one-out the engine counts by fold of the gallery, for every metric that can be computed
again without a fold and every query with few mates. The other values are computed again for a
sample of queries only.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.core import registry
from truerank.core.column import Column
from truerank.core.folds import FEWEST_CLASSES, FoldAssignment, GalleryFolds
from truerank.core.groups import Block, SplitGroups
from truerank.core.jackknife import Stratum, replicates
from truerank.core.left_out import LeftOut
from truerank.core.metric import Metric, RankingDefinition
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.families.collection import Collection, CollectionWithout
from truerank.families.family import Context
from truerank.relevance import TreeView, View
from truerank.settings import current_limits
from truerank.space import Space
from truerank.space.fingerprint import Fingerprints, mix
from truerank.stats import intervals
from truerank.stats.bootstrap import FEWEST_DRAWN, ClassSums, standard_errors
from truerank.stats.folds import deal, deal_queries
from truerank.stats.intervals import Interval, IntervalRequest, interval_of
from truerank.task import TaskRules

__all__ = ["Estimation", "Plan"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

FEW = 0.05
"""Queries with at most this share of the gallery as mates are counted without each fold; it is no
setting, because it decides which values an interval is made of."""
MOST_COUNTED = 1 << 16
"""An eighth of the queries with few mates is counted by fold, but, without limits, no more."""
MOST_GROUPS, LEAST_COUNTED = 1 << 22, 512
"""Most mates of the queries counted by fold; and queries that are counted all the same."""
WORK = 1e6
FEWEST_SAMPLED, MOST_SAMPLED = 32, 512
"""The size of a sample to be computed again follows from the tie groups to walk, within limits."""


def headline(metric: Metric, values: Reals) -> Reals:
    """The end of (lower, expected, upper) that is the score."""
    chosen: Reals = values[0 if registry.definition(metric).higher_is_better else 2]
    return chosen


class Estimation:
    """The intervals of one evaluation."""

    def __init__(
        self, task: TaskRules, space: Space, request: IntervalRequest, average: str
    ) -> None:
        self.task, self.space, self.request = task, space, request
        self.by_class = average == "class"
        self.jackknife = task.leave_one_out and task.levels is not None
        self.folds: FoldAssignment | None = None
        self.measured: CollectionWithout | None = None
        self._only_means = True
        self._counted = (task.mates > 0) | (task.no_mate == "zero")
        if self.jackknife:
            self.folds = deal(task, space, self._counted, request.seed)
        self.replicates: dict[Metric, tuple[Replicates, Replicates]] = {}
        self._errors: dict[Metric, tuple[float, int]] = {}

    def observe(self, families: Collection) -> None:
        """Let the families' pass count what intervals of threshold metrics need."""
        folds, context = self.folds, families.context
        if not self.jackknife and self._alive >= FEWEST_DRAWN:
            folds = deal_queries(_prints(context), self.units, self._counted, self.request.seed)
        if folds is not None:
            self.measured = families.without(folds)
            self._only_means = all(registry.definition(m).is_mean(m) for m in context.metrics)

    def plan(self, view: View, columns: list[Column]) -> Plan | None:
        """What a pass must count; None where it needs nothing more."""
        if self.folds is None or not columns:
            return None
        return Plan.of(self, self.folds, view, columns)

    def estimate(self, columns: list[Column]) -> None:
        """Find how far each column's score moves, once all passes are done."""
        if self.jackknife:
            return
        sums = []
        for column in columns:
            values = headline(column.metric, column.values)
            if self.task.no_mate == "zero":
                values = np.where(np.isnan(values), 0.0, values)
            sums.append(ClassSums.of(values, self.units, self.by_class).in_order())
        errors = standard_errors(sums, self.request.seed)
        for column, some, error in zip(columns, sums, errors, strict=True):
            self._errors[column.metric] = (error, len(some))

    def interval(self, score: Score, metric: Metric, parts: list[Metric]) -> Interval:
        """The interval of a score that is the mean of the scores of these columns."""
        if not isinstance(registry.definition(metric), RankingDefinition):
            return self._measured(score, metric)
        limits = registry.definition(parts[0]).range
        confidence = self.request.confidence
        if not self.jackknife:
            # the error of a mean is at most the mean of the errors
            error = math.fsum(self._errors[part][0] for part in parts) / len(parts)
            classes = min(self._errors[part][1] for part in parts)
            if classes < FEWEST_DRAWN:
                return intervals.too_few(classes, self.unit, FEWEST_DRAWN)
            return intervals.from_standard_error(score.value, error, classes, confidence, limits)
        if self.folds is None:
            held = ~np.isnan(score.per_query.lower) if score.per_query is not None else ()
            classes = len(np.unique(self.task.query_codes[held]))
            return intervals.too_few(classes, self.unit, FEWEST_CLASSES)
        own, paired = (
            Replicates.mean([self.replicates[part][way] for part in parts]) for way in (0, 1)
        )
        return intervals.from_replicates(score.value, own, paired, confidence, limits)

    def _measured(self, score: Score, metric: Metric) -> Interval:
        """The interval of a threshold metric: a mean at given thresholds, or computed by fold."""
        confidence = self.request.confidence
        is_mean = registry.definition(metric).is_mean(metric)
        if not self.jackknife and is_mean and score.per_query is not None:
            values = headline(
                metric, np.stack([score.per_query.lower] * 2 + [score.per_query.upper])
            )
            sums = ClassSums.of(values, self.units, self.by_class).in_order()
            if len(sums) < FEWEST_DRAWN:
                return intervals.too_few(len(sums), self.unit, FEWEST_DRAWN)
            error = standard_errors([sums], self.request.seed)[0]
            limits = registry.definition(metric).range
            return intervals.from_standard_error(score.value, error, len(sums), confidence, limits)
        if self.measured is None:
            fewest = FEWEST_CLASSES if self.jackknife else FEWEST_DRAWN
            return intervals.too_few(self._alive, self.unit, fewest)
        moves = self.measured.moves(metric, score)
        return interval_of(score, metric, moves, confidence)

    @property
    def _alive(self) -> int:
        """Classes with a query that counts."""
        return len(np.unique(self.units[self._counted]))

    @property
    def unit(self) -> str:
        """What is drawn, or assigned to a fold, as a whole: a class, or a query without labels."""
        return "query" if self.task.levels is None else "class"

    @property
    def units(self) -> Integers:
        """The number of each query's unit."""
        if self.task.levels is None:
            return np.arange(self.task.queries)
        return self.task.query_codes

    def facts(self) -> dict[str, Any]:
        """How the intervals came about, for the provenance."""
        folds = self.folds
        if folds is None and self.measured is not None and not self._only_means:
            folds = self.measured.folds
        return intervals.facts(
            self.request,
            leave_one_out=self.jackknife,
            folds=0 if folds is None else folds.count,
            unit=self.unit,
        )


def _prints(context: Context) -> Fingerprints:
    """A number for each query, by its content and by the distances of its mates.

    Distances count by their significands, which no scale that is a power of two changes.
    """
    ours = context.positives
    total = np.zeros(context.task.queries, np.uint64)
    digits = np.ldexp(np.frexp(ours.distance)[0], 53).astype(np.int64)
    np.add.at(total, ours.query, mix(digits))
    return mix(context.space.fingerprints() + mix(total + mix(context.task.mates + 1)))


@dataclass
class Plan:
    """What one pass counts by fold: its view, and which of its columns and queries."""

    estimation: Estimation
    folds: FoldAssignment
    view: View
    columns: list[Column]
    lowest: int
    """Grades from here on are counted by fold."""
    split_view: View
    """The view in which the grades from `lowest` on are relevant."""
    few: npt.NDArray[np.bool_]
    """Queries with few mates in `split_view`."""
    counted: npt.NDArray[np.bool_]
    """Queries with few mates that are counted by fold."""
    changes: dict[Metric, Reals]
    known: npt.NDArray[np.bool_]
    """Queries whose values without each fold are known."""

    @cached_property
    def _place(self) -> Integers:
        """Number of each query among those that are counted by fold."""
        return np.cumsum(self.counted) - 1

    @cached_property
    def gallery_folds(self) -> GalleryFolds:
        """The folds by which the engine is to count, and for which queries."""
        return self.folds.gallery(self.counted)

    @staticmethod
    def of(
        estimation: Estimation, folds: FoldAssignment, view: View, columns: list[Column]
    ) -> Plan:
        """The plan of a pass: a tree is split from the level on at which most have few mates."""
        most = FEW * estimation.space.gallery
        split_view, lowest = view, 1
        if isinstance(view, TreeView):
            lowest = view.lowest
            while lowest < view.grades and np.median(split_view.mates) > most:
                lowest += 1
                split_view = estimation.task.tree_view(lowest)
        few = (split_view.mates > 0) & (split_view.mates <= most)
        rows = np.flatnonzero(few)
        count = max(current_limits().counted, min(len(rows) // 8, MOST_COUNTED))
        mates = float(split_view.mates[rows].mean()) if len(rows) else 1.0
        count = min(count, max(LEAST_COUNTED, int(MOST_GROUPS / mates)))
        counted = np.zeros(len(few), bool)
        counted[folds.sample(rows, count)] = True
        changes = {
            c.metric: np.full((int(counted.sum()), 2 * folds.count), np.nan)
            for c in columns
            if registry.ranking(c.metric).reduced is not None and c.grade >= lowest
        }
        known = np.zeros(len(few), bool)
        return Plan(
            estimation, folds, view, columns, lowest, split_view, few, counted, changes, known
        )

    def collect(self, block: Integers, split: SplitGroups) -> None:
        """Collect values of a block's queries without each fold, where its groups are split."""
        rows = block[split.queries]
        for column, left in self._left_out(rows, split):
            self._collect(column, rows, left)
        self.known[rows] = True

    def _left_out(self, rows: Integers, split: SplitGroups) -> list[tuple[Column, LeftOut]]:
        """What each column needs to be computed without each fold, made once for each grade."""
        if not self.counted[rows].any():
            return []
        columns = [column for column in self.columns if column.metric in self.changes]
        left = {grade: LeftOut.of(split, grade) for grade in {c.grade for c in columns}}
        return [(column, left[column.grade]) for column in columns]

    def _collect(self, column: Column, rows: Integers, left: LeftOut) -> None:
        reduced = registry.ranking(column.metric).reduced
        if reduced is None:
            return
        use = np.flatnonzero(self.counted[rows] & ~np.isnan(column.values[0, rows]))
        values = reduced(left, column.metric)[use]
        before = headline(column.metric, column.values)[rows[use]]
        place = self._place[rows[use]]
        self.changes[column.metric][place] = self._change(values, before)

    def _change(self, values: Reals, before: Reals) -> Reals:
        """How far values move; a query without any mate left may count as 0."""
        if self.estimation.task.no_mate == "zero":
            values = np.where(np.isnan(values), 0.0, values)
        return values - before[:, None]

    def finish(self, device: str, threads: int) -> None:
        """Compute the replicates of every column, once all blocks are in."""
        self._catch_up(device, threads)
        none_counts = self.estimation.task.no_mate == "zero"
        counted = np.flatnonzero(self.counted)
        rest: dict[Metric, Integers] = {}
        strata: dict[Metric, list[Stratum]] = {}
        for column in self.columns:
            values = column.values[0]
            alive = np.flatnonzero(~np.isnan(values))
            strata[column.metric] = []
            rest[column.metric] = alive
            if column.metric in self.changes:
                use = ~np.isnan(values[counted])
                rest[column.metric] = alive[~self.few[alive]]
                strata[column.metric].append(
                    Stratum(alive[self.few[alive]], counted[use], self.changes[column.metric][use])
                )
        sample = self._sample(np.unique(np.concatenate([*rest.values()])))
        sampled = [column for column in self.columns if len(rest[column.metric])]
        changes = self._compute(sampled, sample, device, threads)

        def replicate(column: Column) -> None:
            left = rest[column.metric]
            if len(left):
                among = np.isin(sample, left)
                strata[column.metric].append(
                    Stratum(left, sample[among], changes[column.metric][among])
                )
            values = headline(column.metric, column.values)
            rows = np.arange(len(values)) if none_counts else np.flatnonzero(~np.isnan(values))
            self.estimation.replicates[column.metric] = replicates(
                self.folds,
                rows,
                np.where(np.isnan(values), 0.0, values)[rows],
                strata[column.metric],
                self.estimation.by_class,
            )

        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(replicate, self.columns):
                pass

    def _catch_up(self, device: str, threads: int) -> None:
        """Count by fold what no block brought: a GPU's rows, or those of an earlier run."""
        missing = np.flatnonzero(self.counted & ~self.known)
        if not len(missing) or not self.changes:
            return
        blocks = engine.tie_groups(
            self.split_view,
            self.estimation.space,
            device=device,
            threads=threads,
            folds=self.gallery_folds,
            only=missing,
        )
        with closing(blocks), ThreadPoolExecutor(threads) as pool:
            for block in blocks:
                rows = block.rows[block.split.queries]
                work = self._left_out(rows, block.split)
                for _ in pool.map(lambda one, rows=rows: self._collect(one[0], rows, one[1]), work):
                    pass

    def _sample(self, rows: Integers) -> Integers:
        if not len(rows):
            return rows
        steps = 2 * self.folds.count * max(1.0, float(self.view.mates[rows].mean()))
        count = min(max(int(WORK / steps), FEWEST_SAMPLED), MOST_SAMPLED)
        return self.folds.sample(rows, count)

    def _compute(
        self, columns: list[Column], sample: Integers, device: str, threads: int
    ) -> dict[Metric, Reals]:
        """How each sampled query's value moves without each fold; NaN if no mate is left."""
        queries = self.estimation.task.queries
        wanted = np.zeros(queries, bool)
        wanted[sample] = True
        place = np.cumsum(wanted) - 1
        folds = self.folds.gallery(wanted)
        values = {c.metric: np.full((len(sample), folds.columns), np.nan) for c in columns}
        if not columns:
            return values
        blocks = engine.tie_groups(
            self.view,
            self.estimation.space,
            device=device,
            threads=threads,
            folds=folds,
            only=sample,
        )

        def leave(fold: int, block: Block) -> None:
            kept, left = block.split.without(fold)
            parts = {0: (kept, left)}
            for column in columns:
                if column.grade not in parts:
                    chosen, some = left.at_least(column.grade)
                    parts[column.grade] = (kept[chosen], some)
                some_kept, some = parts[column.grade]
                if len(some_kept):
                    per_query = registry.ranking(column.metric).per_query
                    found = per_query(some, column.metric, column.scale)
                    values[column.metric][place[block.rows[some_kept]], fold] = headline(
                        column.metric, found
                    )

        with closing(blocks), ThreadPoolExecutor(threads) as pool:
            for block in blocks:
                some = partial(leave, block=block)
                for _ in pool.map(some, range(folds.columns)):
                    pass
        return {
            c.metric: self._change(values[c.metric], headline(c.metric, c.values)[sample])
            for c in columns
        }
