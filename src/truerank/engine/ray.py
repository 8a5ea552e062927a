"""Passes on a Ray cluster: the tasks of a pass, what is sent to workers, what workers do.

Rows that can be counted tile by tile become tasks of some queries x some of the gallery. Whole
rows and all work of GPUs become tasks of some queries x the whole gallery. The tasks do not
depend on the cluster, so a run can be resumed on another one. The connection, which runs the
tasks of dead workers again, is _util/cluster.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from truerank._util.checkpoint import Checkpoint
from truerank._util.cluster import Call, Cluster, Held
from truerank._util.settings import Settings, settings
from truerank._util.threads import Tile, single_threaded_blas
from truerank.core.jackknife import GalleryFolds
from truerank.core.tie_groups import Block
from truerank.distance.base import Rows, Space
from truerank.distance.probe import probe
from truerank.engine.counts import Counts
from truerank.engine.loops import begin_counts
from truerank.engine.reducers import Observers, Part
from truerank.engine.schedule import (
    COUNTING,
    PassContext,
    PassRequest,
    Queries,
    Schedule,
    WorkItem,
    cut,
    even,
    method_of,
)
from truerank.task.relevance import View

# Shipments: a pass as workers of a cluster get it, its parts put there once and kept by them.


@dataclass(frozen=True)
class Outline:
    """What is small about a pass."""

    device: str
    groups: bool
    some: bool
    """Whether the pass looks at some queries only."""
    limits: Settings


Split = tuple[View, npt.NDArray[np.bool_]]
Parts = tuple[Space, View, GalleryFolds | None, Split | None, Observers | None, Outline]
"""A pass, in the order in which a task is given its parts."""

_probed: WeakSet[Space] = WeakSet()
"""Spaces whose tiles this process has checked."""


def ship(request: PassRequest, limits: Settings, cluster: Cluster) -> tuple[Held | None, ...]:
    """Put the parts of a request there; observers arrive empty in every task."""
    folds, split, observers = request.folds, request.split_view, request.observers
    return (
        cluster.put(request.space),
        cluster.put(request.view),
        None if folds is None else cluster.put(folds),
        None if split is None else cluster.put(split),
        None if observers is None else cluster.put(observers, fresh=True),
        cluster.put(
            Outline(request.device, request.groups, request.only is not None, limits), fresh=True
        ),
    )


def unpack(parts: Parts, rows: Rows) -> tuple[PassRequest, Settings]:
    """The request of a worker: the same pass for these queries alone, in one thread.

    What a machine multiplies is checked on the user's rows before its first task counts.
    """
    space, view, folds, split_view, observers, outline = parts
    if space not in _probed:
        probe(space)
        _probed.add(space)
    others = np.ones(view.queries, bool)
    others[rows] = False
    request = PassRequest(
        view,
        space,
        outline.device,
        1,
        groups=outline.groups,
        observers=observers,
        seen=others,
        only=rows if outline.some else None,
        folds=folds,
        split_view=split_view,
    )
    return request, outline.limits


# The schedule of a pass that a cluster makes: which tasks there are. Nothing is run here.


GPU_ROWS, OBSERVED_ROWS = 1 << 16, 1 << 14
"""Queries of a task for a GPU, which gets the rows anew for each: as many as it counts at a time,
and fewer where observers come back with what they saw."""


def spread(request: PassRequest, left: Queries, limits: Settings) -> Schedule:
    """Tasks for all the queries that are left."""
    observers = request.observers
    whole = request.device != "cpu" or (observers is not None and observers.whole_rows)
    every = np.concatenate([left.unmated_rows, left.rows])
    if whole or request.splitting:
        items = [_rows(request, every, limits)]
    elif not request.groups:
        found = even(every, limits.query_rows, 1)
        items = [WorkItem("spread tiles", found, worker="observe tiles")]
    else:
        few = np.asarray(request.view.mates[left.rows] <= limits.sort_share * request.space.gallery)
        if request.only is not None:
            few[:] = True
        tiled, others = Queries(left.rows[few], left.unmated_rows), left.rows[~few]
        items = [_tiles(request, tiled, limits), _rows(request, others, limits)]
    return Schedule(tuple(item for item in items if item.blocks), Queries.none())


def ranges(space: Space, limits: Settings) -> list[tuple[int, int]]:
    """The gallery, from start to stop, in parts that one task of tiles goes through."""
    tiles = max(1, limits.task_pairs // (limits.query_rows * limits.gallery_rows))
    step = tiles * limits.gallery_rows
    return [(start, min(start + step, space.gallery)) for start in range(0, space.gallery, step)]


def _tiles(request: PassRequest, queries: Queries, limits: Settings) -> WorkItem:
    """Queries with few relevant items, or none."""
    mates, most = request.view.mates, limits.mates
    if request.folds is not None:
        share = max(float(request.folds.queries.mean()), 1 / len(request.folds.queries))
        most = max(1, min(most, int(limits.split_cells / request.folds.columns / share)))
    name = "count observed tiles"
    if request.observers is None:
        name = COUNTING[method_of(request.space, mates[queries.rows], limits)]
        name = "filter" if name == "symmetric" else name  # no worker has both sides of a tile
    blocks = cut(mates, queries.unmated_rows, limits.query_rows, most)
    blocks += cut(mates, queries.rows, limits.query_rows, most)
    return WorkItem("spread tiles", blocks, request.folds, worker=name)


def _rows(request: PassRequest, rows: Rows, limits: Settings) -> WorkItem:
    """Queries of which a worker does whole rows, as it would if there was nobody else."""
    tall = max(1, limits.task_pairs // request.space.gallery)
    if request.device == "cuda":
        tall = max(tall, GPU_ROWS if request.observers is None else OBSERVED_ROWS)
    return WorkItem("spread rows", cut(request.view.mates, rows, tall, limits.mates))


# Spread rows: tasks of some queries x the whole gallery, each done by a worker as if alone.


class SpreadRows:
    """See Strategy. Whole rows, in a worker's own engine, on the CPU or on its GPU."""

    def run(self, item: WorkItem, context: PassContext) -> Generator[Block, None, None]:
        """See Strategy."""
        request, cluster = context.request, context.cluster
        held = ship(request, context.limits, cluster)
        gpu = request.device == "cuda"
        calls = (
            Call(rows, "truerank.engine.ray:complete_rows", held, (rows,), gpu=gpu)
            for rows in item.blocks
        )
        with closing(cluster.gather(calls)) as answers:
            for rows, (blocks, seen) in answers:
                if request.observers is not None:
                    request.observers.add(rows, seen)
                yield from blocks
                context.advance(rows)


# Spread tiles: tasks of some queries x some of the gallery, on a cluster, added up as they end.


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
            Call(rows, "truerank.engine.ray:observe_tiles", held, (rows, item.worker, part))
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
                call = Call(None, "truerank.engine.ray:begin", self._held, (some,))
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
                    "truerank.engine.ray:add_tiles",
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


# What workers of a cluster do: begin counts, add tiles to them, and complete whole rows.


def begin(parts: Parts, rows: Rows) -> tuple[Counts, Rows]:
    """Counts of some queries with nothing counted yet, and how many items each can rank."""
    request, _ = unpack(parts, rows)
    return begin_counts(request.space, rows, request.view, request.folds)


def add_tiles(
    parts: Parts, rows: Rows, strategy: str, items: Tile, begun: tuple[Counts, Rows]
) -> tuple[dict[str, Any], list[Part]]:
    """Count some queries against a part of the gallery: the counts, and what observers saw."""
    from truerank.engine.runner import TILED

    request, limits = unpack(parts, rows)
    view, frame = request.view, begun[0]
    if strategy == "filter" and request.space.single is None:
        strategy = "count"  # this machine's float32 products are not what their bound says
    counts = frame.empty_copy()
    with (
        settings(**asdict(limits)),
        single_threaded_blas(),
        _context(request, limits, items) as context,
    ):
        item = WorkItem(strategy, (rows,), request.folds)
        excluded = view.exclusions.pairs(rows, view.items)
        add = TILED[strategy].prepare(item, context)(rows, frame, excluded)()
        for tile in context.tiles:
            add(counts, tile)
    return counts.state(), _seen(request, rows)


def observe_tiles(parts: Parts, rows: Rows, strategy: str, items: Tile) -> list[Part]:
    """Let observers see some queries x a part of the gallery."""
    from truerank.engine.runner import STRATEGIES

    request, limits = unpack(parts, rows)
    with settings(**asdict(limits)), _context(request, limits, items) as context:
        for _ in STRATEGIES[strategy].run(WorkItem(strategy, (rows,)), context):
            pass
    return _seen(request, rows)


def complete_rows(parts: Parts, rows: Rows) -> tuple[list[Block], list[Part]]:
    """The tie groups of some queries from their whole rows, and what observers saw."""
    from truerank.engine.runner import run

    request, limits = unpack(parts, rows)
    with settings(**asdict(limits)), closing(run(request)) as blocks:
        found = list(blocks)
    return found, _seen(request, rows)


def _context(request: PassRequest, limits: Settings, items: Tile) -> PassContext:
    """A context in which the gallery is a part of it."""
    context = PassContext(request, limits, Checkpoint(), lambda pairs: None)
    step = limits.gallery_rows
    context.tiles = [(at, min(at + step, items[1])) for at in range(*items, step)]
    return context


def _seen(request: PassRequest, rows: Rows) -> list[Part]:
    return [] if request.observers is None else request.observers.parts(rows)
