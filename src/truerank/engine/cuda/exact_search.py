"""The k nearest items of queries on a device, from tiles of exact distances.

Tiles come in the order of the gallery. What is nearer than a query's k-th so far is listed, what is
exactly as far comes behind it and is only counted. Lists are in the order of the items, cut to k
whenever enough has come in, and sorted at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from truerank.engine.cuda.rows import DeviceSpace
from truerank.engine.cuda.transfer import DeviceQueries

__all__ = ["FoundNearest", "search_exactly"]

LISTED = 1 << 25
"""Most places in the lists of the queries that are searched at a time."""
TILE = 1 << 27
"""Most distances of a tile."""
WIDEST = 1 << 13
SPARE = 1 << 9
"""Least number of items that come in before lists are cut again."""


@dataclass(frozen=True)
class FoundNearest:
    """The nearest items of some queries: (queries, k), by distance and then by number."""

    distance: Any
    item: Any
    tied: Any
    """(queries,): the items at the last distance, listed or not."""

    @staticmethod
    def room(queries: int, k: int, device: Any) -> FoundNearest:
        """Lists that are not filled in yet."""
        return FoundNearest(
            torch.empty((queries, k), dtype=torch.float64, device=device),
            torch.empty((queries, k), dtype=torch.int64, device=device),
            torch.empty(queries, dtype=torch.int64, device=device),
        )

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """Distances, items and numbers of tied items."""
        return self.distance, self.item, self.tied

    def put(self, rows: Any, other: FoundNearest) -> None:
        """Take in the lists of some of the queries."""
        self.distance[rows], self.item[rows] = other.distance, other.item
        self.tied[rows] = other.tied


def search_exactly(space: DeviceSpace, queries: DeviceQueries, k: int) -> FoundNearest:
    """The k nearest items of these queries."""
    found = FoundNearest.room(len(queries), k, space.device)
    tall = max(1, min(LISTED // (2 * k + SPARE), TILE // min(WIDEST, space.space.gallery)))
    for first in range(0, len(queries), tall):
        some = slice(first, first + tall)
        found.put(some, _search_part(space, queries.part(some), k))
    return found


def _search_part(space: DeviceSpace, queries: DeviceQueries, k: int) -> FoundNearest:
    lists = _Lists(len(queries), k, space.device)
    norm, tile = space.block(queries)
    gallery = space.space.gallery
    start, width = 0, max(2 * SPARE, 2 * k)  # the first few tell what the others must undercut
    while start < gallery:
        stop = min(start + min(width, WIDEST), gallery)
        products, item_norm = tile(start, stop)
        space.kernels.fill_distances(products, products, norm, item_norm, space.mode)
        lists.add(products, start)
        start, width = stop, 2 * width
    return lists.found()


class _Lists:
    """What some queries have met so far."""

    def __init__(self, queries: int, k: int, device: Any) -> None:
        self._k, self._device = k, device
        self._limit = torch.full((queries,), torch.inf, dtype=torch.float64, device=device)
        self._beyond = torch.zeros(queries, dtype=torch.int64, device=device)
        self._distance = [torch.empty((queries, 0), dtype=torch.float64, device=device)]
        self._item = [torch.empty((queries, 0), dtype=torch.int64, device=device)]
        """What is kept, and behind it what has come in since: items in ascending order."""

    def add(self, distances: Any, start: int) -> None:
        """Take in a tile of distances, whose first item is `start`."""
        queries, begun = len(distances), self._item[-1].shape[1] > 0
        if not begun and distances.shape[1] > self._k:  # ties with the k-th are listed, too
            self._limit = torch.nextafter(self._last(distances), self._limit)
        query, column = torch.nonzero(distances <= self._limit[:, None], as_tuple=True)
        near = distances[query, column]
        nearer = near < self._limit[query]
        self._beyond += torch.bincount(query[~nearer], minlength=queries)
        query, column, near = query[nearer], column[nearer], near[nearer]
        if not len(query):
            return
        count = torch.bincount(query, minlength=queries)
        first = torch.cumsum(count, 0) - count
        place = torch.arange(len(query), device=self._device) - first[query]
        shape = (queries, int(count.max()))
        distance = torch.full(shape, torch.inf, dtype=torch.float64, device=self._device)
        item = torch.zeros(shape, dtype=torch.int64, device=self._device)
        distance[query, place], item[query, place] = near, start + column
        self._distance.append(distance)
        self._item.append(item)
        if sum(part.shape[1] for part in self._item) >= 2 * self._k + SPARE:
            self._cut()

    def _last(self, distances: Any) -> Any:
        """The k-th smallest distance of each query."""
        return torch.topk(distances, self._k, dim=1, largest=False, sorted=False).values.amax(1)

    def _cut(self) -> None:
        """Keep the k nearest: of items at the last distance, those that came first."""
        distance, item = torch.cat(self._distance, 1), torch.cat(self._item, 1)
        last = self._last(distance)
        nearer, same = distance < last[:, None], distance == last[:, None]
        places = self._k - nearer.sum(1)
        kept = nearer | (same & (torch.cumsum(same, 1) <= places[:, None]))
        column = torch.nonzero(kept)[:, 1].view(len(kept), self._k)
        self._distance = [torch.gather(distance, 1, column)]
        self._item = [torch.gather(item, 1, column)]
        still = torch.where(last == self._limit, self._beyond, 0)
        self._beyond, self._limit = same.sum(1) - places + still, last

    def found(self) -> FoundNearest:
        """The lists, once the whole gallery has gone by; the sort is stable, so that items at one
        distance stay in the order of their numbers."""
        self._cut()
        distance, order = torch.sort(self._distance[0], dim=1, stable=True)
        item = torch.gather(self._item[0], 1, order)
        within = (distance == distance[:, -1:]).sum(1)
        return FoundNearest(distance, item, within + self._beyond)
