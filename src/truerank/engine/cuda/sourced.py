"""A gallery that stays at its source: a device keeps it in half precision, and nothing else.

Rows that half precision leaves in doubt are had again from the source and rounded on the device.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from truerank.engine.cuda.rounding import unit_rows
from truerank.engine.cuda.rows import InnerProducts, Tile
from truerank.engine.cuda.transfer import DeviceQueries, sent
from truerank.space.sourced import SourcedCosine

__all__ = ["SourcedProducts"]


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
