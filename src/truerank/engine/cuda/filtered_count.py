"""Counting by half precision: it decides what it can, exact products of single pairs the rest.

The coarse filter multiplies rows of one half each and keeps the products within a query's
farthest relevant item. Where many items stay open, the fine filter takes rows of two halves
each: three times the products, and a bound some thirty times as narrow. Some queries of each
block are tried on a part of the gallery first. A query with more open items than there is room
for is left to exact tiles. Where the queries are the gallery, each pair is multiplied once and
compared for both of its queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations, cycle
from types import ModuleType
from typing import Any

import torch

from truerank._util.settings import Settings
from truerank.engine.cuda import counting, front
from truerank.engine.cuda.counting import LISTS, DeviceTally, Near, Opened, decide
from truerank.engine.cuda.rows import InnerProducts, free_bytes
from truerank.engine.cuda.transfer import DeviceQueries, Lane, fetched, moment, wait_for

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
        self._items: tuple[counting.Halves, counting.Extremes] | None = None
        self._fine_items: tuple[counting.FineRows, counting.FineExtremes] | None = None
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
        if split is None or tally.edges.shape[1] > front.FEW:
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

    def both_ways(
        self, queries: DeviceQueries, edges: Any, limits: Settings
    ) -> SymmetricCount | None:
        """What counts each pair once; some of the queries are tried. None where it cannot be done,
        or where the coarse filter is not the one to take."""
        space = self._space
        if limits.method == "float64" or not (space.one_side and space.resident):
            return None
        if self._way(queries, edges, limits) != "coarse":
            return None
        most = min(front.STRIP, 1024 * limits.gallery_rows, self._gallery)
        side = min(most, math.isqrt(self._most))
        items = self._kept()
        if items is None:
            return None
        return SymmetricCount(space, self._filters, items, side, self._places(side))

    def _way(self, queries: DeviceQueries, edges: Any, limits: Settings) -> str | None:
        """The filter that suits a block; None for neither."""
        if limits.method != "auto":
            return "coarse"
        few = edges.shape[1] <= front.FEW
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
        parts = -(-self._gallery // min(front.STRIP, 1024 * limits.gallery_rows))
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
            halves = counting.halves(integers)
        if kept is None:
            return _SentSides(self._space, halves, norm, tally.edges)
        items, extremes = kept
        cuts = counting.thresholds(tally.edges, norm, halves, extremes, self._space.slack)
        return _Sides(halves.rows, items, *cuts)

    def _kept(self) -> tuple[counting.Halves, counting.Extremes] | None:
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
            rows = counting.fine_rows(integers).queries(everyone)
        cuts = counting.thresholds(tally.edges, norm, rows, extremes, self._space.slack)
        return _Sides(rows.rows, items, *cuts)

    def _keep_fine(self) -> bool:
        """Keep the gallery in two halves, if it fits; says whether it is kept."""
        space = self._space
        size = 6 * self._gallery * space.dimension
        if self._fine_items is None and space.resident and size <= free_bytes(self._device) // 4:
            integers, norm = space.unit_items(0, self._gallery)
            items = counting.fine_rows(integers)
            self._fine_items = items, counting.FineExtremes.of(items, norm)
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
        right = counting.strip(self._items.rows, start, stop)
        return _Side(self._left, right, *self._cuts)


class _SentSides(_Sides):
    """Some queries and a gallery that is sent strip by strip."""

    def __init__(
        self, space: InnerProducts, halves: counting.Halves, norm: Any, edges: Any
    ) -> None:
        self._space, self._halves, self._norm, self._edges = space, halves, norm, edges

    def at(self, start: int, stop: int) -> _Side:
        """See _Sides."""
        gallery, item_norm = self._space.unit_items(start, stop)
        items = counting.halves(gallery)
        extremes = counting.Extremes.of(items, item_norm)
        sure, lost = counting.thresholds(
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


# Each pair once: the queries are items too, and products serve both of their queries.
#
# Blocks of queries meet one another strip by strip, and what is kept of a strip's products, by its
# rows and by its columns, is compared with the thresholds of either side. Once a block has met all
# blocks behind it, its counts are complete. While the next products are made, those of the last
# strips are compared, rows and columns side by side.


ROWS, COLUMNS = 3, 4
"""Numbers of the lanes; those before are for threads."""


@dataclass(frozen=True)
class Party:
    """A block of queries, their cuts, and what is counted of them."""

    queries: DeviceQueries
    tally: DeviceTally
    sure: Any
    lost: Any
    last: Any
    """The least product of what may lie within the farthest mate."""
    most: Any
    """(2, lists): the most items that any strip left open, for each list of each query, as rows and
    as columns."""


class SymmetricCount:
    """A gallery kept in half precision and as integers, all of it or much of it queries too.

    Parameters
    ----------
    space : InnerProducts
        One whose queries are its gallery, held by the device.
    filters : module
        The kernels.
    items : (Halves, Extremes)
        The gallery in half precision.
    side : int
        Most queries, and items, of a strip.
    places : int
        Open items that each list of a query has room for.
    """

    def __init__(
        self,
        space: InnerProducts,
        filters: ModuleType,
        items: tuple[counting.Halves, counting.Extremes],
        side: int,
        places: int,
    ) -> None:
        self._space, self._filters, self._side, self._places = space, filters, side, places
        self._halves, self._extremes = items
        self._rooms = cycle([_Room(side, places, space.device) for _ in range(2)])

    def party(self, queries: DeviceQueries, tally: DeviceTally) -> Party:
        """A block of queries before it has met anybody."""
        sure, lost = counting.thresholds(
            tally.edges,
            self._space.unit_norm(queries),
            self._halves.known(queries.there),
            self._extremes,
            self._space.slack,
        )
        lists = (2, LISTS * len(queries))
        most = torch.zeros(lists, dtype=torch.int32, device=self._space.device)
        return Party(queries, tally, sure, lost, lost[:, -1].contiguous(), most)

    def meet_itself(self, party: Party) -> None:
        """Count the queries of a party as items of one another."""
        strips = self._strips(party.queries)
        for strip in strips:
            self._one_way(party, strip, party.queries, strip)
        for one, other in combinations(strips, 2):
            self._both_ways(party, one, party, other)

    def meet(self, party: Party, other: Party) -> None:
        """Count the queries of each of two parties as items of the other."""
        for one in self._strips(party.queries):
            for strip in self._strips(other.queries):
                self._both_ways(party, one, other, strip)

    def look_at(self, party: Party, items: DeviceQueries) -> None:
        """Count items that are no queries."""
        for one in self._strips(party.queries):
            for strip in self._strips(items):
                self._one_way(party, one, items, strip)

    def counted(self) -> Any:
        """The moment at which all is counted that has been asked for so far."""
        for _ in range(2):
            next(self._rooms).wait()
        return moment(self._space.device)

    def left(self, party: Party) -> Any:
        """The numbers of queries that had no room, and are to be counted from the start."""
        full = (party.most > self._places).any(0)
        return torch.nonzero(full.view(-1, LISTS).any(1)).flatten()

    def _strips(self, queries: DeviceQueries) -> list[slice]:
        """Equal parts of a block."""
        count = len(queries)
        tall = -(-count // max(1, -(-count // self._side)))
        return [slice(start, min(start + tall, count)) for start in range(0, count, max(1, tall))]

    def _one_way(self, party: Party, one: slice, items: DeviceQueries, strip: slice) -> None:
        here, there = party.queries.part(one), items.part(strip)
        room = next(self._rooms)
        room.wait()
        room.exact = self._exact(here), self._exact(there)
        size = len(here), len(there)
        rows = self._half(here), self._half(there)
        self._filters.near_products(*rows, size, party.last[one], room.sides[0].near)
        self._decide(room, 0, party, one)

    def _both_ways(self, party: Party, one: slice, other: Party, strip: slice) -> None:
        here, there = party.queries.part(one), other.queries.part(strip)
        room = next(self._rooms)
        room.wait()
        room.exact = self._exact(here), self._exact(there)
        size = len(here), len(there)
        limits = party.last[one], room.sides[0].near, other.last[strip], room.sides[1].near
        self._filters.near_products(self._half(here), self._half(there), size, *limits)
        self._decide(room, 0, party, one)
        self._decide(room, 1, other, strip)

    def _decide(self, room: _Room, side: int, party: Party, some: slice) -> None:
        """Count for some queries of a party what was kept for them as rows (side 0) or as columns,
        and what that leaves open."""
        mine = room.sides[side]
        (rows, norm), (item_rows, item_norm) = room.exact[side], room.exact[1 - side]
        tally = party.tally.part(some)
        opened = mine.opened.part(len(tally.edges))
        cuts = party.sure[some], party.lost[some]
        with mine.lane.after(moment(self._space.device)):
            decide(self._filters, cuts, mine.near, len(item_rows), tally, opened)
            most = party.most[side].view(-1, LISTS)[some].view(-1)
            torch.maximum(most, opened.found, out=most)
            given = (rows, item_rows, norm, item_norm, self._space.mode, tally.edges, opened)
            self._filters.refine(*given, tally.bins, tally.equal, None)
            mine.done = moment(self._space.device)

    def _half(self, queries: DeviceQueries) -> Any:
        """These queries in half precision, padded; a view where they follow one another."""
        if queries.is_run:
            first = int(queries.rows[0])
            return counting.strip(self._halves.rows, first, first + len(queries))
        return counting.padded(self._halves.rows[queries.there])

    def _exact(self, queries: DeviceQueries) -> tuple[Any, Any]:
        """Integer rows of these queries, and their norms."""
        if queries.is_run:
            first = int(queries.rows[0])
            return self._space.gallery_rows(first, first + len(queries))
        return self._space.query_rows(queries), self._space.query_norm(queries)


class _BothSides:
    """What is kept of products for their rows or for their columns, and the lane in which it is
    compared."""

    def __init__(self, lane: Lane, side: int, places: int, device: Any) -> None:
        self.lane = lane
        self.near = Near.room(side, side, device)
        self.opened = Opened.room(side, places, device)
        self.done: Any = None
        """When it has been compared."""


class _Room:
    """Room for the products of two strips, and for what has to stay until they are compared."""

    def __init__(self, side: int, places: int, device: Any) -> None:
        self._device = device
        self.sides = [
            _BothSides(Lane(device, number), side, places, device) for number in (ROWS, COLUMNS)
        ]
        self.exact: Any = None
        """Integer rows and norms of both strips."""

    def wait(self) -> None:
        """Wait until what it holds has been compared."""
        wait_for(self._device, *(side.done for side in self.sides))
