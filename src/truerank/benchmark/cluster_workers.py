"""Workers of a cluster in the place of processes here: tasks in, outcomes out as they come.

One half of the data is put into the cluster once. The benchmark's folder must be one that all of
its machines share: tasks keep there what is unfinished, and leave models there.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from truerank.benchmark.crew import PATIENCE, Crew
from truerank.benchmark.worker import Half, Reply, Task, run_task
from truerank.cluster import Call, Cluster

__all__ = ["ClusterWorkers", "work"]


def work(held: list[Any], task: Task) -> Reply:
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

    def _begin(self, task: Task) -> Any:
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
