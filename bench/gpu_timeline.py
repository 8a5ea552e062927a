"""python -m bench --gpu --timeline: when the steps of a whole call begin and end.

A profiler slows Python down and mixes threads up. Here some steps alone note their times: what
waits for what, and what more threads do to each step, shows in the call as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from threading import get_ident
from typing import Any

import truerank
from bench.gpu import CLASSES
from bench.gpu_data import make
from bench.gpu_profile import timed
from bench.gpu_record import describe_machine

__all__ = ["run"]

STEPS = {
    "truerank.evaluation.evaluate": (
        "prepare build probe warn_if_too_coarse provenance put_together"
    ),
    "truerank.distance.rows": "round_rows",
    "truerank.distance.remote_rows": "DeviceRows.digests DeviceRows.scrambled_sums",
    "truerank.distance.base": "Sides.facts",
    "truerank.task.task": "TaskRules._digested",
    "truerank.evaluation.passes": "_planned try_out complete _scores put score_column",
    "truerank.intervals.estimation": "Estimation.__init__ Estimation.plan Estimation.interval",
    "truerank.engine.schedule": "Queries.of",
    "truerank.engine.cuda.worker": "Worker.__init__ Worker.count Worker._begin Worker._groups",
    "truerank.engine.cuda.filtered_count": "FilteredCount.count FilteredCount._way",
    "truerank.engine.cuda.counting": (
        "DeviceTally.tie_groups Splitting.counts Splitting.candidates"
    ),
    "truerank.core.tie_groups": "TieGroups.part TieGroups.values",
    "truerank.intervals.ranking_replicates": (
        "JackknifePlan.collect JackknifePlan.finish JackknifePlan._staying "
        "JackknifePlan._look_closer JackknifePlan._split JackknifePlan._collect_some "
        "JackknifePlan._move_cmc add_moves moved"
    ),
    "truerank.intervals.first_item_replicates": "RankChanges.add",
}
"""Functions and methods by module."""
TURNS = 7
Note = tuple[int, float, float]
"""A thread, and when it began and ended a step."""


def run(rows: int, out: Path | None = None, *, device: str = "cuda", dimensions: int = 512) -> str:
    """Tables of the steps of calls from tensors, and the seconds of calls with other threads."""
    told = [describe_machine(device)]
    x, labels = make(rows, dimensions, CLASSES.get((rows, 4), rows // 5), device=device)
    arrays = {"tensors": (x, labels), "arrays": (x.cpu().numpy(), labels.cpu().numpy())}
    for name, given in arrays.items():
        for confidence in (None, 0.95):
            call = partial(truerank.evaluate, *given, device="cuda", confidence=confidence)
            told += _told(f"{name}, {'no' if confidence is None else 'with'} intervals", call)
            if out is not None:
                out.mkdir(parents=True, exist_ok=True)
                (out / "timeline.txt").write_text("\n".join(told), encoding="utf-8")
    print("\n".join(told))
    return "\n".join(told)


def _told(title: str, call: Callable[..., Any]) -> list[str]:
    lines = [f"\n{title}, ms (median of {TURNS}) by threads"]
    for threads in (None, 1, 2, 4, 8, None):
        seconds = sorted(timed(partial(call, threads=threads)) for _ in range(TURNS))
        middle, best = 1000 * seconds[TURNS // 2], 1000 * seconds[0]
        lines.append(f"threads={threads}: {middle:.0f} (at best {best:.0f})")
    for threads in (None, 4):
        lines += _steps(partial(call, threads=threads), f"{title}, threads={threads}")
    return lines


def _steps(call: Callable[[], Any], title: str) -> list[str]:
    """The steps of the median of some calls, in the order in which they begin."""
    with _noting() as notes:
        found = []
        for _ in range(TURNS):
            notes.clear()
            start = time.perf_counter()
            call()
            found.append((time.perf_counter() - start, start, dict(notes)))
    seconds, start, steps = sorted(found, key=lambda one: one[0])[TURNS // 2]
    lines = [f"\n{title}: {1000 * seconds:.0f} ms", "  from     to  sum of times  calls  threads"]
    # Calls are noted when they end: of two threads', the first in the list may have begun later.
    for name, its in sorted(steps.items(), key=lambda item: min(one[1] for one in item[1])):
        first, last = min(one[1] for one in its) - start, max(one[2] for one in its) - start
        total, threads = sum(one[2] - one[1] for one in its), len({one[0] for one in its})
        lines.append(
            f"{1000 * first:6.1f} {1000 * last:6.1f} {1000 * total:13.1f} {len(its):6} {threads:8}"
            f"  {name}"
        )
    return lines


@contextmanager
def _noting() -> Iterator[dict[str, list[Note]]]:
    """Let the steps note when they begin and end, until the end of a with block."""
    notes: dict[str, list[Note]] = {}
    before: list[tuple[Any, str, Any]] = []
    steps = [(module, path) for module, paths in STEPS.items() for path in paths.split()]
    for module, path in steps:
        owner: Any = import_module(module)
        *classes, name = path.split(".")
        for one in classes:
            owner = getattr(owner, one)
        held = vars(owner)[name]
        before.append((owner, name, held))
        is_static = isinstance(held, staticmethod)
        noted = _noted(path, held.__func__ if is_static else held, notes)
        setattr(owner, name, staticmethod(noted) if is_static else noted)
    try:
        yield notes
    finally:
        for owner, name, held in before:
            setattr(owner, name, held)


def _noted(step: str, function: Callable[..., Any], notes: dict[str, list[Note]]) -> Any:
    @wraps(function)
    def noted(*given: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            notes.setdefault(step, []).append((get_ident(), start, time.perf_counter()))

    return noted
