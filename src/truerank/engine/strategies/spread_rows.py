"""Spread rows: tasks of some queries x the whole gallery, each done by a worker as if alone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from truerank.cluster import Call
from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.schedule import WorkItem
from truerank.engine.shipment import ship

__all__ = ["SpreadRows"]


class SpreadRows:
    """See Strategy. Whole rows, in a worker's own engine, on the CPU or on its GPU."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        request, cluster = context.request, context.cluster
        held = ship(request, context.limits, cluster)
        gpu = request.device == "cuda"
        calls = (
            Call(rows, "truerank.engine.remote:complete_rows", held, (rows,), gpu=gpu)
            for rows in item.blocks
        )
        with closing(cluster.gather(calls)) as answers:
            for rows, (blocks, seen) in answers:
                if request.observers is not None:
                    request.observers.add(rows, seen)
                yield from blocks
                context.advance(rows)
