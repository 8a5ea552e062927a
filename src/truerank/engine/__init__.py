"""Engine: one pass over queries x gallery that yields tie groups, a block of queries at a time.

    tie_groups(...), sweep(...)
        |
    Request            all that is asked of a pass               request.py
        |
    Queries            the rows that are left to look at         request.py
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

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import Checkpoint
from truerank.core.folds import Shares
from truerank.core.groups import Block, SplitGroups, TieGroups
from truerank.engine.context import PassContext
from truerank.engine.counts import Counts
from truerank.engine.request import Queries, Request
from truerank.engine.schedule import DEVICES, each_pair_once, resolve_device, schedule
from truerank.engine.strategies import STRATEGIES
from truerank.engine.threads import available_cores
from truerank.engine.watch import Audience, Observer, Watcher
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

Progress = Callable[[int, int], None]
"""Hears of the pairs that are done, and of all."""


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
    it). `only` names the queries to look at; without watchers or shares, they are all counted on
    the CPU.
    """
    request = Request(
        view,
        space,
        resolve_device(device),
        threads or available_cores(),
        audience=Audience(watchers, grade=grade) if watchers else None,
        seen=seen,
        only=only,
        rankings=rankings,
        shares=shares,
        apart=apart,
        keep=keep,
    )
    return _run(request, checkpoint, progress)


def keeps_watched(
    view: View, space: Space, watchers: Sequence[Observer], *, device: str, split: bool
) -> bool:
    """Whether a checkpoint holds what these watchers have seen of a pass that is under way."""
    if resolve_device(device) != "cpu":
        return False
    audience = Audience(watchers)
    return each_pair_once(view, space, audience, current_settings(), split=split) is not None


def sweep(
    view: View,
    space: Space,
    watchers: Sequence[Watcher],
    *,
    device: str = "auto",
    threads: int | None = None,
) -> None:
    """Show all pairs to the watchers, without tie groups."""
    request = Request(
        view,
        space,
        resolve_device(device),
        threads or available_cores(),
        groups=False,
        audience=Audience(watchers),
    )
    for _ in _run(request):
        pass


def _run(
    request: Request, checkpoint: Checkpoint | None = None, progress: Progress | None = None
) -> Generator[Block, None, None]:
    """Yield the blocks of a pass; whoever may stop early must close it."""
    limits = current_settings()
    left = Queries.of(request)
    spent: frozenset[str] = frozenset()
    tick = _ticking(left, request.space.gallery, progress)
    with PassContext(request, limits, checkpoint or Checkpoint(), tick) as context:
        while len(left):
            plan = schedule(request, left, limits, context.facts(), spent)
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
