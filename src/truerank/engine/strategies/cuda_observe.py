"""Observed on GPUs: rows that stay on the device while observers see them.

With tie groups, threads go through the rows of a block while the device counts the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

from truerank.core.groups import Block, LocatedGroups, SplitGroups
from truerank.engine import cuda
from truerank.engine.context import PassContext
from truerank.engine.observers import Observers
from truerank.engine.schedule import WorkItem
from truerank.engine.threads import Workspace, run_in_threads
from truerank.space import Rows

__all__ = ["CudaCountObserved", "CudaObserve"]


class CudaCountObserved:
    """Few relevant items, counted by GPUs, while observers see the rows."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        gpus, threads = context.gpus, context.request.threads
        no_mates = [rows for rows in item.blocks if not context.has_mates(rows)]
        few = (rows for rows in item.blocks if context.has_mates(rows))
        without_mate = (Block(rows, gpus.no_groups(rows), SplitGroups.none()) for rows in no_mates)
        blocks = chain(without_mate, gpus.tie_groups(few, distances=True, folds=item.folds))
        yield from _observed(
            gpus, blocks, item.observed, context.observers, threads, context.advance
        )


class CudaObserve:
    """See Strategy. Rows for observers only, without tie groups."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        gpus, observers = context.gpus, context.observers

        def observe(rows: Rows, _: Workspace) -> None:
            for deferred in gpus.observe(rows, observers):
                deferred()

        run_in_threads(item.blocks, gpus.observing, observe)
        yield from ()


def _observed(
    gpus: cuda.Engine,
    blocks: Iterator[Block],
    height: int,
    observers: Observers,
    threads: int,
    advance: Callable[[Rows], None],
) -> Generator[Block, None, None]:
    """The blocks that have groups, while threads let observers see the rows of all blocks."""
    under_way: deque[tuple[Rows, Future[list[Future[None]]]]] = deque()

    def finish() -> None:
        while under_way:
            rows, pending = under_way.popleft()
            for deferred in pending.result():
                deferred.result()
            advance(rows)

    with ThreadPoolExecutor(threads) as pool, ThreadPoolExecutor(gpus.observing) as observing:

        def observe(rows: Rows, groups: LocatedGroups) -> list[Future[None]]:
            return [
                pool.submit(deferred) for deferred in gpus.observe_rows(rows, observers, groups)
            ]

        try:
            for block in blocks:
                finish()  # what is observed is kept no longer than that
                rows, groups = block.rows, block.groups
                for start in range(0, len(rows), height):
                    stop = min(start + height, len(rows))
                    part = groups.part(start, stop)
                    under_way.append(
                        (rows[start:stop], observing.submit(observe, rows[start:stop], part))
                    )
                if len(groups.size):
                    yield block
            finish()
        finally:
            for _, pending in under_way:  # on an interrupt, what has not begun is not begun
                pending.cancel()
