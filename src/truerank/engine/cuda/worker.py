"""One GPU at work: a block of queries in, its tie groups or a block of distances out.

Two paths give the same integers. The exact path makes every tile by a float64 product. The
filter path (cosine, with Triton) decides by half-precision tensor cores what it can and refines
the rest (engine/cuda/filtered_count.py); queries that it leaves are counted by the exact path.
The block of distances answers reducers on the device, as engine/blocks.py does in main memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from truerank._util.errors import ExactnessError
from truerank._util.settings import Settings
from truerank._util.threads import PerThread, Workspace
from truerank._util.types import Integers
from truerank.core.jackknife import GalleryFolds
from truerank.core.tie_groups import Block, LocatedGroups, SplitGroups, TieGroups
from truerank.distance.base import Distances, Rows, Space
from truerank.distance.probe import probe
from truerank.engine.blocks import (
    LARGEST,
    TINY,
    Borrow,
    Columns,
    Counters,
    Cuts,
    DistanceBlock,
    DistanceRange,
    ExcludedPairs,
    underestimated,
)
from truerank.engine.cuda import counting
from truerank.engine.cuda.counting import DeviceTally, Frame, Splitting
from truerank.engine.cuda.filtered_count import TRIED, FilteredCount, Party, SymmetricCount
from truerank.engine.cuda.rows import DeviceSpace, InnerProducts, free_bytes, place
from truerank.engine.cuda.transfer import (
    DeviceCache,
    DevicePairs,
    DeviceQueries,
    Lane,
    Lists,
    fetched,
    moment,
    sent,
    settled,
    wait_for,
)
from truerank.engine.reducers import Deferred, Observers
from truerank.task.relevance import View

if TYPE_CHECKING:
    from truerank.engine.cuda.ranking import Ranked


INEXACT = (
    "a distance differs from integer arithmetic: the matrix product of this GPU is not exact in "
    "float64; use device='cpu'."
)
WIDER = 8
"""A GPU's tiles are this many times as tall and as wide as the CPU's."""
STREAMS = 3
"""Streams of a device beside its default one: as many as threads observe."""
_SORTED = 1 << 27
"""Most distances in rows that are sorted at a time."""
_FULL_RATE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}
"""Compute capabilities whose float64 rate is a fair share of their float32 rate."""


class Worker:
    """The space, the pairs and the working memory of one device."""

    def __init__(
        self,
        view: View,
        space: Space,
        device: Any,
        kernels: ModuleType,
        filters: ModuleType | None = None,
    ) -> None:
        """`filters` are the filter's kernels, if not the device's own."""
        self._grades, self._gallery = view.grades, space.gallery
        self.device, self._kernels = device, kernels
        self._pairs, self._cache = DevicePairs(view, device), DeviceCache(device)
        self._space = place(space, device, kernels)
        self._filter: FilteredCount | None = None
        """Where half precision can be tried."""
        filters = filters or own_filters(device, kernels)
        if isinstance(self._space, InnerProducts) and self._space.filters and filters:
            # Refining a pair costs as much as making some twenty by a float64 product of full rate.
            slow = device.type == "cuda" and (
                torch.cuda.get_device_capability(device) not in _FULL_RATE
            )
            self._filter = FilteredCount(self._space, filters, sparse=4 if slow else 16)
        number = count()
        self._lanes = PerThread(lambda: Lane(device, next(number) % STREAMS))
        self._most_sorted = min(_SORTED, free_bytes(device) // 64)
        probe(space, lambda some: self._place(some, space).tiles)

    def _place(self, some: Space, own: Space) -> DeviceSpace:
        """A space of the probe on the device: this worker's own, or one of two others."""
        return self._space if some is own else place(some, self.device, self._kernels)

    def count(
        self,
        rows: Rows,
        limits: Settings,
        *,
        distances: bool = False,
        folds: GalleryFolds | None = None,
    ) -> Block:
        """Tie groups of a block of queries with few relevant items, split where that is wanted."""
        queries, lists, frame = self._begin(rows)
        wanted = _wanted(rows, folds)
        split = None
        if folds is not None and len(wanted):
            chosen = sent(folds.queries[rows], self.device)
            fold, thresholds = self._cache(folds.item), frame.edges.shape[1]
            split = Splitting.of(fold, folds.columns, chosen, thresholds)
        tally = self._tally(queries, frame.edges, limits, split)
        excluded = self._space.pairs(queries, lists.excluded_query, lists.excluded_item)
        groups = self._groups(tally, lists, frame, excluded, distances=distances)
        if folds is None or split is None:
            return Block(rows, groups, SplitGroups.none())
        split.take_out(lists.excluded_query, lists.excluded_item, excluded, frame.edges)
        relevant = (lists.query, lists.item, lists.grade, frame.places(lists.query))
        counts = split.counts(*relevant, frame.edges, self._grades, folds)
        met = split.candidates(lists.excluded_query, lists.excluded_item, folds)
        some = groups if len(wanted) == len(rows) else groups.some(wanted)
        return Block(rows, groups, SplitGroups(wanted, some, counts, met))

    def _begin(self, rows: Rows) -> tuple[DeviceQueries, Lists, Frame]:
        """What must be known of a block before it is counted."""
        queries = DeviceQueries.of(rows, self.device)
        lists = self._pairs.block(queries)
        mates = self._space.pairs(queries, lists.query, lists.item)
        frame = Frame.of(lists.query, mates, lists.grade, len(rows), self._grades)
        return queries, lists, frame

    def _groups(
        self, tally: DeviceTally, lists: Lists, frame: Frame, excluded: Any, *, distances: bool
    ) -> TieGroups:
        """The tie groups of a block that has been counted, excluded pairs like any others."""
        tally.take_out(lists.excluded_query, excluded)
        gone = torch.bincount(lists.excluded_query, minlength=len(tally.edges))
        return tally.tie_groups(frame.graded, self._gallery - gone, distances=distances)

    def count_both_ways(
        self, blocks: Sequence[Rows], limits: Settings, folds: GalleryFolds | None
    ) -> Generator[Block, None, None] | None:
        """Tie groups of blocks of queries that are items too, each pair multiplied once; blocks
        and the queries of each ascend. None where that cannot be, or would not pay."""
        if self._filter is None:
            return None
        everyone = np.concatenate(blocks)
        some = everyone[:: -(-len(everyone) // TRIED)]
        queries, _, frame = self._begin(some)
        pairs = self._filter.both_ways(queries, frame.edges, limits)
        return None if pairs is None else self._counted_both_ways(pairs, blocks, limits, folds)

    def _counted_both_ways(
        self,
        pairs: SymmetricCount,
        blocks: Sequence[Rows],
        limits: Settings,
        folds: GalleryFolds | None,
    ) -> Generator[Block, None, None]:
        """While the device counts a block, the one before is finished beside it."""
        no_query = np.ones(self._gallery, bool)
        for rows in blocks:
            no_query[rows] = False
        items = DeviceQueries.of(np.flatnonzero(no_query), self.device)
        parties: dict[int, tuple[Party, Lists, Frame]] = {}
        beside = self._lanes.mine()

        def party(number: int) -> Party:
            if number not in parties:
                with beside.after():
                    queries, lists, frame = self._begin(blocks[number])
                    made = pairs.party(queries, DeviceTally.of(frame.edges))
                    parties[number] = made, lists, frame
                    begun = moment(self.device)
                wait_for(self.device, begun)
            return parties[number][0]

        def finish(number: int, counted: Any) -> Block:
            made, lists, frame = parties.pop(number)
            rows = blocks[number]
            with beside.after():
                split = self._split_alone(rows, limits, folds)
                gone = lists.excluded_query, lists.excluded_item
                excluded = self._space.pairs(made.queries, *gone)
            with beside.after(counted):
                self._complete(made.queries, made.tally, pairs.left(made), limits)
                groups = self._groups(made.tally, lists, frame, excluded, distances=False)
            return Block(rows, groups, split)

        under_way: Any = None
        try:
            for number in range(len(blocks)):
                mine = party(number)
                pairs.meet_itself(mine)
                for other in range(number + 1, len(blocks)):
                    pairs.meet(mine, party(other))
                pairs.look_at(mine, items)
                before, under_way = under_way, (number, pairs.counted())
                if before is not None:
                    yield finish(*before)
            yield finish(*under_way)
        finally:
            settled(self.device)  # what is let go of must not be written to any more

    def _split_alone(self, rows: Rows, limits: Settings, folds: GalleryFolds | None) -> SplitGroups:
        """The queries of a block that are to be split, counted by themselves."""
        wanted = _wanted(rows, folds)
        if not len(wanted):
            return SplitGroups.none()
        return replace(self.count(rows[wanted], limits, folds=folds).split, queries=wanted)

    def _tally(
        self, queries: DeviceQueries, edges: Any, limits: Settings, split: Splitting | None
    ) -> DeviceTally:
        """The gallery counted at these thresholds, by the path that suits the block."""
        tally = DeviceTally.of(edges, split)
        if self._filter is None:
            self._exact(queries, tally, limits)
        else:
            self._complete(queries, tally, self._filter.count(queries, tally, limits), limits)
        return tally

    def _complete(
        self, queries: DeviceQueries, tally: DeviceTally, left: Any, limits: Settings
    ) -> None:
        """Count these queries of a block from the start, by exact tiles."""
        if len(left) == len(queries):
            tally.forget()
            self._exact(queries, tally, limits)
        elif len(left):
            exact = tally.again(left)
            self._exact(
                DeviceQueries(queries.rows[fetched(left)], queries.there[left]), exact, limits
            )
            tally.replace(left, exact)

    def observe(self, rows: Rows, observers: Observers) -> list[Deferred]:
        """Let observers see whole rows of distances; what they leave to do is handed back."""
        with self._own_lane():
            block, excluded = self._whole_rows(DeviceQueries.of(rows, self.device))
            return observers.observe(block, excluded)

    def observe_rows(
        self, rows: Rows, observers: Observers, groups: LocatedGroups
    ) -> list[Deferred]:
        """Let observers see whole rows with their tie groups.

        The rows must agree with the groups: as many items before each nearest mate.
        """
        held = np.flatnonzero(np.diff(groups.offsets))
        first = groups.offsets[held]
        nearest, before = np.full(len(rows), -np.inf), np.zeros(len(rows), np.int64)
        nearest[held], before[held] = groups.distance[first], groups.before[first]
        with self._own_lane():
            block, excluded = self._whole_rows(DeviceQueries.of(rows, self.device))
            counted: list[Any] = []

            def known() -> LocatedGroups:
                """The groups; asked for once excluded pairs are at infinity."""
                counted.append(block.nearer(nearest))
                return groups

            left = observers.observe_rows(block, excluded, known)
            for found in counted:  # the device had enough to do until now
                if not np.array_equal(fetched(found), before):
                    raise ExactnessError(INEXACT)
            return left

    def _own_lane(self) -> AbstractContextManager[None]:
        """A lane for each thread: what one fetches comes home while kernels of another run."""
        return self._lanes.mine().after(moment(self.device))

    def _whole_rows(self, queries: DeviceQueries) -> tuple[DeviceDistanceBlock, ExcludedPairs]:
        excluded = ExcludedPairs(*self._pairs.excluded(queries))
        distances = self._space.whole_rows(queries)
        return DeviceDistanceBlock(queries.rows, distances, self._kernels, self._cache), excluded

    def rank(self, rows: Rows) -> tuple[Ranked, npt.NDArray[np.bool_]]:
        """Many relevant items: whole rows sorted. Which queries have ties is said, not resolved."""
        from truerank.engine.cuda.ranking import Ranked

        queries = DeviceQueries.of(rows, self.device)
        shape = (len(rows), self._gallery)
        grades = torch.empty(shape, dtype=torch.uint8, device=self.device)
        tied = torch.empty(len(rows), dtype=torch.bool, device=self.device)
        gone = torch.empty(len(rows), dtype=torch.int64, device=self.device)
        step = max(1, self._most_sorted // self._gallery)
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            part = queries.part(some)
            distances = self._space.whole_rows(part)
            grade = self._pairs.grade_rows(part)
            query, item = self._pairs.excluded(part)
            grade[query, item] = 0
            self._check(part, distances, grade)
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

    def _check(self, queries: DeviceQueries, distances: Any, grade: Any) -> None:
        """Compare one mate of each query with the product of a single pair of integer rows."""
        query = torch.arange(len(queries), device=self.device)
        item = torch.argmax((grade > 0).to(torch.uint8), 1)
        if not torch.equal(self._space.pairs(queries, query, item), distances[query, item]):
            raise ExactnessError(INEXACT)

    def _exact(self, queries: DeviceQueries, tally: DeviceTally, limits: Settings) -> None:
        tall, wide = WIDER * limits.query_rows, WIDER * limits.gallery_rows
        for first in range(0, len(queries), tall):
            some = slice(first, first + tall)
            part = tally.part(some)
            wanted = () if part.split is None else part.split.rows
            norm, tile = self._space.block(queries.part(some))
            for start in range(0, self._gallery, wide):
                stop = min(start + wide, self._gallery)
                products, item_norm = tile(start, stop)
                scores = (products, norm, item_norm, self._space.mode, part.edges)
                self._kernels.count_tile(*scores, part.less, part.bins, part.equal)
                if part.split is not None and len(wanted):
                    self._kernels.split_tile(*scores, wanted, part.split.items(start, stop))


def _wanted(rows: Rows, folds: GalleryFolds | None) -> Rows:
    """The places of the queries that are to be split."""
    return rows[:0] if folds is None else np.flatnonzero(folds.queries[rows])


def own_filters(device: Any, kernels: ModuleType) -> ModuleType | None:
    """The filter's kernels where there are some and the device can be trusted with them."""
    if device.type != "cuda" or not kernels.FUSED or not accumulates_well(device):
        return None
    from truerank.engine.cuda import filter_kernels

    return filter_kernels


@cache
def accumulates_well(device: Any) -> bool:
    """Whether the tensor cores of this device keep the accumulation bound on adversarial rows."""
    from truerank.engine.cuda.filter_kernels import half_products, room_for_products

    for dimension in (64, 512, 2048):
        rows = counting.halves(counting.probe_rows(dimension, device))
        count = len(rows.rows)
        products = room_for_products(count, count, device)
        half_products(rows.rows, rows.rows, count, count, products)
        if not counting.holds(products[:, :count], rows):
            return False
    return True


# A block of distances that lies on a device: what observers ask of it is counted there.
#
# Every answer is the one of truerank.engine.blocks; what is not answered here is fetched.


_SORTED_DISTANCES = 1 << 24
"""Most distances in rows that are sorted at a time."""


@dataclass(frozen=True)
class DeviceCuts:
    """truerank.engine.blocks.Cuts on a device."""

    at: Any
    start: Any
    axis: Any
    """The start of the table of cells, and its cells for a unit of distance."""
    steps: int
    """Steps of bisection that find a place among the cuts of any one cell."""


class DeviceDistanceBlock(DistanceBlock):
    """A block of queries against the whole gallery, on a device."""

    def __init__(self, rows: Rows, distances: Any, kernels: ModuleType, cache: DeviceCache) -> None:
        super().__init__(rows, distances, compiled=True)
        self._tensor, self._kernels, self._cache = distances, kernels, cache

    @property
    def distances(self) -> Distances:
        """See DistanceBlock; fetched each time."""
        return fetched(self._tensor)

    def separate(self, excluded: ExcludedPairs) -> None:
        """See DistanceBlock."""
        self._tensor[excluded.query, excluded.item] = torch.inf

    def some(self, chosen: Rows) -> DistanceBlock:
        """See DistanceBlock."""
        return DistanceBlock(
            self.rows[chosen], fetched(self._tensor[self._send(chosen)]), self.compiled
        )

    def rooted(self) -> DistanceBlock:
        """See DistanceBlock: the square root of a float64 is the nearest one here as well."""
        roots = torch.sqrt(self._tensor)
        return DeviceDistanceBlock(self.rows, roots, self._kernels, self._cache)

    def nearer(self, limit: Distances) -> Any:
        """How many items each query has below its own limit; on the device."""
        return self._kernels.nearer(self._tensor, self._send(limit))

    def least(self) -> Distances:
        """See DistanceBlock."""
        return fetched(self._tensor.min(1).values)

    def ends(self) -> tuple[float, float]:
        """See DistanceBlock."""
        low, high = torch.aminmax(self._tensor)
        return float(low), float(high)

    def nearest(self, chosen: Rows, count: int) -> Distances:
        """See DistanceBlock."""
        rows = self._tensor[self._send(chosen)]
        return fetched(torch.sort(rows, dim=1).values[:, :count].contiguous())

    def ranked(self) -> Iterator[tuple[int, Distances]]:
        """See DistanceBlock."""
        step = max(1, _SORTED_DISTANCES // self._tensor.shape[1])
        for start in range(0, len(self.rows), step):
            yield start, fetched(torch.sort(self._tensor[start : start + step], dim=1).values)

    def within(self, limit: float) -> Integers:
        """See DistanceBlock."""
        return fetched((self._tensor <= limit).sum(1))

    def largest(self, limit: float) -> float:
        """See DistanceBlock."""
        return float(torch.where(self._tensor <= limit, self._tensor, -torch.inf).max())

    def accepted(self, grid: Distances, low: float, width: float) -> Counters:
        """See DistanceBlock."""
        scale = underestimated(grid, width) if width > TINY else None
        counts = self._kernels.count_on_grid(self._tensor, self._cache(grid), low, scale)
        return fetched(counts)[:, :-1]

    def between(self, ranges: Sequence[DistanceRange], workspace: Workspace) -> list[Distances]:
        """See DistanceBlock."""
        ends = [(low, min(high, LARGEST)) for low, high in ranges]
        return [fetched(part) for part in self._kernels.between(self._tensor, ends)]

    def tally(self, cuts: Cuts, owner: Integers, borrow: Borrow, *, turned: bool = False) -> None:
        """See DistanceBlock."""
        owners, number = np.unique(owner, return_inverse=True)
        there = (self._on_device(cuts), self._send(number), len(owners))
        home = fetched(self._kernels.tally(self._tensor, *there, turned=turned))
        with borrow() as counts:
            counts[owners] += home.astype(counts.dtype)

    def _on_device(self, cuts: Cuts) -> DeviceCuts:
        return DeviceCuts(
            self._cache(cuts.at),
            self._cache(cuts.start),
            self._send(np.array([cuts.low, cuts.scale])),
            cuts.most.bit_length(),
        )

    def tally_by_fold(
        self,
        cuts: Cuts,
        owner: Integers,
        fold: Columns,
        columns: int,
        borrow: Borrow,
        *,
        turned: bool = False,
    ) -> None:
        """See DistanceBlock."""
        owners, number = np.unique(owner, return_inverse=True)
        there = (self._on_device(cuts), self._send(number), len(owners), self._send(fold), columns)
        home = fetched(self._kernels.tally_by_fold(self._tensor, *there, turned=turned))
        known = owners >= 0
        with borrow() as counts:
            counts[owners[known]] += home[known].astype(counts.dtype)

    def nearest_by_fold(
        self, limit: Distances, fold: Columns, least: Distances, within: Counters
    ) -> None:
        """See DistanceBlock."""
        most = self._send(limit[self.rows])[:, None]
        for way in fold.T:
            order = np.argsort(way, kind="stable")
            columns, start = np.unique(way[order], return_index=True)
            together = self._tensor[:, self._send(order)]  # the items of a fold side by side
            parts = [together[:, a:b] for a, b in pairwise([*start.tolist(), len(order)])]
            nearest = fetched(torch.stack([part.min(1).values for part in parts], 1))
            near = [(part <= most).sum(1, dtype=torch.int32) for part in parts]
            mine = np.ix_(self.rows, columns)
            least[mine] = np.minimum(least[mine], nearest)
            within[mine] += fetched(torch.stack(near, 1))

    def _send(self, array: npt.NDArray[Any]) -> Any:
        return sent(array, self._tensor.device)
