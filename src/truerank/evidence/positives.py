"""All relevant pairs of a task with their exact distances: 16 bytes for each of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from truerank.relevance import View
from truerank.space import Distances, Rows, Space

__all__ = ["Positives"]

_CHUNK = 1024


@dataclass(frozen=True)
class Positives:
    """Relevant pairs by query; in leave-one-out each unordered pair stands here twice."""

    query: Rows
    distance: Distances

    @staticmethod
    def of(view: View, space: Space, threads: int = 1) -> Positives:
        """By integer arithmetic, pair by pair."""

        def some(start: int) -> tuple[Rows, Distances]:
            rows = np.arange(start, min(start + _CHUNK, view.queries))
            pairs = view.block(rows).relevant
            query = rows[pairs.query]
            return query, space.pairs(query, pairs.item)

        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(some, range(0, view.queries, _CHUNK)))
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
