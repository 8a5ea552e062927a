"""The CUDA engine: torch and Triton count what the CPU counts, bit for bit.

Blocks of queries are shared between the GPUs of this machine, one thread for each; while a GPU
counts, the caller turns earlier blocks into metrics.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from types import ModuleType
from typing import TYPE_CHECKING

from truerank.engine.counts import TieGroups
from truerank.errors import InputError
from truerank.relevance import View
from truerank.space import Distances, Rows, Space

if TYPE_CHECKING:
    from truerank.engine import Settings

__all__ = ["TALLER", "Lent", "check", "tie_groups", "unavailable"]

TALLER = 32
"""A GPU's blocks hold this many times as many queries, and mates, as the CPU's."""
_AHEAD = 2
"""Blocks under way for each GPU: one being counted and one waiting."""


def unavailable() -> str | None:
    """Why there is no GPU to use, or None if there is one. Imports torch only if it is installed."""
    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        return "torch is not installed (pip install 'truerank[torch]')"
    import torch

    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    if os.environ.get("CUBLAS_EMULATE_DOUBLE_PRECISION", "0") not in ("", "0"):
        return "CUBLAS_EMULATE_DOUBLE_PRECISION asks for inexact float64 products; unset it"
    return None


def check() -> None:
    """Raise unless a GPU can be used."""
    reason = unavailable()
    if reason is not None:
        raise InputError(f"device='cuda' cannot be used: {reason}.")


def tie_groups(
    view: View,
    space: Space,
    blocks: Iterator[Rows],
    limits: Settings,
    tick: Callable[[int], None],
    *,
    devices: Sequence[str] | None = None,
    kernels: ModuleType | None = None,
) -> Iterator[tuple[Rows, TieGroups]]:
    """Yield (query rows, their tie groups), block after block in the given order.

    The rest is for tests: devices other than all GPUs, kernels other than the best ones installed.
    """
    import torch

    from truerank.engine.cuda.worker import Worker

    names = devices or [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    places = [torch.device(name) for name in names]
    chosen = kernels or _kernels()
    workers: dict[int, Worker] = {}

    def work(number: int, rows: Rows) -> TieGroups:
        on_gpu = places[number].type == "cuda"
        with torch.cuda.device(places[number]) if on_gpu else nullcontext(), torch.no_grad():
            if number not in workers:
                workers[number] = Worker(view, space, places[number], chosen)
            return workers[number].count(rows, limits)

    pools = [ThreadPoolExecutor(1) for _ in places]
    ahead: deque[tuple[Rows, Future[TieGroups]]] = deque()
    try:
        for turn, rows in enumerate(blocks):
            number = turn % len(places)
            ahead.append((rows, pools[number].submit(work, number, rows)))
            if len(ahead) > _AHEAD * len(places):
                yield from _next(ahead, space, tick)
        while ahead:
            yield from _next(ahead, space, tick)
    finally:
        for pool in pools:  # on an interrupt, what has not begun is not begun
            pool.shutdown(cancel_futures=True)


def _next(
    ahead: deque[tuple[Rows, Future[TieGroups]]], space: Space, tick: Callable[[int], None]
) -> Iterator[tuple[Rows, TieGroups]]:
    rows, work = ahead.popleft()
    groups = work.result()
    tick(len(rows) * space.gallery)
    yield rows, groups


class Lent(Space):
    """A space whose tiles the first GPU makes, for whoever needs them in main memory."""

    def __init__(self, space: Space, device: str = "cuda:0") -> None:
        import torch

        from truerank.engine.cuda.rows import place

        self._space = space
        self._placed = place(space, torch.device(device), _kernels())
        self.queries, self.gallery, self.facts = space.queries, space.gallery, space.facts
        self.integral = space.integral

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""
        return self._placed.tiles(rows)

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        return self._space.pairs(query, item)

    def in_unit(self, distances: Distances) -> Distances:
        """See Space."""
        return self._space.in_unit(distances)


def _kernels() -> ModuleType:
    """Triton's kernels where Triton is installed, else plain torch operations."""
    if importlib.util.find_spec("triton") is None:
        from truerank.engine.cuda import torch_kernels

        return torch_kernels
    from truerank.engine.cuda import triton_kernels

    return triton_kernels
