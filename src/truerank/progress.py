"""How far, and how much longer: a bar on a terminal, a line a minute in a log.

Both take (done, total) as often as there is something to tell, and estimate the time left from the
pace since this process began: work that an earlier run left in a checkpoint says nothing about it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

__all__ = ["Estimate", "progress_bar"]

Report = Callable[[int, int], None]
LOG_SECONDS = 60.0


class Estimate:
    """The time left at the pace so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._at_first: int | None = None

    def left(self, done: int, total: int) -> float | None:
        """Seconds, or None before there is a pace."""
        if self._at_first is None:
            self._at_first, self._began = done, self._clock()
        here = done - self._at_first
        elapsed = self._clock() - self._began
        return elapsed * (total - done) / here if here and elapsed else None

    def text(self, done: int, total: int) -> str:
        """'37%, about 12 min left'."""
        left = self.left(done, total)
        share = f"{100 * done // total}%" if total else "100%"
        return share if left is None else f"{share}, about {in_words(left)} left"


def in_words(seconds: float) -> str:
    """A duration to two digits or so: '40 s', '12 min', '3 h 20 min', '2 d 4 h'."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{round(seconds)} s"
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


@contextlib.contextmanager
def progress_bar(description: str) -> Iterator[Report]:
    """A bar with the time left on stderr; where stderr is no terminal, a line a minute."""
    if sys.stderr.isatty():
        with _bar(description) as report:
            yield report
    else:
        yield _log(description)


def _log(description: str, clock: Callable[[], float] = time.monotonic) -> Report:
    estimate = Estimate(clock)
    told = clock()

    def report(done: int, total: int) -> None:
        nonlocal told
        text = estimate.text(done, total)
        if clock() - told >= LOG_SECONDS:
            told = clock()
            sys.stderr.write(f"truerank: {description}: {text}\n")
            sys.stderr.flush()

    return report


@contextlib.contextmanager
def _bar(description: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    estimate = Estimate()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None, left="")

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, left=estimate.text(done, total))

        yield report
