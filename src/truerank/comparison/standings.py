"""Each model's place in a metric, and the ranks that the differences leave open."""

from __future__ import annotations

import math
from dataclasses import dataclass

from truerank.comparison.differences import Difference
from truerank.comparison.models import Model, mean_score
from truerank.comparison.variance import spread
from truerank.core import registry
from truerank.stats.intervals import IntervalRequest, around
from truerank.stats.student import quantile

__all__ = ["Standing", "stand"]


@dataclass(frozen=True)
class Standing:
    """One model's place in one metric."""

    metric: str
    model: str
    value: float
    """The score; the mean over runs if there are several."""
    interval: tuple[float, float] | None
    """Over test sets; of several runs, over test sets and runs."""
    runs: int
    between_runs: tuple[float, float] | None
    """Interval of the mean over runs, which says nothing about other test data."""
    ranks: tuple[int, int]
    """Best and worst rank that the differences leave open."""
    values: tuple[float, ...] = ()
    """The score of each run."""
    confidence: float | None = None
    """Of the interval: a single run has that of its evaluation."""

    @property
    def deviation(self) -> float | None:
        """The standard deviation over runs (n - 1); None for a single run."""
        if len(self.values) < 2:
            return None
        centre = math.fsum(self.values) / len(self.values)
        squares = math.fsum((value - centre) ** 2 for value in self.values)
        return math.sqrt(squares / (len(self.values) - 1))


def stand(
    metric: str,
    models: list[Model],
    names: list[str],
    differences: list[Difference],
    request: IntervalRequest,
) -> list[Standing]:
    """The models in one metric, the best first."""
    higher = registry.find(metric).higher_is_better
    above = dict.fromkeys(names, 0)
    below = dict.fromkeys(names, 0)
    for row in differences:
        if row.metric != metric or row.adjusted_p is None:
            continue
        if row.adjusted_p < 1 - request.confidence:
            better = (row.value > 0) == higher
            above[row.second if better else row.first] += 1
            below[row.first if better else row.second] += 1
    rows = [
        Standing(
            metric,
            name,
            mean_score(model, metric),
            _interval(model, metric, request),
            len(model),
            _between_runs(model, metric, request),
            (1 + above[name], len(models) - below[name]),
            tuple(run[metric].value for run in model),
            _confidence(model, request),
        )
        for name, model in zip(names, models, strict=True)
    ]
    return sorted(rows, key=lambda row: -row.value if higher else row.value)


def _interval(model: Model, metric: str, request: IntervalRequest) -> tuple[float, float] | None:
    """A single run's own; of several runs, around their mean, over test sets and runs."""
    if len(model) == 1:
        return model[0][metric].interval
    found = spread(metric, [model], request.seed)
    if isinstance(found, str) or found.only_runs is not None:
        return None
    known = registry.find(metric)
    freedom: float = found.freedom
    if known.is_steep and found.steep_freedom is not None:
        freedom = found.steep_freedom
    t = quantile(request.confidence, freedom)
    return around(mean_score(model, metric), found.error, t, known.range, steep=known.is_steep).ends


def _confidence(model: Model, request: IntervalRequest) -> float | None:
    """The confidence of the interval that `_interval` gives."""
    if len(model) > 1:
        return request.confidence
    facts = model[0].provenance.get("intervals")
    known = facts.get("confidence") if isinstance(facts, dict) else None
    return known if isinstance(known, float) else None


def _between_runs(
    model: Model, metric: str, request: IntervalRequest
) -> tuple[float, float] | None:
    """Mean +- t s/sqrt(n) over the runs, as far as scores go."""
    if len(model) < 2:
        return None
    values = [run[metric].value for run in model]
    centre = mean_score(model, metric)
    squares = math.fsum((v - centre) ** 2 for v in values)
    error = math.sqrt(squares / (len(values) - 1) / len(values))
    margin = quantile(request.confidence, len(values) - 1) * error
    low, high = registry.find(metric).range
    return max(low, centre - margin), min(high, centre + margin)
