"""How far two models are apart, how sure that is, and the correction for many tests."""

from __future__ import annotations

from dataclasses import dataclass, replace

from truerank.comparison.models import (
    Model,
    is_conditional,
    is_of_trials,
    mean_score,
    sampling_unit,
)
from truerank.comparison.variance import spread
from truerank.stats.intervals import IntervalRequest
from truerank.stats.student import central, quantile
from truerank.wording import count

__all__ = ["Difference", "correct", "difference", "method"]


@dataclass(frozen=True)
class Difference:
    """One metric of two models: how far the first is above the second."""

    metric: str
    first: str
    second: str
    value: float
    interval: tuple[float, float] | None
    p: float | None
    """Of the test that there is no difference; None where there is no test."""
    adjusted_p: float | None
    """Corrected by Holm for all metrics and pairs of the comparison."""
    reason: str | None = None
    """Why there is no test."""
    only_runs: str | None = None
    """Why the test is over runs on this very test set alone, if it is."""


def method(models: list[Model]) -> str:
    """What gives the differences their intervals."""
    unit = sampling_unit(models)
    units = count(2, unit).removeprefix("2 ")
    way = f"{unit} bootstrap of the paired {units}, conditional on this gallery"
    if not is_conditional(models):
        way = f"jackknife of the paired {'people' if is_of_trials(models) else 'classes'}"
    several = any(len(model) > 1 for model in models)
    return way + (", with the variance between runs added" if several else "")


def difference(
    metric: str,
    models: list[Model],
    names: list[str],
    a: int,
    b: int,
    request: IntervalRequest,
) -> Difference:
    """Of the models a and b in one metric, not yet corrected."""
    value = mean_score(models[a], metric) - mean_score(models[b], metric)
    measured = spread(metric, [models[a], models[b]], request.seed)
    if isinstance(measured, str):
        return Difference(metric, names[a], names[b], value, None, None, None, measured)
    error, freedom = measured.error, measured.freedom
    margin = quantile(request.confidence, freedom) * error
    if error > 0:
        p = 1.0 - central(value / error, freedom)
    else:
        p = 1.0 if value == 0 else 0.0
    ends = (value - margin, value + margin)
    only_runs = measured.only_runs
    return Difference(metric, names[a], names[b], value, ends, p, None, only_runs=only_runs)


def correct(differences: list[Difference]) -> list[Difference]:
    """Holm: the k-th smallest of m p-values is multiplied by m - k + 1, and none falls."""
    tested = [(row.p, place) for place, row in enumerate(differences) if row.p is not None]
    corrected = list(differences)
    highest = 0.0
    for rank, (p, place) in enumerate(sorted(tested)):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        corrected[place] = replace(differences[place], adjusted_p=highest)
    return corrected
