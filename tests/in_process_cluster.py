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
from weakref import WeakValueDictionary

import pytest

from truerank._util.cluster import SHARED_BYTES, Cluster

__all__ = ["Reference", "in_process"]


REFERENCES: WeakValueDictionary[int, Reference] = WeakValueDictionary()


def _known(number: int) -> Reference:
    return REFERENCES[number]


class Reference:
    """What a task returned or a value that was put there, or the error in which a task ended."""

    def __init__(self, value: Any = None, error: Exception | None = None) -> None:
        self.value, self.error = value, error
        REFERENCES[id(self)] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """Wherever it goes, it stands for the same value."""
        return _known, (id(self),)


class InProcess:
    """What truerank uses of Ray."""

    def __init__(self, workers: int) -> None:
        ray = pytest.importorskip("ray")
        self.exceptions, self._dumps = ray.exceptions, ray.cloudpickle.dumps
        self._workers, self._random = workers, random.Random(workers)
        self.calls: list[str] = []
        """The targets of all tasks."""
        self.kept: list[Reference] = []
        """Values that tasks have left here."""
        self._tasks: dict[int, Callable[[], Any]] = {}

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
            def __init__(self, returns: int = 1) -> None:
                self._returns = returns

            def options(self, num_returns: int = 1, **unused: Any) -> Remote:
                return Remote(num_returns)

            def remote(self, target: str, held: Any, *given: Any) -> Any:
                outer.calls.append(target)

                def task() -> Any:
                    arrived = [outer.get(g) if isinstance(g, Reference) else g for g in given]
                    return function(target, held, *arrived)

                try:
                    found = task()
                except Exception as error:
                    failed = Reference(error=outer.failed(target, error))
                    return failed if self._returns == 1 else [failed] * self._returns
                if self._returns == 1:
                    return outer.put(found)
                small, large = (outer.put(one) for one in found)
                outer.kept.append(large)
                outer._tasks[id(large)] = task
                return [small, large]

        return Remote()

    def failed(self, target: str, error: Exception) -> Exception:
        """The error of whoever asks for what a task could not make."""
        return self.exceptions.RayTaskError(target, "", error).as_instanceof_cause()

    def lose(self, number: int) -> None:
        """A machine dies with a value that a task left there: the task is run again."""
        large = self.kept[number]
        try:
            large.value = self.put(self._tasks[id(large)]()[1]).value
        except Exception as error:
            large.error = self.failed("lost", error)

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
    def connect(
        address: object, *, gpu: bool | None = False, share: float = 1.0
    ) -> Iterator[Cluster]:
        yield Cluster(ray, gpu, share)

    least = 0 if shared else SHARED_BYTES
    with (
        patch("truerank.evaluation.evaluate.connect", connect),
        patch("truerank.analysis.neighbors.connect", connect),
        patch("truerank._util.cluster.SHARED_BYTES", least),
        patch("ray.get", ray.get),
    ):
        yield ray
