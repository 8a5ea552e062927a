"""Engine: one pass over queries x gallery that yields tie groups, a block of queries at a time.

    tie_groups(...), sweep(...)
        |
    PassRequest            all that is asked of a pass               request.py
        |
    Queries            the rows that are left to do              request.py
        |       <---------------------------------------------------------.
    schedule()         pure: settings, and what devices can      schedule.py
        |              tell, decide who takes which rows                  |
    WorkItem           a strategy's name and its blocks                   |
        |                                                                 |
    Strategy.run       one file for each                         strategies/
        |    \\                                                            |
        |     `--- rows that it could not do, or that were left ----------'
    Block              queries with their tie groups; observers have seen the distances

Blocks hold queries with similar numbers of mates, so that memory stays bounded by the settings;
neither the blocks nor the tiles nor the threads can be seen in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import Checkpoint
from truerank.core.folds import GalleryFolds
from truerank.core.groups import Block, SplitGroups, TieGroups
from truerank.engine import cuda
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.observers import Observer, Observers, PairObserver
from truerank.engine.request import PassRequest, Queries
from truerank.engine.schedule import (
    DEVICES,
    each_pair_once,
    resolve_device,
    rounding_device,
    schedule,
)
from truerank.engine.spreading import spread
from truerank.engine.strategies import STRATEGIES
from truerank.engine.threads import available_cores
from truerank.relevance import View
from truerank.settings import METHODS, Settings, current_settings, settings
from truerank.space import Rows, Space

__all__ = [
    "DEVICES",
    "METHODS",
    "Block",
    "Counts",
    "GalleryFolds",
    "Settings",
    "SplitGroups",
    "TieGroups",
    "available_cores",
    "keeping",
    "keeps_observed",
    "prepare",
    "resolve_device",
    "rounding_device",
    "run",
    "settings",
    "sweep",
    "tie_groups",
]

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
    With `rankings`, a GPU may give truerank.engine.cuda.ranked.Ranked in place of tie groups.
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
    return cuda.keeping() if device == "cuda" else nullcontext()


def prepare(view: View, space: Space, device: str, pool: ThreadPoolExecutor) -> None:
    """Have a GPU take in what passes over a space in a view need, in a thread of the pool, for a
    caller that is `keeping` it and has more to do before the first."""
    if device == "cuda" and space.cluster is None:
        cuda.prepare(view, space, pool)


def keeps_observed(
    view: View, space: Space, observers: Sequence[Observer], *, device: str, split: bool
) -> bool:
    """Whether a checkpoint holds what these observers have seen of a pass that is under way."""
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
    """Let the observers see all pairs, without tie groups."""
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
