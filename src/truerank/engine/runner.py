"""Run one pass over queries x gallery: tie groups block by block, or reducers alone.

    tie_groups(...), sweep(...)
        |
    PassRequest          all that is asked of a pass                  engine/schedule.py
        |
    Queries              the rows that remain                         engine/schedule.py
        |       <------------------------------------------------.
    schedule()           pure: settings and device facts decide  |    engine/schedule.py
        |                which rows are done how                 |
    WorkItem             the name of a strategy and its blocks   |
        |                                                        |
    run of a strategy    engine/loops.py, reference.py, ray.py   |
        |      `--- rows that it could not do, or that remained -'
    Block                queries with their tie groups                core/tie_groups.py

Blocks hold queries with similar numbers of relevant items, so that memory stays bounded by the
settings. Neither blocks nor tiles nor threads change the result. The table of all strategies is
here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import numpy.typing as npt

from truerank._util.checkpoint import Checkpoint
from truerank._util.settings import current_settings
from truerank._util.threads import available_cores
from truerank.core.jackknife import GalleryFolds
from truerank.core.tie_groups import Block
from truerank.distance.base import Rows, Space
from truerank.engine.cuda.front import keeping as front_keeping
from truerank.engine.cuda.front import prepare as front_prepare
from truerank.engine.loops import (
    Count,
    CountCloseRows,
    CountObservedBothWays,
    CountObservedRows,
    CountObservedTiles,
    CudaCount,
    CudaCountBothWays,
    CudaCountObserved,
    CudaObserve,
    CudaRank,
    Filtered,
    ObserveBothWays,
    ObserveRows,
    ObserveTiles,
    SortRows,
    SplitRows,
    Strategy,
    Symmetric,
    Tiled,
)
from truerank.engine.ray import SpreadRows, SpreadTiles, spread
from truerank.engine.reducers import Observer, Observers, PairObserver
from truerank.engine.reference import Reference
from truerank.engine.schedule import (
    PassContext,
    PassRequest,
    Queries,
    each_pair_once,
    resolve_device,
    schedule,
)
from truerank.task.relevance import View

Progress = Callable[[int, int], None]
"""Called with the number of pairs that are done, and that of all pairs."""


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
    observers: Sequence[Observer] = (),
    grade: int = 1,
    rankings: bool = False,
    folds: GalleryFolds | None = None,
    split_view: tuple[View, npt.NDArray[np.bool_]] | None = None,
    only: Rows | None = None,
) -> Generator[Block, None, None]:
    """Yield blocks of queries with their tie groups until all that have a relevant item are seen.

    A caller that may stop early must close it (contextlib.closing): it holds threads; left to the
    garbage collector it would wait for them at any moment, even while another thread begins.

    With `keep=False` a block's tie groups, but not those split by fold, are valid only until the
    next block is asked for. Queries already `seen` are left out; a checkpoint holds the counts of
    those in flight. Observers see every query, also those without a relevant item, and as relevant
    what has at least this grade.
    With `rankings`, a GPU may give truerank.engine.cuda.ranking.Ranked in place of tie groups.
    With `folds` the groups of counted rows are split by fold. Where rows are sorted instead, the
    groups in the view of `split_view` are, for the queries that go with it (they must have few
    mates in it). `only` names the queries to look at; without observers or folds, they are all
    counted on the CPU.
    """
    request = PassRequest(
        view,
        space,
        _device(device, space),
        threads or available_cores(),
        observers=Observers(observers, grade=grade) if observers else None,
        seen=seen,
        only=only,
        rankings=rankings,
        folds=folds,
        split_view=split_view,
        keep=keep,
    )
    return run(request, checkpoint, progress)


def keeping(device: str) -> AbstractContextManager[None]:
    """Let the passes within, over one space in one view, share what GPUs hold of them."""
    return front_keeping() if device == "cuda" else nullcontext()


def prepare(view: View, space: Space, device: str, pool: ThreadPoolExecutor) -> None:
    """Have a GPU take in what passes over a space in a view need, in a thread of the pool, for a
    caller that is `keeping` it and has more to do before the first."""
    if device == "cuda" and space.cluster is None:
        front_prepare(view, space, pool)


def keeps_observed(
    view: View, space: Space, observers: Sequence[Observer], *, device: str, split: bool
) -> bool:
    """Return whether a checkpoint holds the state of these reducers."""
    if space.cluster is not None or resolve_device(device) != "cpu":
        return False
    together, limits = Observers(observers), current_settings()
    return each_pair_once(view, space, together, limits, split=split) is not None


def sweep(
    view: View,
    space: Space,
    observers: Sequence[PairObserver],
    *,
    device: str = "auto",
    threads: int | None = None,
) -> None:
    """Pass all pairs to the reducers, without tie groups."""
    request = PassRequest(
        view,
        space,
        _device(device, space),
        threads or available_cores(),
        groups=False,
        observers=Observers(observers),
    )
    for _ in run(request):
        pass


def _device(device: str, space: Space) -> str:
    """The device that is there; a cluster has said already which one its workers have."""
    return resolve_device(device) if space.cluster is None else device


def run(
    request: PassRequest, checkpoint: Checkpoint | None = None, progress: Progress | None = None
) -> Generator[Block, None, None]:
    """Yield the blocks of a pass; a caller that may stop early must close it."""
    limits = current_settings()
    left = Queries.of(request)
    spent: frozenset[str] = frozenset()
    tick = _ticking(left, request.space.gallery, progress)
    with PassContext(request, limits, checkpoint or Checkpoint(), tick) as context:
        while len(left):
            if request.space.cluster is not None:
                plan = spread(request, left, limits)
            else:
                plan = schedule(request, left, limits, context.facts(), spent)
            left = plan.left
            for item in plan.items:
                undone = yield from STRATEGIES[item.strategy].run(item, context)
                if undone is not None and len(undone):
                    spent |= {item.strategy}
                    left = left.and_rows(undone)


def _ticking(queries: Queries, gallery: int, progress: Progress | None) -> Callable[[int], None]:
    """A function that adds up finished pairs, with those of queries that had been seen before."""
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


# Strategies: one file for each way to turn blocks of rows into tie groups, or to observe them.
#
# A new one is a file and a line in STRATEGIES; a new device is a planner in
# truerank.engine.schedule
# besides, and what it can tell about itself in PassContext.facts.


STRATEGIES: dict[str, Strategy] = {
    "reference": Reference(),
    "count": Count(),
    "filter": Filtered(),
    "symmetric": Symmetric(),
    "sort rows": SortRows(),
    "split rows": SplitRows(),
    "count observed tiles": CountObservedTiles(),
    "count observed both ways": CountObservedBothWays(),
    "count observed rows": CountObservedRows(),
    "count close rows": CountCloseRows(),
    "observe tiles": ObserveTiles(),
    "observe both ways": ObserveBothWays(),
    "observe rows": ObserveRows(),
    "cuda count": CudaCount(),
    "cuda count both ways": CudaCountBothWays(),
    "cuda rank": CudaRank(),
    "cuda count observed": CudaCountObserved(),
    "cuda observe": CudaObserve(),
    "spread tiles": SpreadTiles(),
    "spread rows": SpreadRows(),
}

TILED: dict[str, Tiled] = {
    "count": Count(),
    "filter": Filtered(),
    "count observed tiles": CountObservedTiles(),
}
"""Those by which workers of a cluster add tiles."""
