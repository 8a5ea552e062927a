"""Engine: one pass over queries x gallery that yields tie groups, a block of queries at a time.

Blocks hold queries with similar numbers of mates, so that memory stays bounded by the settings;
neither the blocks nor the tiles nor the threads can be seen in the result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from truerank.engine import cpu, reference
from truerank.engine.counts import Counts, TieGroups
from truerank.engine.watch import Apart, Audience, Watcher
from truerank.errors import InputError
from truerank.jit import compiled
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = [
    "DEVICES",
    "Counts",
    "Settings",
    "TieGroups",
    "available_cores",
    "resolve_device",
    "settings",
    "sweep",
    "tie_groups",
]

DEVICES = ("auto", "cpu", "reference")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Settings:
    """Sizes that trade memory for speed and change no result."""

    query_rows: int = 2048
    gallery_rows: int = 1024
    mates: int = 1 << 22
    """Most relevant pairs in flight, counting every query of a block at its block's largest R."""
    sort_share: float = 0.05
    """Queries for which more than this share of the gallery is relevant have their rows sorted."""
    row_numbers: int = 1 << 21
    """Most distances in rows held to be sorted, for each thread: arrays below 32 MB are reused by
    the C library, while larger ones cost a page fault for every 4 KB anew."""


_DEFAULT = Settings()
_settings: ContextVar[Settings] = ContextVar("settings", default=_DEFAULT)


@contextmanager
def settings(**changes: Any) -> Iterator[Settings]:
    """Change block and tile sizes inside a `with` block."""
    for name, value in changes.items():
        if name not in Settings.__dataclass_fields__:
            known = ", ".join(Settings.__dataclass_fields__)
            raise InputError(f"there is no setting {name!r}; known are {known}.")
        if name == "sort_share" and not isinstance(value, (int, float)):
            raise InputError(f"the setting sort_share must be a number. Got {value!r} instead.")
        if name != "sort_share" and not (isinstance(value, (int, np.integer)) and value >= 1):
            raise InputError(f"the setting {name} must be an int >= 1. Got {value!r} instead.")
    token = _settings.set(replace(_settings.get(), **changes))
    try:
        yield _settings.get()
    finally:
        _settings.reset(token)


def resolve_device(device: str) -> str:
    """The engine that will run: "cpu" (compiled) or "reference" (pure numpy)."""
    if not isinstance(device, str) or device not in DEVICES:
        raise InputError(
            f"The 'device' parameter must be one of {', '.join(DEVICES)}. Got {device!r} instead."
        )
    if device == "auto":
        return "cpu" if compiled else "reference"
    if device == "cpu" and not compiled:
        raise InputError("device='cpu' needs numba; install it or use device='reference'.")
    return device


def tie_groups(
    view: View,
    space: Space,
    *,
    device: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
    keep: bool = True,
    watchers: Sequence[Watcher] = (),
    grade: int = 1,
) -> Iterator[tuple[Rows, TieGroups]]:
    """Yield (query rows, their tie groups) until every query with a relevant item has been seen.

    With `keep=False` a block's tie groups are valid only until the next block is asked for.
    Watchers see every query, also those without a relevant item, and as relevant what has at
    least this grade.
    """
    device = resolve_device(device)
    threads = threads or available_cores()
    limits = _settings.get()
    rows = np.flatnonzero(view.mates > 0)
    rows = rows[np.lexsort((view.kinds(rows), view.mates[rows]))]
    alone = np.flatnonzero(view.mates == 0) if watchers else rows[:0]
    audience = None
    if watchers:
        audience = Audience(watchers, grade=grade, compiled=device != "reference")
    total = (len(rows) + len(alone)) * space.gallery
    done = 0

    def tick(pairs: int) -> None:
        nonlocal done
        done += pairs
        if progress is not None:
            progress(done, total)

    if device == "reference":
        for block in chain(*(_blocks(view.mates, r, limits.query_rows) for r in (alone, rows))):
            groups = reference.count_block(space, block, view.block(block), view.grades, audience)
            if view.mates[block[0]]:
                yield block, groups
            tick(len(block) * space.gallery)
        return
    tiles = _tiles(space.gallery)
    few = view.mates[rows] <= limits.sort_share * space.gallery
    with _single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        height = _height(space.gallery)
        blocks: Iterator[tuple[Rows, Callable[..., TieGroups]]] = (
            (block, cpu.sort_rows) for block in _blocks(view.mates, rows[~few], height)
        )
        if audience is not None and audience.whole_rows:
            first = chain(*(_blocks(view.mates, r, height) for r in (alone, rows[few])))
            blocks = chain(((block, cpu.count_rows) for block in first), blocks)
        else:
            tall = limits.query_rows
            for block in chain(*(_blocks(view.mates, r, tall) for r in (alone, rows[few]))):
                groups = cpu.count_block(space, block, view, tiles, pool, threads, tick, audience)
                if view.mates[block[0]]:
                    yield block, groups
        ahead: deque[tuple[Rows, cpu.Workspace, Future[TieGroups]]] = deque()
        free: list[cpu.Workspace] = []

        def begin(block: Rows, count: Callable[..., TieGroups]) -> None:
            workspace = free.pop() if free else cpu.Workspace()
            work = pool.submit(count, space, block, view, tiles, workspace, audience)
            ahead.append((block, workspace, work))

        try:
            for block, count in islice(blocks, threads):
                begin(block, count)
            while ahead:
                block, workspace, work = ahead.popleft()
                groups = work.result()
                for more, count in islice(blocks, 1):
                    begin(more, count)
                if view.mates[block[0]]:
                    yield block, groups
                if not keep:
                    free.append(workspace)
                tick(len(block) * space.gallery)
        finally:
            for _, _, work in ahead:  # on an interrupt, what has not begun is not begun
                work.cancel()


def sweep(
    view: View,
    space: Space,
    watchers: Sequence[Watcher],
    *,
    device: str = "auto",
    threads: int | None = None,
) -> None:
    """Show all pairs to the watchers, without tie groups."""
    threads = threads or available_cores()
    audience = Audience(watchers, compiled=resolve_device(device) != "reference")
    tiles = _tiles(space.gallery)
    height = _settings.get().query_rows // 4
    if audience.whole_rows:
        height = _height(space.gallery)
    height = max(1, min(height, -(-view.queries // threads)))
    remaining = deque(
        np.arange(start, min(start + height, view.queries))
        for start in range(0, view.queries, height)
    )

    def work() -> None:
        workspace = cpu.Workspace()
        while True:
            try:
                rows = remaining.popleft()
            except IndexError:
                return
            apart = Apart(view.exclusions.pairs(rows, view.items))
            if audience.whole_rows:
                audience.see(rows, cpu.whole_rows(space, rows, tiles, workspace), apart)
                continue
            tile = space.block(rows)
            for start, stop in tiles:
                audience.see(rows, tile(start, stop), apart, first=start)

    with _single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        try:
            for worker in [pool.submit(work) for _ in range(threads)]:
                worker.result()
        finally:
            remaining.clear()  # on an interrupt the threads stop after the rows they are in


def _tiles(gallery: int) -> list[tuple[int, int]]:
    step = _settings.get().gallery_rows
    return [(start, min(start + step, gallery)) for start in range(0, gallery, step)]


def _height(gallery: int) -> int:
    """Rows of the whole gallery that a thread holds at a time."""
    limits = _settings.get()
    return max(1, min(limits.query_rows, limits.row_numbers // gallery))


def _blocks(mates: Rows, rows: Rows, height: int) -> Iterator[Rows]:
    """Rows in order of R, cut so that rows x largest R stays within the settings."""
    most = _settings.get().mates
    start = 0
    while start < len(rows):
        stop = min(len(rows), start + height)
        while stop - start > 1 and (stop - start) * int(mates[rows[stop - 1]]) > most:
            stop = start + (stop - start) // 2
        yield rows[start:stop]
        start = stop


def available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _single_threaded_blas() -> Iterator[None]:
    """Our threads each multiply their own tile; BLAS must not start more threads below them."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
