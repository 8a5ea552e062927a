"""Showing: threads that share parts of the matrix and let an audience see them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from truerank.engine.threads import single_threaded_blas
from truerank.engine.workspace import Workspace

__all__ = ["show_all"]

Part = TypeVar("Part")


def show_all(parts: Sequence[Part], threads: int, look: Callable[[Part, Workspace], None]) -> None:
    """Call `look` for every part, with its thread's workspace."""
    remaining = deque(parts)

    def work() -> None:
        workspace = Workspace()
        while True:
            try:
                part = remaining.popleft()
            except IndexError:
                return
            look(part, workspace)

    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        try:
            for worker in [pool.submit(work) for _ in range(threads)]:
                worker.result()
        finally:
            remaining.clear()  # on an interrupt the threads stop after the rows they are in
