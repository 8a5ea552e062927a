"""The CPU engine: BLAS tiles of distances turned into counts, in one of two ways.

Where a query has few relevant items, their distances are computed first, in integers, and every
tile is counted against them: memory is one tile for each thread plus the mates of the queries in
flight. Where it has many (the coarse levels of a hierarchy), looking each item up among them costs
more than sorting the row. The counts are the same integers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.engine import kernels
from truerank.engine.counts import Counts, Shares, TieGroups
from truerank.errors import ExactnessError
from truerank.pairs import PairList
from truerank.relevance import View
from truerank.space import Distances, Rows, Space

__all__ = ["Workspace", "count_block", "sort_rows"]


def count_block(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[tuple[int, int]],
    pool: ThreadPoolExecutor,
    threads: int,
    tick: Callable[[int], None],
    shares: Shares | None = None,
) -> TieGroups:
    """Few relevant items: their distances first, then every tile counted against them.

    `tick` hears of finished pairs, in the calling thread.
    """
    pairs = view.block(rows)
    mates = space.pairs(rows[pairs.relevant.query], pairs.relevant.item)
    total = Counts.frame(pairs.relevant.query, mates, pairs.grade, len(rows), view.grades)
    if shares is not None:
        total.split_by(shares, pairs.relevant, mates, pairs.grade)
    distances = space.block(rows)
    remaining = deque(tiles)
    finished: deque[int] = deque()

    def work() -> Counts:
        counts = total.empty_copy()
        while True:
            try:
                tile = remaining.popleft()
            except IndexError:
                return counts
            _count(counts, rows, distances(*tile), tile, shares)
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
    gone = space.pairs(rows[excluded.query], excluded.item)
    return _finish(total, rows, excluded, gone, space, shares)


def _count(
    counts: Counts,
    rows: Rows,
    distances: Distances,
    tile: tuple[int, int],
    shares: Shares | None,
) -> None:
    if shares is None:
        kernels.count_tile(distances, counts.offsets, counts.distance, counts.between, counts.equal)
        return
    kernels.split_tile(
        distances,
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
        shares.queries[rows],
        shares.item[slice(*tile)],
        counts.split,
    )


class Workspace:
    """Large arrays by name, used again for block after block: fresh memory is slow to touch."""

    def __init__(self) -> None:
        self._held: dict[str, npt.NDArray[Any]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: type) -> npt.NDArray[Any]:
        """An array of this shape with anything in it."""
        size = math.prod(shape)
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = np.empty(size, dtype)
        return self._held[name][:size].reshape(shape)


def sort_rows(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[tuple[int, int]],
    workspace: Workspace,
    apart: tuple[Rows, View, Shares] | None = None,
) -> TieGroups:
    """Many relevant items: whole rows of distances, sorted once for all grades.

    The result lies in the workspace. `apart`, some of the rows (by their number in the block) and a
    view in which they have few relevant items, is counted by share from the same distances.
    """
    tile = space.block(rows)
    distances = workspace.take("distances", (len(rows), space.gallery), np.float64)
    for start, stop in tiles:
        distances[:, start:stop] = tile(start, stop)
    grade = view.grade_rows(rows)
    excluded = view.exclusions.pairs(rows, view.items)
    grade[excluded.query, excluded.item] = 0
    _check_some(space, rows, distances, grade)
    counted = None
    if apart is not None:
        some, other, shares = apart
        whole = distances if len(some) == len(rows) else distances[some]
        counted = (some, _count_rows(space, rows[some], whole, other, shares))
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
    return TieGroups(offsets, before, size, graded, space.gallery - gone, counted=counted)


def _count_rows(
    space: Space, rows: Rows, distances: Distances, view: View, shares: Shares
) -> TieGroups:
    """Whole rows of distances counted against the few relevant items of another view."""
    pairs = view.block(rows)
    mates = distances[pairs.relevant.query, pairs.relevant.item]
    counts = Counts.frame(pairs.relevant.query, mates, pairs.grade, len(rows), view.grades)
    counts.split_by(shares, pairs.relevant, mates, pairs.grade)
    _count(counts, rows, distances, (0, space.gallery), shares)
    excluded = pairs.excluded
    gone = distances[excluded.query, excluded.item]
    return _finish(counts, rows, excluded, gone, space, shares)


def _check_some(
    space: Space, rows: Rows, distances: Distances, grade: npt.NDArray[np.int8]
) -> None:
    """One mate of each query again, in integers: all of them would cost more than the product."""
    last = grade.shape[1] - 1 - np.argmax(grade[:, ::-1] > 0, axis=1)
    exact = space.pairs(rows, last)
    if not np.array_equal(distances[np.arange(len(rows)), last], exact):
        raise ExactnessError(
            "a distance differs from integer arithmetic: the matrix product of this machine is not "
            "exact in float64; use another BLAS or device='reference'."
        )


def _finish(
    counts: Counts,
    rows: Rows,
    excluded: PairList,
    distances: Distances,
    space: Space,
    shares: Shares | None,
) -> TieGroups:
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
    if shares is not None:
        kernels.split_pairs(
            excluded.query,
            excluded.item,
            distances,
            -1,
            counts.offsets,
            counts.distance,
            shares.queries[rows],
            shares.item,
            counts.split,
        )
    gone = np.bincount(excluded.query, minlength=len(counts.offsets) - 1)
    wanted = None if shares is None else shares.queries[rows]
    return counts.tie_groups(space.gallery - gone, wanted)
