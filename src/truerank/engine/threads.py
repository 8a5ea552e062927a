"""Threads: how many there may be, what each keeps, and BLAS kept from starting more below them."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = [
    "Workspace",
    "available_cores",
    "show_all",
    "single_threaded_blas",
]


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Our threads each multiply their own tile; BLAS must not start more threads below them."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


class Workspace:
    """Large arrays by name, used again for block after block: fresh memory is slow to touch."""

    def __init__(self) -> None:
        self._held: dict[str, npt.NDArray[Any]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: type) -> npt.NDArray[Any]:
        """An array of this shape with anything in it."""
        size = math.prod(shape)
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = np.empty(size, dtype)
        return self._held[name][:size].reshape(shape)


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
