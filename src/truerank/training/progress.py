"""Progress of training for a person: a live line on a terminal, else a line for each epoch."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import IO, Any

from truerank.training.logs import Log, Record

__all__ = ["ProgressLine"]


class ProgressLine(Log):
    """A line with epoch, loss, metric and the time left, on stderr unless told otherwise.

    The time left is to the last epoch; early stopping may come sooner.
    """

    def __init__(self, epochs: int, metric: str, stream: IO[str] | None = None) -> None:
        self.epochs = epochs
        self.metric = metric
        self.stream = sys.stderr if stream is None else stream
        self._bar: Any = None

    def begin(self, history: Sequence[Record]) -> None:
        """Start the clock, and the bar where there is a terminal."""
        self._started = time.monotonic()
        self._first: int | None = None
        self._done = self._total = 0
        self._best = max((r[self.metric] for r in history if self.metric in r), default=None)
        if not self.stream.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            BarColumn(),
            TextColumn("{task.description}"),
            TextColumn("at most"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        self._bar = Progress(*columns, console=Console(file=self.stream), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("starting", total=None)

    def step(self, iteration: int, total: int) -> None:
        """Move the bar."""
        if self._first is None:
            self._first = iteration - 1
        self._done, self._total = iteration, total
        if self._bar is not None:
            self._bar.update(self._task, completed=iteration, total=total)

    def record(self, values: Record) -> None:
        """Say how the epoch went."""
        text = self._describe(values)
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        else:
            print(f"{text}{self._left()}", file=self.stream, flush=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _describe(self, values: Record) -> str:
        parts = [f"epoch {values['epoch']} of {self.epochs}"]
        if values["loss"] is not None:
            parts.append(f"loss {values['loss']:.4f}")
        value = values.get(self.metric)
        if value is not None:
            self._best = value if self._best is None else max(self._best, value)
            parts.append(f"{self.metric} {100 * value:.2f} % (best {100 * self._best:.2f} %)")
        if values["images_per_second"] is not None:
            parts.append(f"{values['images_per_second']:,.0f} images/s")
        return ", ".join(parts)

    def _left(self) -> str:
        if self._first is None or self._done == self._total:
            return ""
        each = (time.monotonic() - self._started) / (self._done - self._first)
        minutes, seconds = divmod(round(each * (self._total - self._done)), 60)
        return f", at most {minutes}:{seconds:02d} left"
