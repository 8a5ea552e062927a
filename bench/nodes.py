"""Nodes of a Ray cluster on this machine, which all have its one GPU, or none; to be damaged."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

NODES = 3
WAIT_SECONDS = 20.0
"""How long it is waited for a worker to be at work."""


class Nodes:
    """A cluster of several nodes on this machine, on its one GPU or on none."""

    def __init__(self, device: str) -> None:
        from ray.cluster_utils import Cluster

        self._one: dict[str, Any] = {
            "num_cpus": 2,
            "num_gpus": 1 if device == "cuda" else 0,
            "object_store_memory": 200 << 20,
        }
        self._cluster = Cluster(
            initialize_head=True, head_node_args={**self._one, "include_dashboard": False}
        )
        self._others = [self._cluster.add_node(**self._one) for _ in range(NODES - 1)]
        self._cluster.wait_for_nodes()
        self.address: str = self._cluster.address

    def kill_worker(self) -> str:
        """Kill a process that is at a task, once there is one."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            for process in self._busy():
                os.kill(process, signal.SIGKILL)
                return "a worker was killed"
        return ""

    def kill_node(self) -> str:
        """Kill a node with its workers and all that it holds."""
        self._cluster.remove_node(self._others.pop(), allow_graceful=False)
        return "a node was killed"

    def _busy(self) -> list[int]:
        """Processes of this cluster that are at a task: Ray writes it into their names."""
        nodes = (self._cluster.head_node, *self._others)
        parents = {node.all_processes["raylet"][0].process.pid for node in nodes}
        found = []
        for folder in Path("/proc").iterdir():
            try:
                name = (folder / "cmdline").read_bytes()
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except (OSError, IndexError):
                continue  # it has ended
            if name.startswith(b"ray::_call") and int(parent) in parents:
                found.append(int(folder.name))
        return found

    def end(self) -> None:
        """Stop them all."""
        import ray

        ray.shutdown()  # type: ignore[no-untyped-call]
        self._cluster.shutdown()
