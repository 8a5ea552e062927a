"""A crew: whoever runs a benchmark's tasks, in processes of this machine or on a cluster."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable
from types import TracebackType
from typing import Any

from truerank.benchmark.worker import Reply, Task
from truerank.errors import InputError, OwnCodeError, TruerankWarning

__all__ = ["PATIENCE", "Crew", "Stopped"]

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
    def _begin(self, task: Task) -> Any:
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

    def submit(self, key: Hashable, task: Task) -> None:
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
