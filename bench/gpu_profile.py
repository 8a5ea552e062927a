"""python -m bench --gpu --profile: where the time of whole calls goes, on the CPU and on the GPU.

Functions are listed with everything in one thread, so that the profiler sees what threads do; the
seconds above each list are those of the call as it is.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

import truerank
from bench.gpu import CLASSES
from bench.gpu_data import make
from bench.gpu_record import describe_machine
from truerank._util.settings import current_settings, settings

__all__ = ["in_one_thread", "run", "timed"]

LISTED = 28
TURNS = 4
COLUMNS = ("self_cuda_time_total", "self_cpu_time_total")


def run(rows: int, out: Path | None = None, *, device: str = "cuda", dimensions: int = 512) -> str:
    """Profile calls from tensors and from arrays, without and with intervals."""
    told = io.StringIO()

    def tell(text: str) -> None:
        print(text, flush=True)
        print(text, file=told)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / "profile.txt").write_text(told.getvalue(), encoding="utf-8")

    tell(describe_machine(device))
    x, labels = make(rows, dimensions, CLASSES.get((rows, 4), rows // 5), device=device)
    here = x.cpu().numpy(), labels.cpu().numpy()
    calls = {
        f"{name}, {'no' if confidence is None else 'with'} intervals": partial(
            truerank.evaluate, *arrays, device="cuda", confidence=confidence
        )
        for name, arrays in {"tensors": (x, labels), "arrays": here}.items()
        for confidence in (None, 0.95)
    }
    for name, call in calls.items():
        seconds = sorted(timed(call) for _ in range(TURNS))
        tell(f"\n{rows:,} x {dimensions}, {name}: {1000 * seconds[(TURNS - 1) // 2]:.0f} ms")
        tell(_functions(call))
    for name in ("tensors, no intervals", "tensors, with intervals"):
        tell(f"\n{name}, other settings")
        tell(_other_settings(calls[name]))
        tell(f"\n{name}: kernels, and calls into torch")
        tell(_kernels(calls[name], device))
    return told.getvalue()


def timed(call: Callable[[], Any]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _other_settings(call: Callable[..., Any]) -> str:
    """The same with other numbers of threads, and with blocks of fewer queries, so that the CPU
    works on one while the GPU counts the next."""
    lines = []
    usual = current_settings().query_rows
    for threads in (None, 1, 4, 8):
        seconds = sorted(timed(partial(call, threads=threads)) for _ in range(TURNS))
        lines.append(f"threads={threads}: {1000 * seconds[(TURNS - 1) // 2]:.0f} ms")
    for part in (2, 4, 8):
        with settings(query_rows=max(1, usual // part)):
            seconds = sorted(timed(call) for _ in range(TURNS))
        lines.append(f"query_rows={usual // part}: {1000 * seconds[(TURNS - 1) // 2]:.0f} ms")
    return "\n".join(lines)


def _functions(call: Callable[[], Any]) -> str:
    """What single functions take themselves, then with all that they call."""
    with in_one_thread():
        call()
        profile = cProfile.Profile()
        profile.runcall(call)
    text = io.StringIO()
    stats = pstats.Stats(profile, stream=text).strip_dirs()
    stats.sort_stats("tottime").print_stats(LISTED)
    stats.sort_stats("cumtime").print_stats(2 * LISTED)
    lines = [line for line in text.getvalue().splitlines() if line.strip()]
    return "\n".join(line for line in lines if not line.lstrip().startswith(("Ordered", "List")))


def _kernels(call: Callable[[], Any], device: str) -> str:
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as seen:
        call()
    found = seen.key_averages()
    columns = COLUMNS if device == "cuda" else COLUMNS[1:]
    return "\n".join(
        found.table(sort_by=column, row_limit=22, max_name_column_width=60) for column in columns
    )


class _Here:
    """In the place of a ThreadPoolExecutor: work is done at once, by whoever asks for it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *given: object) -> None:
        pass

    def shutdown(self, *given: Any, **named: Any) -> None:
        """Nothing runs."""

    def submit(self, work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]:
        """The work, done."""
        future: Future[Any] = Future()
        try:
            future.set_result(work(*given, **named))
        except BaseException as error:
            future.set_exception(error)
        return future

    def map(self, work: Callable[..., Any], *given: Iterable[Any]) -> Iterator[Any]:
        """The work, done as it is asked for."""
        return map(work, *given)


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Pools of truerank's modules do their work in the calling thread."""
    pool = "ThreadPoolExecutor"
    held = {
        name: module
        for name, module in sys.modules.items()
        if name.startswith("truerank") and hasattr(module, pool)
    }
    before = {name: getattr(module, pool) for name, module in held.items()}
    try:
        for module in held.values():
            setattr(module, pool, _Here)
        yield
    finally:
        for name, module in held.items():
            setattr(module, pool, before[name])
