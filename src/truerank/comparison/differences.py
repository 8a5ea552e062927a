"""How far two models are apart, how sure that is, and the correction for many tests."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from truerank.comparison.models import Model, mean_score
from truerank.core import registry
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.result import Result
from truerank.stats.bootstrap import FEWEST_DRAWN, ClassSums, error_of_mean, standard_errors
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


def method(models: list[Model]) -> str:
    """What gives the differences their intervals."""
    if models[0][0].provenance["leave_one_out"]:
        return "delete-group jackknife of the paired classes"
    return "class bootstrap of the paired classes, conditional on this gallery"


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
    measured = _error(metric, models[a], models[b], request)
    if isinstance(measured, str):
        return Difference(metric, names[a], names[b], value, None, None, None, measured)
    error, freedom = measured
    margin = quantile(request.confidence, freedom) * error
    if error > 0:
        p = 1.0 - central(value / error, freedom)
    else:
        p = 1.0 if value == 0 else 0.0
    return Difference(metric, names[a], names[b], value, (value - margin, value + margin), p, None)


def _error(
    metric: str, first: Model, second: Model, request: IntervalRequest
) -> tuple[float, int] | str:
    """Standard error of the difference and its degrees of freedom, or why there is none."""
    scores = [[run[metric] for run in model] for model in (first, second)]
    asked = registry.parse(metric)
    if first[0].provenance["leave_one_out"] or not registry.definition(asked).is_mean(asked):
        kept = [[s.replicates for s in model if s.replicates is not None] for model in scores]
        if any(len(a) < len(b) for a, b in zip(kept, scores, strict=True)):
            return _why_not([score for model in scores for score in model])
        a, b = (Replicates.mean(replicates) for replicates in kept)
        apart = a.minus(b)
        return apart.standard_error(), apart.freedom
    found = [[_class_sums(run, metric) for run in model] for model in (first, second)]
    sums = [[some for some in model if some is not None] for model in found]
    if any(len(held) < len(model) for held, model in zip(sums, found, strict=True)):
        return "a result was written without its per-query values"
    paired = []
    for level in range(min(len(some) for model in sums for some in model)):
        totals = [np.mean([some[level].total for some in model], axis=0) for model in sums]
        paired.append(ClassSums(np.rint(totals[0] - totals[1]), sums[0][0][level].count))
    classes = min(int(np.count_nonzero(some.count)) for some in paired)
    if classes < FEWEST_DRAWN:
        return f"{count(classes, 'class')}: a test needs at least {FEWEST_DRAWN}"
    if len(paired) > 1:
        return error_of_mean(paired, request.seed), classes - 1
    return standard_errors(paired, request.seed)[0], classes - 1


def _why_not(scores: list[Score]) -> str:
    reasons = [score.interval_reason for score in scores if score.interval_reason]
    return reasons[0] if reasons else "a result was evaluated without intervals"


def _class_sums(result: Result, metric: str) -> list[ClassSums] | None:
    """The sums of one run of a model; of a mean over levels, those of every level."""
    score = result[metric]
    if score.per_query is None or result.units is None:
        return None
    higher = registry.definition(registry.parse(metric)).higher_is_better
    by_class = result.provenance["average"] == "class"
    terms = [term.lower if higher else term.upper for term in score.per_query.terms]
    among = ~np.isnan(score.per_query.lower) if len(terms) > 1 else None
    return [ClassSums.of(values, result.units, by_class, among=among) for values in terms]


def correct(differences: list[Difference]) -> list[Difference]:
    """Holm: the k-th smallest of m p-values is multiplied by m - k + 1, and none falls."""
    tested = [(row.p, place) for place, row in enumerate(differences) if row.p is not None]
    corrected = list(differences)
    highest = 0.0
    for rank, (p, place) in enumerate(sorted(tested)):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        corrected[place] = replace(differences[place], adjusted_p=highest)
    return corrected
