"""The k nearest items on a device: half precision says who can be among them, integers who is.

A product P in half precision tells who is nearer up to a margin M (truerank.engine.cuda.half_rows):
if k items have products of at least p, an item whose product is below p - M is farther than all of
these, and neither listed nor tied with the last.

Where to begin is foretold by a sample of the gallery: how many items lie above the r-th product of
a random sample does not depend on the data, only on r and the two sizes. What must hold is checked
for each query (enough items written down, none cut off, room for all). Who fails is filtered once
more, from a product that its first list tells, with more room; who fails again is searched exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from truerank.engine.cuda.exact_search import FoundNearest, search_exactly
from truerank.engine.cuda.half_rows import HalfRows
from truerank.engine.cuda.rows import InnerProducts, free_bytes
from truerank.engine.cuda.tensor_filter import Halves
from truerank.engine.cuda.torch_search import MISSED, PART
from truerank.engine.cuda.transfer import DeviceQueries

__all__ = ["FilteredSearch"]

SAMPLED = 1 << 14
"""Most items of the sample."""
PRODUCTS = 1 << 31
"""Most products in half precision that are held at a time, if they fit."""
STEPS = 14
"""Bisections towards a product: the rest is little beside the margin."""
SPARE, ROOMY = 64, 3
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
        width = max(self._sampled, PART * self._parts(self._room(k)))
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
        return min(self._gallery, SPARE + ROOMY * foretold)

    def _parts(self, room: int) -> int:
        """Parts of the gallery that hold so many items, each in another if it can be."""
        return min(room, -(-self._gallery // PART))

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
        if not len(failed) or len(failed) * PART * self._parts(longer) > PRODUCTS:
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
        products = torch.empty((queries, places * PART), dtype=torch.float32, device=device)
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
