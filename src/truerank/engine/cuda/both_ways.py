"""Each pair once: the queries are items too, and products serve both of their queries.

Blocks of queries meet one another strip by strip, and what is kept of a strip's products, by its
rows and by its columns, is compared with the thresholds of either side. Once a block has met all
blocks behind it, its counts are complete. While the next products are made, those of the last
strips are compared, rows and columns side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, cycle
from types import ModuleType
from typing import Any

import torch

from truerank.engine.cuda import tensor_filter
from truerank.engine.cuda.counting import DeviceTally
from truerank.engine.cuda.near import LISTS, Near, Opened, decide
from truerank.engine.cuda.rows import InnerProducts
from truerank.engine.cuda.streams import Lane, moment, wait_for
from truerank.engine.cuda.transfer import DeviceQueries

__all__ = ["BothWays", "Party"]

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


class BothWays:
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
        items: tuple[tensor_filter.Halves, tensor_filter.Extremes],
        side: int,
        places: int,
    ) -> None:
        self._space, self._filters, self._side, self._places = space, filters, side, places
        self._halves, self._extremes = items
        self._rooms = cycle([_Room(side, places, space.device) for _ in range(2)])

    def party(self, queries: DeviceQueries, tally: DeviceTally) -> Party:
        """A block of queries before it has met anybody."""
        sure, lost = tensor_filter.thresholds(
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
            return tensor_filter.strip(self._halves.rows, first, first + len(queries))
        return tensor_filter.padded(self._halves.rows[queries.there])

    def _exact(self, queries: DeviceQueries) -> tuple[Any, Any]:
        """Integer rows of these queries, and their norms."""
        if queries.is_run:
            first = int(queries.rows[0])
            return self._space.gallery_rows(first, first + len(queries))
        return self._space.query_rows(queries), self._space.query_norm(queries)


class _Side:
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
            _Side(Lane(device, number), side, places, device) for number in (ROWS, COLUMNS)
        ]
        self.exact: Any = None
        """Integer rows and norms of both strips."""

    def wait(self) -> None:
        """Wait until what it holds has been compared."""
        wait_for(self._device, *(side.done for side in self.sides))
