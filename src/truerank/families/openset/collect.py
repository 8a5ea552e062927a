"""What a pass collects for open-set identification: what is nearest, and what is found first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.groups import LocatedGroups
from truerank.core.metric import Metric
from truerank.core.scale import Scale
from truerank.families.family import Context, Family
from truerank.space import Distances

__all__ = ["RANKED", "Identification"]

Integers = npt.NDArray[np.int64]
RANKED = ("dir", "fnir")
"""Metrics that ask for a relevant item among the first `rank`."""


class Identification(Family):
    """The nearest candidate and the nearest mate of every query, and whether a mate comes first."""

    def __init__(self, context: Context, metrics: list[Metric]) -> None:
        super().__init__(context, metrics)
        self.observers = [context.nearest]
        queries = context.task.queries
        self.first = np.full(queries, np.inf)
        """Distance of every query's nearest relevant item, infinite if it has none."""
        ranks = {m["rank"] for m in metrics if m.name in RANKED}
        self.hits = {rank: np.full((3, queries), np.nan) for rank in sorted(ranks)}
        """(3, queries) for each rank: whether a relevant item is among the first so many."""

    @property
    def nearest(self) -> Distances:
        """Distance of every query's nearest candidate, relevant or not."""
        return self.context.nearest.distance

    def collect(self, rows: Integers, groups: LocatedGroups) -> None:
        """See Family."""
        self.first[rows] = groups.distance[groups.offsets[:-1]]
        for rank, table in self.hits.items():
            metric = Metric("hit", rank)
            hit = registry.ranking(metric).per_query
            table[:, rows] = hit(groups, metric, Scale(np.ones(1)))

    def collected(self) -> dict[str, npt.NDArray[Any]]:
        """See Family."""
        return {"first": self.first} | {f"hits-{rank}": table for rank, table in self.hits.items()}
