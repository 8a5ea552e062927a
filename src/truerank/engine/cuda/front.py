"""Entry of the CUDA engine: is there a GPU, which facts has it, and blocks counted by GPUs.

This file loads without torch. Blocks of queries are shared between the GPUs of this machine,
one thread per GPU; while a GPU counts, the caller turns earlier blocks into metrics. The counts
are those of the CPU, bit for bit.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from truerank._util.errors import InputError
from truerank._util.settings import Settings, current_settings
from truerank.core.jackknife import GalleryFolds
from truerank.core.tie_groups import Block, LocatedGroups, SplitGroups
from truerank.distance.base import Distances, Rows, Space
from truerank.distance.digests import Fingerprints
from truerank.task.relevance import View

if TYPE_CHECKING:
    from truerank.engine.cuda.worker import Worker
    from truerank.engine.reducers import Deferred, Observers


Found = TypeVar("Found")

FIRST = "cuda:0"
"""The GPU on which rows are rounded, and which makes tiles for the CPU."""
TALLER, SPLIT_TALLER, OBSERVED_TALLER = 32, 4, 2
"""A GPU's blocks hold this many times as many queries, and mates, as the CPU's; fewer mates where
groups are split, which takes main memory, and fewer queries where whole rows are observed."""
OBSERVING, OBSERVED, BYTES = 3, 1 << 28, 80
"""Observing threads for each GPU; the most distances that each of them holds, and the bytes that a
distance may take."""
DRIVERS = ("nvidiactl", "nvidia0", "dxg", "nvhost-gpu", "nvgpu", "kfd")
"""What a GPU's driver puts into /dev: of NVIDIA, in WSL, on Jetson, of AMD."""


def likely() -> bool:
    """Whether this machine may have a GPU, as far as can be seen without importing torch."""
    if "torch" in sys.modules or sys.platform != "linux":
        return True
    return any(Path("/dev", name).exists() for name in DRIVERS)


def unavailable() -> str | None:
    """Why there is no GPU to use, or None if there is one; imports torch if it is installed."""
    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        return "torch is not installed (pip install torch)"
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


class Engine:
    """The GPUs of this machine at work on one view of a space; blocks come back in order.

    `devices`, `kernels` and `filters` are for tests: other than all GPUs, other than the best ones
    installed, other than those that belong to the kernels.
    """

    def __init__(
        self,
        view: View,
        space: Space,
        limits: Settings,
        tick: Callable[[int], None],
        devices: Sequence[str] | None = None,
        kernels: ModuleType | None = None,
        filters: ModuleType | None = None,
    ) -> None:
        import torch

        names = devices or [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        self._devices = [torch.device(name) for name in names]
        self._view, self._space, self._limits, self._tick = view, space, limits, tick
        self._kernels, self._filters = kernels or best_kernels(self._devices[0]), filters
        self._placed = _placed(view, space)
        self._turns = count()

    def facts(self) -> DeviceFacts:
        """What a schedule must know, as it is now."""
        return DeviceFacts(
            walks=self._kernels.FUSED,
            ranked_rows=self._ranked_height(),
            observed_rows=self._observed_height(),
            observing=self.observing,
            devices=len(self._devices),
        )

    def tie_groups(
        self, blocks: Iterator[Rows], *, distances: bool = False, folds: GalleryFolds | None = None
    ) -> Iterator[Block]:
        """Few relevant items: tie groups of each block, with their distances if asked for, and
        split by fold for the queries that want it."""

        def work(worker: Worker, rows: Rows) -> Block:
            return worker.count(rows, self._limits, distances=distances, folds=folds)

        for rows, block in self._in_turn(blocks, work):
            self._tick(len(rows) * self._space.gallery)
            yield block

    def tie_groups_both_ways(
        self, blocks: Sequence[Rows], folds: GalleryFolds | None = None
    ) -> Iterator[Block]:
        """The same for blocks whose queries are items too, each ascending, by one GPU, which
        multiplies each pair once where that can be."""
        counted = self._on(0, lambda worker: worker.count_both_ways(blocks, self._limits, folds))
        if counted is None:
            yield from self.tie_groups(iter(blocks), folds=folds)
            return
        pool = ThreadPoolExecutor(1)

        def find() -> Future[Block | None]:
            return pool.submit(self._on, 0, lambda _: next(counted, None))

        try:
            ahead = find()
            while (block := ahead.result()) is not None:
                ahead = find()
                self._tick(len(block.rows) * self._space.gallery)
                yield block
        finally:
            pool.shutdown(cancel_futures=True)
            counted.close()

    def rankings(self, blocks: Iterator[Rows], tied: list[Rows]) -> Iterator[Block]:
        """Many relevant items: rankings that stay on the device; ties are put aside."""
        for rows, (ranked, ties) in self._in_turn(blocks, lambda worker, some: worker.rank(some)):
            tied.append(rows[ties])
            self._tick(len(ranked) * self._space.gallery)
            if len(ranked):
                yield Block(rows[~ties], ranked, SplitGroups.none())

    def observe(self, rows: Rows, observers: Observers) -> list[Deferred]:
        """Let observers see whole rows, in any thread; what they leave to do is handed back."""
        turn = next(self._turns) % len(self._devices)
        return self._work(turn, rows, lambda worker, some: worker.observe(some, observers))

    def observe_rows(
        self, rows: Rows, observers: Observers, groups: LocatedGroups
    ) -> list[Deferred]:
        """Let observers see whole rows with their tie groups, in any thread."""
        turn = next(self._turns) % len(self._devices)
        return self._work(
            turn, rows, lambda worker, some: worker.observe_rows(some, observers, groups)
        )

    def no_groups(self, rows: Rows) -> LocatedGroups:
        """The tie groups of queries without a relevant item."""
        excluded = self._view.exclusions.pairs(rows, self._view.items)
        gone = np.bincount(excluded.query, minlength=len(rows))
        return LocatedGroups.none(self._space.gallery - gone, self._view.grades)

    def _observed_height(self) -> int:
        """Rows that each observing thread may hold."""
        from truerank.engine.cuda.rows import free_bytes

        free = min(free_bytes(device) for device in self._devices)
        numbers = min(OBSERVED, free // (BYTES * OBSERVING))
        tall = OBSERVED_TALLER * self._limits.query_rows
        return max(1, min(tall, numbers // self._space.gallery))

    @property
    def observing(self) -> int:
        """Observing threads: while one waits for a device, another gives it work."""
        return OBSERVING * len(self._devices)

    def _ranked_height(self) -> int:
        """Rows of grades that each device has memory for, with two blocks under way."""
        from truerank.engine.cuda.rows import free_bytes

        free = min(free_bytes(device) for device in self._devices)
        return max(1, min(1 << 32, free // 8) // self._space.gallery)

    def _in_turn(
        self, blocks: Iterator[Rows], task: Callable[[Worker, Rows], Found]
    ) -> Iterator[tuple[Rows, Found]]:
        """Hand the blocks to the devices in turn; what each found comes back in order."""
        pools = [ThreadPoolExecutor(1) for _ in self._devices]
        ahead: deque[tuple[Rows, Future[Found]]] = deque()
        try:
            for turn, rows in enumerate(blocks):
                number = turn % len(pools)
                ahead.append((rows, pools[number].submit(self._work, number, rows, task)))
                if len(ahead) > len(pools):
                    rows, work = ahead.popleft()
                    yield rows, work.result()
            while ahead:
                rows, work = ahead.popleft()
                yield rows, work.result()
        finally:
            for pool in pools:  # on an interrupt, what has not begun is not begun
                pool.shutdown(cancel_futures=True)

    def _work(self, number: int, rows: Rows, task: Callable[[Worker, Rows], Found]) -> Found:
        return self._on(number, lambda worker: task(worker, rows))

    def _on(self, number: int, task: Callable[[Worker], Found]) -> Found:
        """Have a device do something."""
        import torch

        from truerank.engine.cuda.worker import Worker

        device = self._devices[number]
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext(), torch.no_grad():
            workers = self._placed.workers
            with self._placed.lock:
                if number not in workers:
                    placed = (self._view, self._space, device, self._kernels, self._filters)
                    workers[number] = Worker(*placed)
            return task(workers[number])

    def prepare(self) -> None:
        """Have the first device, which every pass uses, take in what it needs."""
        self._on(0, lambda _: None)


@dataclass
class _Placed:
    """What devices hold of a space in a view: their workers by number, to be filled."""

    view: View
    space: Space
    workers: dict[int, Worker] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


_kept: ContextVar[list[_Placed] | None] = ContextVar("_kept", default=None)


@contextmanager
def keeping() -> Iterator[None]:
    """Let successive passes share what devices hold of the data.

    Only the last view's is kept: of another one the rows are the same, and would be held twice.
    """
    token = _kept.set([])
    try:
        yield
    finally:
        _kept.reset(token)


def prepare(view: View, space: Space, pool: ThreadPoolExecutor) -> None:
    """Copy what the first GPU needs in a thread, for passes within the same `keeping`.

    What fails here is tried again, and told, by the pass itself.
    """
    engine = Engine(view, space, current_settings(), lambda pairs: None)
    pool.submit(engine.prepare)


def _placed(view: View, space: Space) -> _Placed:
    """What an earlier pass in this view has left, if that is kept."""
    held = _kept.get()
    if held is None:
        return _Placed(view, space)
    if not (held and held[0].view is view and held[0].space is space):
        held[:] = [_Placed(view, space)]
    return held[0]


class DeviceBackedSpace(Space):
    """A space whose tiles the first GPU makes, for strategies that need them in main memory."""

    def __init__(
        self, space: Space, device: str = FIRST, kernels: ModuleType | None = None
    ) -> None:
        import torch

        from truerank.engine.cuda.rows import place

        self._space = space
        where = torch.device(device)
        self._placed = place(space, where, kernels or best_kernels(where))
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

    def fingerprints(self) -> Fingerprints:
        """See Space."""
        return self._space.fingerprints()


def best_kernels(device: Any) -> ModuleType:
    """Triton's kernels on GPUs where Triton is installed, else plain torch operations."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        from truerank.engine.cuda import torch_kernels

        return torch_kernels
    from truerank.engine.cuda import exact_kernels

    return exact_kernels


# Device facts: what a schedule must know of GPUs that only they can tell.


@dataclass(frozen=True)
class DeviceFacts:
    """The GPUs of a pass, as they are when a schedule is made; of a pass without any, zeros."""

    walks: bool = False
    """Whether rankings can stay on the GPUs."""
    ranked_rows: int = 0
    """Rows of grades that each GPU has memory for now, with two blocks under way."""
    observed_rows: int = 0
    """Rows that each observing thread may hold now."""
    observing: int = 0
    """Threads in which observers see rows."""
    devices: int = 0
    """GPUs that share the queries."""


# Sizes that schedules and devices both go by.


STRIP = 1 << 14
"""Most items that a GPU filters between two refinements: their integer rows stay in its cache."""
FEW = 8
"""Most thresholds of a query with which a GPU compares items one by one."""
SHARED = 64
"""Most mates of a query whose products with other queries a GPU makes for both of them: the
thresholds of all such queries are on the device at a time."""
