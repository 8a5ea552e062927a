"""Threads that share the tiles of a pass, what each of them adds up, and BLAS kept to one thread.

Threads can stop between two tiles without losing counts. Their sums are sent empty to other
processes; what those count is sent back and added. Matrix products run on one BLAS thread each
where truerank's own threads multiply.
"""

from __future__ import annotations

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock, Thread, get_ident
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from truerank._util.checkpoint import Checkpoint, fill
from truerank._util.types import Integers


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread: threads of its own wait for work in loops that cost a core."""
    with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """The libraries of this process, looked for again once another module has been imported: the
    search takes as long as ranking a thousand rows."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# Threads: how many there may be, what each keeps and adds up, and how they share a pass's tiles.
#
# Threads can stop between two tiles, and lose nothing. What they add up is sent empty to another
# process; what is found there is sent back and added.


Tile = tuple[int, int]
NextTile = Callable[[], Tile | None]
"""The next tile, or None when there is none left for this thread."""
Outcome = TypeVar("Outcome")
Part = TypeVar("Part")
Kept = TypeVar("Kept")
SPARSE = 4
"""A table of which at most one in so many entries is filled travels as places and values."""


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Have something done by a thread of its own while this one waits for a device."""
    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


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


class PerThread(Generic[Kept]):
    """One accumulator for each thread that asks for it."""

    def __init__(self, make: Callable[[], Kept]) -> None:
        self._make, self._lock = make, Lock()
        self._held: dict[int, Kept] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return PerThread, (self._make,)

    def mine(self) -> Kept:
        """This thread's own accumulator."""
        with self._lock:
            if get_ident() not in self._held:
                self._held[get_ident()] = self._make()
            return self._held[get_ident()]

    def all(self) -> list[Kept]:
        """The accumulators of all threads; a fresh one if no thread has asked yet."""
        return list(self._held.values()) or [self._make()]

    def put(self, kept: Kept) -> None:
        """Replace the accumulators of all threads by this one."""
        self._held = {0: kept}


class Tables:
    """Tables of counts that are added up in the end, as many as were written to at a time."""

    def __init__(self, make: Callable[[], npt.NDArray[np.integer]]) -> None:
        self._make = make
        self.all: list[npt.NDArray[np.integer]] = []
        self._free: deque[npt.NDArray[np.integer]] = deque()

    def __reduce__(self) -> tuple[Any, ...]:
        return Tables, (self._make,)

    @contextmanager
    def borrow(self) -> Iterator[npt.NDArray[np.integer]]:
        """A table that no other thread has until it is given back."""
        try:
            table = self._free.pop()
        except IndexError:
            table = self._make()
            self.all.append(table)
        try:
            yield table
        finally:
            self._free.append(table)

    def total(self, part: Any = ...) -> Integers:
        """The sum of all tables, in 64 bits; of a part of them, if asked for."""
        return _sum([table[part] for table in self.all or [self._make()]])

    def summed(self, axis: int, part: Any = ...) -> Integers:
        """The same, added up along an axis."""
        tables = self.all or [self._make()]
        return _sum([table[part].sum(axis=axis, dtype=np.int64) for table in tables])

    def put(self, total: Integers) -> None:
        """Replace all tables by one that holds this total."""
        table = self._make()
        fill(np.empty(table.shape, np.int64), total)
        table[...] = total
        self.all, self._free = [table], deque([table])

    def part(self, rows: Integers | None) -> dict[str, Any]:
        """The total in few numbers; where it is known, only these of its rows are not empty."""
        table = self.total()
        if rows is not None:
            rows = np.unique(rows[rows >= 0])
            table = table[rows]
        if SPARSE * np.count_nonzero(table) > table.size:
            return {"rows": rows, "table": table}
        place = np.flatnonzero(table)
        return {"rows": rows, "place": place, "values": table.ravel()[place]}

    def add(self, part: dict[str, Any]) -> None:
        """Add what `part` of another one returned."""
        with self.borrow() as table:
            rows = np.arange(len(table)) if part["rows"] is None else part["rows"]
            if "table" in part:
                table[rows] += part["table"].astype(table.dtype)
            else:
                first, *others = np.unravel_index(part["place"], (len(rows), *table.shape[1:]))
                table[(rows[first], *others)] += part["values"].astype(table.dtype)


def total(arrays: PerThread[Any]) -> Integers:
    """The sum over all threads, in 64 bits."""
    return _sum(arrays.all())


def _sum(arrays: Sequence[npt.NDArray[np.integer]]) -> Integers:
    first, *others = arrays
    found: Integers = first.astype(np.int64)
    for part in others:
        found += part
    return found


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


@dataclass(frozen=True)
class HelperThreads:
    """Threads that help one that has much to do."""

    threads: int
    """Threads that may be at work, with the one that is helped."""
    pool: ThreadPoolExecutor

    def share(
        self, work: Callable[[Part], Outcome], parts: Iterable[Part], most: int | None = None
    ) -> list[Outcome]:
        """What `work` makes of every part, in their order; this thread takes its turns as well.

        `most` is how many threads, all together, the parts are worth: more would wait for the
        interpreter, and for one another.
        """
        return self.begin(work, parts, most)()

    def begin(
        self, work: Callable[[Part], Outcome], parts: Iterable[Part], most: int | None = None
    ) -> Callable[[], list[Outcome]]:
        """The same, while this thread goes on: to call what comes back is to help, wait and get
        the outcomes. Until then other threads are at it, if there are any."""
        every = list(parts)
        found: dict[int, Outcome] = {}
        remaining = deque(range(len(every)))

        def take_turns() -> None:
            while True:
                try:
                    place = remaining.popleft()
                except IndexError:
                    return
                try:
                    found[place] = work(every[place])
                except BaseException:
                    remaining.clear()  # nobody begins another part
                    raise

        several = min(self.threads, len(every), len(every) if most is None else most)
        others = [self.pool.submit(take_turns) for _ in range(several - 1)]

        def outcomes() -> list[Outcome]:
            try:
                take_turns()
            finally:
                wait(others)
            for other in others:
                other.result()
            return [found[place] for place in range(len(every))]

        return outcomes


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
        share = self._make_alone if len(tiles) == 1 else self._share_out
        while ahead:
            self.checkpoint.release(key)
            outcomes, stopped = share(ahead, work, pairs)
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

    def _make_alone(
        self,
        ahead: deque[Tile],
        work: Callable[[NextTile, Callable[[Tile], None]], Outcome],
        pairs: Callable[[Tile], int],
    ) -> tuple[list[Outcome], BaseException | None]:
        """A single tile is not worth a thread; interrupted, it was never counted."""
        done: list[Tile] = []
        outcome = work(lambda: ahead.popleft() if ahead else None, done.append)
        self.tick(pairs(done[0]))
        return [outcome], None

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
