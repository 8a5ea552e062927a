"""From the filled columns of a pass to scores: means over queries, and over levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.average import class_mean, mean, plain_mean
from truerank.core.column import Column
from truerank.core.metric import Metric
from truerank.core.score import LevelsPerQuery, PerQuery, Score
from truerank.engine.threads import Workers
from truerank.stats.chance import Kinds, attainable_of, chance_of
from truerank.task import TaskRules
from truerank.task.levels import level_parts

__all__ = ["begin_scores", "column_bounds", "combine", "score_column", "score_columns"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
_PARALLEL_QUERIES = 1 << 17
"""Queries whose scores are worth one thread more: with fewer, threads wait for the interpreter."""


def score_column(
    column: Column,
    task: TaskRules,
    average: str,
    kinds: Kinds | None = None,
    attainable: float | None = None,
) -> Score:
    """The score of a filled column, with its chance and what is attainable.

    `kinds` are those of its queries with a mate; it and `attainable` are for whom knows them.
    """
    entry = registry.definition(column.metric)
    has_mates = ~np.isnan(column.values[0])
    counts = has_mates if task.no_mate == "report" else np.ones(task.queries, bool)
    if kinds is None:
        kinds = Kinds.of(column.totals[has_mates], column.candidates[has_mates])
    chance = chance_of(column.metric, column.scale, kinds)
    every = column.values
    if task.no_mate == "zero":
        every = np.where(has_mates, every, 0.0)

    def averaged(values: Reals) -> float:
        return _averaged(values, counts, task, average)

    def averaged_kinds(values: Reals) -> float:
        """The mean of what queries of a kind share; 0 of those without a mate, where they count."""
        if average != "class":
            strangers = int(np.count_nonzero(counts & ~has_mates))
            return mean(np.append(values, 0.0), np.append(kinds.times, strangers))
        spread = np.zeros(task.queries)
        spread[has_mates] = values[kinds.number]
        return averaged(spread)

    lower = averaged(every[0])
    bits = every.view(np.int64)
    expected, upper = (
        lower if np.array_equal(bits[end], bits[0]) else averaged(every[end]) for end in (1, 2)
    )
    defined = bool(counts.any())
    if defined and attainable is None:
        attainable = averaged_kinds(attainable_of(column.metric, column.scale, kinds))
    return Score(
        str(column.metric),
        lower if entry.higher_is_better else upper,
        lower,
        expected,
        upper,
        chance=averaged_kinds(chance) if defined and chance is not None else None,
        attainable=attainable if defined else None,
        n=int(counts.sum()),
        reason=None if defined else "not defined: no query has a mate in the gallery",
        per_query=PerQuery(*every),
    )


def score_columns(
    columns: list[Column],
    task: TaskRules,
    average: str,
    attainable: Mapping[Metric, float | None] | None = None,
) -> dict[Metric, Score]:
    """The scores of columns; `attainable` has what is known of that already."""
    scored = _scoring(columns, task, average, attainable or {})
    return {column.metric: scored(column) for column in columns}


def begin_scores(
    columns: list[Column], task: TaskRules, average: str, workers: Workers
) -> Callable[[], dict[Metric, Score]]:
    """The same by several threads, while this one goes on: to call what comes back is to wait."""
    scored = _scoring(columns, task, average, {})
    scores = workers.begin(scored, columns, 2 + task.queries // _PARALLEL_QUERIES)
    return lambda: {c.metric: score for c, score in zip(columns, scores(), strict=True)}


def _scoring(
    columns: list[Column],
    task: TaskRules,
    average: str,
    attainable: Mapping[Metric, float | None],
) -> Callable[[Column], Score]:
    """Scores one of the columns; those of one grade in one pass share their kinds of queries."""
    kinds: dict[int, Kinds] = {}
    for column in columns:
        if id(column.candidates) not in kinds:
            alive = ~np.isnan(column.values[0])
            kinds[id(column.candidates)] = Kinds.of(column.totals[alive], column.candidates[alive])

    def scored(column: Column) -> Score:
        best = attainable.get(column.metric)
        return score_column(column, task, average, kinds[id(column.candidates)], best)

    return scored


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
    return mean(values if counts.all() else values[counts])


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
