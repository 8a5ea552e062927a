"""What the strategies of one pass share: its threads, its GPUs and its progress.

Threads and devices are there once the first strategy asks for them, and end with the pass. Only
the thread that runs the pass asks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType

from truerank.blas import single_threaded_blas
from truerank.cached import cached_property
from truerank.checkpoint import Checkpoint
from truerank.cluster import Cluster
from truerank.engine import cuda
from truerank.engine.facts import DeviceFacts
from truerank.engine.observers import Observers
from truerank.engine.request import PassRequest
from truerank.engine.schedule import WorkItem, tiles
from truerank.engine.threads import TilePool
from truerank.settings import Settings
from truerank.space import Rows, Space

__all__ = ["PassContext"]


class PassContext:
    """A pass that is under way; leaving it ends its threads and gives BLAS its own back."""

    def __init__(
        self,
        request: PassRequest,
        limits: Settings,
        checkpoint: Checkpoint,
        tick: Callable[[int], None],
    ) -> None:
        self.request, self.limits, self.tick = request, limits, tick
        self.tiles = tiles(request.space.gallery, limits)
        self._checkpoint, self._stack = checkpoint, ExitStack()

    def __enter__(self) -> PassContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def observers(self) -> Observers:
        """The observers of the pass; an error where it has none."""
        if self.request.observers is None:
            raise ValueError("this pass has no observers")
        return self.request.observers

    def space(self, item: WorkItem) -> Space:
        """The space that the distances of some work come from."""
        return self._device_backed if item.device_backed else self.request.space

    def has_mates(self, block: Rows) -> bool:
        """Whether these queries have relevant items; blocks hold no two kinds."""
        return bool(self.request.view.mates[block[0]])

    def advance(self, rows: Rows) -> None:
        """Report progress: these queries have met the whole gallery."""
        self.tick(len(rows) * self.request.space.gallery)

    @property
    def cluster(self) -> Cluster:
        """The cluster on which the pass is made; an error where it is made here."""
        if self.request.space.cluster is None:
            raise ValueError("this pass has no cluster")
        return self.request.space.cluster

    @property
    def kept(self) -> Checkpoint:
        """The checkpoint that keeps the counts of blocks, if there are no observers."""
        return self._checkpoint if self.request.observers is None else Checkpoint()

    def tile_pool(self) -> TilePool:
        """Threads that count tiles; the checkpoint keeps their counts if there are no observers."""
        return TilePool(self.pool, self.request.threads, self.tick, self.kept)

    def observed_tile_pool(self) -> TilePool:
        """Threads that count tiles and keep what observers have seen, where that can be kept."""
        observers = self.observers
        if not observers.resumable:
            return self.tile_pool()
        return TilePool(self.pool, self.request.threads, self.tick, self._checkpoint, observers)

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """The threads of the CPU."""
        self._stack.enter_context(single_threaded_blas())
        return self._stack.enter_context(ThreadPoolExecutor(self.request.threads))

    @cached_property
    def gpus(self) -> cuda.Engine:
        """The GPUs; with observers, progress is what they have seen, not what was counted."""
        request = self.request
        tick = self.tick if request.observers is None else lambda pairs: None
        return cuda.Engine(request.view, request.space, self.limits, tick)

    def facts(self) -> DeviceFacts:
        """What the device that was asked for can tell now."""
        return self.gpus.facts() if self.request.device == "cuda" else DeviceFacts()

    @cached_property
    def _device_backed(self) -> Space:
        return cuda.DeviceBackedSpace(self.request.space)
