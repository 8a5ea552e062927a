"""Engine: one pass over queries x gallery that yields tie groups, a block of queries at a time.

Blocks hold queries with similar numbers of mates, so that memory stays bounded by the settings;
neither the blocks nor the tiles nor the threads can be seen in the result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import Checkpoint
from truerank.engine import cpu, cuda, reference, symmetric
from truerank.engine.counts import Block, Counts, LocatedGroups, Shares, SplitGroups, TieGroups
from truerank.engine.crew import Crew
from truerank.engine.filter import Filter
from truerank.engine.sight import Apart, Sight
from truerank.engine.watch import Audience, Observer, PerThread, Watcher
from truerank.errors import InputError
from truerank.jit import compiled
from truerank.relevance import View
from truerank.settings import METHODS, Settings, current_settings, settings
from truerank.space import Rows, Space

__all__ = [
    "DEVICES",
    "METHODS",
    "Block",
    "Counts",
    "Settings",
    "Shares",
    "SplitGroups",
    "TieGroups",
    "available_cores",
    "keeps_watched",
    "resolve_device",
    "settings",
    "sweep",
    "tie_groups",
]

DEVICES = ("auto", "cpu", "cuda", "reference")
_SMALL = 1 << 22
"""Pairs below which the plain way is as fast."""
_LARGE = 1 << 27
"""Pairs from which a GPU, found and warmed up, is faster than the CPU."""
Progress = Callable[[int, int], None]


def resolve_device(device: str, pairs: int = 0) -> str:
    """The engine that will run: "cpu" (compiled), "cuda" or "reference" (pure numpy).

    "auto" looks for a GPU, which imports torch, only for as many pairs as make it worth the while.
    """
    if not isinstance(device, str) or device not in DEVICES:
        raise InputError(
            f"The 'device' parameter must be one of {', '.join(DEVICES)}. Got {device!r} instead."
        )
    if device == "auto":
        if pairs >= _LARGE and cuda.likely() and cuda.unavailable() is None:
            return "cuda"
        return "cpu" if compiled else "reference"
    if device == "cuda":
        cuda.check()
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
    checkpoint: Checkpoint | None = None,
    seen: npt.NDArray[np.bool_] | None = None,
    watchers: Sequence[Observer] = (),
    grade: int = 1,
    rankings: bool = False,
    shares: Shares | None = None,
    apart: tuple[View, npt.NDArray[np.bool_]] | None = None,
    only: Rows | None = None,
) -> Generator[Block, None, None]:
    """Yield blocks of queries with their tie groups until all that have a relevant item are seen.

    Whoever may stop early must close it (contextlib.closing): it holds threads, and left to the
    garbage collector it would wait for them at any moment, even while another thread begins.

    With `keep=False` a block's tie groups are valid only until the next block is asked for. Queries
    already `seen` are left out; a checkpoint holds the counts of those in flight. Watchers see
    every query, also those without a relevant item, and as relevant what has at least this grade.
    With `rankings`, a GPU may give truerank.engine.cuda.ranked.Ranked in place of tie groups.
    With `shares` the groups of counted rows are split by share. Where rows are sorted instead, the
    groups in the view `apart` are, for the queries that go with it (they must have few mates in
    it). `only` names the queries to look at; without
    watchers or shares, they are all counted on the CPU.
    """
    device = resolve_device(device)
    threads = threads or available_cores()
    checkpoint = checkpoint or Checkpoint()
    limits = current_settings()
    wanted = view.mates > 0
    if only is not None:
        wanted[:] = False
        wanted[only] = view.mates[only] > 0
    total = int(np.count_nonzero(wanted)) * space.gallery
    if seen is not None:
        wanted &= ~seen
    rows = np.flatnonzero(wanted)
    rows = rows[np.lexsort((view.kinds(rows), view.mates[rows]))]
    audience = Audience(watchers, grade=grade) if watchers else None
    alone = rows[:0]
    if audience is not None:
        alone = np.arange(view.queries) if only is None else np.sort(only)
        alone = alone[view.mates[alone] == 0]
        if seen is not None:
            alone = alone[~seen[alone]]
    everybody = len(rows) + len(alone) == view.queries
    total += len(alone) * space.gallery
    done = total - (len(rows) + len(alone)) * space.gallery

    def tick(pairs: int) -> None:
        nonlocal done
        done += pairs
        if progress is not None:
            progress(done, total)

    if done:
        tick(0)
    if device == "reference":
        for block in chain(*(_blocks(view.mates, r, limits.query_rows) for r in (alone, rows))):
            pairs = view.block(block)
            found = reference.count_block(space, block, pairs, view.grades, audience, shares)
            if view.mates[block[0]]:
                yield found
            tick(len(block) * space.gallery)
        return
    tiles = _tiles(space.gallery)
    few = view.mates[rows] <= limits.sort_share * space.gallery
    tall = cuda.TALLER * limits.query_rows
    splitting = only is not None and audience is None and shares is not None
    if device == "cuda" and splitting:
        gpus = cuda.Engine(view, space, limits, tick)
        some = _blocks(view.mates, rows[few], tall, cuda.SPLIT_TALLER, limits.split_mates)
        yield from gpus.tie_groups(some, shares=shares)
        rows = rows[~few]
        few = np.zeros(len(rows), bool)
    if only is not None and (audience is None or device != "cuda"):
        few |= not splitting
    elif device == "cuda":
        gpus = cuda.Engine(view, space, limits, tick if audience is None else lambda pairs: None)
        counted = gpus.tie_groups(
            _blocks(view.mates, rows[few], tall, cuda.TALLER),
            distances=audience is not None,
            shares=shares if apart is None or apart[0] is view else None,
        )
        if audience is not None:
            counted = _shown(gpus, view, counted, alone, audience, threads, tick)
        yield from counted
        alone, rows = alone[:0], rows[~few]
        if rankings and gpus.walks and len(rows) and audience is None:
            tied: list[Rows] = []
            height = min(tall, gpus.height())
            yield from gpus.rankings(_blocks(view.mates, rows, height, cuda.TALLER**3), tied)
            rows = np.concatenate(tied)
        few = np.zeros(len(rows), bool)
    if not len(rows) and not len(alone):
        return
    if device == "cuda":  # many mates: the GPU makes the distances
        space = cuda.Lent(space)
    method = _method(space, view.mates[rows[few]], shares is not None, bool(watchers))
    most = limits.mates if shares is None else limits.split_mates
    with _single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        height = _height(space.gallery, limits.row_numbers)
        whole: Callable[..., Block] = cpu.sort_rows
        if splitting:  # these are few: some for each thread
            whole = cpu.split_rows
            height = min(height, -(-len(rows) // threads))
        blocks: Iterator[tuple[Rows, Callable[..., Block]]] = (
            (block, whole)
            for block in _blocks(
                view.mates, rows[~few], height, most=most if splitting else limits.mates
            )
        )
        # Watchers see float64: their cuts are about as close as the error bound of a float32
        # product. What they have seen belongs to whole queries, or to the tiles of both ways.
        crew = Crew(pool, threads, tick, checkpoint if audience is None else Checkpoint())
        held = PerThread(cpu.Workspace)

        def watch(
            space: Space, block: Rows, view: View, tiles: Any, _: cpu.Workspace, *extra: Any
        ) -> Block:
            """Tie groups of watched rows do not lie in the workspace: a thread needs only one."""
            return cpu.count_rows(space, block, view, tiles, held.mine(), *extra)

        way = None
        if method != "float64" and space.single is not None and audience is None:
            way = Filter(space, space.single, shares)
        both: Filter | tuple[symmetric.BothWays, Audience] | None = None
        if way is not None and method == "symmetric":
            both = way
        if audience is not None and audience.whole_rows:
            tall = _height(space.gallery, limits.watched_numbers)
            first = chain(*(_blocks(view.mates, r, tall) for r in (alone, rows[few])))
            blocks = chain(((block, watch) for block in first), blocks)
        elif audience is not None and device == "cpu" and everybody:
            ways = _both_ways(view, space, audience, shares is not None)
            if ways is not None:
                both = (ways, audience)
                if audience.resumable:
                    crew = replace(crew, checkpoint=checkpoint, audience=audience)
        if both is not None:
            ascending = _blocks(view.mates, np.sort(rows[few]), limits.query_rows)
            yield from symmetric.count_all(space, ascending, view, limits.side, crew, both, shares)
        elif audience is None or not audience.whole_rows:
            height = limits.query_rows
            for block in chain(
                *(_blocks(view.mates, some, height, most=most) for some in (alone, rows[few]))
            ):
                found = cpu.count_block(space, block, view, tiles, crew, way, audience, shares)
                if view.mates[block[0]]:
                    yield found
        ahead: deque[tuple[Rows, cpu.Workspace, Future[Block]]] = deque()
        free: list[cpu.Workspace] = []

        def begin(block: Rows, count: Callable[..., Block]) -> None:
            workspace = free.pop() if free else cpu.Workspace()
            extra = (audience, shares, apart)
            work = pool.submit(count, space, block, view, tiles, workspace, *extra)
            ahead.append((block, workspace, work))

        try:
            for block, count in islice(blocks, threads):
                begin(block, count)
            while ahead:
                block, workspace, work = ahead.popleft()
                found = work.result()
                for more, count in islice(blocks, 1):
                    begin(more, count)
                if view.mates[block[0]]:
                    yield found
                if not keep:
                    free.append(workspace)
                tick(len(block) * space.gallery)
        finally:
            for _, _, work in ahead:  # on an interrupt, what has not begun is not begun
                work.cancel()


def keeps_watched(
    view: View, space: Space, watchers: Sequence[Observer], *, device: str, split: bool
) -> bool:
    """Whether a checkpoint holds what these watchers have seen of a pass that is under way."""
    if resolve_device(device) != "cpu":
        return False
    return _both_ways(view, space, Audience(watchers), split) is not None


def _both_ways(
    view: View, space: Space, audience: Audience, split: bool
) -> symmetric.BothWays | None:
    """Each pair computed once for watchers of all queries, where it can be and pays."""
    limits = current_settings()
    mates = view.mates[view.mates > 0]
    if audience.whole_rows or (mates > limits.sort_share * space.gallery).any():
        return None
    if _method(space, mates, split, watched=True) != "symmetric":
        return None
    return symmetric.BothWays.of(space, view, limits.side, limits.symmetric_mates)


def _shown(
    gpus: cuda.Engine,
    view: View,
    blocks: Iterator[Block],
    alone: Rows,
    audience: Audience,
    threads: int,
    tick: Callable[[int], None],
) -> Iterator[Block]:
    """The same blocks, while threads show their rows, and those of queries alone, to watchers."""
    height = gpus.watched_height()
    looks: deque[tuple[int, Future[list[Future[None]]]]] = deque()

    def finish() -> None:
        while looks:
            pairs, look = looks.popleft()
            for rest in look.result():
                rest.result()
            tick(pairs)

    with ThreadPoolExecutor(threads) as pool, ThreadPoolExecutor(gpus.showing) as crowd:

        def show(rows: Rows, groups: LocatedGroups) -> list[Future[None]]:
            return [pool.submit(rest) for rest in gpus.show_rows(rows, audience, groups)]

        lonely = Block(alone, gpus.no_groups(alone), SplitGroups.none())
        try:
            for block in chain([lonely], blocks):
                finish()  # what is shown is kept no longer than that
                rows, groups = block.rows, block.groups
                for start in range(0, len(rows), height):
                    some = slice(start, min(start + height, len(rows)))
                    part = groups.part(some.start, some.stop)
                    looks.append((len(part) * view.items, crowd.submit(show, rows[some], part)))
                if len(groups.size):
                    yield block
            finish()
        finally:
            for _, look in looks:  # on an interrupt, what has not begun is not begun
                look.cancel()


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
    device = resolve_device(device)
    audience = Audience(watchers)
    limits = current_settings()
    gpus, both = None, None
    if device == "cuda":
        gpus = cuda.Engine(view, space, limits, lambda pairs: None)
        threads = gpus.showing
    elif device == "cpu" and not audience.whole_rows and _shows_both_ways(space, limits):
        both = symmetric.BothWays.of(space, view, limits.side, limits.symmetric_mates)
    remaining: deque[Any]
    if both is not None:
        remaining = deque(both.tiles())
    else:
        height = limits.query_rows // 4
        if gpus is not None:
            height = gpus.watched_height()
        elif audience.whole_rows:
            height = _height(space.gallery, limits.watched_numbers)
        height = max(1, min(height, -(-view.queries // threads)))
        starts = range(0, view.queries, height)
        remaining = deque(np.arange(i, min(i + height, view.queries)) for i in starts)
    tiles = _tiles(space.gallery)
    kernels = device != "reference"

    def look(part: Any, workspace: cpu.Workspace) -> None:
        if gpus is not None:
            for rest in gpus.show(part, audience):
                rest()
            return
        if both is not None:
            for number, _, items, distances in both.sides(part):
                both.show(audience, number, items, distances)
            return
        apart = Apart.of(view.exclusions.pairs(part, view.items))
        if audience.whole_rows:
            whole = cpu.whole_rows(space, part, tiles, workspace)
            audience.look(Sight(part, whole, kernels), apart)
            return
        tile = space.block(part)
        for start, stop in tiles:
            audience.look(Sight(part, tile(start, stop), kernels, start), apart)

    def work() -> None:
        workspace = cpu.Workspace()
        while True:
            try:
                part = remaining.popleft()
            except IndexError:
                return
            look(part, workspace)

    with _single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        try:
            for worker in [pool.submit(work) for _ in range(threads)]:
                worker.result()
        finally:
            remaining.clear()  # on an interrupt the threads stop after the rows they are in


def _tiles(gallery: int) -> list[tuple[int, int]]:
    step = current_settings().gallery_rows
    return [(start, min(start + step, gallery)) for start in range(0, gallery, step)]


def _height(gallery: int, numbers: int) -> int:
    """Rows of the whole gallery that a thread holds at a time."""
    return max(1, min(current_settings().query_rows, numbers // gallery))


def _blocks(
    mates: Rows, rows: Rows, height: int, taller: int = 1, most: int | None = None
) -> Iterator[Rows]:
    """Rows in the given order, cut so that rows x largest R stays within the settings."""
    most = taller * (current_settings().mates if most is None else most)
    start = 0
    while start < len(rows):
        stop = min(len(rows), start + height)
        while stop - start > 1 and (stop - start) * int(mates[rows[start:stop]].max()) > most:
            stop = start + (stop - start) // 2
        yield rows[start:stop]
        start = stop


def _method(space: Space, mates: Rows, split: bool = False, watched: bool = False) -> str:
    """The method that the settings name, or the one that costs least; watchers see float64."""
    limits = current_settings()
    if not len(mates) or (space.single is None and not watched):
        return "float64"
    square = space.symmetric
    if limits.method == "symmetric" and not square:
        return "filter"
    if limits.method != "auto":
        return limits.method
    if len(mates) * space.gallery < _SMALL:
        return "float64"
    # Half of all tiles cost as much as the rows of half of the queries.
    most = limits.symmetric_mates // 8 if split else limits.symmetric_mates
    fits = int(mates.sum()) <= most
    if watched:
        return "symmetric" if square and fits else "float64"
    return "symmetric" if square and fits and 2 * len(mates) > space.gallery else "filter"


def _shows_both_ways(space: Space, limits: Settings) -> bool:
    """Whether a sweep computes each pair once."""
    if limits.method == "auto":
        return space.symmetric and space.queries * space.gallery >= _SMALL
    return space.symmetric and limits.method == "symmetric"


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
