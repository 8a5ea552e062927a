"""All relevant pairs of a task with their exact distances: 16 bytes for each of them."""

from __future__ import annotations

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
    def of(view: View, space: Space) -> Positives:
        """By integer arithmetic, pair by pair."""
        query, distance = [np.empty(0, np.int64)], [np.empty(0)]
        for start in range(0, view.queries, _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, view.queries))
            pairs = view.block(rows).relevant
            query.append(rows[pairs.query])
            distance.append(space.pairs(query[-1], pairs.item))
        return Positives(np.concatenate(query), np.concatenate(distance))

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def ascending(self) -> Distances:
        """The distances in order."""
        return np.sort(self.distance)

    def up_to(self, thresholds: Distances) -> npt.NDArray[np.int64]:
        """Relevant pairs accepted at each threshold."""
        return np.searchsorted(self.ascending, thresholds, side="right")
