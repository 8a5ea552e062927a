"""Differences between models: their runs, variances, tests with Holm's correction, and ranks.

Two things vary: the classes of the test set and the runs of a method. Classes vary by the
jackknife or the bootstrap of the mean over the runs; runs by their differences on this test
set. The effect of a run on single classes shows in both and is counted once.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError, shortened, warn
from truerank._util.text import count
from truerank.core import registry
from truerank.core.average import mean
from truerank.core.jackknife import Replicates
from truerank.core.score import Score
from truerank.core.student import central, quantile
from truerank.intervals.interval import (
    FEWEST_DRAWN,
    FINER,
    ClassSums,
    IntervalRequest,
    around,
    error_of_mean,
)
from truerank.result.result import Result
from truerank.task.labels import as_number

# How far two models are apart, how sure that is, and the correction for many tests.


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


# What is compared: the runs of each model, its name, one task, and metrics that all have.


Model = list[Result]
"""The runs of one model."""


def read_model(result: Any) -> Model:
    """A result, the path of one, or a list of these."""
    if isinstance(result, (list, tuple)):
        if not result:
            raise InputError("a list of runs is empty; pass at least one result.")
        return [_read(run) for run in result]
    return [_read(result)]


def is_conditional(models: list[Model]) -> bool:
    """Whether a comparison holds for this gallery alone: it is one of its own, or was searched by
    somebody who returned lists."""
    runs = [run.provenance for model in models for run in model]
    if "trials" in runs[0]:
        return False
    return not runs[0]["leave_one_out"] or any("lists" in facts for facts in runs)


def is_of_trials(models: list[Model]) -> bool:
    """Whether what is compared are results of verify, whose units are people."""
    return "trials" in models[0][0].provenance


def sampling_unit(models: list[Model]) -> str:
    """What intervals draw or leave out as a whole: a class, or a query without labels."""
    intervals = models[0][0].provenance.get("intervals")
    way = intervals.get("method") if isinstance(intervals, dict) else None
    return "query" if isinstance(way, str) and way.startswith("query ") else "class"


def _read(result: Any) -> Result:
    if isinstance(result, Result):
        return result
    if isinstance(result, (str, os.PathLike)):
        return Result.from_json(result)
    raise InputError(
        f"compare takes results, paths of their JSON files, or lists of these. "
        f"Got {shortened(result)}."
    )


_NAMES = ("id", "label", "group")
_SETTINGS = {
    "average": "means over {}",
    "no_mate_option": "unmated={}",
    "leave_one_out": "leave-one-out: {}",
}


def check_same_task(models: list[Model], names: list[str]) -> None:
    """Refuse results of which one is not of the task, or the settings, of the first."""
    runs = [(name, run) for name, model in zip(names, models, strict=True) for run in model]
    first_name, first = runs[0]
    of_trials = {"trials" in run.provenance: name for name, run in runs}
    if len(of_trials) > 1:
        raise InputError(
            f"{of_trials[True]} is of a list of trials and {of_trials[False]} is not; compare "
            "results of verify with each other, or results of evaluate."
        )
    if True in of_trials:
        _check_same_list(runs)
        return
    for name, run in runs:
        if run.public:
            raise InputError(
                f"{name} is a public result, which has no scores per query; compare full results "
                "(evaluate --task TASK --full FILE)."
            )
        if "task_digest" not in run.provenance or run.provenance.get("part"):
            raise InputError(f"{name} is a part of a result; compare whole results.")
        _check_provenance(name, run)
        mine, other = first.provenance, run.provenance
        for key in ("queries", "gallery"):
            if key == "gallery" and None in (_gallery_size(mine), _gallery_size(other)):
                continue  # the gallery of a run is of any size unless it was said
            if mine[key] != other[key]:
                raise InputError(
                    f"{first_name} and {name} are of different tasks: {mine[key]:,} and "
                    f"{other[key]:,} {'queries' if key == 'queries' else 'gallery items'}."
                )
        if mine["task_digest"] != other["task_digest"]:
            raise InputError(
                f"{first_name} and {name} are of different tasks of the same size: "
                f"{_what_differs(first, run)} (digests {mine['task_digest'][:8]} and "
                f"{other['task_digest'][:8]})."
            )
        for key, words in _SETTINGS.items():
            if mine[key] != other[key]:
                raise InputError(
                    f"{first_name} and {name} were evaluated differently: "
                    f"{words.format(mine[key])} and {words.format(other[key])}."
                )
    _warn_of_sizes(runs)


def _warn_of_sizes(runs: list[tuple[str, Result]]) -> None:
    """Warn where some runs were evaluated with the size of the gallery and others without it."""
    unsized = {name: _gallery_size(run.provenance) is None for name, run in runs}
    if len(set(unsized.values())) > 1:
        sized, other = (next(n for n in unsized if unsized[n] is way) for way in (False, True))
        warn(
            f"{sized} was evaluated with gallery_size and {other} without it. Without a cut, as in "
            "map, mrr and ndcg, an item that was not returned counts a little in the one and "
            "zero in the other. Evaluate both with it, or both without it."
        )


def _what_differs(first: Result, run: Result) -> str:
    """In what two tasks of the same size differ, as far as the results know."""
    mine, other = (
        {name: Counter(map(as_number, column)) for name, column in one.queries().items()}
        for one in (first, run)
    )
    names = [name for name in _NAMES if name in mine or name in other]
    if any(name not in mine or name not in other for name in names):
        return "one was given ids, labels or groups that the other was not"
    found = [name for name in names if mine[name] != other[name]]
    if found:
        return f"the {' and '.join(f'{name}s' for name in found)} of the queries differ"
    given = "labels" if "label" in mine else "judgements"
    return f"{given}, ids, groups or junk differ, in the gallery or row by row"


def _check_same_list(runs: list[tuple[str, Result]]) -> None:
    """Refuse results of verify of which one is not of the list of the first."""
    first_name, first = runs[0]
    for name, run in runs:
        mine, other = (one.provenance.get("digests") for one in (first, run))
        if not isinstance(other, Mapping) or not isinstance(other.get("trials"), str):
            raise InputError(
                f"{name} was written by a version of truerank without a digest of the trials "
                "and without replicates; run verify again and compare "
                "the new results."
            )
        assert mine is not None  # the first one was looked at before
        if mine["trials"] != other["trials"]:
            counts = [one.provenance["trials"] for one in (first, run)]
            shown = [f"{c['positive']:,} positive and {c['negative']:,} negative" for c in counts]
            alike = "with other pairs" if shown[0] == shown[1] else f"{shown[0]}, and {shown[1]}"
            raise InputError(
                f"{first_name} and {name} are of different lists of trials ({alike}); the pairs "
                "(left, right, same) must be the same, in any order."
            )
        if None not in (mine.get("folds"), other.get("folds")) and mine["folds"] != other["folds"]:
            raise InputError(
                f"{first_name} and {name} were evaluated differently: the folds of the trials "
                "differ."
            )


def _gallery_size(facts: dict[str, Any]) -> Any:
    """The gallery's size, None if nobody knows it: the result is of a run."""
    lists = facts.get("lists")
    return lists.get("gallery_size", 0) if isinstance(lists, dict) else facts["gallery"]


def _check_provenance(name: str, run: Result) -> None:
    """Refuse a result that does not say of what it is, as a file may that was changed."""
    kinds = (("queries", int), ("gallery", int), ("task_digest", str), ("average", str),
             ("no_mate_option", str), ("leave_one_out", bool))  # fmt: skip
    for key, kind in kinds:
        if not isinstance(run.provenance.get(key), kind):
            raise InputError(f"{name} is a damaged result: its provenance lacks {key}.")


def choose_metrics(
    models: list[Model], names: list[str], metrics: Iterable[str] | str | None
) -> tuple[list[str], dict[str, str]]:
    """The metrics to compare, and why others of the results are not compared."""
    runs = [run for model in models for run in model]
    if metrics is None:
        whose = [name for name, model in zip(names, models, strict=True) for _ in model]
        skipped: dict[str, str] = {}
        for name in dict.fromkeys(name for run in runs for name in run):
            for model, run in zip(whose, runs, strict=True):
                missing = run.skipped.get(name, "evaluated without it")
                reason = run[name].reason if name in run else missing
                if reason is not None:
                    skipped.setdefault(name, f"{model}: {reason}")
        common = [name for name in runs[0] if name not in skipped]
        if not common:
            raise InputError("the results have no metric in common.")
        return common, skipped
    chosen = [str(metric) for metric in registry.parse_all(metrics)]
    for name in chosen:
        for run in runs:
            if name not in run:
                raise InputError(
                    f"metric {name!r} is not in every result; evaluate all models with it."
                )
            if run[name].reason is not None:
                raise InputError(f"metric {name!r} is undefined here: {run[name].reason}.")
    return chosen, {}


def mean_score(model: Model, metric: str) -> float:
    """The mean over the runs."""
    return mean(np.array([run[metric].value for run in model]))


# What the models of a comparison are called: what tells their files apart.


Parts = tuple[str, ...]
"""The folders on the way to a file, and its name without the ending."""


def name_models(results: Sequence[Any], names: Iterable[str] | None = None) -> list[str]:
    """The names that are given, or else what tells the files apart, or numbers.

    Examples
    --------
    >>> name_models(["runs/a/result.json", "runs/b/result.json"])
    ['a', 'b']
    >>> name_models([["a/seed0.json", "a/seed1.json"], "baseline.json"])
    ['a', 'baseline']
    """
    if names is not None:
        try:
            given = [str(name) for name in names]
        except (TypeError, ValueError):  # no list of names, or none that Python writes out
            given = []
        if len(given) != len(results) or len(set(given)) < len(given):
            raise InputError(
                f"names must be {len(results)} distinct names, one for each model. "
                f"Got {shortened(names)}."
            )
        return given
    places = [_places(result) for result in results]
    told = iter(_told_apart(_of_models([place for place in places if place is not None])))
    found = [
        f"model {number}" if place is None else next(told) for number, place in enumerate(places, 1)
    ]
    times = Counter(found)
    return [
        name if times[name] == 1 else f"{name} ({number})" for number, name in enumerate(found, 1)
    ]


def _places(result: Any) -> list[Parts] | None:
    """Where the files of a model's runs are; None if it has none."""
    runs = list(result) if isinstance(result, (list, tuple)) else [result]
    if not runs or not all(isinstance(run, (str, os.PathLike)) for run in runs):
        return None
    paths = [Path(os.path.abspath(run)) for run in runs]
    return sorted({(*path.parent.parts, path.stem) for path in paths})


def _of_models(places: list[list[Parts]]) -> list[Parts]:
    """One place for each model: what those of its runs have in common.

    That is their folder, if no other model has a file there; otherwise also what the names begin
    with, "a" for a-seed0 and a-seed1.
    """
    folders = [_shared(runs) for runs in places]
    found = []
    for number, (runs, folder) in enumerate(zip(places, folders, strict=True)):
        others = folders[:number] + folders[number + 1 :]
        if len(runs) > 1 and any(other[: len(folder)] == folder for other in others):
            first, last = (run[len(folder)] for run in (runs[0], runs[-1]))
            alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
            start = "".join(letter for letter, _ in alike).rstrip("-_. ")
            folder += (start,) if start else ()
        found.append(folder)
    return found


def _told_apart(places: list[Parts]) -> list[str]:
    """The last part of each, if these differ; otherwise what is left without the common ends."""
    last = [place[-1] for place in places]
    if len(set(last)) == len(last):
        return last
    start = len(_shared(places))
    end = len(_shared([place[::-1] for place in places]))
    return ["/".join(place[start : len(place) - end]) or place[-1] for place in places]


def _shared(places: list[Parts]) -> Parts:
    """What all begin with."""
    found: list[str] = []
    for parts in zip(*places, strict=False):
        if len(set(parts)) > 1:
            break
        found.append(parts[0])
    return tuple(found)


# Each model's place in a metric, and the ranks that the differences leave open.


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
            _standings_between_runs(model, metric, request),
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


def _standings_between_runs(
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


# The two things that could have been others: the classes of the test set and the runs of a method.


ONLY_RUNS = "over runs on this very test set alone"
OTHER_PEOPLE = "the results have different people; evaluate them with the same ids and labels"
OTHER_UNITS = (
    "the results have different sampling units (of another version, or of other units=); "
    "evaluate them alike"
)


@dataclass(frozen=True)
class VarianceTerm:
    """A variance and its degrees of freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class CombinedError:
    """The error of a score, or of a difference, from classes and runs together."""

    error: float
    freedom: int
    only_runs: str | None = None
    """Why classes are not in it."""
    steep_freedom: float | None = None
    """Degrees of freedom where a few classes may make up the loss."""


def spread(metric: str, models: list[Model], seed: int) -> CombinedError | str:
    """Of the mean score of one model, or of the difference of two; or why it cannot be told."""
    try:
        between = _between_runs(metric, models)
        over_classes = _over_classes(metric, models, seed)
    except OverflowError:  # of thresholds beyond 1e150, which some distances have
        return "the scores are so large that their variances overflow; rescale the embeddings"
    if isinstance(over_classes, str):
        if between is None:
            return over_classes
        return CombinedError(
            math.sqrt(between.variance), max(1, int(between.freedom)), over_classes
        )
    classes, both, steep = over_classes
    if between is None or between.variance <= both:
        return CombinedError(math.sqrt(classes.variance), int(classes.freedom), steep_freedom=steep)
    total = math.fsum([classes.variance, between.variance, -both])
    below = classes.variance**2 / classes.freedom + between.variance**2 / between.freedom
    freedom = max(1, math.floor(total**2 / below))  # Satterthwaite
    steep = None if steep is None else min(steep, freedom)
    return CombinedError(math.sqrt(total), freedom, steep_freedom=steep)


def _between_runs(metric: str, models: list[Model]) -> VarianceTerm | None:
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
        return VarianceTerm(total, given[0][1])
    below = math.fsum(term**2 / freedom for term, (_, freedom) in zip(terms, found, strict=True))
    return VarianceTerm(
        total, total**2 / below if below > 0 else sum(freedom for _, freedom in found)
    )


def _over_classes(
    metric: str, models: list[Model], seed: int
) -> tuple[VarianceTerm, float, float | None] | str:
    """The variance over classes, the part of it by which runs differ, and steep degrees."""
    asked = registry.of_result(metric)
    if is_conditional(models) and registry.definition(asked).is_mean(asked):
        return _by_bootstrap(metric, models, seed)
    return _by_replicates(metric, models)


def _by_replicates(
    metric: str, models: list[Model]
) -> tuple[VarianceTerm, float, float | None] | str:
    scores = [[run[metric] for run in model] for model in models]
    kept = [[s.replicates for s in model if s.replicates is not None] for model in scores]
    if any(len(a) < len(b) for a, b in zip(kept, scores, strict=True)):
        return _why_not([score for model in scores for score in model])
    if len({(run.provenance.get("digests") or {}).get("people") for m in models for run in m}) > 1:
        return OTHER_PEOPLE
    shapes = {(type(some), len(some.values)) for model in kept for some in model}
    if len(shapes) > 1 or len({_level(run, metric) for model in models for run in model}) > 1:
        return OTHER_UNITS
    means = [Replicates.mean(replicates) for replicates in kept]
    apart = means[0] if len(means) == 1 else means[0].minus(means[1])
    both = 0.0
    for model, middle in zip(kept, means, strict=True):
        if len(model) > 1:
            away = (replicates.minus(middle).standard_error() ** 2 for replicates in model)
            both += math.fsum(away) / (len(model) * (len(model) - 1))
    part = VarianceTerm(apart.standard_error() ** 2, apart.freedom)
    return part, both, apart.heavy_freedom


def _by_bootstrap(
    metric: str, models: list[Model], seed: int
) -> tuple[VarianceTerm, float, float | None] | str:
    per_run = [
        [_class_sums(run, metric, _level(run, metric)) for run in model] for model in models
    ]
    sums = [[some for some in model if some is not None] for model in per_run]
    if any(len(held) < len(model) for held, model in zip(sums, per_run, strict=True)):
        return "a result was written without its per-query values"
    if len({_level(run, metric) for model in models for run in model}) > 1:
        return OTHER_UNITS
    if len({tuple(map(len, some)) for model in sums for some in model}) > 1:
        return OTHER_UNITS
    levels = range(len(sums[0][0]))
    counts = [sums[0][0][level].count for level in levels]
    units = min(int(np.count_nonzero(some)) for some in counts)
    if units < FEWEST_DRAWN:
        found = count(units, sampling_unit(models)) + _named(models[0][0], metric)
        finest = _class_sums(models[0][0], metric, None) or sums[0][0]
        helps = all(np.count_nonzero(some.count) >= FEWEST_DRAWN for some in finest)
        return f"{found}: a test needs at least {FEWEST_DRAWN}{FINER if helps else ''}"
    means = [[_mean_of([run[level] for run in model]) for level in levels] for model in sums]

    def error(totals: list[npt.NDArray[np.float64]]) -> float:
        drawn = [ClassSums(np.rint(t), c) for t, c in zip(totals, counts, strict=True)]
        return error_of_mean(drawn, seed)

    whole = means[0]
    for one, other in pairwise(means):
        whole = [a - b for a, b in zip(one, other, strict=True)]
    both = 0.0
    for model, middle in zip(sums, means, strict=True):
        if len(model) > 1:
            away = (
                error([run[level].total - middle[level] for level in levels]) ** 2 for run in model
            )
            both += math.fsum(away) / (len(model) * (len(model) - 1))
    return VarianceTerm(error(whole) ** 2, units - 1), both, None


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


def _class_sums(result: Result, metric: str, level: str | None) -> list[ClassSums] | None:
    """The sums of one run over the classes of a level; of a mean over levels, those of each."""
    score = result[metric]
    if score.per_query is None or result.units is None:
        return None
    units = result.units if level is None else result.level_units.get(level)
    if units is None:
        return None
    higher = registry.find(metric).higher_is_better
    units = np.unique(units, return_inverse=True)[1]  # gallery labels have numbers too
    classes = result.units if result.provenance["average"] == "class" else None
    terms = [term.lower if higher else term.upper for term in score.per_query.terms]
    among = ~np.isnan(score.per_query.lower) if len(terms) > 1 else None
    return [ClassSums.of(values, units, classes, among=among) for values in terms]
