"""From the filled columns of a pass to scores: means over queries, and over levels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.average import class_mean, mean, plain_mean
from truerank.core.column import Column
from truerank.core.metric import Metric
from truerank.core.score import LevelsPerQuery, PerQuery, Score
from truerank.stats.chance import attainable_per_query, chance_per_query
from truerank.task import TaskRules
from truerank.task.levels import level_parts

__all__ = ["column_bounds", "combine", "score_column"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def score_column(column: Column, task: TaskRules, average: str) -> Score:
    """The score of a filled column, with its chance and what is attainable."""
    entry = registry.definition(column.metric)
    has_mates = ~np.isnan(column.values[0])
    counts = has_mates if task.no_mate == "report" else np.ones(task.queries, bool)
    chance = np.full(task.queries, np.nan)
    known = chance_per_query(
        column.metric, column.scale, column.totals[has_mates], column.candidates[has_mates]
    )
    if known is not None:
        chance[has_mates] = known
    best = np.full(task.queries, np.nan)
    best[has_mates] = attainable_per_query(column.metric, column.scale, column.totals[has_mates])
    every = column.values
    if task.no_mate == "zero":
        every = np.where(has_mates, every, 0.0)
        chance[~has_mates] = best[~has_mates] = 0.0

    def averaged(values: Reals) -> float:
        return _averaged(values, counts, task, average)

    lower = averaged(every[0])
    expected, upper = (
        lower if np.array_equal(values, every[0], equal_nan=True) else averaged(values)
        for values in every[1:]
    )
    defined = bool(counts.any())
    return Score(
        str(column.metric),
        lower if entry.higher_is_better else upper,
        lower,
        expected,
        upper,
        chance=averaged(chance) if defined and known is not None else None,
        attainable=averaged(best) if defined else None,
        n=int(counts.sum()),
        reason=None if defined else "not defined: no query has a mate in the gallery",
        per_query=PerQuery(*every),
    )


def column_bounds(column: Column, task: TaskRules, average: str) -> tuple[float, float, float]:
    """Lower, expected and upper of a filled column, and nothing else; NaN if no query counts."""
    has_mates = ~np.isnan(column.values[0])
    every, counts = column.values, has_mates
    if task.no_mate != "report":
        every, counts = np.where(has_mates, every, 0.0), np.ones(task.queries, bool)
    lower, expected, upper = (_averaged(values, counts, task, average) for values in every)
    return lower, expected, upper


def _averaged(values: Reals, counts: npt.NDArray[np.bool_], task: TaskRules, average: str) -> float:
    """The mean over the queries that count, or over their classes."""
    if average == "class":
        return class_mean(values[counts], task.query_codes[counts])
    return mean(values[counts])


def combine(task: TaskRules, metric: Metric, scored: dict[Metric, Score]) -> Score:
    """A metric's score from those of its columns: the only one, or the mean over levels."""
    parts = [scored[part] for part in level_parts(task, metric)]
    if metric.get("level") != "mean":
        return parts[0]
    rows = [part.per_query for part in parts if part.per_query is not None]
    undefined = [part.reason for part in parts if part.reason]

    def averaged(end: str) -> float:
        return float("nan") if undefined else plain_mean([getattr(p, end) for p in parts])

    chances = [part.chance for part in parts if part.chance is not None]
    best = [part.attainable for part in parts if part.attainable is not None]
    return Score(
        str(metric),
        averaged("value"),
        averaged("lower"),
        averaged("expected"),
        averaged("upper"),
        chance=mean(np.array(chances)) if len(chances) == len(parts) else None,
        attainable=mean(np.array(best)) if len(best) == len(parts) else None,
        n=max(part.n for part in parts),
        reason=undefined[0] if undefined else None,
        per_query=rows[0] if len(rows) == 1 else LevelsPerQuery.of(rows),
    )
