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

import numpy as np

from truerank.engine import kernels
from truerank.engine.counts import Counts, TieGroups
from truerank.errors import ExactnessError
from truerank.pairs import PairList
from truerank.relevance import View
from truerank.space import Distances, Rows, Space

__all__ = ["count_block", "sort_rows"]


def count_block(
    space: Space,
    rows: Rows,
    view: View,
    tiles: list[tuple[int, int]],
    pool: ThreadPoolExecutor,
    threads: int,
    tick: Callable[[int], None],
) -> TieGroups:
    """Few relevant items: their distances first, then every tile counted against them.

    `tick` hears of finished pairs, in the calling thread.
    """
    pairs = view.block(rows)
    mates = space.pairs(rows[pairs.relevant.query], pairs.relevant.item)
    total = Counts.frame(pairs.relevant.query, mates, pairs.grade, len(rows), view.grades)
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
            kernels.count_tile(
                distances(*tile), counts.offsets, counts.distance, counts.between, counts.equal
            )
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


def sort_rows(space: Space, rows: Rows, view: View, tiles: list[tuple[int, int]]) -> TieGroups:
    """Many relevant items: whole rows of distances, sorted once for all grades."""
    pairs = view.block(rows)
    tile = space.block(rows)
    distances = np.empty((len(rows), space.gallery))
    for start, stop in tiles:
        distances[:, start:stop] = tile(start, stop)
    relevant, excluded = pairs.relevant, pairs.excluded
    mates = distances[relevant.query, relevant.item]
    apart = distances[excluded.query, excluded.item]
    _check_some(space, rows, relevant, mates)
    distances.sort(axis=1)
    counts = Counts.frame(relevant.query, mates, pairs.grade, len(rows), view.grades)
    kernels.count_sorted(distances, counts.offsets, counts.distance, counts.between, counts.equal)
    return _finish(counts, excluded, apart, space)


def _check_some(space: Space, rows: Rows, pairs: PairList, distances: Distances) -> None:
    """One mate of each query again, in integers: all of them would cost more than the product."""
    last = np.append(np.flatnonzero(np.diff(pairs.query)), len(pairs) - 1)
    exact = space.pairs(rows[pairs.query[last]], pairs.item[last])
    if not np.array_equal(distances[last], exact):
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
