"""Statistics of a benchmark: means and intervals over reruns, and differences of methods.

The folds of a rerun share classes, so that a rerun is one number: n is the number of reruns.
The variance of a difference is that over test classes, by the paired jackknife of the means
over runs, plus that over runs of each method.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from truerank.benchmark.layout import DEFAULT, Layout
from truerank.benchmark.tasks import CONCAT, result_path
from truerank.core import registry
from truerank.core.jackknife import Replicates
from truerank.core.student import central, quantile
from truerank.intervals.interval import from_replicates
from truerank.result.result import Result

PARTS = ("concatenated", "separated")
CONFIDENCE = 0.95


def numbers(
    rows: Iterable[Mapping[str, Any]],
) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Rows of reruns.csv as method -> part or "default PART" -> metric -> summary.

    A rerun's separated score is the mean over its folds; default parameters have one run.
    """
    values: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for row in rows:
        key = (row["method"], "default" if row["default"] else "", row["metric"], row["rerun"])
        values.setdefault(key, {})[row["fold"]] = row["value"]
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (method, default, metric, _), folds in values.items():
        separated = [value for fold, value in folds.items() if fold != CONCAT]
        parts = {"concatenated": [folds[CONCAT]] if CONCAT in folds else []}
        parts["separated"] = [math.fsum(separated) / len(separated)] if separated else []
        for part, some in parts.items():
            name = f"{default} {part}".strip()
            kept = found.setdefault(method, {}).setdefault(name, {}).setdefault(metric, [])
            kept += some
    return {
        method: {
            part: {metric: summarise(some) for metric, some in metrics.items() if some}
            for part, metrics in parts.items()
        }
        for method, parts in found.items()
    }


def summarise(values: Sequence[float]) -> dict[str, Any]:
    """Mean, t interval of the mean (None for a single run), and the values themselves."""
    n = len(values)
    mean = math.fsum(values) / n
    interval = None
    if n > 1:
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
        margin = quantile(CONFIDENCE, n - 1) * spread / math.sqrt(n)
        interval = [mean - margin, mean + margin]
    return {"mean": mean, "interval": interval, "n": n, "values": list(values)}


def spread(rows: Sequence[Mapping[str, Any]], part: str, metric: str) -> dict[str, Any]:
    """How far the methods are apart, with the parameters that were found and with default ones.

    Lowest and highest mean, and (highest - lowest) / lowest.
    """
    found: dict[str, Any] = {}
    for name, scores in (
        ("searched", [row[part][metric]["mean"] for row in rows]),
        ("default", [row["default"][part][metric]["mean"] for row in rows]),
    ):
        low, high = min(scores), max(scores)
        found[name] = {"low": low, "high": high, "relative": (high - low) / low if low else None}
    return found


def trend(rows: Sequence[Mapping[str, Any]], part: str, metric: str) -> dict[str, Any] | None:
    """The least-squares line of the methods' means over the years they were proposed in.

    `per_year` is its slope as a share of the mean of all methods; None with fewer than two years.
    """
    points = [
        (row["year"], row[part][metric]["mean"]) for row in rows if row.get("year") is not None
    ]
    if len({year for year, _ in points}) < 2:
        return None
    year = math.fsum(x for x, _ in points) / len(points)
    mean = math.fsum(y for _, y in points) / len(points)
    across = math.fsum((x - year) ** 2 for x, _ in points)
    along = math.fsum((x - year) * (y - mean) for x, y in points)
    total = math.fsum((y - mean) ** 2 for _, y in points)
    return {
        "per_year": along / across / mean if mean else None,
        "correlation": along / math.sqrt(across * total) if total else None,
        "methods": len(points),
    }


# Which methods can be told apart: results of all reruns, weighed by runs and by test classes.


MARGIN = 0.1
"""The gain over contrastive below which the field counts as flat."""
METHOD = "jackknife of the paired test classes plus the spread of the reruns, Holm over all pairs"
Runs = dict[str, list[Result]]


def read_runs(layout: Layout, methods: Sequence[str], reruns: Sequence[str], folds: int) -> Any:
    """Part -> method -> the result of each rerun; a separated one is the mean of its folds.

    Embeddings that were brought along have no folds, and no separated part.
    """
    found: dict[str, Runs] = {part: {} for part in PARTS}
    for method in methods:
        for rerun in reruns:
            if rerun == DEFAULT:
                continue
            folder = layout.rerun(method, rerun)
            whole = Result.from_json(result_path(folder, CONCAT))
            found["concatenated"].setdefault(method, []).append(whole)
            if folds:
                parts = [Result.from_json(result_path(folder, str(fold))) for fold in range(folds)]
                found["separated"].setdefault(method, []).append(mean_result(parts))
    return found


def mean_result(results: Sequence[Result]) -> Result:
    """The mean of results on one task, with the replicates of the mean."""
    scores = {}
    for metric in results[0]:
        each = [result[metric] for result in results]
        kept = [score.replicates for score in each if score.replicates is not None]
        ends: Any = {
            end: math.fsum(getattr(score, end) for score in each) / len(each)
            for end in ("value", "lower", "expected", "upper")
        }
        replicates = Replicates.mean(kept) if len(kept) == len(each) else None
        scores[metric] = replace(
            each[0], **ends, interval=None, replicates=replicates, per_query=None
        )
    return Result(scores, provenance=results[0].provenance)


def compare_methods(runs: Runs, metric: str) -> dict[str, Any]:
    """Ranks that the differences leave open, and the difference of each pair with Holm's p."""
    pairs = [
        {"first": a, "second": b, **difference(runs[a], runs[b], metric)}
        for a, b in combinations(runs, 2)
    ]
    tested = sorted((pair["p"], at) for at, pair in enumerate(pairs) if pair["p"] is not None)
    highest = 0.0
    for pair in pairs:
        pair["adjusted_p"] = None
    for rank, (p, at) in enumerate(tested):  # Holm: none falls below one before it
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        pairs[at]["adjusted_p"] = highest
    higher = registry.find(metric).higher_is_better
    ranks = {name: [1, len(runs)] for name in runs}
    for pair in pairs:
        if pair["adjusted_p"] is not None and pair["adjusted_p"] < 1 - CONFIDENCE:
            better = (pair["difference"] > 0) == higher
            ahead, after = ("first", "second") if better else ("second", "first")
            ranks[pair[after]][0] += 1
            ranks[pair[ahead]][1] -= 1
    return {"ranks": ranks, "pairs": pairs, "method": METHOD}


def difference(a: Sequence[Result], b: Sequence[Result], metric: str) -> dict[str, Any]:
    """How far the mean of some runs is above that of others, with an interval and a test."""
    means, spreads = zip(*(_mean_and_variance(some, metric) for some in (a, b)), strict=True)
    value = means[0] - means[1]
    kept = [_mean_replicates(some, metric) for some in (a, b)]
    unknown: dict[str, Any] = {"difference": value, "interval": None, "p": None}
    if spreads[0] is None or spreads[1] is None:
        return {**unknown, "reason": "a single rerun gives no variance between reruns"}
    if kept[0] is None or kept[1] is None:
        return {**unknown, "reason": "the results have no replicates over test classes"}
    classes = kept[0].minus(kept[1])
    parts = [
        (classes.standard_error() ** 2, classes.freedom),
        (spreads[0], len(a) - 1),
        (spreads[1], len(b) - 1),
    ]
    error, freedom = _together(parts)
    margin = quantile(CONFIDENCE, freedom) * error
    if error > 0:
        p = 1.0 - central(value / error, freedom)
    else:
        p = 1.0 if value == 0 else 0.0
    return {
        "difference": value,
        "interval": [value - margin, value + margin],
        "p": p,
        "reason": None,
    }


def _mean_and_variance(runs: Sequence[Result], metric: str) -> tuple[float, float | None]:
    """The mean over runs and the variance of that mean, None for a single run."""
    values = [run[metric].value for run in runs]
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, squares / (len(values) - 1) / len(values)


def _mean_replicates(runs: Sequence[Result], metric: str) -> Replicates | None:
    kept = [one for run in runs if (one := run[metric].replicates) is not None]
    return Replicates.mean(kept) if len(kept) == len(runs) else None


def _together(parts: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """The root of a sum of variances and its degrees of freedom (Satterthwaite)."""
    variance = math.fsum(part for part, _ in parts)
    if variance == 0:
        return 0.0, min(freedom for _, freedom in parts)
    freedom = variance**2 / math.fsum(part**2 / free for part, free in parts if part > 0)
    return math.sqrt(variance), max(1, math.floor(freedom))


def over_classes(runs: Sequence[Result], metric: str) -> list[float] | None:
    """The interval of the mean over runs, over test classes; None where it has none."""
    kept = _mean_replicates(runs, metric)
    if kept is None:
        return None
    known, mean = registry.find(metric), _mean_and_variance(runs, metric)[0]
    found = from_replicates(mean, kept, kept, CONFIDENCE, known.range, steep=known.is_steep)
    return None if found.ends is None else list(found.ends)


def gain(
    runs: Sequence[Result], baseline: Sequence[Result], metric: str, confidence: float
) -> dict[str, Any]:
    """How far the mean of some runs is above a baseline's, as a share of it, with an interval.

    Two variances add up: over test classes, by the jackknife of the ratio of the means over runs,
    and over runs, by their spread.
    """
    (mean, spread), (below, other) = (_mean_and_variance(some, metric) for some in (runs, baseline))
    if below == 0:
        return {"gain": None, "interval": None}
    ratio = mean / below
    a, b = (_mean_replicates(some, metric) for some in (runs, baseline))
    if a is None or b is None or spread is None or other is None:
        return {"gain": ratio - 1, "interval": None}
    quotients = Replicates(
        tuple(x / y if y else ratio for x, y in zip(a.values, b.values, strict=True)),
        (a.noise + ratio**2 * b.noise) / below**2,
    )
    parts = [
        (quotients.standard_error() ** 2, quotients.freedom),
        (spread / below**2, len(runs) - 1),
        (ratio**2 * other / below**2, len(baseline) - 1),
    ]
    error, freedom = _together(parts)
    margin = quantile(confidence, freedom) * error
    return {"gain": ratio - 1, "interval": [ratio - 1 - margin, ratio - 1 + margin]}


def verdict(runs: Runs, metric: str, baseline: str = "contrastive") -> dict[str, Any] | None:
    """Whether the best method is more than a tenth above contrastive, by a rule fixed beforehand.

    *flat* if the upper end of the simultaneous interval of best/contrastive - 1 is below 10 %,
    *not flat* if the lower end is above, else *undecided*. Simultaneous over all methods, because
    the best one is chosen after looking.
    """
    others = [name for name in runs if name != baseline]
    if baseline not in runs or not others:
        return None
    confidence = 1 - (1 - CONFIDENCE) / len(others)
    gains = {name: gain(runs[name], runs[baseline], metric, confidence) for name in others}
    known = {name: one["gain"] for name, one in gains.items() if one["gain"] is not None}
    if not known:
        return None
    best = max(known, key=lambda name: known[name])
    interval = gains[best]["interval"]
    word = "undecided"
    if interval is not None and interval[1] < MARGIN:
        word = "flat"
    elif interval is not None and interval[0] > MARGIN:
        word = "not flat"
    return {"verdict": word, "best": best, **gains[best], "gains": gains}
