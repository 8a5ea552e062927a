"""Nearest neighbor search on GPUs: the k nearest items, exact or filtered by half precision.

A product P in half precision orders items up to a margin M: if k items have products of at
least p, an item below p - M is farther than all of them. The starting product is estimated from
a sample of the gallery, and what must hold is checked per query (enough items listed, none
dropped, room for all). A query that fails is filtered once more, from a product that its first
list gives; a query that fails again is searched by tiles of exact distances. Items at the k-th
distance are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock
from types import ModuleType
from typing import Any

import torch

from truerank.distance.base import Distances, Rows, Space
from truerank.distance.probe import probe
from truerank.engine.cuda.counting import Halves
from truerank.engine.cuda.front import best_kernels
from truerank.engine.cuda.rows import (
    DeviceSpace,
    HalfRows,
    InnerProducts,
    free_bytes,
    half_rows,
    place,
)
from truerank.engine.cuda.torch_kernels import MISSED, SEARCH_PART
from truerank.engine.cuda.transfer import DeviceQueries, fetched
from truerank.engine.cuda.worker import own_filters

# Nearest neighbors by the GPUs of this machine: each searches for blocks of queries in turn.


Lists = tuple[Distances, Rows, Rows]
"""Distances and items, (queries, k) each, and how many items lie at the last distance."""


class Search:
    """One device with a space on it; `filters` are the search's kernels, None for exact tiles."""

    def __init__(
        self, space: Space, device: Any, kernels: ModuleType, filters: ModuleType | None
    ) -> None:
        self._device = device
        self._space = place(space, device, kernels)
        probe(space, lambda some: self._tiles_of(some, space, kernels))
        self._filtered = None
        if isinstance(self._space, InnerProducts) and filters is not None:
            half = half_rows(self._space)
            if half is not None:
                self._filtered = FilteredSearch(self._space, half, filters)

    def _tiles_of(self, some: Space, own: Space, kernels: ModuleType) -> Any:
        """How the device makes tiles of a space of the probe."""
        return (self._space if some is own else place(some, self._device, kernels)).tiles

    def nearest(self, rows: Rows, k: int, method: str = "auto") -> Lists:
        """The k nearest items of some queries; `method` as in the settings."""
        queries = DeviceQueries.of(rows, self._device)
        filtered = None if method == "float64" else self._filtered
        if filtered is not None and (method != "auto" or filtered.pays(k)):
            found = filtered.nearest(queries, k)
        else:
            found = search_exactly(self._space, queries, k)
        return fetched(found.distance), fetched(found.item), fetched(found.tied)


class Searches:
    """The GPUs of this machine; `devices`, `kernels` and `filters` are for tests."""

    def __init__(
        self,
        space: Space,
        devices: Sequence[str] | None = None,
        kernels: ModuleType | None = None,
        filters: ModuleType | None = None,
    ) -> None:
        names = devices or [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        self.space, self._devices = space, [torch.device(name) for name in names]
        self._kernels = kernels or best_kernels(self._devices[0])
        self._filters = filters
        self._made: dict[int, Search] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._devices)

    def run(
        self, blocks: Iterable[Rows], k: int, method: str, take: Callable[[Rows, Lists], None]
    ) -> None:
        """Search for blocks of queries; `take` is given the lists of each, one at a time."""
        left, taking = iter(blocks), Lock()

        def work(number: int) -> None:
            while True:
                with self._lock:
                    rows = next(left, None)
                if rows is None:
                    return
                lists = self._search(number, rows, k, method)
                with taking:
                    take(rows, lists)

        with ThreadPoolExecutor(len(self._devices)) as pool:
            for done in [pool.submit(work, number) for number in range(len(self._devices))]:
                done.result()

    def _search(self, number: int, rows: Rows, k: int, method: str) -> Lists:
        device = self._devices[number]
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext(), torch.no_grad():
            if number not in self._made:  # by the one thread of this device
                filters = self._filters or search_kernels(device, self._kernels)
                self._made[number] = Search(self.space, device, self._kernels, filters)
            return self._made[number].nearest(rows, k, method)


def search_kernels(device: Any, kernels: ModuleType) -> ModuleType | None:
    """The kernels of the filtered search, where the device can be trusted with half precision."""
    if own_filters(device, kernels) is None:
        return None
    from truerank.engine.cuda import search_kernels as own

    return own


# The k nearest items of queries on a device, from tiles of exact distances.
#
# Tiles come in the order of the gallery. What is nearer than a query's k-th so far is listed,
# what is exactly as far comes behind it and is only counted. Lists are in the order of the items,
# cut to k whenever enough has come in, and sorted at the end.


LISTED = 1 << 25
"""Most places in the lists of the queries that are searched at a time."""
TILE = 1 << 27
"""Most distances of a tile."""
WIDEST = 1 << 13
EXACT_SPARE = 1 << 9
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
    tall = max(1, min(LISTED // (2 * k + EXACT_SPARE), TILE // min(WIDEST, space.space.gallery)))
    for first in range(0, len(queries), tall):
        some = slice(first, first + tall)
        found.put(some, _search_part(space, queries.part(some), k))
    return found


def _search_part(space: DeviceSpace, queries: DeviceQueries, k: int) -> FoundNearest:
    lists = _FoundItems(len(queries), k, space.device)
    norm, tile = space.block(queries)
    gallery = space.space.gallery
    start, width = (
        0,
        max(2 * EXACT_SPARE, 2 * k),
    )  # the first few tell what the others must undercut
    while start < gallery:
        stop = min(start + min(width, WIDEST), gallery)
        products, item_norm = tile(start, stop)
        space.kernels.fill_distances(products, products, norm, item_norm, space.mode)
        lists.add(products, start)
        start, width = stop, 2 * width
    return lists.found()


class _FoundItems:
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
        if sum(part.shape[1] for part in self._item) >= 2 * self._k + EXACT_SPARE:
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


# The k nearest items on a device: half precision says who can be among them, integers who is.
#
# A product P in half precision tells who is nearer up to a margin M (truerank.engine.cuda.rows):
# if k items have products of at least p, an item whose product is below p - M is farther than all
# of these, and neither listed nor tied with the last.
#
# Where to begin is foretold by a sample of the gallery: how many items lie above the r-th product
# of a random sample does not depend on the data, only on r and the two sizes. What must hold is
# checked for each query (enough items written down, none cut off, room for all). Who fails is
# filtered once more, from a product that its first list tells, with more room; who fails again is
# searched exactly.


SAMPLED = 1 << 14
"""Most items of the sample."""
PRODUCTS = 1 << 31
"""Most products in half precision that are held at a time, if they fit."""
STEPS = 14
"""Bisections towards a product: the rest is little beside the margin."""
FILTERED_SPARE, ROOMY = 64, 3
"""Places for items written down, and how many times as many as the sample foretells."""
LONGER = 8
"""How many times as many places there are for a query that failed."""
FAILED = 1 / 4
"""Where so many queries of a part fail, the others are searched exactly at once."""


class FilteredSearch:
    """A gallery kept in half precision; `filters` are the kernels."""

    def __init__(self, space: InnerProducts, half: HalfRows, filters: ModuleType) -> None:
        self._space, self._half, self._filters = space, half, filters
        self._gallery = space.space.gallery
        self._sampled = min(self._gallery, max(1 << 10, min(SAMPLED, self._gallery // 24)))
        chosen = torch.randperm(self._gallery, generator=torch.Generator().manual_seed(26))
        sample = chosen[: self._sampled].to(space.device)
        self._sample = half.items.take(sample)
        self._sample_shift = None if half.shift is None else half.shift[sample].contiguous()

    def pays(self, k: int) -> bool:
        """Whether few enough items are refined: each costs as much as some float64 products."""
        return 16 * k <= self._gallery

    def nearest(self, queries: DeviceQueries, k: int) -> FoundNearest:
        """The k nearest items of these queries."""
        found = FoundNearest.room(len(queries), k, self._space.device)
        most = min(PRODUCTS, free_bytes(self._space.device) // 32)
        width = max(self._sampled, SEARCH_PART * self._parts(self._room(k)))
        step, lost = max(1, most // width), []
        for first in range(0, len(queries), step):
            some = slice(first, min(first + step, len(queries)))
            part = FoundNearest(found.distance[some], found.item[some], found.tied[some])
            failed, hopeless = self._part(queries.part(some), k, part)
            lost.append(failed + first)
            if hopeless:
                lost.append(torch.arange(some.stop, len(queries), device=failed.device))
                break
        again = torch.cat(lost)
        if len(again):
            found.put(again, search_exactly(self._space, _some(queries, again), k))
        return found

    def _rank(self, k: int) -> int:
        """The place in the sample above which enough items of the gallery lie, nearly always."""
        among = (1.25 * k + 16) * self._sampled / self._gallery
        return min(self._sampled, math.ceil(among + 2.5 * math.sqrt(among) + 2))

    def _room(self, k: int) -> int:
        """Places for the items of a query that are written down."""
        foretold = self._rank(k) * self._gallery // self._sampled
        return min(self._gallery, FILTERED_SPARE + ROOMY * foretold)

    def _parts(self, room: int) -> int:
        """Parts of the gallery that hold so many items, each in another if it can be."""
        return min(room, -(-self._gallery // SEARCH_PART))

    def _part(self, queries: DeviceQueries, k: int, found: FoundNearest) -> tuple[Any, bool]:
        """Fill in the lists of some queries; returns those that failed, and whether too many did
        for others to be tried."""
        rows, room = self._rows(queries), self._room(k)
        limit = self._limits(rows, self._rank(k))
        written = self._written(rows, limit, room)
        chosen = self._chosen(written, rows, limit, k)
        failed = self._finished(queries, chosen, k, found)
        if len(failed) > FAILED * len(queries):
            return failed, True
        longer = min(self._gallery, LONGER * room)
        if not len(failed) or len(failed) * SEARCH_PART * self._parts(longer) > PRODUCTS:
            return failed, False
        some, fewer = _some(queries, failed), rows.some(failed)
        deeper = self._limits(fewer, min(self._sampled, 4 * self._rank(k)))
        told = (chosen.cut[failed] - fewer.margin).float()  # a margin more: it is bisected again
        limit = torch.where(written.count[failed] % MISSED >= k, told, deeper)
        chosen = self._chosen(self._written(fewer, limit, longer), fewer, limit, k)
        part = FoundNearest.room(len(failed), k, self._space.device)
        left = self._finished(some, chosen, k, part)
        done = torch.nonzero(chosen.number).flatten()
        found.put(failed[done], FoundNearest(*(x[done] for x in part.parts)))
        return failed[left], False

    def _rows(self, queries: DeviceQueries) -> _Queries:
        """The queries in half precision."""
        return _Queries(*self._half.queries(queries))

    def _limits(self, rows: _Queries, rank: int) -> Any:
        """For each query a product that `rank` items of the sample reach."""
        size = (len(rows), self._sampled)
        products = self._filters.room_for_products(*size, self._space.device)
        self._filters.half_products(rows.halves.rows, self._sample.rows, *size, products)
        limit = torch.empty(len(rows), dtype=torch.float32, device=self._space.device)
        self._filters.limits(products, self._sample_shift, size, rank, STEPS, limit)
        return limit

    def _written(self, rows: _Queries, limit: Any, room: int) -> _Written:
        """The items whose products are not below the query's limit."""
        device, half, filters = self._space.device, self._half, self._filters
        queries, places = len(rows), self._parts(room)
        near, count = torch.zeros((2, queries), dtype=torch.int32, device=device)
        parts = torch.empty((queries, places), dtype=torch.int32, device=device)
        products = torch.empty((queries, places * SEARCH_PART), dtype=torch.float32, device=device)
        found, size = (near, parts, products), (queries, self._gallery)
        filters.near_parts(rows.halves.rows, half.items.rows, half.shift, limit, size, *found)
        entries = torch.empty((queries, room), dtype=torch.int64, device=device)
        filters.write_down(*found, limit, self._gallery, count, entries)
        return _Written(count, entries)

    def _chosen(self, written: _Written, rows: _Queries, limit: Any, k: int) -> _Chosen:
        """Of the items written down, those that may be among the k nearest or tie with the last."""
        queries, places = written.entries.shape
        chosen = _Chosen.room(queries, places, self._space.device)
        self._filters.choose(
            written.entries,
            written.count,
            limit,
            rows.margin,
            k,
            STEPS,
            chosen.cut,
            chosen.number,
            chosen.item,
        )
        return chosen

    def _finished(
        self, queries: DeviceQueries, chosen: _Chosen, k: int, found: FoundNearest
    ) -> Any:
        """Fill in the exact lists; returns the queries of which no items were chosen."""
        most = int(chosen.number.max())
        distances = self._measured(queries, chosen)
        self._ordered(chosen, most, distances, found)
        return torch.nonzero(chosen.number == 0).flatten()

    def _measured(self, queries: DeviceQueries, chosen: _Chosen) -> Any:
        """The exact distances of the chosen items."""
        distances = torch.empty(chosen.item.shape, dtype=torch.float64, device=self._space.device)
        sides = self._space.query_side(queries), self._space.gallery_side()
        self._filters.measure(*sides, self._space.mode, chosen.number, chosen.item, distances)
        return distances

    def _ordered(self, chosen: _Chosen, most: int, distances: Any, found: FoundNearest) -> None:
        """Put them in order."""
        if most:
            self._filters.order(chosen.number, most, chosen.item, distances, found.parts)


@dataclass(frozen=True)
class _Queries:
    """Some queries in half precision."""

    halves: Halves
    margin: Any

    def __len__(self) -> int:
        return len(self.margin)

    def some(self, index: Any) -> _Queries:
        return _Queries(self.halves.take(index), self.margin[index])


@dataclass(frozen=True)
class _Written:
    """The items written down for each query, in no order, and how many had to be."""

    count: Any
    entries: Any


@dataclass(frozen=True)
class _Chosen:
    """The items that get exact distances."""

    cut: Any
    """The least product of an item that may be among the nearest."""
    number: Any
    item: Any

    @staticmethod
    def room(queries: int, places: int, device: Any) -> _Chosen:
        return _Chosen(
            torch.empty(queries, dtype=torch.float64, device=device),
            torch.empty(queries, dtype=torch.int32, device=device),
            torch.empty((queries, places), dtype=torch.int32, device=device),
        )


def _some(queries: DeviceQueries, index: Any) -> DeviceQueries:
    return DeviceQueries(queries.rows[index.cpu().numpy()], queries.there[index])
