"""Engine: one pass over queries x gallery that yields tie groups, a block of queries at a time.

Blocks hold queries with similar numbers of mates, so that memory stays bounded by the settings;
neither the blocks nor the tiles nor the threads can be seen in the result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.engine import cpu, reference
from truerank.engine.counts import Counts, Shares, Split, TieGroups
from truerank.errors import InputError
from truerank.jit import compiled
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = [
    "DEVICES",
    "Counts",
    "Settings",
    "Shares",
    "Split",
    "TieGroups",
    "available_cores",
    "resolve_device",
    "settings",
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
    split_mates: int = 1 << 18
    """The same where tie groups are split by share, at some 300 bytes a group and thread."""
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
    shares: Shares | None = None,
    apart: tuple[View, npt.NDArray[np.bool_]] | None = None,
    only: Rows | None = None,
) -> Iterator[tuple[Rows, TieGroups]]:
    """Yield (query rows, their tie groups) until every query with a relevant item has been seen.

    With `keep=False` a block's tie groups are valid only until the next block is asked for.
    With `shares` the groups of counted rows are split by share. Where rows are sorted instead, the
    groups in the view `apart` are, for the queries that go with it (they must have few mates in
    it). `only` names the queries to look at, and they are all counted.
    """
    device = resolve_device(device)
    threads = threads or available_cores()
    limits = _settings.get()
    rows = np.flatnonzero(view.mates > 0) if only is None else only[view.mates[only] > 0]
    rows = rows[np.argsort(view.mates[rows], kind="stable")]
    total = len(rows) * space.gallery
    done = 0

    def tick(pairs: int) -> None:
        nonlocal done
        done += pairs
        if progress is not None:
            progress(done, total)

    if device == "reference":
        for block in _blocks(view.mates, rows, limits.query_rows):
            pairs = view.block(block)
            yield block, reference.count_block(space, block, pairs, view.grades, shares)
            tick(len(block) * space.gallery)
        return
    tiles = [
        (start, min(start + limits.gallery_rows, space.gallery))
        for start in range(0, space.gallery, limits.gallery_rows)
    ]
    few = view.mates[rows] <= limits.sort_share * space.gallery
    if only is not None:
        few[:] = True
    most = limits.mates if shares is None else limits.split_mates
    with _single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        for block in _blocks(view.mates, rows[few], limits.query_rows, most):
            yield block, cpu.count_block(space, block, view, tiles, pool, threads, tick, shares)
        height = max(1, min(limits.query_rows, limits.row_numbers // space.gallery))
        blocks = _blocks(view.mates, rows[~few], height)
        ahead: deque[tuple[Rows, cpu.Workspace, Future[TieGroups]]] = deque()
        free: list[cpu.Workspace] = []

        def begin(block: Rows) -> None:
            workspace = free.pop() if free else cpu.Workspace()
            counted = None
            if shares is not None and apart is not None:
                some = np.flatnonzero(apart[1][block] & (apart[0].mates[block] > 0))
                counted = (some, apart[0], shares) if some.size else None
            work = pool.submit(cpu.sort_rows, space, block, view, tiles, workspace, counted)
            ahead.append((block, workspace, work))

        try:
            for block in islice(blocks, threads):
                begin(block)
            while ahead:
                block, workspace, work = ahead.popleft()
                groups = work.result()
                for more in islice(blocks, 1):
                    begin(more)
                yield block, groups
                if not keep:
                    free.append(workspace)
                tick(len(block) * space.gallery)
        finally:
            for _, _, work in ahead:  # on an interrupt, what has not begun is not begun
                work.cancel()


def _blocks(mates: Rows, rows: Rows, height: int, most: int | None = None) -> Iterator[Rows]:
    """Rows in order of R, cut so that rows x largest R stays within the settings."""
    most = _settings.get().mates if most is None else most
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
