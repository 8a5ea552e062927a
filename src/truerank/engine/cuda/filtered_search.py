"""The k nearest items on a device: half precision says who can be among them, integers who is.

A product P in half precision tells a distance up to 2 B (truerank.engine.cuda.tensor_filter). If k
items have products of at least p, then k distances are at most that of p - B, and an item whose
product is below p - 2 B is farther than all of these: it is neither listed nor tied with the last.

Where to begin is foretold by a sample of the gallery: how many items lie above the r-th product of
a random sample does not depend on the data, only on r and the two sizes. What must hold is checked
for each query (enough items listed, none cut off, room for all); who fails is searched exactly.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import torch

from truerank.engine.cuda import tensor_filter
from truerank.engine.cuda.exact_search import FoundNearest, search_exactly
from truerank.engine.cuda.rows import InnerProducts, free_bytes
from truerank.engine.cuda.transfer import DeviceQueries

__all__ = ["FilteredSearch"]

STRIP = 1 << 14
"""Most items of a tile of products."""
PRODUCTS = 1 << 29
"""Most products in half precision at a time, if they fit."""
STEPS = 12
"""Bisections towards the k-th product: the rest is little beside the bound."""
SPARE, ROOMY = 64, 4
"""Places for items written down, and how many times as many as the sample foretells."""
FAILED = 1 / 4
"""Where so many queries of a block fail, the others are searched exactly at once."""


class FilteredSearch:
    """A gallery kept in half precision."""

    def __init__(self, space: InnerProducts, filters: ModuleType) -> None:
        self._space, self._filters, self._gallery = space, filters, space.space.gallery
        integers, norm = space.unit_items(0, self._gallery)
        self._items = tensor_filter.halves(integers)
        self._extremes = tensor_filter.Extremes.of(self._items, norm)
        self._strip = -(-self._gallery // -(-self._gallery // STRIP))
        self._sampled = min(self._gallery, max(1 << 10, min(STRIP, self._gallery // 24)))
        chosen = torch.randperm(self._gallery, generator=torch.Generator().manual_seed(26))
        self._sample = self._items.take(chosen[: self._sampled].to(space.device))

    @staticmethod
    def fits(space: InnerProducts) -> bool:
        """Whether a device has room for it, beside the rows."""
        size = 2 * space.space.gallery * space.dimension
        return space.resident and size <= free_bytes(space.device) // 4

    def pays(self, k: int) -> bool:
        """Whether few enough items are refined: each costs as much as some float64 products."""
        return 16 * k <= self._gallery

    def nearest(self, queries: DeviceQueries, k: int) -> FoundNearest:
        """The k nearest items of these queries."""
        found = FoundNearest.room(len(queries), k, self._space.device)
        tall = max(1, min(PRODUCTS, free_bytes(self._space.device) // 64) // self._width)
        failed = []
        for first in range(0, len(queries), tall):
            some = slice(first, min(first + tall, len(queries)))
            lost = self._part(queries.part(some), k, found, first)
            failed.append(lost + first)
            if len(lost) > FAILED * (some.stop - some.start):
                failed.append(torch.arange(some.stop, len(queries), device=lost.device))
                break
        again = torch.cat(failed)
        if len(again):
            rows = queries.rows[again.cpu().numpy()]
            exact = DeviceQueries(rows, queries.there[again])
            found.put(again, search_exactly(self._space, exact, k))
        return found

    @property
    def _width(self) -> int:
        return max(self._strip, self._sampled)

    def _rank(self, k: int) -> int:
        """The place in the sample above which enough items of the gallery lie, nearly always."""
        among = (1.25 * k + 16) * self._sampled / self._gallery
        return min(self._sampled, math.ceil(among + 2.5 * math.sqrt(among) + 2))

    def _part(self, queries: DeviceQueries, k: int, found: FoundNearest, first: int) -> Any:
        """Fill in the lists of some queries, from `first` on; returns those that failed."""
        integers, _ = self._space.unit_queries(queries)
        if self._space.one_side:
            halves = self._items.take(queries.there)
        else:
            halves = tensor_filter.halves(integers)
        bound = tensor_filter.error_bound(halves, self._extremes, self._space.slack)
        limit, entries, count = self._listed(halves, len(queries), k)
        room = entries.shape[1]
        places = torch.arange(min(room, int(count.max())), device=entries.device)
        both = entries.view(torch.int32)
        product, item = both[:, : 2 * len(places) : 2], both[:, 1 : 2 * len(places) : 2]
        product = torch.where(places < count[:, None], product.view(torch.float32), -torch.inf)
        low, high = limit, product.max(1).values
        for _ in range(STEPS):  # at least k products are not below `low`
            middle = (low + high) / 2
            enough = (product >= middle[:, None]).sum(1) >= k
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        cut = (low.double() - 2 * tensor_filter.IN_PRODUCTS * bound).float()
        cut = torch.nextafter(cut, torch.full_like(cut, -torch.inf))
        good = (count >= k) & (count <= room) & (cut >= limit)
        query, place = torch.nonzero((product >= cut[:, None]) & good[:, None], as_tuple=True)
        good_rows = torch.nonzero(good).flatten()
        if len(good_rows):
            several = self._refined(queries, query, item[query, place].long(), k)
            found.put(good_rows + first, several.some(good_rows))
        return torch.nonzero(~good).flatten()

    def _listed(self, halves: tensor_filter.Halves, queries: int, k: int) -> tuple[Any, Any, Any]:
        """A product for each query, the items not below it with theirs, and their number, which is
        larger than the room if some had to be left out."""
        device, rank = self._space.device, self._rank(k)
        products = self._filters.room_for_products(queries, self._width, device)
        self._filters.half_products(
            halves.rows, self._sample.rows, queries, self._sampled, products
        )
        seen = products[:queries, : self._sampled]
        limit = torch.topk(seen, rank, dim=1, sorted=False).values.min(1).values
        foretold = rank * self._gallery // self._sampled
        room = min(self._gallery, SPARE + ROOMY * foretold)
        entries = torch.empty((queries, room), dtype=torch.int64, device=device)
        near = torch.empty((queries, self._strip), dtype=torch.int64, device=device)
        count = torch.zeros(queries, dtype=torch.int64, device=device)
        for start in range(0, self._gallery, self._strip):
            stop = min(start + self._strip, self._gallery)
            size = (queries, stop - start)
            listed = torch.zeros(queries, dtype=torch.int32, device=device)
            items = self._items.part(start, stop)
            self._filters.half_products(halves.rows, items.rows, *size, products)
            self._filters.list_near(products, *size, limit[:, None].contiguous(), listed, near)
            wide = torch.arange(min(room, int(listed.max())), device=device)
            query, column = torch.nonzero(wide < listed[:, None], as_tuple=True)
            place = count[query] + column
            held = place < room
            query, column, place = query[held], column[held], place[held]
            entries[query, place] = near[query, column] + (start << 32)
            count += listed
        return limit, entries, count

    def _refined(self, queries: DeviceQueries, query: Any, item: Any, k: int) -> _Refined:
        """Exact lists from all items that may be in them; queries without any have none."""
        distance = self._space.pairs(queries, query, item)
        count = torch.bincount(query, minlength=len(queries))
        begin = torch.cumsum(count, 0) - count
        place = torch.arange(len(query), device=query.device) - begin[query]
        shape = (len(queries), max(k, int(count.max())))
        distances = torch.full(shape, torch.inf, dtype=torch.float64, device=query.device)
        items = torch.zeros(shape, dtype=torch.int64, device=query.device)
        distances[query, place], items[query, place] = distance, item
        return _Refined(distances, items, k)


class _Refined:
    """Exact distances of the items that may be listed, in no order."""

    def __init__(self, distance: Any, item: Any, k: int) -> None:
        distance, order = torch.sort(distance, dim=1)
        item = torch.gather(item, 1, order)
        same = (distance[:, 1:] == distance[:, :-1]) & (item[:, 1:] < item[:, :-1])
        mixed = torch.nonzero((same & (distance[:, 1:] < torch.inf)).any(1)).flatten()
        if len(mixed):  # items that tie go by their numbers
            some, order = torch.sort(item[mixed], dim=1)
            far, again = torch.sort(torch.gather(distance[mixed], 1, order), dim=1, stable=True)
            distance[mixed], item[mixed] = far, torch.gather(some, 1, again)
        tied = (distance == distance[:, k - 1 : k]).sum(1)
        self._lists = FoundNearest(distance[:, :k], item[:, :k], tied)

    def some(self, rows: Any) -> FoundNearest:
        """The lists of some of the queries."""
        if len(rows) == len(self._lists.tied):
            return self._lists
        parts = (self._lists.distance, self._lists.item, self._lists.tied)
        return FoundNearest(*(part[rows] for part in parts))
