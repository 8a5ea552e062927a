"""The CPU engine: BLAS tiles of distances turned into counts, in one of two ways.

Where a query has few relevant items, their distances are computed first, in integers, and every
tile is counted against them: memory is one tile for each thread plus the mates of the queries in
flight. Where it has many (the coarse levels of a hierarchy), looking each item up among them costs
more than sorting the row. The counts are the same integers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import cache

import numpy as np

from truerank.engine import kernels
from truerank.engine.counts import Counts, TieGroups
from truerank.engine.watch import Apart, Audience
from truerank.engine.workspace import Workspace
from truerank.errors import ExactnessError
from truerank.pairs import PairList
from truerank.relevance import View
from truerank.space import Distances, Rows, Space

__all__ = ["Workspace", "count_block", "count_rows", "sort_rows", "whole_rows"]


def count_block(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[tuple[int, int]],
    pool: ThreadPoolExecutor,
    threads: int,
    tick: Callable[[int], None],
    audience: Audience | None = None,
) -> TieGroups:
    """Few relevant items, or none: their distances first, then every tile counted against them.

    `tick` hears of finished pairs, in the calling thread.
    """
    pairs = view.block(rows)
    mates = space.pairs(rows[pairs.relevant.query], pairs.relevant.item)
    total = Counts.frame(pairs.relevant.query, mates, pairs.grade, len(rows), view.grades)
    distances = space.block(rows)
    apart = Apart(pairs.excluded)
    remaining = deque(tiles)
    finished: deque[int] = deque()

    def work() -> Counts:
        counts = total.empty_copy()
        while True:
            try:
                tile = remaining.popleft()
            except IndexError:
                return counts
            near = distances(*tile)
            kernels.count_tile(near, counts.offsets, counts.distance, counts.between, counts.equal)
            if audience is not None:
                audience.see(rows, near, apart, first=tile[0])
            finished.append(tile[1] - tile[0])

    workers = [pool.submit(work) for _ in range(min(threads, len(tiles)))]
    try:
        pending = set(workers)
        while pending:
            pending = wait(pending, timeout=0.1).not_done
            while finished:
                tick(len(rows) * finished.popleft())
    finally:
        remaining.clear()  # on an interrupt the threads stop after the tile they are in
    for worker in workers:
        total = total + worker.result()
    excluded = pairs.excluded
    return _finish(total, excluded, space.pairs(rows[excluded.query], excluded.item), space)


def whole_rows(
    space: Space, rows: Rows, tiles: list[tuple[int, int]], workspace: Workspace
) -> Distances:
    """These queries against the whole gallery, in the workspace."""
    tile = space.block(rows)
    distances = workspace.take("distances", (len(rows), space.gallery), np.float64)
    for start, stop in tiles:
        distances[:, start:stop] = tile(start, stop)
    return distances


def count_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[tuple[int, int]],
    workspace: Workspace,
    audience: Audience,
) -> TieGroups:
    """Few relevant items, or none, and watchers that look at whole rows."""
    distances = whole_rows(space, rows, tiles, workspace)
    pairs = view.block(rows)
    relevant, excluded = pairs.relevant, pairs.excluded
    mates = distances[relevant.query, relevant.item]
    held, one = np.unique(relevant.query, return_index=True)
    _check_pairs(space, rows[held], relevant.item[one], mates[one])
    counts = Counts.frame(relevant.query, mates, pairs.grade, len(rows), view.grades)
    gone = np.bincount(excluded.query, minlength=len(rows))

    @cache
    def groups() -> TieGroups:
        kernels.count_tile(distances, counts.offsets, counts.distance, counts.between, counts.equal)
        return counts.tie_groups(space.gallery - gone)

    audience.see(rows, distances, Apart(excluded), groups=groups)
    return groups()


def sort_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[tuple[int, int]],
    workspace: Workspace,
    audience: Audience | None = None,
) -> TieGroups:
    """Many relevant items: whole rows of distances, sorted once for all grades.

    The result lies in the workspace.
    """
    distances = whole_rows(space, rows, tiles, workspace)
    grade = view.grade_rows(rows)
    excluded = view.exclusions.pairs(rows, view.items)
    grade[excluded.query, excluded.item] = 0
    # One mate of each query again, in integers: all of them would cost more than the product.
    last = grade.shape[1] - 1 - np.argmax(grade[:, ::-1] > 0, axis=1)
    _check_pairs(space, rows, last, distances[np.arange(len(rows)), last])
    distances[excluded.query, excluded.item] = np.inf  # behind everything, and not ranked
    keys = workspace.take("keys", distances.shape, np.int64)
    if space.integral:
        kernels.pack(distances, grade, keys)
        keys.sort(axis=1)
    else:
        kernels.rank_grades(distances, np.argsort(distances, axis=1), grade, keys)
    most = view.mates[rows]
    first = np.cumsum(most) - most
    count = np.zeros(len(rows), np.int64)
    groups = int(most.sum())
    before = workspace.take("before", (groups,), np.int64)
    size = workspace.take("size", (groups,), np.int64)
    graded = workspace.take("graded", (groups, view.grades), np.int32)
    kernels.walk(keys, first, count, before, size, graded)
    gone = np.bincount(excluded.query, minlength=len(rows))
    offsets = np.concatenate([[0], np.cumsum(count)])
    if offsets[-1] < len(before):  # some relevant items tie with each other
        owner = np.repeat(np.arange(len(rows)), count)
        kept = first[owner] + np.arange(offsets[-1]) - offsets[owner]
        before, size, graded = before[kept], size[kept], graded[kept]
    ranked = TieGroups(offsets, before, size, graded, space.gallery - gone)
    if audience is None:
        return ranked
    owner = np.repeat(np.arange(len(rows)), count)
    if space.integral:
        distance = (keys[owner, before] >> kernels.GRADE_BITS).astype(np.float64)
    else:
        distance = np.sort(distances, axis=1)[owner, before]
    ranked = replace(ranked, distance=distance)
    audience.see(rows, distances, Apart(excluded), groups=lambda: ranked)
    return ranked


def _check_pairs(space: Space, query: Rows, item: Rows, distances: Distances) -> None:
    if not np.array_equal(distances, space.pairs(query, item)):
        raise ExactnessError(
            "a distance differs from integer arithmetic: the matrix product of this machine is not "
            "exact in float64; use another BLAS or device='reference'."
        )


def _finish(counts: Counts, excluded: PairList, distances: Distances, space: Space) -> TieGroups:
    """Take the excluded pairs out again."""
    kernels.count_pairs(
        excluded.query,
        distances,
        -1,
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
    )
    gone = np.bincount(excluded.query, minlength=len(counts.offsets) - 1)
    return counts.tie_groups(space.gallery - gone)
