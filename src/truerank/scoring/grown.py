"""Scores at gallery sizes: the same metrics, on average over galleries of fewer items."""

from __future__ import annotations

from truerank.core.metric import Metric, RankingDefinition
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.families.collection import Collection
from truerank.growth.at_size import AtSize
from truerank.growth.columns import GrownColumns
from truerank.growth.laws import law_of, why_no_law
from truerank.growth.values import Growth
from truerank.scoring.plan import Pass
from truerank.scoring.score import combine, score_columns
from truerank.stats.estimation import Estimation
from truerank.task import TaskRules
from truerank.task.levels import level_parts

__all__ = ["scores_at", "widen"]

OF_STRANGERS = ("dir", "fnir", "far", "ftr")
"""Open-set metrics that have a law."""


def widen(passes: list[Pass], sizes: tuple[int, ...], gallery: int) -> None:
    """Let passes fill columns at each size; the whole gallery has the columns themselves."""
    smaller = tuple(size for size in sizes if size < gallery)
    for current in passes if smaller else ():
        growth = Growth(smaller, gallery)
        current.grown = GrownColumns(growth, current.columns, current.view.queries)


def scores_at(
    task: TaskRules,
    metrics: list[Metric],
    passes: list[Pass],
    average: str,
    families: Collection | None,
    estimation: Estimation | None,
    scores: dict[str, Score],
    sizes: tuple[int, ...],
) -> dict[int, AtSize]:
    """The scores at each size that was asked for; those of the whole gallery as they are."""
    told = [metric for metric in metrics if _has_law(task, metric)]
    ranked = [metric for metric in told if isinstance(definition(metric), RankingDefinition)]
    reasons = {str(metric): why_no_law(metric) for metric in metrics if metric not in told}
    found = {}
    attainable: dict[Metric, float | None] = {}
    smaller = [size for size in sizes if size < task.items]
    for size in sizes:
        if size == task.items:
            whole = {str(metric): scores[str(metric)] for metric in told}
            found[size] = AtSize(size, whole, reasons)
            continue
        columns = [
            column
            for current in passes
            if current.grown is not None
            for column in current.grown.at(size)
        ]
        by_metric = score_columns(columns, task, average, attainable)
        attainable |= {metric: score.attainable for metric, score in by_metric.items()}
        place = smaller.index(size)
        combined = {metric: combine(task, metric, by_metric) for metric in ranked}
        for metric in told:
            if metric not in combined and families is not None:
                at_size = families.score_at(metric, place)
                combined[metric] = scores[str(metric)] if at_size is None else at_size
        if estimation is not None:
            here = estimation.at_size(place, columns)
            for metric, score in combined.items():
                if score.reason is None:
                    combined[metric] = here.interval_at_size(score, metric).put_on(score)
        combined = {metric: combined[metric] for metric in told}
        found[size] = AtSize(size, {str(m): score for m, score in combined.items()}, reasons)
    return found


def _has_law(task: TaskRules, metric: Metric) -> bool:
    known = definition(metric)
    if not isinstance(known, RankingDefinition):
        return known.family == "openset" and metric.name in OF_STRANGERS
    return all(law_of(part) is not None for part in level_parts(task, metric))
