"""GOM at a rate without each fold of the classes: the threshold is found again each time.

The queries without a mate that are left set it, exactly, and all queries are seen again at it; how
far they move because the fold is gone from the gallery is computed for a sample of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core.folds import FEWEST_CLASSES, FoldAssignment
from truerank.core.groups import LocatedGroups
from truerank.core.jackknife import fixed
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.engine.cuts import Cuts
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import Deferred, Part, RankObserver, ResumableObserver
from truerank.engine.threads import PerThread
from truerank.families.family import Context, Moves
from truerank.families.gom.fewer import (
    counted,
    end_of,
    groups_without,
    means_without,
    members_of,
    sample_of,
)
from truerank.families.gom.points import NO_AXIS, Points, table_at
from truerank.families.gom.profiles import Profiles
from truerank.families.gom.rates import Rates, largest_below
from truerank.families.nearest_without import NearestWithout
from truerank.families.thresholds import FEWEST_BELOW, allowed, why_too_few_below
from truerank.space import Distances, Rows
from truerank.wording import count

__all__ = ["RateFolds"]

Integers = npt.NDArray[np.int64]
MOST_NUMBERS = 1 << 22
"""Most queries x folds that are held for each thread, where there are more than a few folds."""


class RateFolds:
    """What the pass must count for GOM at rates, and the scores without each fold."""

    def __init__(
        self, context: Context, rates: Rates, metrics: Sequence[Metric], folds: FoldAssignment
    ) -> None:
        self._context, self._rates, self._metrics = context, rates, metrics
        queries = context.task.queries
        self._folds = folds.coarser(MOST_NUMBERS // queries)
        nowhere = np.full(queries, -np.inf)
        self._nearest = NearestWithout(context, self._folds, nowhere) if rates.targets else None

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs."""
        return [] if self._nearest is None else self._nearest.observers

    def moves(self, metric: Metric) -> Moves:
        """The score without each fold, or why that cannot be told."""
        mates = self._context.with_mate
        below = allowed(metric["far"], int((~mates).sum()))
        if below < FEWEST_BELOW:
            return why_too_few_below(below)
        for some, which in ((mates, "with"), (~mates, "without")):
            classes = len(np.unique(self._folds.query_codes[some]))
            if classes < FEWEST_CLASSES and (which == "without" or definition(metric).with_mate):
                return (
                    f"{count(classes, 'class')} of queries {which} a mate; an interval needs at "
                    f"least {FEWEST_CLASSES}"
                )
        return means_without(
            metric,
            self._context,
            self._folds,
            None,
            self._again.sample,
            self._again.changes(metric),
            self._moved.sums(metric),
        )

    @cached_property
    def _cuts(self) -> list[dict[Fraction, float]]:
        """The largest distances that may be accepted without each fold."""
        assert self._nearest is not None
        found = []
        for column in range(self._folds.columns):
            kept = (self._folds.query != column).all(axis=1) & ~self._context.with_mate
            left = np.sort(self._nearest.nearest(column)[kept])
            found.append({target: largest_below(left, target) for target in self._rates.cuts})
        return found

    @cached_property
    def _moved(self) -> _Moved:
        """All queries at the thresholds of every fold."""
        known = [metric for metric in self._metrics if metric.get("far") in self._rates.cuts]
        moved = _Moved(self._context, self._folds, known, self._cuts)
        self._context.observe_again(moved, np.arange(self._context.task.queries))
        return moved

    @cached_property
    def _again(self) -> _Again:
        """A sample of queries, observed once more without each fold."""
        again = _Again(self._context, self._folds, self._cuts)
        self._context.observe_again(again, again.sample)
        return again


class _Moved(RankObserver):
    """Observes all queries at the thresholds that are found without each fold."""

    def __init__(
        self,
        context: Context,
        folds: FoldAssignment,
        metrics: Sequence[Metric],
        cuts: list[dict[Fraction, float]],
    ) -> None:
        self._folds, self._metrics = folds, metrics
        counts = {metric: counted(context, metric) for metric in metrics}
        self._weight = {
            metric: np.where(some, context.weights(some), 0.0) for metric, some in counts.items()
        }
        self._columns: dict[tuple[Fraction, float], list[int]] = {}
        """The columns that share a target's threshold."""
        for column, own in enumerate(cuts):
            for target, cut in own.items():
                self._columns.setdefault((target, cut), []).append(column)
        self._cuts = Cuts.of(np.array([cut for _, cut in self._columns]))
        self._sums = PerThread(
            lambda: {metric: np.zeros(folds.columns, np.int64) for metric in metrics}
        )

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> list[Deferred]:
        """See RankObserver."""
        queries = len(block.rows)
        table = np.zeros((queries, len(self._cuts) + 1), np.int64)
        block.tally(self._cuts, np.arange(queries), lambda: nullcontext(table))
        accepted = np.cumsum(table, axis=1)
        return [partial(self._add, block.rows, accepted, Profiles.of(groups, NO_AXIS))]

    def _add(self, rows: Integers, accepted: Integers, steps: Profiles) -> None:
        sums = self._sums.mine()
        for (target, cut), columns in self._columns.items():
            points = Points({target: cut}, len(rows))
            points.accepted_at[target][:] = accepted[:, self._cuts.where(cut)]
            points.add(np.arange(len(rows)), steps)
            for metric in self._metrics:
                if metric["far"] != target:
                    continue
                values = table_at(points, metric, target)[end_of(metric)]
                values = fixed(self._weight[metric][rows] * values)
                for column in columns:
                    stays = (self._folds.query[rows] != column).all(axis=1)
                    sums[metric][column] += int(values[stays].sum())

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"sums": {metric: self.sums(metric) for metric in self._metrics}}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        for metric, sums in self._sums.mine().items():
            sums += part["sums"][metric]

    def sums(self, metric: Metric) -> Integers:
        """Weighted values of the queries that stay without each fold, in units of 2^-40."""
        parts = [found[metric] for found in self._sums.all()]
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64), np.int64)


class _Again(RankObserver):
    """Observes a sample of queries at the thresholds of every fold, with the fold and without."""

    def __init__(
        self, context: Context, folds: FoldAssignment, cuts: list[dict[Fraction, float]]
    ) -> None:
        self.sample = sample_of(context, folds)
        self._context, self._folds, self._items = context, folds, members_of(folds)
        self._place = np.full(context.task.queries, -1)
        self._place[self.sample] = np.arange(len(self.sample))
        self._with = [Points(own, len(self.sample)) for own in cuts]
        self._without = [Points(own, len(self.sample)) for own in cuts]

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> list[Deferred]:
        """See RankObserver."""
        rows = block.rows
        here = block.some(np.arange(len(rows))).distances
        steps = Profiles.of(groups, NO_AXIS)

        def observe(column: int) -> None:
            self._fill(self._with[column], rows, here, steps)
            kept = np.flatnonzero((self._folds.query[rows] != column).all(axis=1))
            if not len(kept):
                return
            items = self._items[column]
            left = here[kept]
            gone = left[:, items]
            left[:, items] = np.inf
            fewer = Profiles.of(groups_without(groups.some(kept), gone), NO_AXIS)
            self._fill(self._without[column], rows[kept], left, fewer)

        return [partial(observe, column) for column in range(len(self._with))]

    def _fill(self, points: Points, rows: Integers, distances: Distances, steps: Profiles) -> None:
        place = self._place[rows]
        points.count(DistanceBlock(place, distances, compiled=False))
        points.add(place, steps)

    def __getstate__(self) -> dict[str, Any]:
        """Without what a worker does not need: the task and its rows."""
        return {name: value for name, value in vars(self).items() if name != "_context"}

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        place = self._place[rows]
        return {"points": [points.part(place) for points in (*self._with, *self._without)]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        place = self._place[rows]
        for points, one in zip((*self._with, *self._without), part["points"], strict=True):
            points.take(place, one)

    def changes(self, metric: Metric) -> npt.NDArray[np.float64]:
        """(queries that count, columns): what the loss of each fold from the gallery does."""
        mine, end = counted(self._context, metric)[self.sample], end_of(metric)
        tables = (
            [table_at(points, metric, metric["far"])[end][mine] for points in some]
            for some in (self._without, self._with)
        )
        without, before = (np.column_stack(some) for some in tables)
        return np.asarray(without - before, np.float64)
