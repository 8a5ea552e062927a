"""Which methods can be told apart: results of all reruns, weighed by runs and by test classes.

The results that scoring has kept are read; `truerank.compare` pairs methods over the test classes,
with Holm's correction over all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from truerank.benchmark.layout import DEFAULT, Layout
from truerank.benchmark.scoring import CONCAT, result_path
from truerank.benchmark.statistics import CONFIDENCE, PARTS
from truerank.comparison import compare
from truerank.core.replicates import Replicates
from truerank.result import Result
from truerank.stats.student import quantile

__all__ = ["MARGIN", "compare_methods", "gain", "mean_result", "read_runs", "verdict"]

MARGIN = 0.1
"""The gain over contrastive below which the field counts as flat."""
Runs = dict[str, list[Result]]


def read_runs(layout: Layout, methods: Sequence[str], reruns: Sequence[str], folds: int) -> Any:
    """Part -> method -> the result of each rerun; a separated one is the mean of its folds."""
    found: dict[str, Runs] = {part: {} for part in PARTS}
    for method in methods:
        for rerun in reruns:
            if rerun == DEFAULT:
                continue
            folder = layout.rerun(method, rerun)
            whole = Result.from_json(result_path(folder, CONCAT))
            parts = [Result.from_json(result_path(folder, str(fold))) for fold in range(folds)]
            found["concatenated"].setdefault(method, []).append(whole)
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
    """Ranks that the differences leave open, and what each pair's difference is."""
    names = list(runs)
    if len(names) < 2:
        return {"ranks": {name: [1, 1] for name in names}, "pairs": [], "method": None}
    found = compare(*runs.values(), names=names, metrics=[metric], confidence=CONFIDENCE)
    pairs = [
        {
            "first": row.first,
            "second": row.second,
            "difference": row.value,
            "interval": None if row.interval is None else list(row.interval),
            "adjusted_p": row.adjusted_p,
            "reason": row.reason,
        }
        for row in found.differences
    ]
    ranks = {row.model: list(row.ranks) for row in found.standings}
    return {"ranks": {name: ranks[name] for name in names}, "pairs": pairs, "method": found.method}


def gain(
    runs: Sequence[Result], baseline: Sequence[Result], metric: str, confidence: float
) -> dict[str, Any]:
    """How far the mean of some runs is above a baseline's, as a share of it, with an interval.

    Two variances add up: over test classes, by the jackknife of the ratio of the means over runs,
    and over runs, by their spread.
    """
    means, errors, freedoms = [], [], []
    for some in (runs, baseline):
        values = [run[metric].value for run in some]
        mean = math.fsum(values) / len(values)
        spread = math.fsum((value - mean) ** 2 for value in values)
        means.append(mean)
        errors.append(spread / (len(values) - 1) / len(values) if len(values) > 1 else math.nan)
        freedoms.append(len(values) - 1)
    if means[1] == 0:
        return {"gain": None, "interval": None}
    ratio = means[0] / means[1]
    kept = [[run[metric].replicates for run in some] for some in (runs, baseline)]
    if any(one is None for some in kept for one in some) or math.isnan(sum(errors)):
        return {"gain": ratio - 1, "interval": None}
    a, b = (Replicates.mean([one for one in some if one is not None]) for some in kept)
    noise = (a.noise + ratio**2 * b.noise) / means[1] ** 2
    quotients = Replicates(
        tuple(x / y if y else ratio for x, y in zip(a.values, b.values, strict=True)), noise
    )
    parts = [
        (quotients.standard_error() ** 2, quotients.freedom),
        (errors[0] / means[1] ** 2, freedoms[0]),
        (ratio**2 * errors[1] / means[1] ** 2, freedoms[1]),
    ]
    variance = math.fsum(part for part, _ in parts)
    if variance == 0:
        return {"gain": ratio - 1, "interval": [ratio - 1, ratio - 1]}
    freedom = variance**2 / math.fsum(part**2 / free for part, free in parts if part > 0)
    margin = quantile(confidence, max(1, math.floor(freedom))) * math.sqrt(variance)
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
