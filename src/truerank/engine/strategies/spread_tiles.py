"""Spread tiles: tasks of some queries x some of the gallery, on a cluster, added up as they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cluster import Call, Cluster, Held
from truerank.core.groups import Block
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.schedule import WorkItem
from truerank.engine.shipment import ship
from truerank.engine.spreading import ranges
from truerank.engine.threads import Tile
from truerank.space import Rows

__all__ = ["SpreadTiles"]

AHEAD = 2
"""Blocks whose counts are begun before their first tile is asked for."""


@dataclass(eq=False)
class _Counted:
    """A block of queries that is being counted."""

    rows: Rows
    counts: Counts
    candidates: Rows
    key: str
    open: npt.NDArray[np.bool_]
    """Parts of the gallery that have not been counted."""
    state: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = self.counts.state() | {"open": self.open}


class SpreadTiles:
    """See Strategy. What workers count and see is added up here, in whatever order it comes."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        cluster, request = context.cluster, context.request
        parts = ranges(request.space, context.limits)
        held = ship(request, context.limits, cluster)
        if not request.groups:
            yield from self._observe(item, context, parts, held)
            return
        begun = _Begun(item, context, parts, held)
        with closing(cluster.gather(begun.calls())) as answers:
            for (block, part), (state, seen) in answers:
                begun.checkpoint.release(block.key)  # while some arrays are added, and others not
                for name, array in state.items():
                    block.state[name] += array
                block.open[part] = False
                begun.checkpoint.hold(block.key, block.state)
                if request.observers is not None:
                    request.observers.add(block.rows, seen)
                context.tick(len(block.rows) * (parts[part][1] - parts[part][0]))
                if not block.open.any():
                    begun.checkpoint.release(block.key)
                    if context.has_mates(block.rows):
                        yield begun.finish(block)
                if begun.checkpoint.due():
                    begun.checkpoint.save()
        for block in begun.complete:
            if context.has_mates(block.rows):
                yield begun.finish(block)

    def _observe(
        self,
        item: WorkItem,
        context: PassContext,
        parts: list[Tile],
        held: tuple[Held | None, ...],
    ) -> Generator[Block, None, None]:
        """Tasks for observers only."""
        calls = (
            Call(rows, "truerank.engine.remote:observe_tiles", held, (rows, item.worker, part))
            for rows in item.blocks
            for part in parts
        )
        with closing(context.cluster.gather(calls)) as answers:
            for rows, seen in answers:
                context.observers.add(rows, seen)
        yield from ()


class _Begun:
    """The blocks that have been begun, and the tasks that they need."""

    def __init__(
        self,
        item: WorkItem,
        context: PassContext,
        parts: list[Tile],
        held: tuple[Held | None, ...],
    ) -> None:
        self._item, self._view, self._parts, self._held = item, context.request.view, parts, held
        self._cluster: Cluster = context.cluster
        self._tick = context.tick
        self.checkpoint = context.kept
        self.complete: list[_Counted] = []
        """Blocks of which an earlier run had counted everything."""

    def calls(self) -> Iterator[Call]:
        """The tasks of every block, in the order of the blocks."""
        rows = iter(self._item.blocks)
        begun: deque[tuple[Rows, Any]] = deque()
        while True:
            for some in islice(rows, AHEAD + 1 - len(begun)):
                call = Call(None, "truerank.engine.remote:begin", self._held, (some,))
                begun.append((some, self._cluster.start(call)))
            if not begun:
                return
            some, reference = begun.popleft()
            block = self._begin(some, *self._cluster.answer(reference))
            if not block.open.any():
                self.complete.append(block)
            for part in np.flatnonzero(block.open).tolist():
                given = (block.rows, self._item.worker, self._parts[part])
                yield Call(
                    (block, part),
                    "truerank.engine.remote:add_tiles",
                    self._held,
                    given,
                    (reference,),
                )

    def _begin(self, rows: Rows, counts: Counts, candidates: Rows) -> _Counted:
        """Go on from what an earlier run left of these queries."""
        key = f"spread-{self._parts[0][1]}-{counts.digest()}"
        block = _Counted(rows, counts, candidates, key, np.ones(len(self._parts), bool))
        self.checkpoint.restore(key, block.state)
        sizes = np.diff(np.array(self._parts), axis=1).ravel()
        already = int(sizes[~block.open].sum())
        if already:
            self._tick(len(rows) * already)
        return block

    def finish(self, block: _Counted) -> Block:
        """The tie groups of queries that have met the whole gallery."""
        excluded = self._view.exclusions.pairs(block.rows, self._view.items)
        return block.counts.block(block.rows, block.candidates, excluded, self._item.folds)
