"""Chapters: a watched pass cut into parts, between which all that was seen can be kept.

While threads are at work, what watchers have added up belongs to no set of queries. Between two
chapters it does. A chapter takes about as long as is left from one checkpoint to the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["chapters"]

Integers = npt.NDArray[np.int64]
FIRST = 1 << 33
"""Pairs of the first chapter: it tells how long the others may be."""
GROWTH = 16
"""A chapter is at most so many times as long as the one before."""


def chapters(queries: Integers, gallery: int, seconds: float | None) -> Iterator[Integers]:
    """These queries in parts that take some seconds each; all at once without a limit."""
    count = len(queries) if seconds is None else max(1, FIRST // gallery)
    least = count
    while len(queries):
        if len(queries) < count + least // 2:  # no chapter for a rest
            count = len(queries)
        started = time.monotonic()
        yield queries[:count]
        queries = queries[count:]
        if seconds is not None:
            spent = max(time.monotonic() - started, 1e-3)
            count = max(least, min(GROWTH * count, int(count * seconds / spent)))
