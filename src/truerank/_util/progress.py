"""Progress and remaining time: a bar on a terminal or in a notebook, a line per minute in a log.

All of them take (done, total). The remaining time is estimated from the pace since this process
began; work that an earlier run left in a checkpoint is not part of the pace.
"""

from __future__ import annotations

import contextlib
import html
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from truerank._util.errors import InputError, shortened

Report = Callable[[int, int], None]
LOG_SECONDS = 60.0
DRAW_SECONDS = 0.1
"""A notebook is not sent more than so often what changes."""

_show_notice: Callable[[str], None] | None = None


def show_notices(show: Callable[[str], None] | None) -> None:
    """Have `show` called with each notice, as commands do; None: show no more."""
    global _show_notice
    _show_notice = show


def notice(sentence: str) -> None:
    """Show why a command takes a while; in Python nothing is shown."""
    if _show_notice is not None:
        _show_notice(sentence)


def check_progress(progress: object) -> None:
    """Refuse now what could not be called later, with the pairs that are done and all of them."""
    if progress is None or isinstance(progress, bool):
        return
    told = callable(progress)
    if callable(progress):
        try:
            inspect.signature(progress).bind(0, 1)
        except TypeError:
            told = False
        except ValueError:  # built into Python: it does not say what it takes
            told = not inspect.isclass(progress)
    if not told:
        raise InputError(
            "The 'progress' parameter must be True, None, or called as progress(done, total). "
            f"Got {shortened(progress)} instead."
        )


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

    def text(self, done: int, total: int, unit: str | None = None, of: str = "") -> str:
        """'37%, about 12 min left'; with a unit '37%, 2.1e+09 pairs/s, about 12 min left'.

        `of` says what is left for so long where more follows: '37%, about 12 min of training left'.
        """
        left = self.left(done, total)
        share = f"{100 * done // total}%" if total else "100%"
        if left is None:
            return share
        if unit is not None and self._at_first is not None:
            pace = (done - self._at_first) / (self._clock() - self._began)
            share = f"{share}, {pace:.2g} {unit}/s"
        return f"{share}, about {in_words(left)}{f' of {of}' if of else ''} left"


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
def shown(
    progress: Report | bool | None, description: str, unit: str | None = None
) -> Iterator[Report | None]:
    """What a user passes as progress, as a function or None: True is a bar of our own."""
    check_progress(progress)
    if progress is True:
        with progress_bar(description, unit) as report:
            yield report
    else:
        yield progress or None


@contextlib.contextmanager
def progress_bar(description: str, unit: str | None = None) -> Iterator[Report]:
    """A bar with the time left, on stderr or in the notebook; elsewhere a line a minute.

    With a unit, it also says how many of them are done in a second.
    """
    display = _notebook_display()
    if display is not None:
        with _cell(description, display, unit=unit) as report:
            yield report
    elif sys.stderr.isatty():
        with _bar(description, unit) as report:
            yield report
    else:
        yield _log(description, unit=unit)


def _log(
    description: str, clock: Callable[[], float] = time.monotonic, unit: str | None = None
) -> Report:
    estimate = Estimate(clock)
    told = clock()

    def report(done: int, total: int) -> None:
        nonlocal told
        text = estimate.text(done, total, unit)
        if clock() - told >= LOG_SECONDS:
            told = clock()
            sys.stderr.write(f"truerank: {description}: {text}\n")
            sys.stderr.flush()

    return report


@contextlib.contextmanager
def _bar(description: str, unit: str | None = None) -> Iterator[Report]:
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
            left = estimate.text(done, total, unit)
            bar.update(task, completed=done, total=total, left=left)

        yield report


def _notebook_display() -> Any:
    """IPython's display where a kernel runs us, as in Jupyter and Colab; None elsewhere."""
    ipython = sys.modules.get("IPython")  # a notebook has imported it; nobody else needs to
    shell = None if ipython is None else ipython.get_ipython()
    if not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


class _Cell:
    """A bar as a notebook draws it."""

    def __init__(self, description: str, share: float | None, text: str) -> None:
        self._description, self._share, self._text = description, share, text

    def __repr__(self) -> str:
        return f"{self._description}: {self._text}"

    def _repr_html_(self) -> str:
        value = "" if self._share is None else f' value="{self._share:.4f}"'
        words = html.escape(f"{self._description} {self._text}")
        return f'<progress max="1"{value} style="width: 20em"></progress> {words}'


@contextlib.contextmanager
def _cell(
    description: str,
    display: Any,
    clock: Callable[[], float] = time.monotonic,
    unit: str | None = None,
) -> Iterator[Report]:
    """A bar below the cell that is running, gone when it is done."""
    estimate = Estimate(clock)
    handle = display(_Cell(description, None, ""), display_id=True)
    drawn = clock()

    def report(done: int, total: int) -> None:
        nonlocal drawn
        text = estimate.text(done, total, unit)
        if clock() - drawn >= DRAW_SECONDS:
            drawn = clock()
            handle.update(_Cell(description, done / total if total else 1.0, text))

    try:
        yield report
    finally:
        handle.update({"text/plain": "", "text/html": ""}, raw=True)
