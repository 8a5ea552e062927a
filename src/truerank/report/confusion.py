"""Which classes are taken for which: the items found first that are wrong, by pair of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.evaluation.first_found import NearestItem
from truerank.task import TaskRules

__all__ = ["most_confused"]

Integers = npt.NDArray[np.int64]
MOST_PAIRS = 200


def most_confused(task: TaskRules, nearest: NearestItem) -> dict[str, Any] | None:
    """Pairs of a query's class and that of a wrong item found first, the most frequent first.

    Only queries that have a mate to find count. Of items at one distance one that is no mate is
    found first, as the score sees it.
    """
    if task.levels is None:
        return None
    counts = (task.mates > 0) & (nearest.item >= 0)
    query = task.query_codes[counts]
    found = task.gallery_codes[nearest.item[counts]]
    wrong = (query != found) & (found >= 0)
    names = task.levels.finest.values
    pairs = query[wrong] * len(names) + found[wrong]
    pair, times = np.unique(pairs, return_counts=True)
    queries = np.bincount(query, minlength=len(names))
    order = np.lexsort((pair, -times))[:MOST_PAIRS]
    rows = [
        [str(names[a]), str(names[b]), count, int(queries[a])]
        for a, b, count in zip(
            (pair[order] // len(names)).tolist(),
            (pair[order] % len(names)).tolist(),
            times[order].tolist(),
            strict=True,
        )
    ]
    return {"rows": rows, "pairs": len(pair), "errors": int(wrong.sum())}
