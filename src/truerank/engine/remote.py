"""What workers of a cluster do: begin counts, add tiles to them, and complete whole rows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Any

from truerank.blas import single_threaded_blas
from truerank.checkpoint import Checkpoint
from truerank.core.groups import Block
from truerank.engine import run
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.observers import Part
from truerank.engine.request import PassRequest
from truerank.engine.schedule import WorkItem
from truerank.engine.shipment import Parts, unpack
from truerank.engine.strategies import STRATEGIES, TILED
from truerank.engine.strategies.tiles import begin_counts
from truerank.engine.threads import Tile
from truerank.settings import Settings, settings
from truerank.space import Rows

__all__ = ["add_tiles", "begin", "complete_rows", "observe_tiles"]


def begin(parts: Parts, rows: Rows) -> tuple[Counts, Rows]:
    """Counts of some queries with nothing counted yet, and how many items each can rank."""
    request, _ = unpack(parts, rows)
    return begin_counts(request.space, rows, request.view, request.folds)


def add_tiles(
    parts: Parts, rows: Rows, strategy: str, items: Tile, begun: tuple[Counts, Rows]
) -> tuple[dict[str, Any], list[Part]]:
    """Count some queries against a part of the gallery: the counts, and what observers saw."""
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
    request, limits = unpack(parts, rows)
    with settings(**asdict(limits)), _context(request, limits, items) as context:
        for _ in STRATEGIES[strategy].run(WorkItem(strategy, (rows,)), context):
            pass
    return _seen(request, rows)


def complete_rows(parts: Parts, rows: Rows) -> tuple[list[Block], list[Part]]:
    """The tie groups of some queries from their whole rows, and what observers saw."""
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
