"""Score a task: which metrics share a pass, their scores from its counts, a checkpoint's content.

One pass over queries x gallery serves every metric that can share it: the levels of a tree all
follow from the lengths of common paths. Labels that form no tree need a pass per requested
level. Queries are done block by block, and what is filled is kept on disk. Scores are means
over queries, over levels, and at smaller gallery sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.checkpoint import Checkpoint, chapters
from truerank._util.errors import InputError
from truerank._util.settings import current_settings
from truerank._util.threads import HelperThreads, available_cores
from truerank._util.types import Integers, Reals
from truerank.core import registry
from truerank.core.average import class_mean, mean, plain_mean
from truerank.core.curve import BandMoves, Curve
from truerank.core.metric import Metric, RankingDefinition, Scale, ThresholdDefinition
from truerank.core.registry import definition
from truerank.core.score import (
    AtSize,
    Column,
    LevelsPerQuery,
    PerQuery,
    Score,
    as_run,
    put,
    share_counts,
)
from truerank.core.tie_groups import Block, TieGroups
from truerank.distance.base import Space
from truerank.engine import runner
from truerank.engine.runner import keeping, keeps_observed, prepare
from truerank.intervals.bands import put_band
from truerank.intervals.chance import Kinds, attainable_of, chance_of
from truerank.intervals.estimation import Estimation
from truerank.intervals.interval import IntervalRequest
from truerank.intervals.ranking_replicates import JackknifePlan
from truerank.metrics import hierarchy
from truerank.metrics.gallery_sizes import GrownColumns, Growth, law_of, why_no_law
from truerank.metrics.thresholds.family import Collection, Context
from truerank.result.curves import NearestRelevant, Severity, severity_bars
from truerank.task.relevance import GradeView, JudgedView, TreeView, View
from truerank.task.task import TaskRules, level_of, level_parts

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
    first_mates: NearestRelevant | None = None
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
    threads = threads or available_cores()
    work = [int((p.view.mates > 0).sum()) * space.gallery for p in passes]
    if families is not None:  # their observers see every query
        work[0] = task.queries * space.gallery
    findings = Findings()
    estimation = None
    scoring: Callable[[], dict[Metric, Score]] = dict
    with ThreadPoolExecutor(threads) as pool:
        with keeping(device):
            if passes:
                prepare(passes[0].view, space, device, pool)
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
            fill(current, blocks(current.view), HelperThreads(threads, pool), Checkpoint(), None)
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
        workers = HelperThreads(threads, pool)
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
        findings.first_mates = NearestRelevant(*passes[0].first[:, passes[0].first[-1] > 0])
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


# The plan of an evaluation: which passes its metrics need, and what each pass fills.


@dataclass
class Pass:
    """One pass over queries x gallery: its view and the columns filled from it."""

    view: View
    scale: Scale
    columns: list[Column] = field(default_factory=list)
    grown: GrownColumns | None = None
    """Columns at gallery sizes, if any were asked for."""

    def __post_init__(self) -> None:
        queries = self.view.queries
        self.seen = np.zeros(queries, bool)
        """Queries whose row of every column and of the arrays below is filled."""
        self.shown = np.zeros(queries, bool)
        """Queries that observers have seen, whether they have a mate or not."""
        self.ties = np.zeros(queries, np.int64)
        self.nearest = np.zeros(queries, np.int64)
        self.monotone = np.ones(queries, bool)
        self.findable = np.zeros(queries, bool)
        self.first = np.zeros((3, queries), np.int64)
        """Items before the tie group of the nearest mate, in it, and mates in it."""

    @property
    def finest(self) -> int:
        """The grade of an item with the query's own label."""
        return self.view.grades if isinstance(self.view, TreeView) else 1

    def goes_by_finest(self, task: TaskRules) -> bool:
        """Whether its finest grade is that of mates by the finest label.

        Without a tree, items of one label may have different paths.
        """
        is_tree = isinstance(self.view, TreeView) and task.named_levels.is_tree
        return self.view is task.view or is_tree

    @property
    def whole(self) -> bool:
        """Whether the pass covers all levels of a tree."""
        return isinstance(self.view, TreeView) and self.view.grades > 1

    @property
    def among_judged(self) -> bool:
        """Whether what nobody judged is left out of the lists."""
        return isinstance(self.view, JudgedView)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that fills up in the pass, by name."""
        names = ("seen", "shown", "ties", "nearest", "monotone", "findable", "first")
        state = {name: getattr(self, name) for name in names}
        for number, column in enumerate(self.columns):
            for name in ("values", "totals", "candidates"):
                state[f"{name}-{number}"] = getattr(column, name)
        return state if self.grown is None else state | {"grown": self.grown.values}


def plan_passes(task: TaskRules, metrics: list[Metric]) -> list[Pass]:
    """The passes that together fill a column for each of these metrics."""
    levels = {metric: level_of(task, metric) for metric in metrics}
    graded = [m for m in metrics if registry.definition(m).graded and m.get("level") is None]
    queries = task.queries
    view = task.view
    if isinstance(view, GradeView):
        scale = Scale(view.values.astype(np.float64), judged=True)
        among = task.judged_view
        narrow = [m for m in metrics if among is not None and registry.ranking(m).judged]
        found = []
        for of, some in ((view, [m for m in metrics if m not in narrow]), (among, narrow)):
            if of is not None and some:
                columns = [Column.of(metric, 1, scale, queries) for metric in some]
                share_counts(columns)
                found.append(Pass(of, scale, columns))
        return found
    named = task.named_levels
    depth = len(named)
    plain = [metric for metric in metrics if metric not in graded]
    scale = Scale(np.arange(1.0, depth + 1))
    lowest = 1 if graded else min(levels.values())
    if lowest < depth and named.is_tree:
        columns = [Column.of(metric, levels[metric], scale, queries) for metric in metrics]
        share_counts(columns)
        return [Pass(task.tree_view(lowest), scale, columns)]
    passes: dict[int, Pass] = {}
    for metric in plain:
        level = levels[metric]
        if level not in passes:
            passes[level] = Pass(task.level_view(level), Scale(np.ones(1)))
        passes[level].columns.append(Column.of(metric, 1, scale, queries))
    in_order = [passes[level] for level in sorted(passes, reverse=True)]
    if graded:
        columns = [Column.of(metric, 0, scale, queries) for metric in graded]
        in_order.append(Pass(task.tree_view(), scale, columns))
    for current in in_order:
        share_counts(current.columns)
    return in_order


def try_out(passes: list[Pass]) -> None:
    """Try each metric on one query with one mate: options that do not suit are refused now,
    not once everything has been counted."""
    for current in passes:
        if not current.view.mates.any():
            continue
        graded = np.zeros((1, current.view.grades), np.int32)
        graded[0, -1] = 1
        one = np.ones(1, np.int64)
        groups = TieGroups(np.array([0, 1]), 0 * one, one, graded, one)
        for column in current.columns:
            some = groups.at_least(column.grade)[1] if column.grade else groups
            some.values(column.metric, column.scale, registry.ranking(column.metric))


# Running passes: queries are done block by block, and what is filled is kept on disk.


_PARALLEL_GROUPS = 1 << 16
"""Tie groups of a block that are worth a thread: with fewer, threads wait for the interpreter."""


@dataclass(frozen=True)
class PassResources(HelperThreads):
    """The space, device, threads and checkpoint that passes are run with."""

    space: Space
    device: str
    checkpoint: Checkpoint
    progress: Callable[[int, int], None] | None
    pairs: int
    """Pairs of all passes together."""

    def tick(self, behind: int) -> Callable[[int, int], None] | None:
        """Progress of one run as progress of all: `behind` pairs are done once it ends."""
        progress = self.progress
        if progress is None:
            return None
        return lambda done, whole: progress(behind - (whole - done), self.pairs)


def restore(
    number: int, current: Pass, families: Collection | None, checkpoint: Checkpoint
) -> None:
    """Go on from what an earlier run left of a pass."""
    key = f"pass-{number}"
    if families is None or number > 0:
        checkpoint.restore(key, current.state())
        checkpoint.hold(key, current.state())
        return
    kept = checkpoint.restore_seen(key, current.state(), families.restore)
    if kept:
        checkpoint.hold(key, kept)


def complete(
    current: Pass,
    observing: Collection | None,
    plan: JackknifePlan | None,
    resources: PassResources,
    *,
    behind: int,
) -> None:
    """Complete a pass over all its queries; `behind` pairs are done then."""
    checkpoint, space = resources.checkpoint, resources.space
    for seen in _runs(current, observing, plan, resources):
        if observing is not None:
            behind = int(np.count_nonzero(current.shown | ~seen)) * space.gallery
        blocks: Any = runner.tie_groups(
            current.view,
            space,
            device=resources.device,
            threads=resources.threads,
            progress=resources.tick(behind),
            keep=False,
            checkpoint=checkpoint,
            seen=seen,
            observers=() if observing is None else observing.observers,
            grade=current.finest,
            rankings=not current.among_judged,
            folds=plan.gallery_folds if plan is not None and plan.splits else None,
            split_view=(plan.split_view, plan.counted)
            if plan is not None and plan.splits
            else None,
        )
        with closing(blocks):
            if observing is None:
                fill(current, blocks, resources, checkpoint, plan)
            else:  # it is written between two runs
                collected = _collected(blocks, observing, current.finest)
                fill(current, collected, resources, Checkpoint(), plan)


def _runs(
    current: Pass, families: Collection | None, plan: JackknifePlan | None, resources: PassResources
) -> Iterator[npt.NDArray[np.bool_]]:
    """The queries to leave out, of each run of the engine that it takes to complete a pass.

    What observers see is complete between two runs, and kept then; unless the engine keeps it while
    it is at it, these are chapters of some seconds.
    """
    if families is None:
        yield current.seen
        return
    view, space, checkpoint = current.view, resources.space, resources.checkpoint
    split = plan is not None and plan.splits
    seconds = None
    if checkpoint.is_kept and (
        current.shown.any()
        or not keeps_observed(view, space, families.observers, device=resources.device, split=split)
    ):
        seconds = current_settings().checkpoint_seconds
    order = np.argsort(view.mates, kind="stable")
    for rows in chapters(order[~current.shown[order]], space.gallery, seconds):
        others = np.ones(len(order), bool)
        others[rows] = False
        yield others
        current.shown[rows] = True
        if checkpoint.is_kept:
            state = {name: array.copy() for name, array in current.state().items()}
            checkpoint.hold("pass-0", checkpoint.with_seen(state, families.state()))
            if checkpoint.due():
                checkpoint.save()


def _collected(blocks: Iterator[Block], families: Collection, grade: int) -> Iterator[Block]:
    """Hand blocks on once the families have collected what they need from them."""
    for block in blocks:
        chosen, finest = block.groups.at_least(grade)
        families.collect(block.rows[chosen], finest)
        yield block


def fill(
    current: Pass,
    blocks: Iterator[Block],
    workers: HelperThreads,
    checkpoint: Checkpoint,
    plan: JackknifePlan | None,
) -> None:
    """Fill a pass from blocks of tie groups, whoever made them."""

    def fill_rows(block: Integers, groups: Any) -> None:
        """Fill all that is wanted of these queries; other threads have other queries."""
        parts: dict[int, tuple[Integers, Any]] = {0: (np.arange(len(groups)), groups)}
        for grade in {current.finest, *(column.grade for column in current.columns)} - {0}:
            parts[grade] = groups.at_least(grade)
        places = {grade: as_run(block[chosen]) for grade, (chosen, _) in parts.items()}
        put(current.first, places[current.finest], parts[current.finest][1].first())
        for column in current.columns:
            some, rows = parts[column.grade][1], places[column.grade]
            if len(some):
                definition = registry.ranking(column.metric)
                put(column.values, rows, some.values(column.metric, column.scale, definition))
        for column in {id(column.totals): column for column in current.columns}.values():
            some, rows = parts[column.grade][1], places[column.grade]
            if len(some):
                put(column.totals.T, rows, some.totals.T)
                column.candidates[rows] = some.candidates
        if current.grown is not None:
            current.grown.fill(block, parts)
        current.ties[block] = groups.mixed
        if current.whole:
            current.nearest[block] = groups.nearest_level()
            current.monotone[block] = hierarchy.monotone(groups.totals)
            current.findable[block] = groups.totals[:, -1] > 0

    for found in blocks:
        block, groups = found.rows, found.groups
        if current.among_judged:
            chosen, groups = groups.among_graded()
            block = block[chosen]
        if not isinstance(groups, TieGroups) or len(groups.before) <= _PARALLEL_GROUPS:
            fill_rows(block, groups)
        else:
            count = min(workers.threads, -(-len(groups.before) // _PARALLEL_GROUPS))
            even = np.linspace(0, len(groups.before), count + 1)
            cuts = np.unique(np.searchsorted(groups.offsets, even)).tolist()
            parts = [
                (block[start:stop], groups.part(start, stop)) for start, stop in pairwise(cuts)
            ]
            workers.share(lambda part: fill_rows(*part), parts)
        if plan is not None and plan.splits:
            plan.collect(block, found.split, workers)
        if current.grown is not None and (checkpoint.is_kept or current.grown.is_enough):
            current.grown.settle(workers.pool.map)
        current.seen[found.rows] = True
        if checkpoint.due():
            checkpoint.save()
    if current.grown is not None:
        current.grown.settle(workers.pool.map)


# From the filled columns of a pass to scores: means over queries, and over levels.


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
    counts = has_mates if task.unmated == "report" else np.ones(task.queries, bool)
    if kinds is None:
        kinds = Kinds.of(column.totals[has_mates], column.candidates[has_mates])
    chance = chance_of(column.metric, column.scale, kinds)
    every = column.values
    if task.unmated == "zero":
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
        reason=None if defined else "not defined: no query has a relevant item in the gallery",
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
    columns: list[Column], task: TaskRules, average: str, workers: HelperThreads
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
    if task.unmated != "report":
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


# Scores at gallery sizes: the same metrics, on average over galleries of fewer items.


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
