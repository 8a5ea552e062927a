"""The schedule of a pass that a cluster makes: which tasks there are. Nothing is run here.

Rows that can be counted tile by tile become tasks of some queries x some of the gallery. What needs
whole rows, and all that GPUs do, becomes tasks of some queries x the whole gallery. Neither depends
on the cluster, so that a run can go on with another one.
"""

from __future__ import annotations

import numpy as np

from truerank.engine.request import PassRequest, Queries
from truerank.engine.schedule import COUNTING, Schedule, WorkItem, cut, even, method_of
from truerank.settings import Settings
from truerank.space import Rows, Space

__all__ = ["ranges", "spread"]

GPU_ROWS, OBSERVED_ROWS = 1 << 16, 1 << 14
"""Queries of a task for a GPU, which gets the rows anew for each: as many as it counts at a time,
and fewer where observers come back with what they saw."""


def spread(request: PassRequest, left: Queries, limits: Settings) -> Schedule:
    """Tasks for all the queries that are left."""
    observers = request.observers
    whole = request.device != "cpu" or (observers is not None and observers.whole_rows)
    every = np.concatenate([left.no_mate_rows, left.rows])
    if whole or request.splitting:
        items = [_rows(request, every, limits)]
    elif not request.groups:
        found = even(every, limits.query_rows, 1)
        items = [WorkItem("spread tiles", found, worker="observe tiles")]
    else:
        few = np.asarray(request.view.mates[left.rows] <= limits.sort_share * request.space.gallery)
        if request.only is not None:
            few[:] = True
        tiled, others = Queries(left.rows[few], left.no_mate_rows), left.rows[~few]
        items = [_tiles(request, tiled, limits), _rows(request, others, limits)]
    return Schedule(tuple(item for item in items if item.blocks), Queries.none())


def ranges(space: Space, limits: Settings) -> list[tuple[int, int]]:
    """The gallery, from start to stop, in parts that one task of tiles goes through."""
    tiles = max(1, limits.task_pairs // (limits.query_rows * limits.gallery_rows))
    step = tiles * limits.gallery_rows
    return [(start, min(start + step, space.gallery)) for start in range(0, space.gallery, step)]


def _tiles(request: PassRequest, queries: Queries, limits: Settings) -> WorkItem:
    """Queries with few relevant items, or none."""
    mates, most = request.view.mates, limits.mates
    if request.folds is not None:
        share = max(float(request.folds.queries.mean()), 1 / len(request.folds.queries))
        most = max(1, min(most, int(limits.split_cells / request.folds.columns / share)))
    name = "count observed tiles"
    if request.observers is None:
        name = COUNTING[method_of(request.space, mates[queries.rows], limits)]
        name = "filter" if name == "symmetric" else name  # no worker has both sides of a tile
    blocks = cut(mates, queries.no_mate_rows, limits.query_rows, most)
    blocks += cut(mates, queries.rows, limits.query_rows, most)
    return WorkItem("spread tiles", blocks, request.folds, worker=name)


def _rows(request: PassRequest, rows: Rows, limits: Settings) -> WorkItem:
    """Queries of which a worker does whole rows, as it would if there was nobody else."""
    tall = max(1, limits.task_pairs // request.space.gallery)
    if request.device == "cuda":
        tall = max(tall, GPU_ROWS if request.observers is None else OBSERVED_ROWS)
    return WorkItem("spread rows", cut(request.view.mates, rows, tall, limits.mates))
