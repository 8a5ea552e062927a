"""One GPU at work: a block of queries in, its tie groups out.

Two paths give the same integers. The exact path makes every tile by a float64 product. The filter
path (cosine, with Triton) lets half-precision tensor cores decide what they can and refines the
rest; a query with too much left to refine is counted by the exact path. Some queries of each block
are tried first: where too many pairs stay open, the whole block takes the exact path.
"""

from __future__ import annotations

import copy
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.engine.counts import TieGroups
from truerank.engine.cuda import tensor_filter
from truerank.engine.cuda.counting import Frame, Tally
from truerank.engine.cuda.pairs import DevicePairs
from truerank.engine.cuda.rows import DeviceSpace, InnerProducts, free_bytes, place
from truerank.engine.cuda.sight import DeviceSight
from truerank.engine.cuda.transfer import fetched, sent
from truerank.engine.sight import Apart
from truerank.engine.watch import Audience, Rest
from truerank.errors import ExactnessError
from truerank.relevance import View
from truerank.space.base import Distances, Rows, Space
from truerank.space.inner import Cosine
from truerank.space.probe import probe

if TYPE_CHECKING:
    from truerank.engine import Settings
    from truerank.engine.cuda.ranked import Ranked

__all__ = ["Span", "Worker", "accumulates_well"]

Span = tuple[int, int]
"""A range of gallery items."""

INEXACT = (
    "a distance differs from integer arithmetic: the matrix product of this GPU is not exact in "
    "float64; use device='cpu'."
)
WIDER = 8
"""A GPU's tiles are this many times as tall and as wide as the CPU's."""
_STRIP = 1 << 20
"""Most items between two refinements."""
_WORDS = 1 << 29
"""Most words of open items in flight, where there is room."""
_SORTED = 1 << 27
"""Most distances in rows that are sorted at a time, and the columns of the tiles they come in."""
_SORTED_TILE = 1 << 14
_TRIED = 512
"""Queries of a block that are filtered first, to see whether it pays."""
_FULL_RATE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}
"""Compute capabilities whose float64 rate is a fair share of their float32 rate."""


class Worker:
    """The space, the pairs and the working memory of one device."""

    def __init__(self, view: View, space: Space, device: Any, kernels: ModuleType) -> None:
        self._grades, self._gallery = view.grades, space.gallery
        self.device, self._kernels = device, kernels
        self._pairs = DevicePairs(view, device)
        self._space = place(space, device, kernels)
        self._can_filter = kernels.FUSED and isinstance(space, Cosine) and accumulates_well(device)
        self._items: tensor_filter.Halves | None = None
        # Refining a pair costs as much as making some forty by a float64 product of full rate.
        slow = device.type == "cuda" and (
            torch.cuda.get_device_capability(device) not in _FULL_RATE
        )
        self._room = 8 if slow else 32
        share = free_bytes(device) // 64
        self._most_words, self._most_sorted = min(_WORDS, share), min(_SORTED, share)
        probe(space, lambda some: self._place(some, space).tiles)

    def _place(self, some: Space, own: Space) -> DeviceSpace:
        """The probe looks at the space itself and at two others."""
        return self._space if some is own else place(some, self.device, self._kernels)

    def count(self, rows: Rows, limits: Settings, *, distances: bool = False) -> TieGroups:
        """Tie groups of a block of queries with few relevant items."""
        lists = self._pairs.block(rows)
        mates = self._space.pairs(rows, lists.query, lists.item)
        frame = Frame.of(lists.query, mates, lists.grade, len(rows), self._grades)
        tally = self.tally(rows, frame.edges, limits, (0, self._gallery))
        excluded = self._space.pairs(rows, lists.excluded_query, lists.excluded_item)
        tally.take_out(lists.excluded_query, excluded)
        gone = torch.bincount(lists.excluded_query, minlength=len(rows))
        return tally.tie_groups(frame.graded, self._gallery - gone, distances=distances)

    def tally(
        self, rows: Rows, edges: Any, limits: Settings, items: Span, filtered: bool | None = None
    ) -> Tally:
        """Some of the gallery counted at these thresholds, by the path that suits the block."""
        tally = Tally.of(edges)
        if self.filter_pays(rows, edges, limits) if filtered is None else filtered:
            self._filter(rows, tally, limits, items)
        else:
            self._exact(rows, tally, limits, items)
        return tally

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """Distances of single pairs, by integer arithmetic."""
        numbers = torch.arange(len(query), device=self.device)
        return fetched(self._space.pairs(query, numbers, sent(item, self.device)))

    def reordered(self, order: Rows) -> Worker:
        """The same device with the gallery in another order; for inner products only."""
        other = copy.copy(self)
        assert isinstance(self._space, InnerProducts)
        other._space = self._space.reordered(order)
        other._items = None
        return other

    def show(self, rows: Rows, audience: Audience, groups: TieGroups | None) -> list[Rest]:
        """Whole rows of distances, for watchers; what they leave to do."""
        distances = self._whole_rows(rows)
        apart = Apart(*self._pairs.excluded(rows))

        def known() -> TieGroups:
            """They must be what these rows tell, too: as many items before each nearest mate."""
            assert groups is not None
            assert groups.distance is not None
            held = np.flatnonzero(np.diff(groups.offsets))
            first = groups.offsets[held]
            some = distances if len(held) == len(rows) else distances[sent(held, self.device)]
            nearest = sent(groups.distance[first], self.device)
            before = sent(groups.before[first], self.device)
            if not torch.equal((some < nearest[:, None]).sum(1), before):
                raise ExactnessError(INEXACT)
            return groups

        sight = DeviceSight(rows, distances, self._kernels)
        return audience.see(sight, apart, None if groups is None else known)

    def rank(self, rows: Rows) -> tuple[Ranked, npt.NDArray[np.bool_]]:
        """Many relevant items: whole rows sorted. Which queries have ties is said, not resolved."""
        from truerank.engine.cuda.ranked import Ranked

        shape = (len(rows), self._gallery)
        grades = torch.empty(shape, dtype=torch.uint8, device=self.device)
        tied = torch.empty(len(rows), dtype=torch.bool, device=self.device)
        gone = torch.empty(len(rows), dtype=torch.int64, device=self.device)
        step = max(1, self._most_sorted // self._gallery)
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            distances = self._whole_rows(rows[some])
            grade = self._pairs.grade_rows(rows[some])
            query, item = self._pairs.excluded(rows[some])
            grade[query, item] = 0
            self._check(rows[some], distances, grade)
            distances[query, item] = torch.inf  # behind everything, and not ranked
            distances, order = torch.sort(distances, dim=1)
            grade = torch.gather(grade, 1, order)
            same = distances[:, 1:] == distances[:, :-1]
            same &= (grade[:, 1:] | grade[:, :-1]) > 0
            tied[some] = same.any(1)
            grades[some] = grade
            gone[some] = torch.bincount(query, minlength=len(grade))
        free = torch.nonzero(~tied).flatten()
        candidates = (self._gallery - gone)[free].cpu().numpy()
        kept = grades if len(free) == len(rows) else grades[free]
        return Ranked(kept, candidates, self._grades), tied.cpu().numpy()

    def _whole_rows(self, rows: Rows) -> Any:
        norm, tile = self._space.block(rows)
        shape = (len(rows), self._gallery)
        distances = torch.empty(shape, dtype=torch.float64, device=self.device)
        for start in range(0, self._gallery, _SORTED_TILE):
            stop = min(start + _SORTED_TILE, self._gallery)
            products, item_norm = tile(start, stop)
            self._kernels.fill_distances(
                distances[:, start:stop], products, norm, item_norm, self._space.mode
            )
        return distances

    def _check(self, rows: Rows, distances: Any, grade: Any) -> None:
        """One mate of each query again, as a single pair of integer rows."""
        query = torch.arange(len(rows), device=self.device)
        item = torch.argmax((grade > 0).to(torch.uint8), 1)
        if not torch.equal(self._space.pairs(rows, query, item), distances[query, item]):
            raise ExactnessError(INEXACT)

    def _exact(self, rows: Rows, tally: Tally, limits: Settings, items: Span) -> None:
        tall, wide = WIDER * limits.query_rows, WIDER * limits.gallery_rows
        for first in range(0, len(rows), tall):
            some = slice(first, first + tall)
            part = tally.part(some)
            norm, tile = self._space.block(rows[some])
            for start in range(*items, wide):
                products, item_norm = tile(start, min(start + wide, items[1]))
                self._kernels.count_tile(
                    products,
                    norm,
                    item_norm,
                    self._space.mode,
                    part.edges,
                    part.less,
                    part.bins,
                    part.equal,
                )

    def filter_pays(self, rows: Rows, edges: Any, limits: Settings) -> bool:
        """Whether half precision leaves few enough pairs of the block open."""
        if not self._can_filter or limits.method == "float64":
            return False
        if limits.method != "auto":
            return True
        step = -(-len(rows) // _TRIED)
        some = edges[::step].contiguous()
        found = self._filter_part(rows[::step], Tally.of(some), limits, (0, self._gallery))
        return float(found.double().mean()) * 2 * self._room < self._gallery

    def _filter(self, rows: Rows, tally: Tally, limits: Settings, items: Span) -> None:
        # A tile costs as many comparisons as its hardest query: put equally hard ones together.
        order = torch.argsort(tally.edges[:, tally.edges.shape[1] // 2])
        host_order = order.cpu().numpy()
        room = self._places(limits, items)
        tall = max(1, self._most_words // room)
        for first in range(0, len(rows), tall):
            some = order[first : first + tall]
            chosen = rows[host_order[first : first + tall]]
            part = Tally.of(tally.edges[some])
            found = self._filter_part(chosen, part, limits, items)
            again = torch.nonzero(found > room).flatten()
            if len(again):
                exact = Tally.of(part.edges[again])
                self._exact(chosen[again.cpu().numpy()], exact, limits, items)
                part.replace(again, exact)
            tally.replace(some, part)

    def _strip(self, limits: Settings, items: Span) -> int:
        return min(_STRIP, 1024 * limits.gallery_rows, items[1] - items[0])

    def _places(self, limits: Settings, items: Span) -> int:
        """Words of open items that each query has room for, in each strip of the gallery."""
        return max(256, self._strip(limits, items) // self._room)

    def _filter_part(self, rows: Rows, tally: Tally, limits: Settings, span: Span) -> Any:
        """Filter and refine; the most words that any strip left open, for each query."""
        space = self._space
        assert isinstance(space, InnerProducts)
        integers, norm = space.query_rows(rows), space.query_norm(rows)
        strip = self._strip(limits, span)
        shape = (len(rows), self._places(limits, span))
        entries = torch.empty(shape, dtype=torch.int64, device=self.device)
        most = torch.zeros(len(rows), dtype=torch.int32, device=self.device)
        queries = None
        for start in range(*span, strip):
            stop = min(start + strip, span[1])
            gallery, item_norm = space.gallery_rows(start, stop)
            items = self._half_items(gallery, start, stop)
            if queries is None:
                queries = self._half_queries(rows, integers, items)
            sure, lost = tensor_filter.thresholds(tally.edges, norm, queries, items, item_norm)
            found = torch.zeros_like(most)
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
                integers,
                gallery,
                norm,
                item_norm,
                tally.edges,
                found,
                entries,
                tally.bins,
                tally.equal,
            )
            most = torch.maximum(most, found)
        return most

    def _half_items(self, gallery: Any, start: int, stop: int) -> tensor_filter.Halves:
        """Items in half precision, kept where one strip holds the whole gallery."""
        whole = stop - start == self._gallery
        if whole and self._items is not None:
            return self._items
        items = tensor_filter.halves(gallery)
        if whole:
            self._items = items
        return items

    def _half_queries(
        self, rows: Rows, integers: Any, items: tensor_filter.Halves
    ) -> tensor_filter.Halves:
        assert isinstance(self._space, InnerProducts)
        if items is self._items and self._space.one_side:
            return items.take(torch.from_numpy(rows).to(self.device))
        return tensor_filter.halves(integers)


@cache
def accumulates_well(device: Any) -> bool:
    """Whether the tensor cores of this device keep the accumulation bound on adversarial rows."""
    from truerank.engine.cuda import triton_kernels

    for dimension in (64, 512, 2048):
        rows = tensor_filter.halves(tensor_filter.probe_rows(dimension, device))
        if not tensor_filter.holds(triton_kernels.filter_products(rows.rows, rows.rows), rows):
            return False
    return True
