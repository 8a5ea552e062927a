"""Forced delays at every hand-over: one thread at a time is held up, before a line it reaches.

A thread that publishes something before it is complete is held up just then, in one of the parts,
while all others go on and use what it published. On an idle machine this may never happen by
itself; here it does, once the lines before have had their turn.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import truerank

SOURCE = str(Path(truerank.__file__).parent)
PARTS = 4
"""Lines are held up a quarter at a time: neighbours never together."""
TIMES = 2
"""Visits of a line that are held up, whichever thread makes them, in each kind of work."""
SECONDS = 0.004
"""Some hundred lines of the other threads, though they are traced, or a kernel."""


@contextmanager
def delays(part: int) -> Iterator[None]:
    """Threads begun in here sleep before the lines of one part, one thread at a time."""
    met: Counter[tuple[object, str, int]] = Counter()
    asleep = threading.Lock()
    work = threading.local()
    """What this thread was last called to do from outside, by a pool: a hand-over."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(SOURCE):
            return None
        if event == "call":
            caller = frame.f_back
            if caller is None or not caller.f_code.co_filename.startswith(SOURCE):
                work.kind = frame.f_code
        elif event == "line" and frame.f_lineno % PARTS == part:
            place = (work.kind, name, frame.f_lineno)
            if met[place] < TIMES and asleep.acquire(blocking=False):
                met[place] += 1
                time.sleep(SECONDS)
                asleep.release()
        return trace

    before = threading.gettrace()
    threading.settrace(trace)
    try:
        yield
    finally:
        threading.settrace(before)  # type: ignore[arg-type]
    assert met, "no thread was held up"
