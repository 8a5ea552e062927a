"""The CPU engine: integer distances of the mates first, then BLAS tiles turned into counts.

Memory is one tile for each thread plus the mates of the queries in flight, whatever the gallery's
size. Each thread counts its own tiles and the counts are added at the end of the block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from truerank.engine import kernels
from truerank.engine.counts import Counts, TieGroups
from truerank.space import Rows, Space
from truerank.task import BlockPairs

__all__ = ["count_block"]


def count_block(
    space: Space,
    rows: Rows,
    pairs: BlockPairs,
    tiles: list[tuple[int, int]],
    pool: ThreadPoolExecutor,
    threads: int,
    tick: Callable[[int], None],
) -> TieGroups:
    """Tie groups of these queries; `tick` hears of finished pairs, in the calling thread."""
    mates = space.pairs(rows[pairs.relevant.query], pairs.relevant.item)
    total = Counts.frame(pairs.relevant.query, mates, len(rows))
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
    kernels.count_pairs(
        excluded.query,
        space.pairs(rows[excluded.query], excluded.item),
        -1,
        total.offsets,
        total.distance,
        total.between,
        total.equal,
    )
    gone = np.bincount(excluded.query, minlength=len(rows))
    return total.tie_groups(space.gallery - gone)
