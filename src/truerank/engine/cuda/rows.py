"""A space on one device: exact tiles and exact pairs, from the same integer rows as on the CPU.

Rows that fit stay on the device; larger ones are sent there a tile at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.engine.cuda import torch_kernels
from truerank.engine.cuda.transfer import DeviceQueries, sent, settled
from truerank.space.base import Distances, Rows, Space
from truerank.space.elementwise import Cityblock, Hamming
from truerank.space.grid import SCALED_BITS
from truerank.space.inner import Cosine, Dot, Euclidean, SquaredDistance
from truerank.space.rows import GridRows

__all__ = ["DeviceSpace", "InnerProducts", "free_bytes", "place"]

_PADDED = 16
"""Rows in float64 are as wide as the tiles in which they are multiplied."""
Tile = Callable[[int, int], tuple[Any, Any]]
"""From (start, stop) to a tile of products and the norms of its items."""


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
        left, right = space.grids
        factor = 1.0 if isinstance(space, SquaredDistance) else space.factor
        if isinstance(space, SquaredDistance):
            self.mode = "squared"
        elif isinstance(space, Euclidean):
            self.mode = "euclidean"
        norms = space.norms
        if isinstance(space, Cosine):  # a negative norm marks a row without a direction
            norms = (_marked(norms[0], left), _marked(norms[1], right))
        self.one_side = left is right and factor == 1.0
        numbers = left.integers.size + (0 if self.one_side else right.integers.size)
        self.resident = 4 * numbers <= free_bytes(device) // 2
        scaled = self.mode != "squared"
        self._left = _DeviceSide(left, norms[0], factor if scaled else None, device, self.resident)
        self._right = self._left
        if not self.one_side:
            self._right = _DeviceSide(
                right, norms[1], 1.0 if scaled else None, device, self.resident
            )
        self.dimension = self._right.dimension
        self._aimless = self.mode == "squared" and bool(left.zero.any() or right.zero.any())
        self._lock = Lock()
        self._kept: Any = None
        """The whole gallery in float64, from the first tile on, if it fits; behind the rows y
        of squared distances are 1 and |y|^2."""

    def block(self, queries: DeviceQueries) -> tuple[Any, Tile]:
        """See DeviceSpace."""
        self._keep()
        kept = None if self._kept is None else self._kept[:, : self.dimension]
        left = self._left.widened(queries)

        def give(start: int, stop: int) -> tuple[Any, Any]:
            items = slice(start, stop)
            right = self._right.widened(items) if kept is None else kept[items]
            return left @ right.T, self._right.norm[items]

        return self._left.norm[queries.there], give

    def whole_rows(self, queries: DeviceQueries) -> Any:
        """See DeviceSpace; in one product where the gallery is kept."""
        self._keep()
        if self._kept is None:
            return super().whole_rows(queries)
        if self.mode != "squared" or self._aimless:
            norm, tile = self.block(queries)
            distances, item_norm = tile(0, self.space.gallery)
            self.kernels.fill_distances(distances, distances, norm, item_norm, self.mode)
            return distances
        left = self._kept.new_zeros((len(queries), self._kept.shape[1]))
        left[:, : self.dimension] = self._left.widened(queries).mul_(-2.0)
        left[:, self.dimension] = self.query_norm(queries)
        left[:, self.dimension + 1] = 1.0
        return left @ self._kept.T  # |x|^2 + |y|^2 - 2 x.y: every partial sum is below 2^53

    def _keep(self) -> None:
        """Keep the gallery in float64, if it fits."""
        gallery, dimension = self.space.gallery, self.dimension
        width = dimension if self.mode != "squared" else -(-(dimension + 2) // _PADDED) * _PADDED
        with self._lock:
            if self._kept is not None or not self.resident:
                return
            if 8 * gallery * width > free_bytes(self.device) // 4:
                return
            kept = torch.zeros((gallery, width), dtype=torch.float64, device=self.device)
            kept[:, :dimension] = self._right.widened(slice(0, gallery))
            if self.mode == "squared":
                kept[:, dimension] = 1.0
                kept[:, dimension + 1] = self._right.norm
            settled(self.device)
            self._kept = kept

    def pairs(self, queries: DeviceQueries, query: Any, item: Any) -> Any:
        """See DeviceSpace."""
        if not self.resident:
            return super().pairs(queries, query, item)
        query = queries.there[query]
        product = self.kernels.pair_products(self._left.integers, self._right.integers, query, item)
        if self._left.scale is not None and self._right.scale is not None:
            product = (product * self._left.scale[query]) * self._right.scale[item]
        return self.distances(product, self._left.norm[query], self._right.norm[item])

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


class _DeviceSide:
    """Integer rows of one side, on the device or to be sent, with their scales and norms."""

    def __init__(
        self,
        grid: GridRows,
        norm: npt.NDArray[Any],
        factor: float | None,
        device: Any,
        resident: bool,
    ) -> None:
        """Rows are scaled by their own power of two and a factor, if there is one."""
        self._host, self._device = grid.integers, device
        self.dimension = grid.integers.shape[1]
        self.integers = sent(grid.integers, device) if resident else None
        self.norm = sent(norm.astype(np.float64), device)
        self.scale = None
        if factor is not None:
            self.scale = sent(np.ldexp(factor, grid.exponent - SCALED_BITS), device)

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


def _marked(norm: npt.NDArray[Any], grid: GridRows) -> npt.NDArray[np.float64]:
    return np.where(grid.zero, -1.0, norm)


def free_bytes(device: Any) -> int:
    """Free memory of a device; on the CPU device of tests, as good as unlimited."""
    if device.type != "cuda":
        return 1 << 62
    return int(torch.cuda.mem_get_info(device)[0])


def place(space: Space, device: Any, kernels: ModuleType) -> DeviceSpace:
    """The space on this device."""
    if isinstance(space, (SquaredDistance, Euclidean, Dot)):
        return InnerProducts(space, device, kernels)
    if isinstance(space, (Cityblock, Hamming)):
        return Elementwise(space, device, kernels)
    return DeviceSpace(space, device, kernels)
