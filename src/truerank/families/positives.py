"""All relevant pairs of a task with their exact distances: 16 bytes for each of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from truerank.relevance import View
from truerank.space import Distances, Rows, Space

__all__ = ["Positives", "distances"]

_LISTED, _PAIRS = 1 << 22, 1 << 13
"""Pairs that are listed, and whose distances are taken, at a time."""


@dataclass(frozen=True)
class Positives:
    """Relevant pairs by query; in leave-one-out each unordered pair stands here twice."""

    query: Rows
    distance: Distances

    @staticmethod
    def of(view: View, space: Space, threads: int = 1) -> Positives:
        """By integer arithmetic, pair by pair."""

        parts = []
        step = max(1, _LISTED // max(1, int(view.mates.max(initial=0))))
        for start in range(0, view.queries, step):
            rows = np.arange(start, min(start + step, view.queries))
            pairs = view.relevant(rows)
            query = rows[pairs.query]
            parts.append((query, distances(space, query, pairs.item, threads)))
        query, distance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Positives(query, distance)

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def ascending(self) -> Distances:
        """The distances in order."""
        return np.sort(self.distance)

    def up_to(self, thresholds: Distances) -> npt.NDArray[np.int64]:
        """Relevant pairs accepted at each threshold."""
        return np.searchsorted(self.ascending, thresholds, side="right")


def distances(space: Space, query: Rows, item: Rows, threads: int) -> Distances:
    """The distances of single pairs, by several threads."""

    def some(start: int) -> Distances:
        part = slice(start, start + _PAIRS)
        return space.pairs(query[part], item[part])

    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate([*pool.map(some, range(0, len(query), _PAIRS)), np.empty(0)])
