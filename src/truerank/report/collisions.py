"""The tie map: where, down the ranking of each query, items stand at one and the same distance.

After the second figure of Nicolaou et al. (2018), which draws a row for each query and a column
for each rank; here queries and ranks are binned, and items collide only if they are exactly tied.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.space import Space
from truerank.task import TaskRules

__all__ = ["tie_map"]

MOST_QUERIES = 400
TOGETHER = 16
"""Queries whose distances are held at a time."""
LINES = 40
"""Bins of queries."""
COLUMNS = 60
"""Bins of ranks, equal on a logarithmic axis; the first ranks have one each."""


def tie_map(task: TaskRules, space: Space) -> dict[str, Any] | None:
    """The share of tied items by bin of queries (in order of their labels) and of ranks."""
    order = np.lexsort((np.arange(task.queries), task.query_codes))
    some = np.linspace(0, task.queries - 1, min(MOST_QUERIES, task.queries)).round()
    rows = order[some.astype(np.int64)]
    edges = _edges(task.items)
    lines = min(LINES, len(rows))
    line = np.arange(len(rows)) * lines // len(rows)
    tied = np.zeros((lines, len(edges) - 1))
    met = np.zeros_like(tied)
    for start in range(0, len(rows), TOGETHER):
        some_rows = rows[start : start + TOGETHER]
        block = space.block(some_rows)(0, space.gallery).copy()
        excluded = task.view.block(some_rows).excluded
        block[excluded.query, excluded.item] = np.inf
        for place, distances in enumerate(block, start):
            ranked = np.sort(distances[np.isfinite(distances)])
            equal = ranked[1:] == ranked[:-1]
            collides = np.append(equal, False) | np.append(False, equal)
            ends = np.minimum(edges, len(ranked))
            tied[line[place]] += np.diff(np.append(0, np.cumsum(collides))[ends])
            met[line[place]] += np.diff(ends)
    with np.errstate(invalid="ignore"):
        share = np.round(tied / met, 4)
    return {
        "ranks": (edges[:-1] + 1).tolist(),
        "share": [[None if one != one else one for one in row] for row in share.tolist()],
        "queries": len(rows),
        "tied": float(tied.sum() / max(1.0, met.sum())),
    }


def _edges(items: int) -> Any:
    """Where bins of ranks begin, from 0 on; the last end is that of the gallery."""
    return np.unique(np.rint(np.geomspace(1, items + 1, COLUMNS + 1)).astype(np.int64)) - 1
