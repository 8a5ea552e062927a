"""A cluster without processes: tasks are run here when they are begun, and end in no order.

All that tasks are given and return is pickled and arrives as it would from Ray: what is shared
between workers cannot be written to.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from truerank.cluster import SHARED_BYTES, Cluster

__all__ = ["Reference", "in_process"]


class Reference:
    """What a task returned or a value that was put there, or the error in which a task ended."""

    def __init__(self, value: Any = None, error: Exception | None = None) -> None:
        self.value, self.error = value, error


class InProcess:
    """What truerank uses of Ray."""

    def __init__(self, workers: int) -> None:
        ray = pytest.importorskip("ray")
        self.exceptions, self._dumps = ray.exceptions, ray.cloudpickle.dumps
        self._workers, self._random = workers, random.Random(workers)
        self.calls: list[str] = []
        """The targets of all tasks."""

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self._workers}

    def put(self, value: Any) -> Reference:
        buffers: list[pickle.PickleBuffer] = []
        packed = self._dumps(value, protocol=5, buffer_callback=buffers.append)
        shared = [memoryview(bytes(buffer.raw())) for buffer in buffers]
        return Reference((packed, shared))

    def get(self, reference: Reference) -> Any:
        if reference.error is not None:
            raise reference.error
        packed, shared = reference.value
        return pickle.loads(packed, buffers=shared)

    def remote(self, function: Callable[..., Any]) -> Any:
        outer = self

        class Remote:
            def options(self, **unused: Any) -> Remote:
                return self

            def remote(self, target: str, held: Any, *given: Any) -> Reference:
                outer.calls.append(target)
                try:
                    arrived = [outer.get(g) if isinstance(g, Reference) else g for g in given]
                    return outer.put(function(target, held, *arrived))
                except Exception as error:
                    known = outer.exceptions.RayTaskError(target, "", error)
                    return Reference(error=known.as_instanceof_cause())

        return Remote()

    def wait(self, pending: list[Any], num_returns: int, timeout: float) -> Any:
        chosen = self._random.choice(pending)
        return [chosen], [one for one in pending if one is not chosen]

    def cancel(self, reference: Reference) -> None:
        pass


@contextmanager
def in_process(workers: int = 3, *, shared: bool = False) -> Iterator[InProcess]:
    """Inside, every cluster is one of these; all values may be shared, however small they are."""
    ray = InProcess(workers)

    @contextmanager
    def connect(address: object, *, gpu: bool | None = False) -> Iterator[Cluster]:
        yield Cluster(ray, gpu)

    least = 0 if shared else SHARED_BYTES
    with (
        patch("truerank.evaluation.connect", connect),
        patch("truerank.exact_neighbours.connect", connect),
        patch("truerank.cluster.SHARED_BYTES", least),
        patch("ray.get", ray.get),
    ):
        yield ray
