"""Threads: how many there may be, what each keeps, and how they share the tiles of a pass.

Threads can stop between two tiles, and lose nothing.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import Checkpoint

__all__ = [
    "NextTile",
    "Resumable",
    "Tile",
    "TilePool",
    "Workspace",
    "available_cores",
    "run_in_threads",
    "single_threaded_blas",
]

Tile = tuple[int, int]
NextTile = Callable[[], Tile | None]
"""The next tile, or None when there is none left for this thread."""
Outcome = TypeVar("Outcome")
Part = TypeVar("Part")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread, since each of our threads multiplies a tile of its own."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


class Workspace:
    """Large arrays by name, used again for block after block: fresh memory is slow to touch."""

    def __init__(self) -> None:
        self._held: dict[str, npt.NDArray[Any]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: type) -> npt.NDArray[Any]:
        """An array of this shape with anything in it."""
        size = math.prod(shape)
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = np.empty(size, dtype)
        return self._held[name][:size].reshape(shape)


def run_in_threads(
    parts: Sequence[Part], threads: int, work: Callable[[Part, Workspace], None]
) -> None:
    """Call `work` for every part, with its thread's workspace."""
    remaining = deque(parts)

    def take_turns() -> None:
        workspace = Workspace()
        while True:
            try:
                part = remaining.popleft()
            except IndexError:
                return
            work(part, workspace)

    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        try:
            for worker in [pool.submit(take_turns) for _ in range(threads)]:
                worker.result()
        finally:
            remaining.clear()  # on an interrupt the threads stop after the rows they are in


class Resumable(Protocol):
    """Something that sees tiles, and can go on from what it has seen."""

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What was seen, as arrays by name, while no thread is at work."""

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Go on from a state."""


@dataclass(frozen=True)
class TilePool:
    """The threads that share the tiles of a pass, its progress, and where counts are kept."""

    pool: ThreadPoolExecutor
    threads: int
    tick: Callable[[int], None]
    """Called with finished pairs, in the thread that runs the pass."""
    checkpoint: Checkpoint
    observers: Resumable | None = None
    """The observers of the tiles: what they have seen is kept with the counts."""

    def complete(
        self,
        tiles: Sequence[Tile],
        work: Callable[[NextTile, Callable[[Tile], None]], Outcome],
        merge: Callable[[Outcome], object],
        pairs: Callable[[Tile], int],
        key: str,
        state: dict[str, npt.NDArray[Any]],
    ) -> None:
        """Run `work(next_tile, finished)` in the threads until every tile is done.

        `merge` adds an outcome to the arrays of the state, which the checkpoint holds under `key`
        whenever no thread is at work. Tiles counted before an interrupt are not handed out again.
        """
        is_open = np.ones(len(tiles), bool)
        state = state | {"open": is_open}
        self._restore(key, state)
        ahead = deque(tile for tile, left in zip(tiles, is_open, strict=True) if left)
        already = sum(map(pairs, tiles)) - sum(map(pairs, ahead))
        if already:
            self.tick(already)
        while ahead:
            self.checkpoint.release(key)
            outcomes, stopped = self._share_out(ahead, work, pairs)
            for outcome in outcomes:
                merge(outcome)
            left_over = set(ahead)
            is_open[:] = [tile in left_over for tile in tiles]
            if ahead or stopped is not None:
                self.checkpoint.hold(key, self._with_seen(state))
            if stopped is not None:
                raise stopped
            if self.checkpoint.due():
                self.checkpoint.save()
        self.checkpoint.release(key)

    def _restore(self, key: str, state: dict[str, npt.NDArray[Any]]) -> None:
        """Go on from what an earlier run left: the counts, and what observers saw of the same."""
        if self.observers is None:
            self.checkpoint.restore(key, state)
        else:
            self.checkpoint.restore_seen(key, state, self.observers.restore)

    def _with_seen(self, state: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        if self.observers is None or not self.checkpoint.is_kept:
            return state
        return self.checkpoint.with_seen(state, self.observers.state())

    def _share_out(
        self,
        ahead: deque[Tile],
        work: Callable[[NextTile, Callable[[Tile], None]], Outcome],
        pairs: Callable[[Tile], int],
    ) -> tuple[list[Outcome], BaseException | None]:
        """Let threads share the tiles: outcomes so far, and the error that ended it early."""
        stopped: BaseException | None = None
        closed = False
        done: deque[Tile] = deque()

        def next_tile() -> Tile | None:
            try:
                return None if closed else ahead.popleft()
            except IndexError:
                return None

        try:
            workers = [
                self.pool.submit(work, next_tile, done.append)
                for _ in range(min(self.threads, len(ahead)))
            ]
            pending = set(workers)
            while pending:
                try:
                    pending = wait(pending, timeout=0.1).not_done
                    failed = any(worker.exception() for worker in workers if worker.done())
                    closed = closed or failed or self.checkpoint.due()
                    while done and stopped is None:
                        self.tick(pairs(done.popleft()))
                except BaseException as error:
                    closed = True
                    stopped = stopped or error
        finally:
            closed = True  # whatever happened, no thread begins another tile
        return [worker.result() for worker in workers], stopped
