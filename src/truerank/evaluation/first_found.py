"""The item that each query finds first, for files of queries: one more pass over all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import PairObserver, Part
from truerank.labels import MISSING, Encoded
from truerank.relevance import View
from truerank.space import Rows, Space
from truerank.task import TaskRules

__all__ = ["NearestItem", "find_first"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def find_first(
    task: TaskRules, space: Space, *, device: str, threads: int | None
) -> dict[str, list[Any]]:
    """Columns about the item that each query finds first: its row, and its id, label and group.

    Of items at one distance it is one that is no mate, if there is one: as the score sees it. A
    query without candidates has found nothing.
    """
    nearest = NearestItem(task.view)
    engine.sweep(task.view, space, [nearest], device=device, threads=threads)
    met = nearest.item >= 0
    item = nearest.item if task.columns is None else task.columns[nearest.item]
    item = np.where(met, item, -1)
    distance = np.full(len(item), np.nan)
    distance[met] = space.in_unit(nearest.distance[met])
    columns: dict[str, list[Any]] = {"found": [row if row >= 0 else None for row in item.tolist()]}
    finest = None if task.levels is None else task.levels.finest
    for name, encoded in (("id", task.id_names), ("label", finest), ("group", task.group_names)):
        if encoded is not None:
            columns[f"found_{name}"] = _values(encoded, item)
    columns["found_distance"] = [value if value == value else None for value in distance.tolist()]
    return columns


def _values(encoded: Encoded, item: Integers) -> list[Any]:
    codes = np.where(item >= 0, encoded.codes[-1][item], MISSING)
    return [None if code == MISSING else encoded.values[code] for code in codes.tolist()]


@dataclass
class NearestItem(PairObserver):
    """Observes every query's nearest item, of tied ones the first that is no mate."""

    view: View
    whole_rows = True

    def __post_init__(self) -> None:
        self.item: Integers = np.full(self.view.queries, -1)
        self.distance: Reals = np.full(self.view.queries, np.inf)

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver; no two blocks have a query in common."""
        distances, lines = block.distances, np.arange(len(block.rows))
        at = distances.argmin(axis=1)
        least = distances[lines, at]
        mates = self.view.relevant(block.rows)
        others = distances.copy()
        others[mates.query, mates.item] = np.inf
        other = others.argmin(axis=1)
        at = np.where(others[lines, other] == least, other, at)
        self.item[block.rows] = np.where(np.isfinite(least), at, -1)
        self.distance[block.rows] = least

    def __reduce__(self) -> tuple[Any, ...]:
        return NearestItem, (self.view,)

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"item": self.item[rows], "distance": self.distance[rows]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self.item[rows], self.distance[rows] = part["item"], part["distance"]
