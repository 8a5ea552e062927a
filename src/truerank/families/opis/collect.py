"""What a pass collects for OPIS: classes counted between the thresholds of two FAR targets."""

from __future__ import annotations

from fractions import Fraction
from weakref import proxy

import numpy as np

from truerank.cached import cached_property
from truerank.core.metric import Metric
from truerank.engine.observers import PairObserver, ResumableObserver
from truerank.families.family import Context, Family
from truerank.families.opis.classes import ClassTally, cells
from truerank.families.opis.sampled import SampledNegatives, draw
from truerank.families.opis.utilities import Formula, Utilities, measure_all, measure_sampled
from truerank.families.pool import Pairs, quantile_range
from truerank.families.thresholds import far_targets
from truerank.space import Distances

__all__ = ["CountedClasses"]


class CountedClasses(Family):
    """The pool of pairs, and the utilities of classes between two thresholds."""

    def __init__(self, context: Context, metrics: list[Metric], pairs: Pairs) -> None:
        super().__init__(context, metrics)
        self.pairs, self.pool = pairs, pairs.pool
        tallies: list[ResumableObserver] = []
        self._tally = self._foreseen_tally()
        if self._tally is not None and self.pool.whole_curve:
            tallies = [self._tally.tally]
        self.observers = [*tallies, *self.pool.observers]
        self._utilities: dict[tuple[object, ...], Utilities | None] = {}
        self._sampled: dict[tuple[int, int], SampledNegatives] = {}
        mine = proxy(self)  # no cycle: what is held here goes with its last user
        pairs.companions.append(lambda: mine.joining())

    # -- what is collected --------------------------------------------------------------------

    @cached_property
    def _calibration(self) -> list[Fraction] | None:
        """The FAR targets of the first OPIS whose range they set, if classes can be counted."""
        asked = [m for m in self.metrics if not m["frr"] and not m["negatives"]]
        if not asked or self.context.task.levels is None or not self.context.positives:
            return None
        return far_targets(asked[0])

    def _foreseen_tally(self) -> ClassTally | None:
        """Counts on cells around the default range, where a sample can foretell it."""
        asked, sample = self._calibration, self.context.sample
        if asked is None or not len(sample):
            return None
        ends = [quantile_range(sample, float(target)) for target in asked]
        if not np.isfinite(ends[0][0]):  # a rate that the sample does not resolve
            return None
        cuts = self._cells(ends[0][0], ends[1][1])
        if self.pool.whole_curve:
            return self._tally_of(cuts)
        tally = self._tally_of(np.union1d(cuts, self.pool.cuts.at))  # one serves both
        self.pool.count_with(tally.tally, tally.times)
        return tally

    def joining(self) -> list[PairObserver]:
        """Observers that join another pass of the pool, to count classes no sample foretold."""
        many = self.context.pairs > self.context.limits.breakpoints
        if self._calibration is None or self._tally is not None or not many:
            return []
        low, high = (self.pool.around(target) for target in self._calibration)
        if not -np.inf < low[0] < high[1] < np.inf:
            return []
        self._tally = self._tally_of(self._cells(low[0], high[1]))
        return [self._tally.tally]

    def _tally_of(self, cuts: Distances) -> ClassTally:
        return ClassTally(self.context.task, self.context.positives, cuts)

    def _cells(self, low: float, high: float) -> Distances:
        return cells(low, high, len(np.unique(self.context.task.query_codes)))

    # -- utilities ----------------------------------------------------------------------------

    def formula(self, metric: Metric) -> Formula:
        """The formula of the utility that a metric compares."""
        weight = metric["c"]
        positive = 0.5 if self.context.task.leave_one_out else 1.0
        return Formula(
            float(weight * weight), positive if metric["utility"] == "precision" else 0.0
        )

    def utilities(self, metric: Metric, low: float, high: float) -> Utilities | None:
        """The utilities of the classes between two distances; None if no class has any."""
        context = self.context
        small = context.pairs <= context.limits.breakpoints
        exact = metric["integral"] == "exact" or small
        formula, sample = self.formula(metric), self.sampled(metric)
        key = (low, high, formula, exact, metric["negatives"], metric["seed"])
        if key not in self._utilities and sample is not None:
            self._utilities[key] = measure_sampled(sample, context.space, low, high, formula)
        if key not in self._utilities:
            tally = self._tally
            self._utilities[key] = measure_all(
                context.task,
                context.space,
                context.positives,
                low,
                high,
                formula,
                exact=exact,
                seen=None if tally is None else tally.table(threads=context.threads),
                sweep=context.sweep,
                threads=context.threads,
            )
        return self._utilities[key]

    def sampled(self, metric: Metric) -> SampledNegatives | None:
        """The negatives that a metric asks to sample, if it does."""
        if metric["negatives"] is None:
            return None
        context = self.context
        each, seed = metric["negatives"], metric["seed"]
        if (each, seed) not in self._sampled:
            sample = draw(context.task, context.space, context.positives, each, seed)
            self._sampled[each, seed] = sample
        return self._sampled[each, seed]
