"""Which interval each score gets, or why it has none, and what the passes must count for it.

In leave-one-out, units are deleted as queries and as gallery; with a gallery apart from the
queries they are drawn with replacement. A metric's units are the classes of the level that its
relevance uses. Lists without embeddings have a fixed gallery: what they would hold without a
class is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import distinct
from truerank._util.old_names import WITHOUT_BAND
from truerank._util.threads import HelperThreads
from truerank._util.types import Integers, Reals
from truerank.core import registry
from truerank.core.curve import BandMoves, Curve, CurveMoves, rank_ladder
from truerank.core.jackknife import FEWEST_CLASSES, FoldAssignment, Replicates
from truerank.core.metric import Metric, RankingDefinition
from truerank.core.score import Column, Score
from truerank.distance.base import Space
from truerank.distance.digests import Fingerprints, mix
from truerank.intervals.bands import put_band
from truerank.intervals.first_item_replicates import (
    FirstMateMoves,
    levels_without,
    moved_cmc,
    moved_severity,
    ranks_of,
)
from truerank.intervals.interval import (
    FEWEST_DRAWN,
    FINER,
    ClassSums,
    Interval,
    IntervalRequest,
    facts,
    from_replicates,
    from_standard_error,
    interval_of,
    standard_errors,
    too_few,
)
from truerank.intervals.jackknife_groups import deal, deal_queries
from truerank.intervals.ranking_replicates import JackknifePlan, headline
from truerank.metrics.gallery_sizes import GrownColumns
from truerank.metrics.thresholds.family import Collection, CollectionWithout, Context
from truerank.task.relevance import View
from truerank.task.task import TaskRules, Unit, finest_unit, unit_of

NOT_COUNTED = "ask for a verification metric such as auc, whose pass counts what a band is made of"
MATES_LEAVE = "a class by the finest label has some of a query's relevant items, not all or none"


class Estimation:
    """The intervals of one evaluation; `parts` are the columns whose mean each metric is."""

    def __init__(
        self,
        task: TaskRules,
        space: Space | None,
        request: IntervalRequest,
        average: str,
        parts: Mapping[Metric, list[Metric]],
    ) -> None:
        self.task, self.space, self.request, self._parts = task, space, request, parts
        self.by_class = average == "class"
        self.jackknife = task.leave_one_out and task.levels is not None and space is not None
        self._fewest = FEWEST_CLASSES if self.jackknife else FEWEST_DRAWN
        self._finest = finest_unit(task)
        self._counts: dict[Unit, npt.NDArray[np.bool_]] = {}
        self.units = {metric: self._chosen(unit_of(task, metric)) for metric in parts}
        self._folds: dict[Unit, FoldAssignment | None] = {}
        self.measured: CollectionWithout | None = None
        self._only_means = True
        if self.jackknife and space is not None:
            for unit in dict.fromkeys([*self.units.values(), self._finest]):
                counted = self._counted(unit)
                self._folds[unit] = deal(task, space, unit, counted)
        self.replicates: dict[tuple[Metric, Unit], tuple[Replicates, Replicates]] = {}
        self._errors: dict[tuple[Metric, Unit], tuple[float, int]] = {}
        self._ladder = rank_ladder(task.items)
        self._cmc: CurveMoves | None = None
        self._place = 0
        self._grown: dict[tuple[int, Metric, Unit], tuple[Replicates, Replicates]] = {}

    def _chosen(self, unit: Unit) -> Unit:
        """The unit itself, or a finer one if that was asked for where there are too few."""
        if self.request.units == "metric" or self._alive(unit) >= self._fewest:
            return unit
        return next((u for u in self._finer(unit) if self._alive(u) >= self._fewest), self._finest)

    def _finer(self, unit: Unit) -> list[Unit]:
        """What may take a unit's place."""
        return unit.below(self.task) if self.request.units == "finer" else [self._finest]

    def _counted(self, unit: Unit) -> npt.NDArray[np.bool_]:
        if unit not in self._counts:
            self._counts[unit] = unit.counts(self.task)
        return self._counts[unit]

    def _alive(self, unit: Unit) -> int:
        """Units with a query that counts."""
        return distinct(unit.codes(self.task)[0][self._counted(unit)])

    def observe(self, families: Collection) -> None:
        """Let the families' pass count what intervals of threshold metrics need."""
        folds, context, finest = self._folds.get(self._finest), families.context, self._finest
        if not self.jackknife and self._alive(finest) >= FEWEST_DRAWN:
            folds = self._of_queries(_prints(context))
        if folds is not None:
            self.measured = families.without(folds)
            self._only_means = all(registry.definition(m).is_mean(m) for m in context.metrics)

    def _of_queries(self, prints: Fingerprints) -> FoldAssignment | None:
        """Folds of the queries alone, whose gallery is of its own."""
        codes, counted = self._finest.codes(self.task)[0], self._counted(self._finest)
        return deal_queries(prints, codes, counted, self.task.id_names)

    def _uses(self, columns: list[Column]) -> list[tuple[Column, Unit]]:
        """Each column with every unit by which a metric that it is a part of needs it."""
        return [
            (column, unit)
            for column in columns
            for unit in dict.fromkeys(
                self.units[metric]
                for metric, parts in self._parts.items()
                if column.metric in parts
            )
        ]

    def plan(
        self,
        view: View,
        columns: list[Column],
        first: tuple[Integers, int] | None = None,
        grown: GrownColumns | None = None,
    ) -> JackknifePlan | None:
        """What a pass must count; None where it needs nothing more.

        `first` is where the pass notes the tie groups of first mates by the finest label, and the
        grade of these; None for a pass that does not tell of them.
        """
        folds = {unit: some for unit, some in self._folds.items() if some is not None}
        uses = [(column, unit) for column, unit in self._uses(columns) if unit in folds]
        if not uses or self.space is None:
            return None
        plan = JackknifePlan.of(
            self.task, self.space, folds, view, uses, grown, by_class=self.by_class
        )
        if first is not None and self._finest in plan.sets.folds:
            mine = plan.sets.folds[self._finest]
            plan.cmc = (self._finest, FirstMateMoves(mine, *first, self._ladder))
        return plan

    def finish(self, plan: JackknifePlan, device: str, workers: HelperThreads) -> None:
        """Take what a pass has counted."""
        self.replicates |= plan.finish(device, workers)
        if plan.cmc is not None:
            self._cmc = plan.cmc_moves
        if plan.moves is not None:
            self._grown |= plan.moves.found

    def at_size(self, place: int, columns: list[Column]) -> Estimation:
        """The intervals at one of the gallery sizes, whose columns these are."""
        other = copy(self)
        other.replicates = {
            (metric, unit): found
            for (at, metric, unit), found in self._grown.items()
            if at == place
        }
        other._errors, other._place = {}, place
        other.estimate(columns)
        return other

    def interval_at_size(self, score: Score, metric: Metric) -> Interval:
        """The interval of a score at the gallery size whose intervals these are."""
        known = registry.definition(metric)
        if isinstance(known, RankingDefinition) or (known.is_mean(metric) and not self.jackknife):
            return self.interval(score, metric)
        if self.measured is None:
            return self.too_few(self._alive(self._finest), self._finest)
        moves = self.measured.moves_at(metric, self._place)
        return interval_of(score, metric, moves, self.request.confidence)

    def estimate(self, columns: list[Column]) -> None:
        """Find how far each column's score moves, once all passes are done."""
        if self.jackknife:
            return
        sums = []
        uses = self._uses(columns)
        for column, unit in uses:
            values = headline(column.metric, column.values)
            if self.task.unmated == "zero":
                values = np.where(np.isnan(values), 0.0, values)
            sums.append(self._sums(values, unit))
        errors = standard_errors(sums, self.request.seed)
        for (column, unit), some, error in zip(uses, sums, errors, strict=True):
            self._errors[column.metric, unit] = (error, len(some))

    def _sums(self, values: Reals, unit: Unit) -> ClassSums:
        """The sums of each unit; in a mean over classes, of the means of its classes."""
        codes = unit.codes(self.task)[0]
        classes = self.task.query_codes if self.by_class else None
        return ClassSums.of(values, codes, classes).in_order()

    def interval(self, score: Score, metric: Metric) -> Interval:
        """The interval of a score, or why it has none."""
        if not isinstance(registry.definition(metric), RankingDefinition):
            return self._measured(score, metric)
        parts, unit = self._parts[metric], self.units[metric]
        limits = registry.definition(parts[0]).range
        confidence = self.request.confidence
        if not self.jackknife:
            # the error of a mean is at most the mean of the errors
            error = math.fsum(self._errors[part, unit][0] for part in parts) / len(parts)
            units = min(self._errors[part, unit][1] for part in parts)
            if units < FEWEST_DRAWN:
                return self.too_few(units, unit)
            return from_standard_error(score.value, error, units, confidence, limits)
        if self._folds[unit] is None:
            held = ~np.isnan(score.per_query.lower) if score.per_query is not None else ()
            return self.too_few(distinct(unit.codes(self.task)[0][held]), unit)
        if any((part, unit) not in self.replicates for part in parts):
            return Interval(reason=MATES_LEAVE)
        own, paired = (
            Replicates.mean([self.replicates[part, unit][way] for part in parts]) for way in (0, 1)
        )
        return from_replicates(score.value, own, paired, confidence, limits)

    def cmc_moves(self, first: Integers) -> CurveMoves | None:
        """The CMC curve without each fold, from the tie groups of all first mates; None without."""
        moves, finest = self._cmc, self._finest
        if not self.jackknife and self._alive(finest) >= FEWEST_DRAWN:
            before, size, relevant = first.astype(np.uint64)
            folds = self._of_queries(mix(before + mix(size + mix(relevant + np.uint64(1)))))
            moves = None if folds is None else moved_cmc(folds, ranks_of(first), self._ladder)
        return None if moves is None else replace(moves, items=self.task.items)

    def severity_moves(
        self, view: View, nearest: Integers, findable: npt.NDArray[np.bool_], **how: Any
    ) -> BandMoves:
        """The bars of severity without each fold of the coarsest classes, or why that is not known.

        `nearest` is how many levels each query shares with its first item, of those that are
        `findable`; `how` says where to look again: `device` and `threads`.
        """
        task, space, levels = self.task, self.space, self.task.named_levels
        coarsest = Unit(1, by_path=not levels.is_tree)
        may_stand_in = [] if self.request.units == "metric" else self._finer(coarsest)
        for unit in (coarsest, *may_stand_in):
            codes = unit.codes(task)[0]
            alive = distinct(codes[findable])
            if alive >= self._fewest:
                break
        else:
            return str(self.too_few(alive, unit).reason)
        if not self.jackknife or space is None:
            # what a query is worth is all that tells it from others
            prints = mix(np.where(findable, nearest + 1, 0).astype(np.uint64))
            queries = deal_queries(prints, codes, findable, task.id_names)
            assert queries is not None
            return moved_severity(queries, nearest, findable, len(levels), nearest[:0], None)
        folds = deal(task, space, unit, findable)
        assert folds is not None
        # whole classes of the coarsest level share nothing with who stays
        may = np.flatnonzero(findable & (nearest < (1 if unit == coarsest else len(levels))))
        seen = levels_without(view, space, folds, may, **how) if len(may) else None
        return moved_severity(folds, nearest, findable, len(levels), may, seen)

    def why_no_band(self) -> str:
        """Why no curve has a band, where there are too few classes for any."""
        return str(self.too_few(self._alive(self._finest), self._finest).reason)

    def banded(self, curves: Mapping[str, Curve]) -> dict[str, Curve]:
        """The curves of threshold metrics, with a confidence band where one can be told."""
        moves = {} if self.measured is None else self.measured.curve_moves(curves)
        reason = self.why_no_band() if self.measured is None else NOT_COUNTED
        removed = {name: WITHOUT_BAND.get(name.partition("@")[0]) for name in curves}
        return {
            name: put_band(curve, moves.get(name, removed[name] or reason), self.request.confidence)
            for name, curve in curves.items()
        }

    def too_few(self, units: int, unit: Unit) -> Interval:
        """Why so few units give no interval."""
        more = ""
        if self.request.units == "metric" and self.task.levels is not None:
            finer = [one for one in unit.below(self.task) if one != unit]
            more = FINER if any(self._alive(one) >= self._fewest for one in finer) else ""
        return too_few(units, self.unit, self._fewest, unit.named(self.task), more)

    def _measured(self, score: Score, metric: Metric) -> Interval:
        """The interval of a threshold metric: a mean at given thresholds, or computed by fold."""
        confidence = self.request.confidence
        is_mean = registry.definition(metric).is_mean(metric)
        if not self.jackknife and is_mean and score.per_query is not None:
            values = headline(
                metric, np.stack([score.per_query.lower] * 2 + [score.per_query.upper])
            )
            sums = self._sums(values, self._finest)
            if len(sums) < FEWEST_DRAWN:
                return self.too_few(len(sums), self._finest)
            error = standard_errors([sums], self.request.seed)[0]
            limits = registry.definition(metric).range
            return from_standard_error(score.value, error, len(sums), confidence, limits)
        if self.measured is None:
            return self.too_few(self._alive(self._finest), self._finest)
        moves = self.measured.moves(metric, score)
        return interval_of(score, metric, moves, confidence)

    @property
    def unit(self) -> str:
        """What is drawn, or assigned to a fold, as a whole: a class, or a query without labels."""
        return "query" if self.task.levels is None else "class"

    def level_units(self) -> dict[str, Integers]:
        """The unit of each query, by the name of its level, for every level that is drawn."""
        if self.jackknife:
            return {}
        levels = {name: self.units[metric] for metric, name in self._levels().items()}
        return {name: unit.codes(self.task)[0] for name, unit in levels.items()}

    def _levels(self) -> dict[Metric, str]:
        """The level of each metric whose units are, or would be, no classes by the finest label."""
        return {
            metric: unit.named(self.task).removeprefix(" of ")
            for metric, unit in self.units.items()
            if unit != self._finest or unit != unit_of(self.task, metric)
        }

    def facts(self) -> dict[str, Any]:
        """How the intervals came about, for the provenance."""
        folds = [some for some in self._folds.values() if some is not None]
        if not self.jackknife and self.measured is not None and not self._only_means:
            folds = [self.measured.folds]
        return facts(
            self.request,
            leave_one_out=self.jackknife,
            folds=folds,
            unit=self.unit,
            levels={str(metric): name for metric, name in self._levels().items()},
        )


def _prints(context: Context) -> Fingerprints:
    """A number for each query, by its content and by the distances of its mates.

    Distances count by their significands, which no scale that is a power of two changes.
    """
    ours = context.positives
    total = np.zeros(context.task.queries, np.uint64)
    digits = np.ldexp(np.frexp(ours.distance)[0], 53).astype(np.int64)
    np.add.at(total, ours.query, mix(digits))
    return mix(context.space.fingerprints() + mix(total + mix(context.task.n_relevant + 1)))
