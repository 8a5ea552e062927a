"""The two things that could have been others: the classes of the test set and the runs of a method.

Classes vary by the jackknife or the bootstrap, of the mean over the runs; runs by what they differ
on this very test set. What a run does to single classes shows in both and is counted once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from truerank.comparison.models import Model, is_conditional, mean_score, sampling_unit
from truerank.core import registry
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.result import Result
from truerank.stats.bootstrap import FEWEST_DRAWN, ClassSums, error_of_mean
from truerank.wording import count

__all__ = ["ONLY_RUNS", "Spread", "spread"]

ONLY_RUNS = "over runs on this very test set alone"
OTHER_PEOPLE = (
    "the results take the people from other ids or labels; evaluate them with the same labels"
)
OTHER_UNITS = (
    "the results leave out other units (of another version, or evaluated with other units=); "
    "evaluate them alike"
)


@dataclass(frozen=True)
class Part:
    """A variance and its degrees of freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class Spread:
    """The error of a score, or of a difference, from classes and runs together."""

    error: float
    freedom: int
    only_runs: str | None = None
    """Why classes are not in it."""
    steep_freedom: float | None = None
    """Degrees of freedom where a few classes may make up the loss."""


def spread(metric: str, models: list[Model], seed: int) -> Spread | str:
    """Of the mean score of one model, or of the difference of two; or why it cannot be told."""
    between = _between_runs(metric, models)
    over_classes = _over_classes(metric, models, seed)
    if isinstance(over_classes, str):
        if between is None:
            return over_classes
        return Spread(math.sqrt(between.variance), max(1, int(between.freedom)), over_classes)
    classes, both, steep = over_classes
    if between is None or between.variance <= both:
        return Spread(math.sqrt(classes.variance), int(classes.freedom), steep_freedom=steep)
    total = math.fsum([classes.variance, between.variance, -both])
    below = classes.variance**2 / classes.freedom + between.variance**2 / between.freedom
    freedom = max(1, math.floor(total**2 / below))  # Satterthwaite
    steep = None if steep is None else min(steep, freedom)
    return Spread(math.sqrt(total), freedom, steep_freedom=steep)


def _between_runs(metric: str, models: list[Model]) -> Part | None:
    """The variance between runs of the mean, or of the difference of means; None without several.

    A model with a single run is taken to vary as the other one does.
    """
    known: list[tuple[float, int] | None] = []
    for model in models:
        if len(model) < 2:
            known.append(None)
            continue
        centre = mean_score(model, metric)
        squares = math.fsum((run[metric].value - centre) ** 2 for run in model)
        known.append((squares / (len(model) - 1), len(model) - 1))
    given = [part for part in known if part is not None]
    if not given:
        return None
    found = [part or given[0] for part in known]
    terms = [variance / len(model) for (variance, _), model in zip(found, models, strict=True)]
    total = math.fsum(terms)
    if len(given) == 1:
        return Part(total, given[0][1])
    below = math.fsum(term**2 / freedom for term, (_, freedom) in zip(terms, found, strict=True))
    return Part(total, total**2 / below if below > 0 else sum(freedom for _, freedom in found))


def _over_classes(
    metric: str, models: list[Model], seed: int
) -> tuple[Part, float, float | None] | str:
    """The variance over classes, the part of it by which runs differ, and steep degrees."""
    asked = registry.of_result(metric)
    if is_conditional(models) and registry.definition(asked).is_mean(asked):
        return _by_bootstrap(metric, models, seed)
    return _by_replicates(metric, models)


def _by_replicates(metric: str, models: list[Model]) -> tuple[Part, float, float | None] | str:
    scores = [[run[metric] for run in model] for model in models]
    kept = [[s.replicates for s in model if s.replicates is not None] for model in scores]
    if any(len(a) < len(b) for a, b in zip(kept, scores, strict=True)):
        return _why_not([score for model in scores for score in model])
    if len({(run.provenance.get("digests") or {}).get("people") for m in models for run in m}) > 1:
        return OTHER_PEOPLE
    shapes = {len(some.values) for model in kept for some in model}
    if len(shapes) > 1 or len({_level(run, metric) for model in models for run in model}) > 1:
        return OTHER_UNITS
    means = [Replicates.mean(replicates) for replicates in kept]
    apart = means[0] if len(means) == 1 else means[0].minus(means[1])
    both = 0.0
    for model, mean in zip(kept, means, strict=True):
        if len(model) > 1:
            away = (replicates.minus(mean).standard_error() ** 2 for replicates in model)
            both += math.fsum(away) / (len(model) * (len(model) - 1))
    part = Part(apart.standard_error() ** 2, apart.freedom)
    return part, both, apart.heavy_freedom


def _by_bootstrap(
    metric: str, models: list[Model], seed: int
) -> tuple[Part, float, float | None] | str:
    per_run = [[_class_sums(run, metric) for run in model] for model in models]
    sums = [[some for some in model if some is not None] for model in per_run]
    if any(len(held) < len(model) for held, model in zip(sums, per_run, strict=True)):
        return "a result was written without its per-query values"
    if len({_level(run, metric) for model in models for run in model}) > 1:
        return OTHER_UNITS
    levels = range(min(len(some) for model in sums for some in model))
    counts = [sums[0][0][level].count for level in levels]
    units = min(int(np.count_nonzero(some)) for some in counts)
    if units < FEWEST_DRAWN:
        found = count(units, sampling_unit(models))
        return f"{found}{_named(models[0][0], metric)}: a test needs at least {FEWEST_DRAWN}"
    means = [[_mean_of([run[level] for run in model]) for level in levels] for model in sums]

    def error(totals: list[npt.NDArray[np.float64]]) -> float:
        drawn = [ClassSums(np.rint(t), c) for t, c in zip(totals, counts, strict=True)]
        return error_of_mean(drawn, seed)

    whole = means[0]
    for one, other in pairwise(means):
        whole = [a - b for a, b in zip(one, other, strict=True)]
    both = 0.0
    for model, mean in zip(sums, means, strict=True):
        if len(model) > 1:
            away = (
                error([run[level].total - mean[level] for level in levels]) ** 2 for run in model
            )
            both += math.fsum(away) / (len(model) * (len(model) - 1))
    return Part(error(whole) ** 2, units - 1), both, None


def _mean_of(runs: list[ClassSums]) -> npt.NDArray[np.float64]:
    mean: npt.NDArray[np.float64] = np.mean([run.total for run in runs], axis=0)
    return mean


def _why_not(scores: list[Score]) -> str:
    reasons = [score.interval_reason for score in scores if score.interval_reason]
    return reasons[0] if reasons else "a result was evaluated without intervals"


def _level(result: Result, metric: str) -> str | None:
    """The level whose classes are the units of a metric, None for the finest."""
    level: str | None = ((result.provenance.get("intervals") or {}).get("units") or {}).get(metric)
    return level


def _named(result: Result, metric: str) -> str:
    level = _level(result, metric)
    return "" if level is None else f" of {level}"


def _class_sums(result: Result, metric: str) -> list[ClassSums] | None:
    """The sums of one run of a model; of a mean over levels, those of every level."""
    score = result[metric]
    if score.per_query is None or result.units is None:
        return None
    level = _level(result, metric)
    units = result.units if level is None else result.level_units.get(level)
    if units is None:
        return None
    higher = registry.find(metric).higher_is_better
    classes = result.units if result.provenance["average"] == "class" else None
    terms = [term.lower if higher else term.upper for term in score.per_query.terms]
    among = ~np.isnan(score.per_query.lower) if len(terms) > 1 else None
    return [ClassSums.of(values, units, classes, among=among) for values in terms]
