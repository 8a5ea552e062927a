"""Chapters: a watched pass cut into parts, between which all that was seen can be kept.

While threads are at work, what watchers have added up belongs to no set of queries. Between two
chapters it does. A chapter takes about as long as is left from one checkpoint to the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from truerank.settings import current_settings

__all__ = ["chapters"]

Integers = npt.NDArray[np.int64]


def chapters(queries: Integers, gallery: int, seconds: float | None) -> Iterator[Integers]:
    """These queries in parts that take some seconds each; all at once without a limit."""
    sizes = current_settings()
    count = len(queries) if seconds is None else max(1, sizes.chapter_pairs // gallery)
    least = count
    while len(queries):
        if len(queries) < count + least // 2:  # no chapter for a rest
            count = len(queries)
        started = time.monotonic()
        yield queries[:count]
        queries = queries[count:]
        if seconds is not None:
            spent = max(time.monotonic() - started, 1e-3)
            count = max(least, min(sizes.chapter_growth * count, int(count * seconds / spent)))
