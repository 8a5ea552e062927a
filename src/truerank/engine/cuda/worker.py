"""One GPU at work: a block of queries in, its tie groups out.

Two paths give the same integers. The exact path makes every tile by a float64 product. The filter
path (cosine, with Triton) lets half-precision tensor cores decide what they can and refines the
rest; a query with too much left to refine is counted by the exact path, and when that happens often
the filter is given up.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from truerank.engine.counts import TieGroups
from truerank.engine.cuda import WIDER, tensor_filter
from truerank.engine.cuda.counting import Frame, Tally
from truerank.engine.cuda.pairs import DevicePairs
from truerank.engine.cuda.rows import InnerProducts, place
from truerank.relevance import View
from truerank.space.base import Rows, Space
from truerank.space.inner import Cosine
from truerank.space.probe import probe

if TYPE_CHECKING:
    from truerank.engine import Settings

__all__ = ["Worker"]

_FULL_RATE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}
"""Compute capabilities whose float64 rate is a fair share of their float32 rate."""
_STRIP = 1 << 20
"""Most items between two refinements."""


class Worker:
    """The space, the pairs and the working memory of one device."""

    def __init__(
        self, view: View, space: Space, device: Any, kernels: ModuleType, path: str = "auto"
    ) -> None:
        self._grades, self._gallery = view.grades, space.gallery
        self.device, self._kernels = device, kernels
        self._pairs = DevicePairs(view, device)
        self._space = place(space, device, kernels)
        self.filtering = (
            path != "float64"
            and kernels.FUSED
            and isinstance(space, Cosine)
            and accumulates_well(device)
        )
        self._forced = path == "filter"
        self._items: tensor_filter.Halves | None = None
        probe(space, lambda some: _on_device(some, device, kernels))

    def count(self, rows: Rows, limits: Settings) -> TieGroups:
        """Tie groups of a block of queries with few relevant items."""
        lists = self._pairs.block(rows)
        mates = self._space.pairs(rows, lists.query, lists.item)
        frame = Frame.of(lists.query, mates, lists.grade, len(rows), self._grades)
        if self.filtering:
            tally = self._filtered(rows, frame.edges, limits)
        else:
            tally = self._exact(rows, frame.edges, limits)
        excluded = self._space.pairs(rows, lists.excluded_query, lists.excluded_item)
        tally.take_out(lists.excluded_query, excluded)
        gone = torch.bincount(lists.excluded_query, minlength=len(rows))
        return tally.tie_groups(frame.graded, self._gallery - gone)

    def _exact(self, rows: Rows, edges: Any, limits: Settings) -> Tally:
        tally = Tally(edges)
        norm, tile = self._space.block(rows)
        step = WIDER * limits.gallery_rows
        for start in range(0, self._gallery, step):
            products, item_norm = tile(start, min(start + step, self._gallery))
            self._kernels.count_tile(
                products,
                norm,
                item_norm,
                self._space.mode,
                edges,
                tally.less,
                tally.bins,
                tally.equal,
            )
        return tally

    def _filtered(self, rows: Rows, edges: Any, limits: Settings) -> Tally:
        space = self._space
        assert isinstance(space, InnerProducts)
        tally = Tally(edges)
        integers = space.query_rows(rows)
        queries = tensor_filter.halves(integers)
        norm = space.query_norm(rows)
        full = torch.zeros(len(rows), dtype=torch.bool, device=self.device)
        found = torch.zeros(len(queries.rows), dtype=torch.int32, device=self.device)
        strip = min(_STRIP, 1024 * limits.gallery_rows, self._gallery)
        room = max(256, strip // (64 if self._fast_float64() else 8))
        entries = torch.empty((len(rows), room), dtype=torch.int64, device=self.device)
        for start in range(0, self._gallery, strip):
            stop = min(start + strip, self._gallery)
            gallery, item_norm = space.gallery_rows(start, stop)
            items = self._half_items(gallery, start, stop)
            sure, lost = tensor_filter.thresholds(edges, norm, queries, items, item_norm)
            found.zero_()
            self._kernels.filter_tile(
                queries.rows,
                items.rows,
                len(rows),
                stop - start,
                sure,
                lost,
                tally.less,
                tally.bins,
                found,
                entries,
            )
            self._kernels.refine(
                integers, gallery, norm, item_norm, edges, found, entries, tally.bins, tally.equal
            )
            full |= found[: len(rows)] > room
        again = torch.nonzero(full).flatten()
        if len(again):
            chosen = again.cpu().numpy()
            tally.replace(again, self._exact(rows[chosen], edges[again].contiguous(), limits))
            if not self._forced and len(chosen) > len(rows) // 4:
                self.filtering = False
        return tally

    def _half_items(self, gallery: Any, start: int, stop: int) -> tensor_filter.Halves:
        """The gallery in half precision, kept if it is resident and seen in one strip."""
        whole = stop - start == self._gallery
        if self._items is not None and whole:
            return self._items
        items = tensor_filter.halves(gallery)
        if whole:
            self._items = items
        return items

    def _fast_float64(self) -> bool:
        if self.device.type != "cuda":
            return True
        return torch.cuda.get_device_capability(self.device) in _FULL_RATE


def _on_device(space: Space, device: Any, kernels: ModuleType) -> Any:
    """The tiles of a space as this device makes them, for the probe."""
    placed = place(space, device, kernels)

    def block(rows: Rows) -> Any:
        norm, tile = placed.block(rows)

        def give(start: int, stop: int) -> Any:
            products, item_norm = tile(start, stop)
            return placed.distances(products, norm[:, None], item_norm[None, :]).cpu().numpy()

        return give

    return block


@cache
def accumulates_well(device: Any) -> bool:
    """Whether this device's tensor cores keep the filter's accumulation bound on adversarial rows."""
    from truerank.engine.cuda import triton_kernels

    for dimension in (64, 512, 2048):
        rows = tensor_filter.halves(tensor_filter.probe_rows(dimension, device))
        if not tensor_filter.holds(triton_kernels.filter_products(rows.rows, rows.rows), rows):
            return False
    return True
