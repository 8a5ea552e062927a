"""From a task and its space to scores: plan the passes, run them, score what they filled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.bars import severity_bars
from truerank.checkpoint import Checkpoint
from truerank.core import registry
from truerank.core.column import Column
from truerank.core.curve import Curve
from truerank.core.curve_moves import BandMoves
from truerank.core.groups import Block
from truerank.core.metric import Metric, RankingDefinition, ThresholdDefinition
from truerank.core.scale import Scale
from truerank.core.score import Score
from truerank.curves import FirstMates
from truerank.engine.threads import Workers
from truerank.errors import InputError
from truerank.families.collection import Collection
from truerank.families.family import Context
from truerank.growth.at_size import AtSize
from truerank.relevance import View
from truerank.scoring.grown import scores_at, widen
from truerank.scoring.plan import Pass, plan_passes, try_out
from truerank.scoring.run import PassResources, complete, fill, restore
from truerank.scoring.score import begin_scores, combine
from truerank.severity import Severity
from truerank.space import Space
from truerank.stats.bands import put_band
from truerank.stats.estimation import Estimation
from truerank.stats.intervals import IntervalRequest
from truerank.task import TaskRules
from truerank.task.levels import level_parts

__all__ = ["Findings", "fill_passes", "refused", "score", "score_groups"]

ONE_LEVEL = "the labels have one level, at which it repeats another metric"
OF_LEVELS = ("h_ap", "sum_wap")
"""Metrics that are the average precision where labels have one level."""


@dataclass
class Findings:
    """What the passes found besides the scores."""

    ties: dict[str, int] = field(default_factory=lambda: {"queries": 0, "groups": 0})
    hierarchy: dict[str, Any] | None = None
    severity: Severity | None = None
    severity_moves: BandMoves | None = None
    """How the bars of severity move without each fold, where a band is wanted."""
    intervals: dict[str, Any] | None = None
    level_units: dict[str, Any] = field(default_factory=dict)
    """Units of intervals that are not classes by the finest label, by the name of their level."""
    curves: dict[str, Curve] = field(default_factory=dict)
    first_mates: FirstMates | None = None
    at_sizes: dict[int, AtSize] = field(default_factory=dict)
    """Scores at the gallery sizes that were asked for."""
    reports: dict[str, Any] = field(default_factory=dict)
    """Reports of families of metrics, by the family's name."""


def score(
    task: TaskRules,
    space: Space,
    metrics: list[Metric],
    *,
    average: str,
    device: str,
    threads: int | None,
    progress: Callable[[int, int], None] | None,
    checkpoint: Checkpoint,
    request: IntervalRequest | None = None,
    sizes: tuple[int, ...] = (),
) -> tuple[dict[str, Score], Findings]:
    """Every metric's score by its string, and what else was found.

    `sizes` are gallery sizes at which scores are wanted, too.
    """
    measured = [m for m in metrics if isinstance(registry.definition(m), ThresholdDefinition)]
    passes = _planned(task, [m for m in metrics if m not in measured]) if metrics else []
    try_out(passes)
    if sizes:
        widen(passes, sizes, task.items)
    families = None
    if measured:
        context = Context(task, space, measured, average=average, device=device, threads=threads)
        families = Collection(context)
        if passes[0].grown is not None:
            families.widen(passes[0].grown.growth)
    threads = threads or engine.available_cores()
    work = [int((p.view.mates > 0).sum()) * space.gallery for p in passes]
    if families is not None:  # their observers see every query
        work[0] = task.queries * space.gallery
    findings = Findings()
    estimation = None
    scoring: Callable[[], dict[Metric, Score]] = dict
    with ThreadPoolExecutor(threads) as pool:
        with engine.keeping(device):
            if passes:
                engine.prepare(passes[0].view, space, device, pool)
            if request is not None:
                parts = {m: level_parts(task, m) for m in metrics if m not in measured}
                estimation = Estimation(task, space, request, average, parts)
            if estimation is not None and families is not None:
                estimation.observe(families)
            for number, current in enumerate(passes):
                restore(number, current, families, checkpoint)
            through = (space, device, checkpoint, progress, sum(work))
            resources = PassResources(threads, pool, *through)
            with checkpoint.kept_if_stopped():
                for number, current in enumerate(passes):
                    plan = None
                    if estimation is not None:
                        first = (current.first, current.finest) if number == 0 else None
                        plan = estimation.plan(current.view, current.columns, first, current.grown)
                    observing = families if number == 0 else None
                    complete(current, observing, plan, resources, behind=sum(work[: number + 1]))
                    if plan is not None:
                        plan.choose()
                    columns = _columns(passes)
                    if columns and current is passes[-1]:  # beside what intervals still need
                        scoring = begin_scores(columns, task, average, resources)
                    _find(task, current, findings, estimation, device=device, threads=threads)
                    if estimation is not None and plan is not None:
                        estimation.finish(plan, device, resources)
        with checkpoint.kept_if_stopped():
            scores = _scores(task, metrics, passes, scoring, families, estimation, findings)
            if sizes:
                findings.at_sizes = scores_at(
                    task, metrics, passes, average, families, estimation, scores, sizes
                )
    return scores, findings


def _columns(passes: list[Pass]) -> list[Column]:
    return [column for current in passes for column in current.columns]


def _planned(task: TaskRules, metrics: list[Metric]) -> list[Pass]:
    """The passes that ranking metrics need; the first goes by the finest label in any case."""
    wanted = list(dict.fromkeys(part for one in metrics for part in level_parts(task, one)))
    passes = plan_passes(task, wanted) if wanted else []
    if not (passes and passes[0].goes_by_finest(task)):
        passes.insert(0, Pass(task.view, Scale(np.ones(1))))
    return passes


def fill_passes(
    task: TaskRules, metrics: list[Metric], blocks: Callable[[View], Iterator[Block]], threads: int
) -> list[Pass]:
    """The passes of ranking metrics, filled from the tie groups that `blocks` has of a view."""
    passes = _planned(task, metrics)
    try_out(passes)
    with ThreadPoolExecutor(threads) as pool:
        for current in passes:
            fill(current, blocks(current.view), Workers(threads, pool), Checkpoint(), None)
    return passes


def score_groups(
    task: TaskRules,
    metrics: list[Metric],
    blocks: Callable[[View], Iterator[Block]],
    *,
    average: str,
    threads: int,
    request: IntervalRequest | None = None,
    strangers: npt.NDArray[np.int64] | None = None,
) -> tuple[dict[str, Score], Findings]:
    """Scores of ranking metrics from tie groups that the engine need not count, such as those of
    lists; intervals are conditional on the gallery.

    `strangers` are the places of each query that no gallery item holds: chance knows none of them.
    """
    passes = fill_passes(task, metrics, blocks, threads)
    findings = Findings()
    estimation = None
    if request is not None:
        parts = {metric: level_parts(task, metric) for metric in metrics}
        estimation = Estimation(task, None, request, average, parts)
    for current in passes:
        _find(task, current, findings, estimation)
        if strangers is not None and not current.among_judged:
            for column in {id(column.candidates): column for column in current.columns}.values():
                held = ~np.isnan(column.values[0])
                column.candidates[held] -= strangers[held]
    with ThreadPoolExecutor(threads) as pool:
        workers = Workers(threads, pool)
        scoring = begin_scores(_columns(passes), task, average, workers)
        scores = _scores(task, metrics, passes, scoring, None, estimation, findings)
    return scores, findings


def refused(task: TaskRules, metrics: list[Metric]) -> dict[Metric, str]:
    """The metrics that do not apply to a task, with the reasons."""
    if task.levels is not None:
        flat = len(task.levels) == 1
        return {m: ONE_LEVEL for m in metrics if flat and (m.get("level") or m.name in OF_LEVELS)}
    reasons = {}
    for metric in metrics:
        if isinstance(registry.definition(metric), RankingDefinition):
            try:
                try_out(plan_passes(task, level_parts(task, metric)))
            except InputError as error:
                reasons[metric] = str(error).rstrip(".")
    return reasons


def _scores(
    task: TaskRules,
    metrics: list[Metric],
    passes: list[Pass],
    scoring: Callable[[], dict[Metric, Score]],
    families: Collection | None,
    estimation: Estimation | None,
    findings: Findings,
) -> dict[str, Score]:
    """Scores from the filled passes; metrics over thresholds may make another pass.

    `scoring` waits for those of the columns.
    """
    if passes:
        findings.first_mates = FirstMates(*passes[0].first[:, passes[0].first[-1] > 0])
        ties = next((current for current in passes if current.columns), passes[0]).ties
        findings.ties = {"queries": int(np.count_nonzero(ties)), "groups": int(ties.sum())}
    scored = scoring()
    scores = {}
    for metric in metrics:
        known = registry.definition(metric)
        if isinstance(known, ThresholdDefinition) and families is not None:
            scores[str(metric)] = families.score(metric)
        else:
            scores[str(metric)] = combine(task, metric, scored)
    if families is not None:
        findings.curves = families.curves()
        findings.reports = families.reports()
    if estimation is not None:
        estimation.estimate(_columns(passes))
        findings.intervals = estimation.facts()
        findings.level_units = estimation.level_units()
        findings.curves = estimation.banded(findings.curves)
        if findings.severity is not None and findings.severity_moves is not None:
            bars = severity_bars(findings.severity.to_dict(), findings.hierarchy)
            if bars is not None:
                confidence = estimation.request.confidence
                findings.curves["severity"] = put_band(bars, findings.severity_moves, confidence)
        if findings.first_mates is not None and len(findings.first_mates.before):
            moves = estimation.cmc_moves(passes[0].first)
            findings.first_mates = replace(
                findings.first_mates,
                moves=moves,
                confidence=estimation.request.confidence,
                band_reason=estimation.why_no_band() if moves is None else None,
            )
        for metric in metrics:
            whole = scores[str(metric)]
            if whole.reason is None:
                interval = estimation.interval(whole, metric)
                scores[str(metric)] = interval.put_on(whole)
    return scores


def _find(
    task: TaskRules,
    current: Pass,
    findings: Findings,
    estimation: Estimation | None,
    **how: Any,
) -> None:
    """Note what a pass over a whole tree tells besides scores; `how` is whom to ask for more."""
    if current.whole and task.levels is not None and getattr(current.view, "lowest", 1) == 1:
        counted = current.view.mates > 0
        falling = float(np.mean(~current.monotone[counted])) if counted.any() else 0.0
        findings.hierarchy = {"levels": task.levels.names, "non_monotone_share": falling}
        findings.severity = Severity.of(task, current.nearest, current.findable)
        if estimation is not None and findings.severity.queries:
            findings.severity_moves = estimation.severity_moves(
                current.view, current.nearest, current.findable, **how
            )
