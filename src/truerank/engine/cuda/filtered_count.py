"""Counting by half precision: it decides what it can, exact products of single pairs the rest.

The coarse filter multiplies rows of one half each, and keeps the products of what may lie within a
query's farthest mate. Where many items stay open (rows as good as random, whose mates lie amid the
gallery), the fine filter takes rows of two halves each: three times the products, and a bound that
is some thirty times as narrow. Some queries of each block are tried on a part of the gallery first.
A query with more open items than there is room for is left to exact tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch

from truerank.engine.cuda import sizes, tensor_filter
from truerank.engine.cuda.both_ways import BothWays
from truerank.engine.cuda.counting import DeviceTally
from truerank.engine.cuda.near import LISTS, Near, Opened, decide
from truerank.engine.cuda.rows import InnerProducts, free_bytes
from truerank.engine.cuda.transfer import DeviceQueries, fetched
from truerank.settings import Settings

__all__ = ["TRIED", "FilteredCount"]

PRODUCTS = 1 << 29
"""Most products that are held at a time, if they fit; twice as many where the gallery comes again
for every part of the queries."""
TRIED, TRIED_STRIPS = 512, 4
"""Queries of a block that are filtered first, and parts of the gallery that they meet."""
WORTH = 8
"""A block of fewer than so many times as many goes by the way of the one before."""
PREFERRED = 100
"""Where the coarse filter leaves more than one item in so many open, the fine one is faster."""


class FilteredCount:
    """A gallery kept in half precision; `filters` are the kernels."""

    def __init__(self, space: InnerProducts, filters: ModuleType, *, sparse: int) -> None:
        """One item in `sparse` may stay open for a query."""
        self._space, self._filters, self._sparse = space, filters, sparse
        self._device, self._gallery = space.device, space.space.gallery
        most = PRODUCTS if space.resident else 2 * PRODUCTS
        self._most = min(most, free_bytes(self._device) // 64)
        self._items: tuple[tensor_filter.Halves, tensor_filter.Extremes] | None = None
        self._fine_items: tuple[tensor_filter.FineRows, tensor_filter.FineExtremes] | None = None
        self._ways: dict[bool, str | None] = {}
        """The last way that was tried, of queries with few thresholds (True) and with more."""

    def count(self, queries: DeviceQueries, tally: DeviceTally, limits: Settings) -> Any:
        """Count the gallery at the queries' thresholds; returns the numbers of those queries that
        are still to be counted, from the start."""
        everyone = torch.arange(len(queries), device=self._device)
        if limits.method == "float64":
            return everyone
        way = self._way(queries, tally.edges, limits)
        if way is None:
            return everyone
        fine, split = way == "fine", tally.split
        if split is None or tally.edges.shape[1] > sizes.FEW:
            return self._counted(queries, tally, limits, fine=fine)
        # Shares are counted where items are looked up, not where they are compared one by one.
        whole, parted = torch.nonzero(split.place < 0).flatten(), split.rows
        left = [parted if fine else self._some(queries, parted, tally, limits)]
        if len(whole):
            alone = DeviceTally(tally.edges, tally.less, tally.equal, tally.bins)
            left.append(self._some(queries, whole, alone, limits, fine=fine))
        return torch.cat(left)

    def _some(
        self,
        queries: DeviceQueries,
        index: Any,
        tally: DeviceTally,
        limits: Settings,
        *,
        fine: bool = False,
    ) -> Any:
        """Count some queries of a block; returns the numbers of those without enough room."""
        part = tally.again(index)
        some = DeviceQueries(queries.rows[fetched(index)], queries.there[index])
        left = self._counted(some, part, limits, fine=fine)
        tally.replace(index, part)
        return index[left]

    def both_ways(self, queries: DeviceQueries, edges: Any, limits: Settings) -> BothWays | None:
        """What counts each pair once; some of the queries are tried. None where it cannot be done,
        or where the coarse filter is not the one to take."""
        space = self._space
        if limits.method == "float64" or not (space.one_side and space.resident):
            return None
        if self._way(queries, edges, limits) != "coarse":
            return None
        most = min(sizes.STRIP, 1024 * limits.gallery_rows, self._gallery)
        side = min(most, math.isqrt(self._most))
        items = self._kept()
        if items is None:
            return None
        return BothWays(space, self._filters, items, side, self._places(side))

    def _way(self, queries: DeviceQueries, edges: Any, limits: Settings) -> str | None:
        """The filter that suits a block; None for neither."""
        if limits.method != "auto":
            return "coarse"
        few = edges.shape[1] <= sizes.FEW
        if few not in self._ways or len(queries) > WORTH * TRIED:
            self._ways[few] = self._try(queries, edges, limits, fine=few)
        return self._ways[few]

    def _try(
        self, queries: DeviceQueries, edges: Any, limits: Settings, *, fine: bool
    ) -> str | None:
        """The same by what each filter leaves open of some queries; `fine` if both can be had."""
        some = slice(None, None, -(-len(queries) // TRIED))
        tried = queries.part(some), edges[some].contiguous()
        opened = self._left_open(*tried, limits, fine=False)
        if opened * PREFERRED <= 1:
            return "coarse"
        enough = 1 / (2 * self._sparse)
        if fine and self._keep_fine() and self._left_open(*tried, limits, fine=True) < enough:
            return "fine"
        return "coarse" if opened < enough else None

    def _left_open(
        self, queries: DeviceQueries, edges: Any, limits: Settings, *, fine: bool
    ) -> float:
        """The share of a part of the gallery that stays open."""
        strip = self._strip(limits)
        starts = list(range(0, self._gallery, strip))
        some = starts[:: -(-len(starts) // TRIED_STRIPS)]
        most = self._part(queries, DeviceTally.of(edges), limits, some, fine=fine)
        return float(most.sum(1).double().mean()) / strip

    def _counted(
        self, queries: DeviceQueries, tally: DeviceTally, limits: Settings, *, fine: bool
    ) -> Any:
        """Count by one of the filters; returns the numbers of queries without enough room."""
        strip = self._strip(limits)
        starts = list(range(0, self._gallery, strip))
        tall = max(1, self._most // strip)
        parts = [slice(first, first + tall) for first in range(0, len(queries), tall)]
        most = [
            self._part(queries.part(some), tally.part(some), limits, starts, fine=fine)
            for some in parts
        ]
        return torch.nonzero((torch.cat(most) > self._places(strip)).any(1)).flatten()

    def _strip(self, limits: Settings) -> int:
        """Items between two refinements: equal parts of the gallery."""
        parts = -(-self._gallery // min(sizes.STRIP, 1024 * limits.gallery_rows))
        return -(-self._gallery // parts)

    def _places(self, strip: int) -> int:
        """Open items that each list of a query has room for, in each strip of the gallery."""
        return max(256, strip // self._sparse) // LISTS

    def _part(
        self,
        queries: DeviceQueries,
        tally: DeviceTally,
        limits: Settings,
        starts: list[int],
        *,
        fine: bool,
    ) -> Any:
        """Filter and refine strips of the gallery; returns the most items that any of them left
        open, for each list of each query."""
        strip = self._strip(limits)
        room = (_Fine if fine else _Kept)(self._filters, len(queries), strip, self._device)
        opened = Opened.room(len(queries), self._places(strip), self._device)
        most = torch.zeros_like(opened.found)
        exact = self._space.query_rows(queries), self._space.query_norm(queries)
        sides = self._fine_sides(queries, tally) if fine else self._sides(queries, tally)
        for start in starts:
            stop = min(start + strip, self._gallery)
            here = tally.at(start, stop)
            size = (len(queries), stop - start)
            room.count(sides.at(start, stop), size, here, opened)
            torch.maximum(most, opened.found, out=most)
            self._refine(start, stop, exact, here, opened)
        return most.view(-1, LISTS)

    def _refine(
        self, start: int, stop: int, exact: tuple[Any, Any], tally: DeviceTally, opened: Opened
    ) -> None:
        """Count what a strip has left open."""
        rows = self._space.open_rows(start, stop, opened.found, opened.entries)
        if rows is None:
            return
        split = tally.split
        if split is not None and rows.chosen is not None:
            split = replace(split, fold=split.fold[rows.chosen])
        self._filters.refine(
            exact[0],
            rows.integers,
            exact[1],
            rows.norm,
            self._space.mode,
            tally.edges,
            Opened(opened.found, rows.entries),
            tally.bins,
            tally.equal,
            split,
        )

    def _sides(self, queries: DeviceQueries, tally: DeviceTally) -> _Sides:
        """What the coarse filter multiplies."""
        kept = self._kept()
        integers, norm = self._space.unit_queries(queries)
        if kept is not None and self._space.one_side:
            halves = kept[0].take(queries.there)
        else:
            halves = tensor_filter.halves(integers)
        if kept is None:
            return _SentSides(self._space, halves, norm, tally.edges)
        items, extremes = kept
        cuts = tensor_filter.thresholds(tally.edges, norm, halves, extremes, self._space.slack)
        return _Sides(halves.rows, items, *cuts)

    def _kept(self) -> tuple[tensor_filter.Halves, tensor_filter.Extremes] | None:
        """The gallery in half precision, if there is room for it."""
        if self._items is None:
            self._items = self._space.half_items()
        return self._items

    def _fine_sides(self, queries: DeviceQueries, tally: DeviceTally) -> _Sides:
        """What the fine filter multiplies."""
        assert self._fine_items is not None
        items, extremes = self._fine_items
        integers, norm = self._space.unit_queries(queries)
        if self._space.one_side:
            rows = items.queries(queries.there)
        else:
            everyone = torch.arange(len(queries), device=self._device)
            rows = tensor_filter.fine_rows(integers).queries(everyone)
        cuts = tensor_filter.thresholds(tally.edges, norm, rows, extremes, self._space.slack)
        return _Sides(rows.rows, items, *cuts)

    def _keep_fine(self) -> bool:
        """Keep the gallery in two halves, if it fits; says whether it is kept."""
        space = self._space
        size = 6 * self._gallery * space.dimension
        if self._fine_items is None and space.resident and size <= free_bytes(self._device) // 4:
            integers, norm = space.unit_items(0, self._gallery)
            items = tensor_filter.fine_rows(integers)
            self._fine_items = items, tensor_filter.FineExtremes.of(items, norm)
        return self._fine_items is not None


@dataclass(frozen=True)
class _Side:
    """Half-precision rows of queries and of a strip, and the cuts of the queries there."""

    left: Any
    right: Any
    sure: Any
    lost: Any
    last: Any
    """The least product of what may lie within the farthest mate."""


class _Sides:
    """Some queries and a gallery that is kept."""

    def __init__(self, left: Any, items: Any, sure: Any, lost: Any) -> None:
        self._left, self._items = left, items
        self._cuts = sure, lost, lost[:, -1].contiguous()

    def at(self, start: int, stop: int) -> _Side:
        """The strip start to stop."""
        right = tensor_filter.strip(self._items.rows, start, stop)
        return _Side(self._left, right, *self._cuts)


class _SentSides(_Sides):
    """Some queries and a gallery that is sent strip by strip."""

    def __init__(
        self, space: InnerProducts, halves: tensor_filter.Halves, norm: Any, edges: Any
    ) -> None:
        self._space, self._halves, self._norm, self._edges = space, halves, norm, edges

    def at(self, start: int, stop: int) -> _Side:
        """See _Sides."""
        gallery, item_norm = self._space.unit_items(start, stop)
        items = tensor_filter.halves(gallery)
        extremes = tensor_filter.Extremes.of(items, item_norm)
        sure, lost = tensor_filter.thresholds(
            self._edges, self._norm, self._halves, extremes, self._space.slack
        )
        return _Side(self._halves.rows, items.rows, sure, lost, lost[:, -1].contiguous())


class _Kept:
    """Rows of one half: the products that matter are kept, and decided afterwards."""

    def __init__(self, filters: ModuleType, queries: int, strip: int, device: Any) -> None:
        self._filters: Any = filters
        self._near = Near.room(queries, strip, device)

    def count(self, side: _Side, size: tuple[int, int], tally: DeviceTally, opened: Opened) -> None:
        """Count the items of a strip about which there is no doubt, and list the open ones."""
        self._filters.near_products(side.left, side.right, size, side.last, self._near)
        decide(self._filters, (side.sure, side.lost), self._near, size[1], tally, opened)


class _Fine(_Kept):
    """Rows of two halves: what is decided is counted at once, what is in doubt is kept."""

    def count(self, side: _Side, size: tuple[int, int], tally: DeviceTally, opened: Opened) -> None:
        """See _Kept."""
        cuts, less = (side.sure, side.lost), tally.less
        self._filters.count_fine(side.left, side.right, size, *cuts, less, self._near)
        self._filters.compare(*cuts, self._near, size[1], less, opened, counted=True)
