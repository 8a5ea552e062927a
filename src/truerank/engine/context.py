"""What the strategies of one pass share: its threads, its GPUs and whoever hears of progress.

Threads and devices are there once the first strategy asks for them, and end with the pass. Only
the thread that runs the pass asks.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType

from truerank.checkpoint import Checkpoint
from truerank.engine import cuda
from truerank.engine.facts import DeviceFacts
from truerank.engine.request import Request
from truerank.engine.schedule import WorkItem, tiles
from truerank.engine.threads import Crew, single_threaded_blas
from truerank.engine.watch import Audience
from truerank.settings import Settings
from truerank.space import Rows, Space

__all__ = ["PassContext"]


class PassContext:
    """A pass that is under way; leaving it ends its threads and gives BLAS its own back."""

    def __init__(
        self,
        request: Request,
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
    def audience(self) -> Audience:
        """Who watches; for strategies that are there for them."""
        if self.request.audience is None:
            raise ValueError("nobody watches this pass")
        return self.request.audience

    def space(self, item: WorkItem) -> Space:
        """Where the distances of some work come from."""
        return self._lent if item.lent else self.request.space

    def has_mates(self, block: Rows) -> bool:
        """Whether these queries have relevant items; blocks hold no two kinds."""
        return bool(self.request.view.mates[block[0]])

    def saw(self, rows: Rows) -> None:
        """Progress: these queries against the whole gallery."""
        self.tick(len(rows) * self.request.space.gallery)

    def crew(self) -> Crew:
        """Threads whose counts the checkpoint keeps, while nobody watches."""
        kept = self._checkpoint if self.request.audience is None else Checkpoint()
        return Crew(self.pool, self.request.threads, self.tick, kept)

    def watched_crew(self) -> Crew:
        """The same for watchers whose sights can be kept with the counts."""
        audience = self.audience
        if not audience.resumable:
            return self.crew()
        return Crew(self.pool, self.request.threads, self.tick, self._checkpoint, audience)

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """The threads of the CPU."""
        self._stack.enter_context(single_threaded_blas())
        return self._stack.enter_context(ThreadPoolExecutor(self.request.threads))

    @cached_property
    def gpus(self) -> cuda.Engine:
        """The GPUs; where somebody watches, progress is what was shown, not what was counted."""
        request = self.request
        tick = self.tick if request.audience is None else lambda pairs: None
        return cuda.Engine(request.view, request.space, self.limits, tick)

    def facts(self) -> DeviceFacts:
        """What the device that was asked for can tell now."""
        return self.gpus.facts() if self.request.device == "cuda" else DeviceFacts()

    @cached_property
    def _lent(self) -> Space:
        return cuda.Lent(self.request.space)
