"""compare: results of several models on one task in, differences with their certainty out.

Models are paired over the same classes: the jackknife or bootstrap that gives a score its interval
gives the difference its own, and a test. Holm's correction covers every pair and metric; models
that it cannot tell apart share their ranks.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from truerank import tables
from truerank.core import registry
from truerank.core.average import mean
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.errors import InputError
from truerank.result import Result
from truerank.stats.bootstrap import FEWEST_DRAWN, ClassSums, standard_errors
from truerank.stats.intervals import Request, from_replicates
from truerank.stats.student import central, quantile
from truerank.wording import count

__all__ = ["Comparison", "Difference", "Standing", "compare"]

Model = list[Result]
"""The runs of one model."""


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


@dataclass(frozen=True)
class Standing:
    """One model's place in one metric."""

    metric: str
    model: str
    value: float
    """The score; the mean over runs if there are several."""
    interval: tuple[float, float] | None
    """Over test sets; that of the single run."""
    runs: int
    between_runs: tuple[float, float] | None
    """Interval of the mean over runs, which says nothing about other test data."""
    ranks: tuple[int, int]
    """Best and worst rank that the differences leave open."""


@dataclass(frozen=True)
class Comparison:
    """Standings and differences, as tables or JSON."""

    standings: list[Standing]
    differences: list[Difference]
    confidence: float
    method: str
    skipped: dict[str, str] = field(default_factory=dict)
    """Metrics that some results have and that cannot be compared, with the reason."""

    def __str__(self) -> str:
        parts = [tables.text(*self._standing_cells()), tables.text(*self._difference_cells())]
        return tables.printable("\n\n".join([*parts, "\n".join(self.notes())]))

    __repr__ = __str__

    def _standing_cells(self) -> tuple[list[str], list[list[str]]]:
        several = any(row.runs > 1 for row in self.standings)
        header = ["metric", "model", "score", "interval", "ranks"]
        header[4:4] = ["runs", "between runs"] if several else []
        rows = []
        for row in self.standings:
            shown = tables.number(row.metric)
            cells = [tables.marked(row.metric), row.model, shown(row.value)]
            cells.append(_ends(row.interval, shown))
            cells += [str(row.runs), _ends(row.between_runs, shown)] if several else []
            rows.append([*cells, f"{row.ranks[0]}-{row.ranks[1]}"])
        return header, rows

    def _difference_cells(self) -> tuple[list[str], list[list[str]]]:
        header = ["metric", "first", "second", "difference", "interval", "p", "p (Holm)"]
        rows = [
            [
                tables.marked(row.metric),
                row.first,
                row.second,
                "-+"[row.value >= 0] + tables.number(row.metric)(abs(row.value)),
                _ends(row.interval, tables.number(row.metric)),
                _probability(row.p),
                _probability(row.adjusted_p),
            ]
            for row in self.differences
        ]
        return header, rows

    def notes(self) -> list[str]:
        """How to read it."""
        lines = [
            *tables.explained(row.metric for row in self.standings),
            f"Scores in percent. Differences with intervals of {100 * self.confidence:g} %, each "
            f"by itself, by {self.method}.",
            "Ranks are what is left open once differences with a corrected p below "
            f"{1 - self.confidence:.3g} are taken for real.",
        ]
        if any(row.runs > 1 for row in self.standings):
            lines.append(
                "Between runs: over seeds on this very test set; the other intervals and the tests "
                "are over test sets, for the mean of the runs."
            )
        reasons = dict.fromkeys(row.reason for row in self.differences if row.reason)
        lines += [f"No test: {reason}." for reason in reasons]
        for reason in dict.fromkeys(self.skipped.values()):
            names = [name for name, why in self.skipped.items() if why == reason]
            lines.append(f"Skipped {', '.join(names)}: {reason}.")
        return lines

    def to_markdown(self) -> str:
        """Two Markdown tables: standings and differences."""
        return (
            tables.markdown(*self._standing_cells())
            + "\n"
            + tables.markdown(*self._difference_cells())
        )

    def to_latex(self) -> str:
        """Two LaTeX tabulars (booktabs): standings and differences."""
        return (
            tables.latex(*self._standing_cells()) + "\n" + tables.latex(*self._difference_cells())
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "format": "truerank-comparison",
            "confidence": self.confidence,
            "method": self.method,
            "standings": [_plain(row) for row in self.standings],
            "differences": [_plain(row) for row in self.differences],
            "skipped": dict(self.skipped),
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        if path is not None:
            from truerank.files import write_text

            write_text(path, text)
        return text


def compare(
    *results: Any,
    names: Iterable[str] | None = None,
    metrics: Iterable[str] | str | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Which of several models is better, and how sure that is.

    Parameters
    ----------
    *results : Result, path of a result's JSON file, or list of these
        One for each model; a list holds runs of one model that differ in their seed.
    names : iterable of str, optional
        Of the models; otherwise file names or model 1, model 2, ...
    metrics : strings, optional
        By default all that every result has. Fewer metrics, fewer tests to correct for.
    confidence : float
        Of the intervals; 1 - confidence is the level of the tests.
    seed : int
        Of the bootstrap, for results with a gallery of their own.

    Returns
    -------
    Comparison
        Standings with the ranks left open, and all differences; it prints as a table.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(40), 5)
    >>> centres, noise = rng.standard_normal((40, 16)), rng.standard_normal((200, 16))
    >>> good, poor = (truerank.evaluate(centres[y] + s * noise, y) for s in (1.0, 2.0))
    >>> found = truerank.compare(good, poor, names=["good", "poor"], metrics="map@r")
    >>> [(row.model, row.ranks) for row in found.standings]
    [('good', (1, 1)), ('poor', (2, 2))]
    """
    request = Request.of(confidence, seed)
    if request is None:
        raise InputError("The 'confidence' parameter of compare must be a number. Got None.")
    models = [_runs(result) for result in results]
    if len(models) < 2:
        raise InputError(f"compare takes at least two results. Got {len(models)}.")
    labels = _names(results, names)
    _check_same_task(models, labels)
    chosen, skipped = _metrics(models, labels, metrics)
    differences = []
    for metric in chosen:
        for a, b in combinations(range(len(models)), 2):
            differences.append(_difference(metric, models, labels, a, b, request))
    differences = _correct(differences)
    standings = [
        standing
        for metric in chosen
        for standing in _stand(metric, models, labels, differences, request)
    ]
    return Comparison(standings, differences, request.confidence, _method(models), skipped)


# -- what is compared -------------------------------------------------------------------------


def _runs(result: Any) -> Model:
    if isinstance(result, (list, tuple)):
        if not result:
            raise InputError("a list of runs is empty; pass at least one result.")
        return [_read(run) for run in result]
    return [_read(result)]


def _read(result: Any) -> Result:
    if isinstance(result, Result):
        return result
    if isinstance(result, (str, os.PathLike)):
        return Result.from_json(result)
    raise InputError(
        f"compare takes results, paths of their JSON files, or lists of these. Got {result!r}."
    )


def _names(results: Sequence[Any], names: Iterable[str] | None) -> list[str]:
    if names is not None:
        given = [str(name) for name in names]
        if len(given) != len(results) or len(set(given)) < len(given):
            raise InputError(
                f"names must be {len(results)} distinct names, one for each model. Got {given}."
            )
        return given
    found = []
    for number, result in enumerate(results, 1):
        first = result[0] if isinstance(result, (list, tuple)) else result
        is_path = isinstance(first, (str, os.PathLike))
        found.append(Path(first).stem if is_path else f"model {number}")
    if len(set(found)) < len(found):
        found = [f"{name} ({number})" for number, name in enumerate(found, 1)]
    return found


_SETTINGS = {
    "average": "means over {}",
    "no_mate_option": "no_mate={}",
    "leave_one_out": "leave-one-out: {}",
}


def _check_same_task(models: list[Model], names: list[str]) -> None:
    runs = [(name, run) for name, model in zip(names, models, strict=True) for run in model]
    first_name, first = runs[0]
    for name, run in runs:
        if "trials" in run.provenance:
            raise InputError(f"{name} is of a list of trials, which names no classes to pair.")
        if "task_digest" not in run.provenance or run.provenance.get("part"):
            raise InputError(f"{name} is a part of a result; compare whole results.")
        mine, other = first.provenance, run.provenance
        for key in ("queries", "gallery"):
            if mine[key] != other[key]:
                raise InputError(
                    f"{first_name} and {name} are of different tasks: {mine[key]:,} and "
                    f"{other[key]:,} {'queries' if key == 'queries' else 'gallery items'}."
                )
        if mine["task_digest"] != other["task_digest"]:
            raise InputError(
                f"{first_name} and {name} are of different tasks of the same size: labels, ids, "
                f"groups or junk differ (digests {mine['task_digest'][:8]} and "
                f"{other['task_digest'][:8]})."
            )
        for key, words in _SETTINGS.items():
            if mine[key] != other[key]:
                raise InputError(
                    f"{first_name} and {name} were evaluated differently: "
                    f"{words.format(mine[key])} and {words.format(other[key])}."
                )


def _metrics(
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


def _method(models: list[Model]) -> str:
    if models[0][0].provenance["leave_one_out"]:
        return "delete-group jackknife of the paired classes"
    return "class bootstrap of the paired classes, conditional on this gallery"


# -- how far apart ----------------------------------------------------------------------------


def _score(model: Model, metric: str) -> float:
    return mean(np.array([run[metric].value for run in model]))


def _difference(
    metric: str,
    models: list[Model],
    names: list[str],
    a: int,
    b: int,
    request: Request,
) -> Difference:
    value = _score(models[a], metric) - _score(models[b], metric)
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


def _error(metric: str, first: Model, second: Model, request: Request) -> tuple[float, int] | str:
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
    totals = [np.mean([some.total for some in model], axis=0) for model in sums]
    counted = sums[0][0]
    if len(counted) < FEWEST_DRAWN:
        return f"{count(len(counted), 'class')}: a test needs at least {FEWEST_DRAWN}"
    paired = ClassSums(np.rint(totals[0] - totals[1]), counted.count)
    return standard_errors([paired], request.seed)[0], len(counted) - 1


def _why_not(scores: list[Score]) -> str:
    reasons = [score.interval_reason for score in scores if score.interval_reason]
    return reasons[0] if reasons else "a result was evaluated without intervals"


def _class_sums(result: Result, metric: str) -> ClassSums | None:
    score = result[metric]
    if score.per_query is None or result.units is None:
        return None
    higher = registry.definition(registry.parse(metric)).higher_is_better
    values = score.per_query.lower if higher else score.per_query.upper
    return ClassSums.of(values, result.units, result.provenance["average"] == "class")


def _correct(differences: list[Difference]) -> list[Difference]:
    """Holm: the k-th smallest of m p-values is multiplied by m - k + 1, and none falls."""
    tested = [(row.p, place) for place, row in enumerate(differences) if row.p is not None]
    corrected = list(differences)
    highest = 0.0
    for rank, (p, place) in enumerate(sorted(tested)):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        row = differences[place]
        corrected[place] = Difference(
            row.metric, row.first, row.second, row.value, row.interval, row.p, highest
        )
    return corrected


def _stand(
    metric: str,
    models: list[Model],
    names: list[str],
    differences: list[Difference],
    request: Request,
) -> list[Standing]:
    higher = registry.definition(registry.parse(metric)).higher_is_better
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
            _score(model, metric),
            _interval(model, metric, request),
            len(model),
            _between_runs(model, metric, request),
            (1 + above[name], len(models) - below[name]),
        )
        for name, model in zip(names, models, strict=True)
    ]
    return sorted(rows, key=lambda row: -row.value if higher else row.value)


def _interval(model: Model, metric: str, request: Request) -> tuple[float, float] | None:
    """A single run's own; of several runs, around their mean by their mean replicates."""
    if len(model) == 1:
        return model[0][metric].interval
    kept = [some for run in model if (some := run[metric].replicates) is not None]
    if len(kept) < len(model):
        return None
    value, replicates = _score(model, metric), Replicates.mean(kept)
    limits = registry.definition(registry.parse(metric)).range
    steep = registry.definition(registry.parse(metric)).is_steep
    return from_replicates(
        value, replicates, replicates, request.confidence, limits, steep=steep
    ).ends


def _between_runs(model: Model, metric: str, request: Request) -> tuple[float, float] | None:
    """Mean +- t s/sqrt(n) over the runs."""
    if len(model) < 2:
        return None
    values = [run[metric].value for run in model]
    centre = _score(model, metric)
    spread = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))
    margin = quantile(request.confidence, len(values) - 1) * spread / math.sqrt(len(values))
    return centre - margin, centre + margin


# -- how it is shown --------------------------------------------------------------------------


def _ends(interval: tuple[float, float] | None, shown: Callable[[float | None], str]) -> str:
    if interval is None:
        return "-"
    return f"{shown(interval[0])} to {shown(interval[1])}"


def _probability(p: float | None) -> str:
    return "-" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _plain(row: Standing | Difference) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in vars(row).items()
    }
