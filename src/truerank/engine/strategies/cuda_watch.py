"""Watched on GPUs: rows that stay on the device while an audience sees them.

With tie groups, threads show the rows of a block while the device counts the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

from truerank.core.groups import Block, LocatedGroups, SplitGroups
from truerank.engine import cuda
from truerank.engine.context import PassContext
from truerank.engine.schedule import WorkItem
from truerank.engine.threads import Workspace, show_all
from truerank.engine.watch import Audience
from truerank.space import Rows

__all__ = ["CudaShow", "CudaWatch"]


class CudaWatch:
    """See Strategy."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        gpus, threads = context.gpus, context.request.threads
        alone = [rows for rows in item.blocks if not context.has_mates(rows)]
        few = (rows for rows in item.blocks if context.has_mates(rows))
        lonely = (Block(rows, gpus.no_groups(rows), SplitGroups.none()) for rows in alone)
        blocks = chain(lonely, gpus.tie_groups(few, distances=True, shares=item.shares))
        yield from _shown(gpus, blocks, item.shown, context.audience, threads, context.saw)


class CudaShow:
    """The same without tie groups."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        gpus, audience = context.gpus, context.audience

        def look(rows: Rows, _: Workspace) -> None:
            for rest in gpus.show(rows, audience):
                rest()

        show_all(item.blocks, gpus.showing, look)
        yield from ()


def _shown(
    gpus: cuda.Engine,
    blocks: Iterator[Block],
    height: int,
    audience: Audience,
    threads: int,
    saw: Callable[[Rows], None],
) -> Generator[Block, None, None]:
    """Those of these blocks that have groups, while threads show the rows of all to watchers."""
    looks: deque[tuple[Rows, Future[list[Future[None]]]]] = deque()

    def finish() -> None:
        while looks:
            rows, look = looks.popleft()
            for rest in look.result():
                rest.result()
            saw(rows)

    with ThreadPoolExecutor(threads) as pool, ThreadPoolExecutor(gpus.showing) as crowd:

        def show(rows: Rows, groups: LocatedGroups) -> list[Future[None]]:
            return [pool.submit(rest) for rest in gpus.show_rows(rows, audience, groups)]

        try:
            for block in blocks:
                finish()  # what is shown is kept no longer than that
                rows, groups = block.rows, block.groups
                for start in range(0, len(rows), height):
                    stop = min(start + height, len(rows))
                    part = groups.part(start, stop)
                    looks.append((rows[start:stop], crowd.submit(show, rows[start:stop], part)))
                if len(groups.size):
                    yield block
            finish()
        finally:
            for _, look in looks:  # on an interrupt, what has not begun is not begun
                look.cancel()
