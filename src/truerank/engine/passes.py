"""Passes: a request in, blocks out. Schedules are made and run until no query is left."""

from __future__ import annotations

from collections.abc import Callable, Generator

from truerank.checkpoint import Checkpoint
from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.queries import Queries
from truerank.engine.request import Request
from truerank.engine.schedule import schedule
from truerank.engine.strategies import STRATEGIES, facts_of
from truerank.settings import current_settings

__all__ = ["Progress", "run"]

Progress = Callable[[int, int], None]
"""Hears of the pairs that are done, and of all."""


def run(
    request: Request, checkpoint: Checkpoint | None = None, progress: Progress | None = None
) -> Generator[Block, None, None]:
    """Yield the blocks of a pass; whoever may stop early must close it."""
    limits = current_settings()
    left = Queries.of(request)
    spent: frozenset[str] = frozenset()
    tick = _ticking(left, request.space.gallery, progress)
    with PassContext(request, limits, checkpoint or Checkpoint(), tick) as context:
        while len(left):
            plan = schedule(request, left, limits, facts_of(context), spent)
            left = plan.left
            for item in plan.items:
                undone = yield from STRATEGIES[item.strategy].run(item, context)
                if undone is not None and len(undone):
                    spent |= {item.strategy}
                    left = left.and_rows(undone)


def _ticking(queries: Queries, gallery: int, progress: Progress | None) -> Callable[[int], None]:
    """Adds up the pairs that are done, with those of queries that had been seen before."""
    done = queries.behind * gallery
    total = done + len(queries) * gallery

    def tick(pairs: int) -> None:
        nonlocal done
        done += pairs
        if progress is not None:
            progress(done, total)

    if done:
        tick(0)
    return tick
