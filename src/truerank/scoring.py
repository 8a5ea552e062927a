"""From a task and its space to scores: which passes are needed, and what each metric makes of them.

One pass over queries x gallery serves every metric that can share it: the levels of a tree all come
from the lengths of common paths. Labels that form no tree need a pass for each level asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.checkpoint import Checkpoint, chapters
from truerank.core import registry
from truerank.core.average import class_mean, mean
from truerank.core.column import Column
from truerank.core.curve import Curve
from truerank.core.definition import ThresholdDefinition
from truerank.core.groups import Block, SplitGroups, TieGroups
from truerank.core.metric import Metric
from truerank.core.scale import Scale
from truerank.core.score import PerQuery, Score
from truerank.curves import FirstMates
from truerank.errors import InputError
from truerank.families.collection import Collection
from truerank.families.context import Context
from truerank.families.opis.scores import Consistency
from truerank.metrics import hierarchy
from truerank.relevance import GradeView, TreeView, View
from truerank.settings import current_settings
from truerank.severity import Severity
from truerank.space import Space
from truerank.stats.chance import attainable_per_query, chance_per_query
from truerank.stats.estimation import Estimation, Plan
from truerank.stats.intervals import Request
from truerank.task import TaskRules

__all__ = ["Findings", "score"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

_PARALLEL_GROUPS = 1 << 16
"""Tie groups of a block that are worth a thread: with fewer, threads wait for the interpreter."""


@dataclass
class Findings:
    """What the passes saw besides the scores."""

    ties: dict[str, int] = field(default_factory=lambda: {"queries": 0, "groups": 0})
    hierarchy: dict[str, Any] | None = None
    severity: Severity | None = None
    intervals: dict[str, Any] | None = None
    curves: dict[str, Curve] = field(default_factory=dict)
    first_mates: FirstMates | None = None
    consistency: Consistency | None = None


@dataclass
class Pass:
    """One view and the columns filled from it."""

    view: View
    scale: Scale
    columns: list[Column] = field(default_factory=list)

    def __post_init__(self) -> None:
        queries = self.view.queries
        self.seen = np.zeros(queries, bool)
        """Queries whose row of every column and of the arrays below is filled."""
        self.shown = np.zeros(queries, bool)
        """Queries that watchers have seen, with a mate or without."""
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

    @property
    def whole(self) -> bool:
        """Whether it sees all levels of a tree."""
        return isinstance(self.view, TreeView) and self.view.grades > 1

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that fills up in the pass, by name."""
        names = ("seen", "shown", "ties", "nearest", "monotone", "findable", "first")
        state = {name: getattr(self, name) for name in names}
        for number, column in enumerate(self.columns):
            for name in ("values", "totals", "candidates"):
                state[f"{name}-{number}"] = getattr(column, name)
        return state


@dataclass(frozen=True)
class Means:
    """What passes are made with."""

    space: Space
    device: str
    threads: int
    pool: ThreadPoolExecutor
    checkpoint: Checkpoint
    progress: Callable[[int, int], None] | None
    pairs: int
    """Of all passes."""

    def tick(self, behind: int) -> Callable[[int, int], None] | None:
        """From what is left of one run to what has been done in all: `behind`, once it ends."""
        progress = self.progress
        if progress is None:
            return None
        return lambda done, whole: progress(behind - (whole - done), self.pairs)


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
    request: Request | None = None,
) -> tuple[dict[str, Score], Findings]:
    """Every metric's score, by its string."""
    measured = [m for m in metrics if isinstance(registry.definition(m), ThresholdDefinition)]
    wanted = list(
        dict.fromkeys(
            part for metric in metrics if metric not in measured for part in _parts(task, metric)
        )
    )
    passes = _plan(task, wanted) if wanted else []
    _try(passes)
    families = None
    if measured:
        context = Context(task, space, measured, average=average, device=device, threads=threads)
        families = Collection(context)
        if not passes or not (passes[0].view is task.view or isinstance(passes[0].view, TreeView)):
            passes.insert(0, Pass(task.view, Scale(np.ones(1))))
    findings = Findings()
    estimation = None if request is None else Estimation(task, space, request, average)
    if estimation is not None and families is not None:
        estimation.watch(families)
    threads = threads or engine.available_cores()
    work = [int((p.view.mates > 0).sum()) * space.gallery for p in passes]
    if families is not None:  # their watchers see every query
        work[0] = task.queries * space.gallery
    for number, current in enumerate(passes):
        _restore(number, current, families, checkpoint)
    try:
        with ThreadPoolExecutor(threads) as pool:
            means = Means(space, device, threads, pool, checkpoint, progress, sum(work))
            for number, current in enumerate(passes):
                plan = None
                if estimation is not None:
                    plan = estimation.plan(current.view, current.columns)
                watching = families if number == 0 else None
                _complete(current, watching, plan, means, behind=sum(work[: number + 1]))
                _find(task, current, findings)
                if plan is not None:
                    plan.finish(device, threads)
        return _scores(task, metrics, passes, average, threads, families, estimation, findings)
    except BaseException:
        checkpoint.abandon()
        raise


def _scores(
    task: TaskRules,
    metrics: list[Metric],
    passes: list[Pass],
    average: str,
    threads: int,
    families: Collection | None,
    estimation: Estimation | None,
    findings: Findings,
) -> tuple[dict[str, Score], Findings]:
    """What the passes amount to; metrics over thresholds may look once more."""
    if passes:
        findings.first_mates = FirstMates(*passes[0].first[:, passes[0].first[-1] > 0])
        findings.ties = {
            "queries": int(np.count_nonzero(passes[0].ties)),
            "groups": int(passes[0].ties.sum()),
        }
    columns = [column for current in passes for column in current.columns]
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda column: _score(column, task, average), columns)
        scored = {column.metric: one for column, one in zip(columns, found, strict=True)}
    scores = {}
    for metric in metrics:
        known = registry.definition(metric)
        if isinstance(known, ThresholdDefinition) and families is not None:
            scores[str(metric)] = families.score(metric)
        else:
            scores[str(metric)] = _combine(task, metric, scored)
    if families is not None:
        findings.curves = families.curves()
        if families.opis is not None:
            findings.consistency = families.opis.report()
    if estimation is not None:
        estimation.estimate(columns)
        findings.intervals = estimation.facts()
        for metric in metrics:
            whole = scores[str(metric)]
            if whole.reason is None:
                interval = estimation.interval(whole, metric, _parts(task, metric))
                scores[str(metric)] = interval.put_on(whole)
    return scores, findings


def _restore(
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


def _complete(
    current: Pass, watching: Collection | None, plan: Plan | None, means: Means, *, behind: int
) -> None:
    """See all queries of a pass; `behind` pairs are done then."""
    checkpoint, space = means.checkpoint, means.space
    for seen in _runs(current, watching, plan, means):
        if watching is not None:
            behind = int(np.count_nonzero(current.shown | ~seen)) * space.gallery
        blocks: Any = engine.tie_groups(
            current.view,
            space,
            device=means.device,
            threads=means.threads,
            progress=means.tick(behind),
            keep=False,
            checkpoint=checkpoint,
            seen=seen,
            watchers=() if watching is None else watching.watchers,
            grade=current.finest,
            rankings=True,
            shares=None if plan is None else plan.shares,
            apart=None if plan is None else (plan.apart, plan.counted),
        )
        with closing(blocks):
            if watching is None:
                _fill(current, blocks, means, checkpoint, plan)
            else:  # it is written between two runs
                looked = _taken(blocks, watching, current.finest)
                _fill(current, looked, means, Checkpoint(), plan)


def _runs(
    current: Pass, families: Collection | None, plan: Plan | None, means: Means
) -> Iterator[npt.NDArray[np.bool_]]:
    """The queries to leave out, of each run of the engine that it takes to complete a pass.

    What watchers see is complete between two runs, and kept then; unless the engine keeps it while
    it is at it, these are chapters of some seconds.
    """
    if families is None:
        yield current.seen
        return
    view, space, checkpoint = current.view, means.space, means.checkpoint
    split = plan is not None
    seconds = None
    if checkpoint.is_kept and (
        current.shown.any()
        or not engine.keeps_watched(
            view, space, families.watchers, device=means.device, split=split
        )
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


def _taken(blocks: Iterator[Block], families: Collection, grade: int) -> Iterator[Block]:
    """The same blocks, once the families have taken what they need of them."""
    for block in blocks:
        chosen, finest = block.groups.at_least(grade)
        families.take(block.rows[chosen], finest)
        yield block


# -- what is asked for ------------------------------------------------------------------------


def _depth(task: TaskRules) -> int:
    return 1 if task.levels is None else len(task.levels)


def _parts(task: TaskRules, metric: Metric) -> list[Metric]:
    """A mean over levels is made of the metric at each level."""
    if metric.get("level") != "mean":
        return [metric]
    return [metric.at_level(level) for level in range(1, _depth(task) + 1)]


def _level(task: TaskRules, metric: Metric) -> int:
    """The number of the level that a metric is asked for; the finest if none is named."""
    text = metric.get("level")
    depth = _depth(task)
    if text is None:
        return depth
    names = [] if task.levels is None else task.levels.names
    if text.isdigit() and 1 <= int(text) <= depth:
        return int(text)
    if text in names:
        return names.index(text) + 1
    known = ", ".join(names) if names else "1"
    raise InputError(f"there is no level {text!r} in {metric}; the levels are {known}.")


def _plan(task: TaskRules, metrics: list[Metric]) -> list[Pass]:
    levels = {metric: _level(task, metric) for metric in metrics}
    graded = [m for m in metrics if registry.definition(m).graded and m.get("level") is None]
    queries = task.queries
    view = task.view
    if isinstance(view, GradeView):
        scale = Scale(view.values.astype(np.float64), judged=True)
        columns = [Column.of(metric, 1, scale, queries) for metric in metrics]
        return [Pass(view, scale, columns)]
    named = task.named_levels
    depth = len(named)
    plain = [metric for metric in metrics if metric not in graded]
    scale = Scale(np.arange(1.0, depth + 1))
    lowest = 1 if graded else min(levels.values())
    if lowest < depth and named.is_tree:
        columns = [Column.of(metric, levels[metric], scale, queries) for metric in metrics]
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
    return in_order


def _try(passes: list[Pass]) -> None:
    """Each metric on one query with one mate: options that do not suit the levels are refused now,
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


# -- what is seen -----------------------------------------------------------------------------


def _fill(
    current: Pass,
    blocks: Iterator[Block],
    means: Means,
    checkpoint: Checkpoint,
    plan: Plan | None,
) -> None:
    def look(block: Integers, groups: Any, split: SplitGroups) -> None:
        """Everything that is wanted of these queries; other threads have other queries."""
        parts: dict[int, tuple[Integers, Any]] = {0: (np.arange(len(groups)), groups)}
        for grade in {current.finest, *(column.grade for column in current.columns)} - {0}:
            parts[grade] = groups.at_least(grade)
        chosen, some = parts[current.finest]
        current.first[:, block[chosen]] = some.first()
        for column in current.columns:
            chosen, some = parts[column.grade]
            if not len(some):
                continue
            rows = block[chosen]
            definition = registry.ranking(column.metric)
            column.values[:, rows] = some.values(column.metric, column.scale, definition)
            column.totals[rows] = some.totals
            column.candidates[rows] = some.candidates
        if plan is not None:
            plan.take(block, split)
        current.ties[block] = groups.mixed
        if current.whole:
            current.nearest[block] = groups.nearest_level()
            current.monotone[block] = hierarchy.monotone(groups.totals)
            current.findable[block] = groups.totals[:, -1] > 0

    for found in blocks:
        block, groups, split = found.rows, found.groups, found.split
        if not isinstance(groups, TieGroups):
            look(block, groups, split)
            current.seen[block] = True
            continue
        count = min(means.threads, -(-len(groups.size) // _PARALLEL_GROUPS))
        share = np.linspace(0, len(groups.size), count + 1)
        cuts = np.unique(np.searchsorted(groups.offsets, share)).tolist()
        work = [
            means.pool.submit(
                look, block[start:stop], groups.part(start, stop), split.part(start, stop)
            )
            for start, stop in pairwise(cuts)
        ]
        for part in work:
            part.result()
        current.seen[block] = True
        if checkpoint.due():
            checkpoint.save()


def _find(task: TaskRules, current: Pass, findings: Findings) -> None:
    """What a pass over a whole tree tells besides."""
    if current.whole and task.levels is not None and getattr(current.view, "lowest", 1) == 1:
        counted = current.view.mates > 0
        falling = float(np.mean(~current.monotone[counted])) if counted.any() else 0.0
        findings.hierarchy = {"levels": task.levels.names, "non_monotone_share": falling}
        findings.severity = Severity.of(task, current.nearest, current.findable)


# -- what it amounts to -----------------------------------------------------------------------


def _score(column: Column, task: TaskRules, average: str) -> Score:
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
        if average == "class":
            return class_mean(values[counts], task.query_codes[counts])
        return mean(values[counts])

    lower, expected, upper = (averaged(values) for values in every)
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


def _combine(task: TaskRules, metric: Metric, scored: dict[Metric, Score]) -> Score:
    """The score itself, or the plain mean of the levels' scores."""
    parts = [scored[part] for part in _parts(task, metric)]
    if metric.get("level") != "mean":
        return parts[0]
    undefined = [part.reason for part in parts if part.reason]

    def averaged(end: str) -> float:
        return float("nan") if undefined else mean(np.array([getattr(p, end) for p in parts]))

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
        per_query=_mean_over_levels([p.per_query for p in parts if p.per_query is not None]),
    )


def _mean_over_levels(parts: list[PerQuery]) -> PerQuery:
    """Each query's mean over the levels at which it has a mate, NaN where there is none."""
    ends = []
    for end in ("lower", "expected", "upper"):
        table = np.stack([getattr(part, end) for part in parts])
        held = ~np.isnan(table)
        total = np.where(held, table, 0.0)
        running = total[0]
        for level in total[1:]:
            running = running + level
        with np.errstate(invalid="ignore"):
            ends.append(running / np.where(held.any(axis=0), held.sum(axis=0), np.nan))
    return PerQuery(*ends)
