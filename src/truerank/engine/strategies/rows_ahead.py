"""Whole rows of distances: each thread takes a block of queries, ahead of the caller."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from itertools import islice
from typing import TypeVar

import numpy as np

from truerank.engine.context import PassContext
from truerank.engine.schedule import WorkItem
from truerank.engine.threads import Tile, Workspace
from truerank.errors import ExactnessError
from truerank.space import Distances, Rows, Space

__all__ = ["check_pairs", "rows_ahead", "whole_rows"]

Found = TypeVar("Found")


def rows_ahead(
    item: WorkItem, context: PassContext, count: Callable[[Rows, Workspace], Found]
) -> Generator[Found, None, None]:
    """What is counted of each block, in order; it may lie in the block's own workspace."""
    pool, keep = context.pool, context.request.keep
    blocks = iter(item.blocks)
    ahead: deque[tuple[Rows, Workspace, Future[Found]]] = deque()
    free: list[Workspace] = []

    def begin(some: int) -> None:
        for block in islice(blocks, some):
            workspace = free.pop() if free else Workspace()
            ahead.append((block, workspace, pool.submit(count, block, workspace)))

    try:
        begin(context.request.threads)
        while ahead:
            block, workspace, work = ahead.popleft()
            found = work.result()
            begin(1)
            if context.has_mates(block):
                yield found
            if not keep:
                free.append(workspace)
            context.advance(block)
    finally:
        for _, _, work in ahead:  # on an interrupt, what has not begun is not begun
            work.cancel()


def whole_rows(space: Space, rows: Rows, tiles: list[Tile], workspace: Workspace) -> Distances:
    """Distances of some queries to the whole gallery; they lie in the workspace."""
    distances = workspace.array("distances", (len(rows), space.gallery), np.float64)
    if space.holds_gallery:  # the product is written where it belongs
        space.fill_rows(rows, distances)
        return distances
    tile = space.block(rows)
    for start, stop in tiles:
        distances[:, start:stop] = tile(start, stop)
    return distances


def check_pairs(space: Space, query: Rows, item: Rows, distances: Distances) -> None:
    """Raise unless these distances are those of integer arithmetic."""
    if not np.array_equal(distances, space.pairs(query, item)):
        raise ExactnessError(
            "a distance differs from integer arithmetic: the matrix product of this machine is not "
            "exact in float64; use another BLAS or device='reference'."
        )
