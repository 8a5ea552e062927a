"""Workers of a cluster in the place of processes here: tasks in, outcomes out as they come.

One half of the data is put into the cluster once. The benchmark's folder must be one that all of
its machines share: tasks keep there what is unfinished, and leave models there.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from types import TracebackType
from typing import Any

from truerank.benchmark.processes import PATIENCE, Outcomes
from truerank.benchmark.worker import Half, Reply, Task, run_task
from truerank.cluster import Call, Cluster

__all__ = ["ClusterWorkers", "work"]


def work(held: list[Any], task: Task) -> Reply:
    """A task of the cluster: one of the benchmark's, in one thread as in a process of its own."""
    import torch

    torch.set_num_threads(1)
    return run_task(task, held[0])


class ClusterWorkers:
    """As many tasks at a time as the cluster has room for; see truerank.benchmark.processes."""

    def __init__(self, half: Half, cluster: Cluster) -> None:
        self._cluster = cluster
        self._half = cluster.put(half, shared=False)
        self._running: dict[Any, Hashable] = {}
        self._outcomes = Outcomes()

    def __enter__(self) -> ClusterWorkers:
        return self

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
    def free(self) -> int:
        """How many tasks could begin now."""
        return max(0, self._cluster.slots - len(self._running))

    @property
    def running(self) -> list[Hashable]:
        """The keys of the tasks under way."""
        return list(self._running.values())

    def submit(self, key: Hashable, task: Task) -> None:
        """Begin a task; `next` gives its key with its outcome."""
        call = Call(key, f"{__name__}:work", (self._half,), (task,))
        self._running[self._cluster.start(call)] = key

    def next(self, timeout: float | None = None) -> list[tuple[Any, Any]]:
        """Keys and outcomes of what has ended, after at least one has or the time is over."""
        ended = []
        for reference in self._cluster.ended(list(self._running), timeout):
            key = self._running.pop(reference)
            reply = self._cluster.answer(reference, cancelled=Reply(stopped=True))
            ended.append((key, self._outcomes.of(reply)))
        return ended

    def stop(self) -> None:
        """Ask every task under way to save itself and end."""
        for reference in self._running:
            self._cluster.cancel(reference)
