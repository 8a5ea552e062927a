"""Distances on one device: exact tiles and pairs from the integer rows of the CPU.

Rows that fit stay on the device; larger ones are sent tile by tile. For a search in half
precision the file holds what is multiplied: a gallery that is kept, and queries with a margin;
an item whose product is more than the margin below another is farther than it. Rows that half
precision leaves open are rows of the device, or read again from their source and rounded there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank._util.cached import cached_property
from truerank._util.cluster import gpu_share
from truerank._util.errors import InputError
from truerank.distance import grid
from truerank.distance.base import Distances, Rows, Space
from truerank.distance.cosine import Cosine, ShortPairs, SourcedCosine
from truerank.distance.elementwise import Cityblock, Hamming
from truerank.distance.grid import LARGEST_EXPONENT, SCALED_BITS, ShortRows
from truerank.distance.inner_product import Dot, Euclidean, SquaredDistance
from truerank.distance.remote_rows import DeviceRows
from truerank.distance.rows import propose
from truerank.engine.cuda import counting, torch_kernels
from truerank.engine.cuda.transfer import DeviceQueries, sent, sent_rows, settled

_NUMBERS = 1 << 25
"""Numbers of rows that become halves at a time."""
_NEGLIGIBLE = 2.0**-60
"""A product that is not 0 and changes no distance."""
Tile = Callable[[int, int], tuple[Any, Any]]
"""From (start, stop) to a tile of products and the norms of its items."""

Side = tuple[Any, Any, Any]
"""Integer rows, their norms, and what scales each, if anything does."""


class DeviceSpace:
    """Tiles made by the space itself and sent to the device (given matrices)."""

    mode = "as is"
    widest = 1 << 14
    """Most items of a tile of whole rows."""

    def __init__(self, space: Space, device: Any, kernels: ModuleType) -> None:
        self.space, self.device, self.kernels = space, device, kernels
        self._nothing = torch.zeros(max(space.queries, space.gallery), device=device).double()

    def block(self, queries: DeviceQueries) -> tuple[Any, Tile]:
        """The norms of these queries, and a function that gives their tiles."""
        tile = self.space.block(queries.rows)

        def give(start: int, stop: int) -> tuple[Any, Any]:
            return self._send(tile(start, stop)), self._nothing[: stop - start]

        return self._nothing[: len(queries)], give

    def whole_rows(self, queries: DeviceQueries) -> Any:
        """Distances of these queries to the whole gallery."""
        norm, tile = self.block(queries)
        gallery = self.space.gallery
        shape = (len(queries), gallery)
        distances = torch.empty(shape, dtype=torch.float64, device=self.device)
        for start in range(0, gallery, self.widest):
            stop = min(start + self.widest, gallery)
            products, item_norm = tile(start, stop)
            self.kernels.fill_distances(
                distances[:, start:stop], products, norm, item_norm, self.mode
            )
        return distances

    def pairs(self, queries: DeviceQueries, query: Any, item: Any) -> Any:
        """The distances of single pairs; `query` numbers the queries."""
        numbers = queries.rows[query.cpu().numpy()]
        return self._send(self.space.pairs(numbers, item.cpu().numpy()))

    def distances(self, products: Any, norm: Any, item_norm: Any) -> Any:
        """Distances from a tile's products and norms."""
        return torch_kernels.distances(products, norm, item_norm, self.mode)

    def tiles(self, rows: Rows) -> Callable[[int, int], Distances]:
        """The tiles of these queries as a space gives them, in main memory."""
        norm, tile = self.block(DeviceQueries.of(rows, self.device))

        def give(start: int, stop: int) -> Distances:
            products, item_norm = tile(start, stop)
            found = self.distances(products, norm[:, None], item_norm[None, :])
            distances: Distances = found.cpu().numpy()
            return distances

        return give

    def _send(self, array: npt.NDArray[Any]) -> Any:
        return sent(array, self.device)


class Elementwise(DeviceSpace):
    """Cityblock and hamming: sums over components in integers."""

    def __init__(self, space: Cityblock | Hamming, device: Any, kernels: ModuleType) -> None:
        super().__init__(space, device, kernels)
        self._left, self._right = space.grids
        self._unequal = isinstance(space, Hamming)
        self._centre = int(space.centre)

    def block(self, queries: DeviceQueries) -> tuple[Any, Tile]:
        """See DeviceSpace."""
        left = self._send(self._left[queries.rows])

        def give(start: int, stop: int) -> tuple[Any, Any]:
            right = self._send(self._right[start:stop])
            tile = self.kernels.elementwise_tile(left, right, self._centre, unequal=self._unequal)
            return tile, self._nothing[: stop - start]

        return self._nothing[: len(queries)], give


class InnerProducts(DeviceSpace):
    """Cosine, euclidean, dot and hamming of bits: one float64 product for each tile."""

    def __init__(
        self, space: SquaredDistance | Euclidean | Dot, device: Any, kernels: ModuleType
    ) -> None:
        super().__init__(space, device, kernels)
        self.slack = 0.0
        """How far distances may be from those that products and norms of rows make."""
        self._grids, self._grid_norms = space.grids, space.norms
        left: npt.NDArray[Any]
        right: npt.NDArray[Any]
        left, right = (grid.integers for grid in space.grids)
        norms, scales = space.norms, None
        self._short: _ShortTiles | None = None
        if isinstance(space, (Euclidean, Dot)):
            self.mode = "euclidean" if isinstance(space, Euclidean) else "as is"
            factors = (space.factor, 1.0)
            scales = [
                np.ldexp(factor, grid.exponent - SCALED_BITS)
                for factor, grid in zip(factors, space.grids, strict=True)
            ]
        elif not isinstance(space, Cosine):
            self.mode = "squared"
        elif space.short is not None and space.short.complete:
            self.mode, short = "short", space.short
            left, right = short.left.integers, short.right.integers
            norms = np.maximum(short.left.square, 1), np.maximum(short.right.square, 1)
            self.slack = space.slack
        else:
            self.mode, self.slack = "cosine", space.slack
            if space.short is not None:
                self._short = _ShortTiles(space.short, device)
        self.one_side = left is right and scales is None
        size = left.nbytes + (0 if self.one_side else right.nbytes)
        there = isinstance(left, DeviceRows) and left.tensor.device == device
        self.resident = there or size <= free_bytes(device) // 2
        scale = (None, None) if scales is None else scales
        self._left = _DeviceSide(left, norms[0], scale[0], device, self.resident)
        self._right = self._left
        if not self.one_side:
            self._right = _DeviceSide(right, norms[1], scale[1], device, self.resident)
        self.dimension: int = self._right.dimension
        self._lock = Lock()
        self._kept: Any = None
        """The whole gallery in float64, from the first tile on, if it fits."""

    @property
    def filters(self) -> bool:
        """Whether unit vectors tell distances up to a slack, and one product each exact one."""
        return self.mode in ("cosine", "short") and self._short is None

    def block(self, queries: DeviceQueries) -> tuple[Any, Tile]:
        """See DeviceSpace."""
        self._keep()
        left = self._left.widened(queries)

        def give(start: int, stop: int) -> tuple[Any, Any]:
            items = slice(start, stop)
            right = self._right.widened(items) if self._kept is None else self._kept[items]
            products = left @ right.T
            norm = self._right.norm[items]
            if self._short is not None:
                self._short.amend(products, queries, items, self.query_norm(queries), norm)
            return products, norm

        return self.query_norm(queries), give

    def whole_rows(self, queries: DeviceQueries) -> Any:
        """See DeviceSpace; in one product where the gallery is kept."""
        self._keep()
        if self._kept is None:
            return super().whole_rows(queries)
        norm, tile = self.block(queries)
        distances, item_norm = tile(0, self.space.gallery)
        self.kernels.fill_distances(distances, distances, norm, item_norm, self.mode)
        return distances

    def _keep(self) -> None:
        """Keep the gallery in float64, if it fits."""
        gallery = self.space.gallery
        with self._lock:
            if self._kept is not None or not self.resident:
                return
            if 8 * gallery * self.dimension > free_bytes(self.device) // 4:
                return
            kept = self._right.widened(slice(0, gallery))
            settled(self.device)
            self._kept = kept

    def pairs(self, queries: DeviceQueries, query: Any, item: Any) -> Any:
        """See DeviceSpace."""
        if not self.resident or self._short is not None:
            return super().pairs(queries, query, item)
        query = queries.there[query]
        product = self.kernels.pair_products(self._left.integers, self._right.integers, query, item)
        if self._left.scale is not None and self._right.scale is not None:
            product = (product * self._left.scale[query]) * self._right.scale[item]
        return self.distances(product, self._left.norm[query], self._right.norm[item])

    @cached_property
    def _units(self) -> tuple[_DeviceSide, _DeviceSide]:
        """Queries and gallery as unit vectors, which the filter compares."""
        if self.mode == "cosine":
            return self._left, self._right
        left, right = (
            _DeviceSide(grid.integers, norm, None, self.device, self.resident)
            for grid, norm in zip(self._grids, self._grid_norms, strict=True)
        )
        return left, right

    def unit_queries(self, queries: DeviceQueries) -> tuple[Any, Any]:
        """These queries as integer rows of unit vectors, and their norms."""
        return self._units[0].rows(queries), self.unit_norm(queries)

    def unit_norm(self, queries: DeviceQueries) -> Any:
        """Norms of these queries as unit vectors."""
        return self._units[0].norm[queries.there]

    def unit_items(self, start: int, stop: int) -> tuple[Any, Any]:
        """These items as integer rows of unit vectors, and their norms."""
        items = slice(start, stop)
        return self._units[1].rows(items), self._units[1].norm[items]

    def query_rows(self, queries: DeviceQueries) -> Any:
        """Integer rows of these queries."""
        return self._left.rows(queries)

    def query_norm(self, queries: DeviceQueries) -> Any:
        """Norms of these queries."""
        return self._left.norm[queries.there]

    def gallery_rows(self, start: int, stop: int) -> tuple[Any, Any]:
        """Integer rows of these items, and their norms."""
        items = slice(start, stop)
        return self._right.rows(items), self._right.norm[items]

    def query_side(self, queries: DeviceQueries) -> Side:
        """These queries as they enter exact distances."""
        scale = self._left.scale
        own = None if scale is None else scale[queries.there]
        return self.query_rows(queries), self.query_norm(queries), own

    def gallery_side(self) -> Side:
        """The whole gallery as it enters exact distances."""
        return *self.gallery_rows(0, self.space.gallery), self._right.scale

    def half_items(self) -> tuple[counting.Halves, counting.Extremes] | None:
        """The whole gallery in half precision, to be kept; None where there is no room.

        Integers that are too large to stay are sent once, and half of the memory may hold halves.
        """
        if not self._halves_fit(4 if self.resident else 2):
            return None
        gallery = self.space.gallery
        kept = counting.Halves.room(gallery, self.dimension, self.device)
        norms = torch.empty(gallery, dtype=torch.float64, device=self.device)
        for start in range(0, gallery, self._step):
            some = slice(start, min(start + self._step, gallery))
            integers, norms[some] = self.unit_items(some.start, some.stop)
            kept.put(start, counting.halves(integers))
        return kept, counting.Extremes.of(kept, norms)

    @property
    def _step(self) -> int:
        """Rows to round at a time, in whole parts of half-precision rows."""
        return max(256, _NUMBERS // self.dimension // 256 * 256)

    def _halves_fit(self, share: int) -> bool:
        """Whether the gallery takes one part in so many of the free memory in half precision."""
        size = 2 * self.space.gallery * self.dimension
        return bool(size <= free_bytes(self.device) // share)

    def open_rows(self, start: int, stop: int, found: Any, entries: Any) -> OpenRows | None:
        """The rows to refine: of the items start to stop, `entries` lists those that are open for
        each query, as many as `found` says. None where there are none.

        Of rows that do not stay on the device, only those that are open for some query are had.
        """
        if self.resident:
            return OpenRows(*self.gallery_rows(start, stop), entries, None)
        some = chosen_rows(stop - start, found, entries)
        if some is None:
            return None
        chosen, renamed = some
        return OpenRows(*self._items(start + chosen), renamed, chosen)

    def _items(self, rows: Any) -> tuple[Any, Any]:
        """Integer rows and norms of the items with these numbers, a tensor."""
        index = DeviceQueries(rows.cpu().numpy(), rows)
        return self._right.rows(index), self._right.norm[rows]


class _ShortTiles:
    """The few short rows among others, whose products are put in the place of the grid's."""

    def __init__(self, short: ShortPairs, device: Any) -> None:
        self._left = _ShortSide(short.left, device)
        self._right = self._left if short.right is short.left else _ShortSide(short.right, device)

    def amend(
        self, products: Any, queries: DeviceQueries, items: slice, norm: Any, item_norm: Any
    ) -> None:
        """Make a tile's products of short rows such that norms and products give their distance."""
        left, right = self._left.place[queries.there], self._right.place[items]
        query, item = (torch.nonzero(place >= 0).flatten() for place in (left, right))
        if not len(query) or not len(item):
            return
        left, right = left[query], right[item]
        found = torch_kernels.distances(
            self._left.rows[left] @ self._right.rows[right].T,
            self._left.square[left][:, None],
            self._right.square[right][None, :],
            "short",
        )
        wanted = (norm[query][:, None] + item_norm[item][None, :] - found) / 2
        wanted = torch.where(wanted == 0, _NEGLIGIBLE, wanted)
        products[query[:, None], item] = torch.where(found == torch_kernels.ZERO, 0.0, wanted)


class _ShortSide:
    """The short rows of one side, in float64, with the place of each row among them."""

    def __init__(self, short: ShortRows, device: Any) -> None:
        held = np.flatnonzero(short.square)
        place = np.full(len(short.square), -1)
        place[held] = np.arange(len(held))
        self.place = sent(place, device)
        self.rows = sent(short.integers[held].astype(np.float64), device)
        self.square = sent(short.square[held].astype(np.float64), device)


class _DeviceSide:
    """Integer rows of one side, on the device or to be sent, with their scales and norms."""

    def __init__(
        self,
        integers: npt.NDArray[Any],
        norm: npt.NDArray[Any],
        scale: npt.NDArray[Any] | None,
        device: Any,
        resident: bool,
    ) -> None:
        """Rows are scaled by their own power of two and a factor, if there is one."""
        self._host, self._device = integers, device
        self.dimension = integers.shape[1]
        self.integers = None
        if resident:
            self.integers = sent_rows(integers, device)
        self.norm = sent(norm.astype(np.float64), device)
        self.scale = None if scale is None else sent(scale, device)

    def rows(self, index: DeviceQueries | slice) -> Any:
        if self.integers is None:
            chosen = index if isinstance(index, slice) else index.rows
            return sent(self._host[chosen], self._device)
        return self.integers[index if isinstance(index, slice) else index.there]

    def widened(self, index: DeviceQueries | slice) -> Any:
        rows = self.rows(index).double()
        if self.scale is not None:
            chosen = index if isinstance(index, slice) else index.there
            rows *= self.scale[chosen][:, None]  # a power of two: exact
        return rows


def free_bytes(device: Any) -> int:
    """Memory of a device that this process may take: what is free, and no more than its share of
    a device that others use; on the CPU device of tests, as good as unlimited."""
    if device.type != "cuda":
        return 1 << 62
    free, total = torch.cuda.mem_get_info(device)
    return int(min(free, gpu_share() * total))


# Which kind of space on a device belongs to a space in main memory.


def place(space: Space, device: Any, kernels: ModuleType) -> DeviceSpace:
    """The space on this device."""
    if isinstance(space, SourcedCosine):
        return SourcedProducts(space, device, kernels)
    if isinstance(space, (SquaredDistance, Euclidean, Dot)):
        return InnerProducts(space, device, kernels)
    if isinstance(space, (Cityblock, Hamming)):
        return Elementwise(space, device, kernels)
    return DeviceSpace(space, device, kernels)


# The rows of items about which half precision leaves a doubt.


@dataclass(frozen=True)
class OpenRows:
    """Integer rows of items, their norms, and the lists of those that are open for each query."""

    integers: Any
    norm: Any
    entries: Any
    chosen: Any
    """Which items of the strip the rows are; None for all of them."""


def chosen_rows(items: int, found: Any, entries: Any) -> tuple[Any, Any] | None:
    """The items of a strip that are open for some query, and the lists in their numbers.

    `entries` lists the open items of each query, as many as `found` says. None if there are none.
    """
    device = entries.device
    wide = min(int(found.max()), entries.shape[1])
    entries = entries[:, :wide]
    held = torch.arange(wide, device=device) < found[:, None]
    listed = entries[held].long()
    if not len(listed):
        return None
    is_open = torch.zeros(items, dtype=torch.bool, device=device)
    is_open[listed] = True
    place = torch.cumsum(is_open, 0, dtype=torch.int32) - 1
    renamed = torch.zeros(entries.shape, dtype=entries.dtype, device=device)
    renamed[held] = place[listed]
    return torch.nonzero(is_open).flatten(), renamed


# What a search in half precision multiplies: a gallery that is kept, and queries.


_HALF_NUMBERS = 1 << 26
"""Most numbers that are widened at a time."""


def half_rows(space: InnerProducts) -> HalfRows | None:
    """The rows of this space; None where half precision cannot tell, or has no room."""
    size = 2 * space.space.gallery * space.dimension
    if not space.resident or size > free_bytes(space.device) // 4:
        return None
    if isinstance(space.space, (Euclidean, Dot)):
        return _ScaledRows(space, space.space)
    return HalfRows(space) if space.filters else None


class HalfRows:
    """Unit vectors, for the cosine."""

    items: counting.Halves
    shift: Any = None
    """What each item's products are less, in float32."""

    def __init__(self, space: InnerProducts) -> None:
        self._space = space
        integers, norm = space.unit_items(0, space.space.gallery)
        self.items = counting.halves(integers)
        self._extremes = counting.Extremes.of(self.items, norm)

    def queries(self, queries: DeviceQueries) -> tuple[counting.Halves, Any]:
        """These queries, and their margins."""
        if self._space.one_side:
            halves = self.items.take(queries.there)
        else:
            halves = counting.halves(self._space.unit_queries(queries)[0])
        bound = counting.error_bound(halves, self._extremes, self._space.slack)
        return halves, 2 * counting.IN_PRODUCTS * bound


class _ScaledRows(HalfRows):
    """Rows in units of the longest: x.y tells who is near, and x.y - |y|^2 / 2 does for the
    euclidean distance |x|^2 + |y|^2 - 2 x.y."""

    def __init__(self, space: InnerProducts, distance: Euclidean | Dot) -> None:
        self._space = space
        exponents = [grid.exponent[~grid.zero] for grid in distance.grids]
        longest = max(int(some.max(initial=-LARGEST_EXPONENT)) for some in exponents)
        self._unit = 2.0 ** (SCALED_BITS - longest)
        self._factor = distance.factor
        integers, norm, scale = space.gallery_side()
        self.items = counting.Halves.room(len(integers), space.dimension, space.device)
        step = max(1, _HALF_NUMBERS // space.dimension)
        for start in range(0, len(integers), step):
            some = slice(start, start + step)
            rows = integers[some].double() * (scale[some] * self._unit)[:, None]
            self.items.put(start, counting.halves(rows))
        square = self.items.length**2
        self._extremes = counting.Extremes.of(self.items, square)
        self._shifted = isinstance(distance, Euclidean)
        if self._shifted:
            in_products = self._unit**2 * counting.IN_PRODUCTS
            self.shift = (norm * in_products / 2).float()

    def queries(self, queries: DeviceQueries) -> tuple[counting.Halves, Any]:
        """See HalfRows.

        A shift is rounded to float32, and so is the difference; a euclidean distance to float64.
        """
        integers, _, scale = self._space.query_side(queries)
        rows = integers.double() * (scale * (self._unit / self._factor))[:, None]
        halves = counting.halves(rows)
        bound = counting.product_bound(halves, self._extremes)
        if self._shifted:
            both = halves.half_length * self._extremes.half_length + self._extremes.longest
            bound += 2.0**-23 * both + 2.0**-50 * (halves.length**2 + self._extremes.longest)
        return halves, 2 * counting.IN_PRODUCTS * bound


# A gallery that stays at its source: a device keeps it in half precision, and nothing else.


class SourcedProducts(InnerProducts):
    """Products with items that are rounded when they are needed."""

    def __init__(self, space: SourcedCosine, device: Any, kernels: ModuleType) -> None:
        self.space, self.device, self.kernels = space, device, kernels
        self._source = space.source
        self.mode, self.one_side, self.resident = "cosine", False, False
        self.dimension: int = space.dimension
        self._short = None
        self._queries = sent(space.left.integers, device)
        self._norm = sent(space.query_norm(), device).double()
        # Orthogonal rows are moved by what their squares differ from 1: that of a row of d
        # components, each off by half a step at most, by less than sqrt(d) |X| + d/4.
        self.slack = 2 * (self.dimension**0.5 * 2.0**25 + self.dimension / 4 + 1)

    def _items(self, rows: Any) -> tuple[Any, Any]:
        """See InnerProducts: they are rounded again."""
        return unit_rows(self._source.send(rows))

    def _range(self, start: int, stop: int) -> tuple[Any, Any]:
        return self._items(torch.arange(start, stop, device=self.device))

    def block(self, queries: DeviceQueries) -> tuple[Any, Tile]:
        """See DeviceSpace."""
        left = self.query_rows(queries).double()

        def give(start: int, stop: int) -> tuple[Any, Any]:
            integers, norm = self._range(start, stop)
            return left @ integers.double().T, norm

        return self.query_norm(queries), give

    def pairs(self, queries: DeviceQueries, query: Any, item: Any) -> Any:
        """See DeviceSpace."""
        out = torch.empty(len(query), dtype=torch.float64, device=self.device)
        for start in range(0, len(query), self._step):
            some = slice(start, start + self._step)
            rows, place = torch.unique(item[some], return_inverse=True)
            integers, norm = self._items(rows)
            mine = queries.there[query[some]]
            product = self.kernels.pair_products(self._queries, integers, mine, place)
            out[some] = self.distances(product, self._norm[mine], norm[place])
        return out

    def unit_queries(self, queries: DeviceQueries) -> tuple[Any, Any]:
        """See InnerProducts."""
        return self.query_rows(queries), self.query_norm(queries)

    def unit_items(self, start: int, stop: int) -> tuple[Any, Any]:
        """See InnerProducts."""
        return self._range(start, stop)

    def query_rows(self, queries: DeviceQueries) -> Any:
        """See InnerProducts."""
        return self._queries[queries.there]

    def query_norm(self, queries: DeviceQueries) -> Any:
        """See InnerProducts."""
        return self._norm[queries.there]


# Rows of a source rounded to the grid of unit vectors on a device: the integers of the CPU.


def unit_rows(rows: Any) -> tuple[Any, Any]:
    """Integer rows of x/|x| (float64 in, int32 out), and |X|^2, that of a row of zeros being 1."""
    integers, (bad, zero, doubtful, _) = propose(rows)
    if bool(bad.any()):
        raise InputError("NaN or infinity in the gallery; every number must be finite.")
    some = torch.nonzero(doubtful).flatten()
    if len(some):
        integers[some] = sent(grid.unit_grid(rows[some].cpu().numpy())[0], rows.device)
    wide = integers.double()
    square = (wide * wide).sum(1)
    return integers, torch.where(zero, 2.0 ** (2 * grid.UNIT_BITS), square)
