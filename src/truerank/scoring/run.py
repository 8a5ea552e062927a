"""Running passes: queries are done block by block, and what is filled is kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.checkpoint import Checkpoint, chapters
from truerank.core import registry
from truerank.core.column import as_run, put
from truerank.core.groups import Block, TieGroups
from truerank.engine.threads import Workers
from truerank.families.collection import Collection
from truerank.metrics import hierarchy
from truerank.scoring.plan import Pass
from truerank.settings import current_settings
from truerank.space import Space
from truerank.stats.counting import Plan

__all__ = ["PassResources", "complete", "fill", "restore"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
_PARALLEL_GROUPS = 1 << 16
"""Tie groups of a block that are worth a thread: with fewer, threads wait for the interpreter."""


@dataclass(frozen=True)
class PassResources(Workers):
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
    plan: Plan | None,
    resources: PassResources,
    *,
    behind: int,
) -> None:
    """Complete a pass over all its queries; `behind` pairs are done then."""
    checkpoint, space = resources.checkpoint, resources.space
    for seen in _runs(current, observing, plan, resources):
        if observing is not None:
            behind = int(np.count_nonzero(current.shown | ~seen)) * space.gallery
        blocks: Any = engine.tie_groups(
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
    current: Pass, families: Collection | None, plan: Plan | None, resources: PassResources
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
        or not engine.keeps_observed(
            view, space, families.observers, device=resources.device, split=split
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


def _collected(blocks: Iterator[Block], families: Collection, grade: int) -> Iterator[Block]:
    """Hand blocks on once the families have collected what they need from them."""
    for block in blocks:
        chosen, finest = block.groups.at_least(grade)
        families.collect(block.rows[chosen], finest)
        yield block


def fill(
    current: Pass,
    blocks: Iterator[Block],
    workers: Workers,
    checkpoint: Checkpoint,
    plan: Plan | None,
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
