"""A worker process: it is given one half of the data, runs tasks one at a time, and reports.

Tasks and outcomes travel as pickles over the standard streams; what a task prints goes to stderr.
When the process that started it is gone, so is the worker.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import warnings
from dataclasses import dataclass, field, replace
from typing import IO, Any, Protocol

from truerank.datasets.base import Dataset
from truerank.errors import InputError, OwnCodeError, TruerankWarning

__all__ = ["Half", "Reply", "Task", "main", "run_task"]

ENDED = (EOFError, pickle.UnpicklingError)
"""What reading says of a stream that has ended, perhaps in the middle of a task."""


@dataclass(frozen=True, eq=False)
class Half:
    """All that a worker knows of the data: one half, and the folds of the search half."""

    data: Dataset
    folds: list[Any]
    cache: dict[str, Any] = field(default_factory=dict)
    """What tasks keep for those that follow, such as features on the device."""


class Task(Protocol):
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


def run_task(task: Task, half: Half) -> Reply:
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
