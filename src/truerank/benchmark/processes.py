"""Worker processes, as many as there are jobs: tasks in, outcomes out as they come.

Each worker is a fresh interpreter that is sent one half of the data and nothing else; it stays for
all tasks. A thread of this process waits for each.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any

from truerank.benchmark.crew import PATIENCE, Crew
from truerank.benchmark.worker import Half, Reply, Task

__all__ = ["Workers"]

_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
START = "from truerank.benchmark.worker import main; main()"


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

    def _begin(self, task: Task) -> Future[Reply]:
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

    def _do(self, task: Task) -> Reply:
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
                error=f"a worker process ended with status {status} (is the memory full?); what is "
                "done is kept, and --resume goes on, perhaps with fewer --jobs."
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
