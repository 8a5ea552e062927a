"""Kernels that ask about distances of which float32 scores are known: a distance is `middle` less
twice its score, give or take `reach`.

What no cut divides is counted; a pair with a cut within reach is listed, as (query, item), to be
decided by its exact distance. Rows are taken as long as the lists have room for a whole one: how
many were taken is returned, and how many pairs are listed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.engine.kernels import place_on_grid
from truerank.jit import kernel

__all__ = ["NEVER", "count_on_grid", "count_pairs_on_grid"]

NEVER = np.float32(-np.inf)
"""The score of a pair that never meets."""
SLOP = 1e-6
"""More than all roundings of places on a grid, and of its cuts, come to, in steps of the grid."""


@kernel
def count_on_grid(
    scores: Any, middle: float, reach: float, low: float, scale: float, counts: Any, query: Any,
    item: Any,
) -> Any:  # fmt: skip
    """For each row, how many distances each cut of an even grid is the first to accept.

    The last cut accepts everything that is finite; behind it stand what never meets, and what is
    listed.
    """
    width = scores.shape[1]
    last = float(counts.shape[1] - 3)
    never = np.int32(counts.shape[1] - 2)
    unsure = np.int32(counts.shape[1] - 1)
    margin = reach * scale + SLOP
    cell = np.empty(width, np.int32)
    listed = np.uint64(0)
    for q in range(scores.shape[0]):
        row = scores[q]
        if query.size < listed + np.uint64(width):
            return q, listed
        mine = counts[q]
        for i in range(width):
            place = (middle - 2.0 * np.float64(row[i]) - low) * scale
            whole = np.floor(place)
            part = place - whole
            sure = (part > margin) & (part < 1.0 - margin)
            found = np.int32(min(max(whole + 1.0, 0.0), last)) if sure else unsure
            cell[i] = found if row[i] > NEVER else never
        known = listed
        for i in range(width):  # a list without a branch that is guessed wrong
            mine[np.uint32(cell[i])] += 1
            item[listed] = i
            listed += np.uint64(cell[i] == unsure)
        query[known:listed] = q
    return scores.shape[0], listed


@kernel
def count_pairs_on_grid(
    query: Any, distances: Any, grid: Any, low: float, scale: float, counts: Any
) -> None:
    """The same for single pairs, whose distances are exact."""
    for p in range(query.size):
        counts[query[p], place_on_grid(distances[p], grid, low, scale)] += 1
