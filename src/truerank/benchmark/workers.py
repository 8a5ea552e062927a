"""Workers of a benchmark, as processes of this machine or on a cluster: tasks in, outcomes out.

Each worker process is a fresh interpreter that is sent one split of the data and nothing else,
runs tasks one at a time, and ends with the process that started it. Tasks and outcomes travel
as pickles over the standard streams; what a task prints goes to stderr. On a cluster the split
is put there once, and all machines must share the benchmark's folder.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import IO, Any, Protocol

from truerank._util.cluster import Call, Cluster
from truerank._util.errors import InputError, OwnCodeError, TruerankWarning
from truerank.datasets.base import Dataset

PATIENCE = 120.0
"""Seconds that tasks have for saving themselves."""


class Stopped:
    """In place of an outcome: the task was stopped and can go on later."""


class Crew(ABC):
    """Tasks in, outcomes out as they come; leaving it has what still runs save itself."""

    here = True
    """Whether it is this machine that works."""

    def __init__(self) -> None:
        self._running: dict[Any, Hashable] = {}
        self._told: set[str] = set()

    def __enter__(self) -> Crew:
        return self

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    @abstractmethod
    def room(self) -> int:
        """Tasks at a time."""

    @abstractmethod
    def stop(self) -> None:
        """Ask every task under way to save itself and end."""

    @abstractmethod
    def _begin(self, task: WorkerTask) -> Any:
        """Begin a task; what it is known by."""

    @abstractmethod
    def _ended(self, timeout: float | None) -> list[tuple[Any, Reply]]:
        """Those that have ended, after at least one has or the time is over."""

    @property
    def free(self) -> int:
        """How many tasks could begin now."""
        return max(0, self.room - len(self._running))

    @property
    def running(self) -> list[Hashable]:
        """The keys of the tasks under way."""
        return list(self._running.values())

    def submit(self, key: Hashable, task: WorkerTask) -> None:
        """Begin a task; `next` gives its key with its outcome."""
        self._running[self._begin(task)] = key

    def next(self, timeout: float | None = None) -> list[tuple[Any, Any]]:
        """Keys and outcomes of what has ended, after at least one has or the time is over."""
        ended = [(self._running.pop(known), reply) for known, reply in self._ended(timeout)]
        return [(key, self._outcome(reply)) for key, reply in ended]

    def _outcome(self, reply: Reply) -> Any:
        """A task's outcome, Stopped, or the error in which it ended; a warning is told once."""
        for sentence in reply.warnings:
            if sentence not in self._told:
                self._told.add(sentence)
                warnings.warn(sentence, TruerankWarning, stacklevel=2)
        if reply.error is not None and reply.trace is not None:
            raise OwnCodeError(reply.error, reply.trace)
        if reply.error is not None:
            raise InputError(reply.error) if reply.is_input else RuntimeError(reply.error)
        return Stopped() if reply.stopped else reply.outcome


# Worker processes, as many as there are jobs: tasks in, outcomes out as they come.


_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
START = "from truerank.benchmark.workers import main; main()"


class Workers(Crew):
    """Up to `jobs` worker processes, started when they are first needed.

    Parameters
    ----------
    half : Half
        What the workers know of the data.
    jobs : int
        Tasks at a time.
    """

    def __init__(self, half: Half, jobs: int) -> None:
        super().__init__()
        self._jobs = jobs
        self._half = pickle.dumps(half, protocol=pickle.HIGHEST_PROTOCOL)
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="truerank-worker")
        self._mine = threading.local()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._stopping = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running:  # a closed stream would end them before they are saved
            self.stop()
            wait(self._running, timeout=PATIENCE)
        with self._lock:
            for process in self._processes:
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        self._pool.shutdown(wait=True)
        for process in self._processes:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    @property
    def room(self) -> int:
        """See Crew."""
        return self._jobs

    def _begin(self, task: WorkerTask) -> Future[Reply]:
        return self._pool.submit(self._do, task)

    def _ended(self, timeout: float | None) -> list[tuple[Future[Reply], Reply]]:
        done, _ = wait(self._running, timeout=timeout, return_when=FIRST_COMPLETED)
        return [(future, future.result()) for future in done]

    def stop(self) -> None:
        """See Crew."""
        self._stopping = True
        with self._lock:
            for process in self._processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)

    def _do(self, task: WorkerTask) -> Reply:
        """Hand a task to this thread's process and wait for its reply."""
        if self._stopping:
            return Reply(stopped=True)
        process = getattr(self._mine, "process", None)
        try:
            if process is None:
                process = self._mine.process = self._start()
                process.stdin.write(self._half)
            pickle.dump(task, process.stdin)
            process.stdin.flush()
            reply: Reply = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, OSError, pickle.UnpicklingError):
            self._mine.process = None
            if self._stopping:
                return Reply(stopped=True)
            status = None if process is None else process.wait()
            return Reply(
                error=f"a worker process ended with status {status} (is the memory full?); "
                "finished work is kept; pass --resume to continue, perhaps with fewer --jobs."
            )
        return reply

    def _start(self) -> Any:
        environment = os.environ | dict.fromkeys(_ONE_THREAD, "1")
        process = subprocess.Popen(
            [sys.executable, "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for this process, which then asks them to stop
        )
        with self._lock:
            self._processes.append(process)
        return process


# Workers of a cluster in the place of processes here: tasks in, outcomes out as they come.


def work(held: list[Any], task: WorkerTask) -> Reply:
    """A task of the cluster: one of the benchmark's, in one thread as in a process of its own."""
    import torch

    torch.set_num_threads(1)
    return run_task(task, held[0])


class ClusterWorkers(Crew):
    """As many tasks at a time as the cluster has room for."""

    here = False

    def __init__(self, half: Half, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._half = cluster.put(half, shared=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running:
            self.stop()
            end = time.monotonic() + PATIENCE
            while self._running and time.monotonic() < end:
                for reference in self._cluster.ended(list(self._running), 1.0):
                    del self._running[reference]

    @property
    def room(self) -> int:
        """See Crew."""
        return self._cluster.slots

    def _begin(self, task: WorkerTask) -> Any:
        gpu = self._cluster.gpu
        return self._cluster.start(Call(None, f"{__name__}:work", (self._half,), (task,), gpu=gpu))

    def _ended(self, timeout: float | None) -> list[tuple[Any, Reply]]:
        found = self._cluster.ended(list(self._running), timeout)
        stopped = Reply(stopped=True)
        return [(one, self._cluster.answer(one, cancelled=stopped)) for one in found]

    def stop(self) -> None:
        """See Crew."""
        for reference in self._running:
            self._cluster.cancel(reference)


# A worker process: it is given one half of the data, runs tasks one at a time, and reports.


ENDED = (EOFError, pickle.UnpicklingError)
"""What reading says of a stream that has ended, perhaps in the middle of a task."""


@dataclass(frozen=True, eq=False)
class Half:
    """All that a worker knows of the data: one half, and the folds of the search half."""

    data: Dataset
    folds: list[Any]
    cache: dict[str, Any] = field(default_factory=dict)
    """What tasks keep for those that follow, such as features on the device."""


class WorkerTask(Protocol):
    """What a worker can be asked for."""

    def run(self, half: Half) -> Any:
        """Do it with one half of the data; what comes back must be plain."""


@dataclass(frozen=True)
class Reply:
    """How a task ended: with an outcome, stopped on request, or in an error's sentence."""

    outcome: Any = None
    stopped: bool = False
    error: str | None = None
    is_input: bool = True
    """Whether the error is one that the user can mend."""
    warnings: tuple[str, ...] = ()
    trace: str | None = None
    """The traceback, where the user's own code has failed."""


def main() -> None:
    """Serve until the stream of tasks ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a user's loss prints must not get between the replies
    stream = sys.stdin.buffer
    import torch

    torch.set_num_threads(1)
    try:
        half = pickle.load(stream)
    except ENDED:
        return
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(stream, tasks), daemon=True).start()
    while True:
        reply = run_task(tasks.get(), half)
        pickle.dump(reply, out)
        out.flush()


def _receive(stream: IO[bytes], tasks: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            tasks.put(pickle.load(stream))
        except ENDED:
            os._exit(0)


def run_task(task: WorkerTask, half: Half) -> Reply:
    """How a task ended."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", TruerankWarning)
        try:
            reply = Reply(task.run(half))
        except KeyboardInterrupt:
            reply = Reply(stopped=True)
        except OwnCodeError as error:
            reply = Reply(error=error.args[0], trace=error.trace)
        except InputError as error:
            reply = Reply(error=str(error))
        except OSError as error:
            reply = Reply(error=f"{error.strerror or error}: {error.filename or 'a file'}.")
        except MemoryError:
            reply = Reply(error="out of memory; run fewer trainings at a time (--jobs).")
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            reply = Reply(error=f"{type(error).__name__}: {text}", is_input=False)
    told = tuple(dict.fromkeys(str(one.message) for one in caught))
    return replace(reply, warnings=told)


if __name__ == "__main__":
    main()
