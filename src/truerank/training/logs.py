"""Logs of a run as CSV, JSON lines and TensorBoard events, and its progress line.

The trainer calls `begin` with the records so far (none, or those of the checkpoint that it
resumes from), `step` after each iteration, `record` after each epoch, and `close` at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from truerank._util.errors import InputError
from truerank._util.files import atomic_path
from truerank._util.text import separated

Record = Mapping[str, Any]


class Log:
    """A callback of the trainer; override the methods that you need.

    A record has the keys epoch, iteration, loss, lr, images_per_second and seconds, the name of the
    validation metric, and `best`, whether that was the best so far. Epoch 0 is the model before
    training: it has no loss.
    """

    def begin(self, history: Sequence[Record]) -> None:
        """Called when training begins, or resumes after the given records."""

    def step(self, iteration: int, total: int) -> None:
        """Called after each iteration with its number and that of all; it must be quick."""

    def record(self, values: Record) -> None:
        """Called when an epoch has ended."""

    def close(self) -> None:
        """Called when training has ended, for whatever reason."""


class FileLog(Log):
    """A text file that is always complete up to the last record."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def begin(self, history: Sequence[Record]) -> None:
        """Write what the checkpoint knows; what a killed run logged after it is dropped."""
        with atomic_path(self.path) as partial:
            partial.write_text("".join(map(self._line, history)), encoding="utf-8", newline="")
        self._file = open(self.path, "a", encoding="utf-8", newline="")  # noqa: SIM115

    def record(self, values: Record) -> None:
        """Append one line."""
        if self._file is not None:
            self._file.write(self._line(values))
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _line(self, values: Record) -> str:
        raise NotImplementedError


class JsonLinesLog(FileLog):
    """One JSON object for each epoch."""

    def _line(self, values: Record) -> str:
        return json.dumps(values) + "\n"


class CsvLog(FileLog):
    """One row for each epoch; the first record's keys are the header."""

    def begin(self, history: Sequence[Record]) -> None:
        """See FileLog; the header is written with the first record."""
        self._header: list[str] | None = None
        super().begin(history)

    def _line(self, values: Record) -> str:
        lines = []
        if self._header is None:
            self._header = list(values)
            lines.append(self._header)
        lines.append([values[name] for name in self._header])
        return separated(lines[0], lines[1:])


class TensorBoardLog(Log):
    """Write the numbers of each epoch as TensorBoard scalars."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                "TensorBoardLog needs tensorboard: pip install tensorboard."
            ) from error
        self._kind: Any = SummaryWriter
        self._folder = os.fspath(folder)
        self._writer: Any = None

    def begin(self, history: Sequence[Record]) -> None:
        """Open the event file; events after the last known epoch are marked as void."""
        after = history[-1]["epoch"] + 1 if history else None
        self._writer = self._kind(self._folder, purge_step=after)

    def record(self, values: Record) -> None:
        """Write the record's numbers."""
        for name, value in values.items():
            if isinstance(value, (int, float)) and name not in ("epoch", "best"):
                self._writer.add_scalar(name, value, values["epoch"])
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()


# Progress of training for a person: a live line on a terminal, else a line for each epoch.


class ProgressLine(Log):
    """A progress line with epoch, loss, metric and time left, on stderr by default.

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
