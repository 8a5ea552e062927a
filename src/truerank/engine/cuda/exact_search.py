"""The k nearest items of queries on a device, from tiles of exact distances.

Tiles come in the order of the gallery. What is nearer than a query's k-th so far is listed, what is
exactly as far comes behind it and is only counted; lists are sorted once enough has come in.
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
"""Least number of items that come in before lists are sorted again."""


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
        """Sorted lists, and behind them what has come in since: items in ascending order."""

    def add(self, distances: Any, start: int) -> None:
        """Take in a tile of distances, whose first item is `start`."""
        queries = len(distances)
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
            self._sort()

    def _sort(self) -> None:
        """Sort what has been met, and keep the k nearest; the sort is stable, so that items at one
        distance stay in the order of their numbers."""
        distance, order = torch.sort(torch.cat(self._distance, 1), dim=1, stable=True)
        item = torch.gather(torch.cat(self._item, 1), 1, order)
        k = self._k
        self._distance, self._item = [distance[:, :k]], [item[:, :k]]
        if distance.shape[1] < k:
            return
        last = distance[:, k - 1]
        left_out = (distance[:, k:] == last[:, None]) & (last < torch.inf)[:, None]
        still = torch.where(last == self._limit, self._beyond, 0)
        self._beyond, self._limit = left_out.sum(1) + still, last

    def found(self) -> FoundNearest:
        """The lists, once the whole gallery has gone by."""
        self._sort()
        distance, item = self._distance[0], self._item[0]
        within = (distance == distance[:, -1:]).sum(1)
        return FoundNearest(distance, item, within + self._beyond)
