"""Lists against exact search: the distance of each place, and the share of the true neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.lists.places import Places
from truerank.lists.returned import UNKNOWN
from truerank.relevance import Exclusions
from truerank.space import Space

__all__ = ["Compared", "compare_with_exact"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
PAIRS = 1 << 22
"""Most distances that are held at a time, but for a single row."""


@dataclass(frozen=True)
class Compared:
    """What exact search says about lists."""

    distance: Reals
    """The exact distance in each place, NaN for what is no gallery item."""
    recall: Reals
    """neighbour_recall of each query, NaN where it has nothing to find at all."""


def compare_with_exact(
    space: Space,
    exclusions: Exclusions,
    places: Places,
    k: int,
    tick: Callable[[int, int], None],
) -> Compared:
    """The distances of what was returned, and how much of the k nearest that is.

    Of the first k places those count that are strictly nearer than the k-th nearest item, and of
    those at its distance as many as the k nearest hold; each item once. Divided by k, or by the
    number of items where these are fewer.
    """
    queries = len(places)
    distance = np.full(len(places.item), np.nan)
    recall = np.full(queries, np.nan)
    step = max(1, PAIRS // space.gallery)
    for start in range(0, queries, step):
        rows = np.arange(start, min(start + step, queries))
        block = np.array(space.block(rows)(0, space.gallery))
        never = exclusions.pairs(rows, space.gallery)
        block[never.query, never.item] = np.inf
        span = slice(*places.offsets[[start, start + len(rows)]])
        query = np.repeat(np.arange(len(rows)), places.lengths[rows])
        named = places.named[span]
        known = named != UNKNOWN
        distance[span][known] = block[query[known], named[known]]

        most = min(k, space.gallery)
        nearest = np.partition(block, most - 1, axis=1)[:, :most]
        nearest.sort(axis=1)
        divisor = np.minimum(most, places.eligible[rows])
        last = nearest[np.arange(len(rows)), np.maximum(divisor, 1) - 1]
        nearer = (nearest < last[:, None]).sum(axis=1)
        place = np.arange(span.start, span.stop) - places.offsets[rows][query]
        counts = (places.item[span] != UNKNOWN) & (place < k)
        found, at = query[counts], distance[span][counts]
        strictly = np.bincount(found[at < last[found]], minlength=len(rows))
        tied = np.bincount(found[at == last[found]], minlength=len(rows))
        right = strictly + np.minimum(tied, divisor - nearer)
        some = divisor > 0
        recall[rows[some]] = right[some] / divisor[some]
        tick(start + len(rows), queries)
    return Compared(distance, recall)
