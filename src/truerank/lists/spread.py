"""How sure the parts of a loss are: whole classes of queries drawn with replacement, paired."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric
from truerank.core.score import PerQuery, Score
from truerank.lists.parts import ENDS, Interval, LossPart, NeighbourRecall
from truerank.stats.bootstrap import FEWEST_DRAWN, ClassSums, standard_errors
from truerank.stats.estimation import Estimation
from truerank.stats.intervals import IntervalRequest
from truerank.stats.student import quantile
from truerank.stats.units import Unit, finest_unit
from truerank.task import TaskRules

__all__ = ["Spread"]

Reals = npt.NDArray[np.float64]


class Spread:
    """How far differences and shares vary over the classes, drawn with replacement."""

    def __init__(
        self,
        task: TaskRules,
        request: IntervalRequest | None,
        average: str,
        metrics: Iterable[Metric] = (),
    ) -> None:
        self._task, self._request = task, request
        self._estimation = None
        if request is not None:
            parts = {metric: [metric] for metric in metrics}
            self._estimation = Estimation(task, None, request, average, parts)
        self._classes = task.query_codes if average == "class" else None

    def part(self, metric: Metric, first: Score, second: Score) -> LossPart:
        """The first score less the second, with intervals over the units of the metric."""
        assert first.per_query is not None
        assert second.per_query is not None
        values = {end: getattr(first, end) - getattr(second, end) for end in ENDS}
        rows = PerQuery(
            *(getattr(first.per_query, end) - getattr(second.per_query, end) for end in ENDS)
        )
        intervals: dict[str, Interval | None] = dict.fromkeys(ENDS)
        if self._request is None or values["lower"] != values["lower"]:
            return LossPart(**values, intervals=intervals, reason=None, per_query=rows)
        assert self._estimation is not None
        unit = self._estimation.units[metric]
        codes = unit.codes(self._task)[0]
        terms = list(zip(first.per_query.terms, second.per_query.terms, strict=True))
        sums = [
            ClassSums.of(getattr(a, end) - getattr(b, end), codes, self._classes).in_order()
            for end in ENDS
            for a, b in terms
        ]
        units = min(map(len, sums))
        reason = self._too_few(units, unit)
        if reason is None:
            errors = standard_errors(sums, self._request.seed)
            for number, end in enumerate(ENDS):
                # the error of a mean over levels is at most the mean of their errors
                own = errors[number * len(terms) : (number + 1) * len(terms)]
                error = math.fsum(own) / len(own)
                if error > 0:  # otherwise no class differs from another
                    intervals[end] = self._around(values[end], error, units)
        return LossPart(**values, intervals=intervals, reason=reason, per_query=rows)

    def recall(self, k: int, values: Reals) -> NeighbourRecall:
        """The mean of shares of queries."""
        held = ~np.isnan(values)
        mean = math.fsum(values[held].tolist()) / int(held.sum()) if held.any() else math.nan
        if self._request is None or not held.any():
            return NeighbourRecall(k, mean, None, None, values)
        codes = np.arange(len(values)) if self._task.levels is None else self._task.query_codes
        sums = ClassSums.of(values, codes).in_order()
        reason = self._too_few(len(sums), finest_unit(self._task))
        interval = None
        if reason is None:
            (error,) = standard_errors([sums], self._request.seed)
            low, high = self._around(mean, error, len(sums))
            interval = (max(low, 0.0), min(high, 1.0)) if error > 0 else None
        return NeighbourRecall(k, mean, interval, reason, values)

    def _around(self, value: float, error: float, units: int) -> Interval:
        assert self._request is not None
        reach = quantile(self._request.confidence, units - 1) * error
        return value - reach, value + reach

    def _too_few(self, units: int, unit: Unit) -> str | None:
        if units >= FEWEST_DRAWN or self._estimation is None:
            return None
        return self._estimation.too_few(units, unit).reason
