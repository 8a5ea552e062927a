"""Counts per threshold on a device, per jackknife group, and the bound of the half filter.

A block's thresholds form a matrix `edges`, one row per query, nearest relevant item first,
right-aligned behind -inf. The counts are integers, whichever path filled them.

The filter is rigorous: integer rows X are rounded to half precision, H = half(X 2^-17), with
the residual r = |X - 2^17 H| known. For a query X and an item Y, rounded to H and K, in units
of X,

    |X.Y - 2^34 H.K| <= |X| r_item + r_query |K|         (Cauchy-Schwarz, twice)

The float32 accumulation of tensor cores is off by at most d 2^-22 |H||K| (each of d additions
may lose two bits below float32's last; a check on the device verifies it). Squared lengths of
rounded unit vectors differ a little from their middle, and distances from what rows on the grid
make. An item whose product lies farther than the sum of these from a threshold is decided; the
others are decided by exact products.

Where that leaves too many, a second half holds what the first lost, L = half((X - 2^17 H)
2^-17). With K and M of an item, H.K + H.M + L.K is off by L.M and next to nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank._util.errors import ExactnessError
from truerank.core.jackknife import GalleryFolds
from truerank.core.tie_groups import LocatedGroups, TieGroups
from truerank.engine.cuda import front
from truerank.engine.cuda.transfer import fetched

NOTHING = float("-inf")


@dataclass(frozen=True)
class Frame:
    """The distinct relevant distances of a block of queries, and the items at them."""

    edges: Any
    """(queries, most distinct distances) float64."""
    graded: Any
    """(groups, grades): relevant items of each grade at each distance, query after query."""
    order: Any
    """The order of each query's relevant pairs by distance, behind as many empty places as it has
    fewer pairs than others."""
    fresh: Any
    """Which places of `order` have another distance than the place before."""

    def places(self, query: Any) -> Any:
        """The threshold at which each relevant pair lies."""
        sizes = torch.bincount(query, minlength=len(self.fresh))
        first = torch.cumsum(sizes, 0) - sizes
        width = self.fresh.shape[1]
        held = torch.arange(width, device=query.device) >= (width - sizes)[:, None]
        behind = self.fresh.sum(1, keepdim=True) - torch.cumsum(self.fresh, 1)
        at = torch.empty_like(query)
        pair = (first[:, None] + self.order)[held]
        at[pair] = self.edges.shape[1] - 1 - behind[held]
        return at

    @staticmethod
    def of(query: Any, distance: Any, grade: Any, queries: int, grades: int) -> Frame:
        """The frame of relevant pairs, which are sorted by query."""
        sizes = torch.bincount(query, minlength=queries)
        first = torch.cumsum(sizes, 0) - sizes
        width = int(sizes.max())
        table = torch.full((queries, width), NOTHING, dtype=torch.float64, device=query.device)
        column = torch.arange(len(query), device=query.device) - first[query]
        table[query, column] = distance
        table, order = torch.sort(table, dim=1)
        held = table != NOTHING
        fresh = held.clone()
        fresh[:, 1:] &= table[:, 1:] != table[:, :-1]
        group = torch.cumsum(fresh.flatten(), 0).view_as(table)[held] - 1
        groups = int(fresh.sum())
        if grades == 1:
            graded = torch.bincount(group, minlength=groups)[:, None]
        else:
            worth = torch.zeros(table.shape, dtype=torch.int64, device=query.device)
            worth[query, column] = grade
            worth = torch.gather(worth, 1, order)[held] - 1
            graded = torch.bincount(group * grades + worth, minlength=groups * grades)
            graded = graded.view(groups, grades)
        if groups < len(query):  # relevant items that tie share a threshold
            table = torch.sort(torch.where(fresh, table, NOTHING), dim=1).values
            most = int(fresh.sum(1).max())
            table = table[:, width - most :].contiguous()
        return Frame(table, graded, order, fresh)


class DeviceTally:
    """Counts at each threshold, while the gallery goes by."""

    def __init__(
        self, edges: Any, less: Any, equal: Any, bins: Any, split: Splitting | None = None
    ) -> None:
        self.edges, self.less, self.equal = edges, less, equal
        self.bins = bins
        """An item in bin j is nearer than threshold j and all that follow."""
        self.split = split

    @staticmethod
    def of(edges: Any, split: Splitting | None = None) -> DeviceTally:
        """A tally with nothing counted yet."""
        rows, m = edges.shape
        less = torch.zeros((rows, m), dtype=torch.int32, device=edges.device)
        bins = torch.zeros((rows, m + 1), dtype=torch.int32, device=edges.device)
        return DeviceTally(edges, less, torch.zeros_like(less), bins, split)

    def part(self, rows: slice) -> DeviceTally:
        """A view of some of the queries: what is counted there is counted here."""
        split = None if self.split is None else self.split.part(rows)
        return DeviceTally(
            self.edges[rows], self.less[rows], self.equal[rows], self.bins[rows], split
        )

    def at(self, start: int, stop: int) -> DeviceTally:
        """The same tally for tiles that hold a range of items."""
        split = None if self.split is None else self.split.items(start, stop)
        return DeviceTally(self.edges, self.less, self.equal, self.bins, split)

    def again(self, rows: Any) -> DeviceTally:
        """A tally of some of the queries, with nothing counted yet."""
        split = None
        if self.split is not None:
            split = self.split.part(rows)
            split.forget()
        return DeviceTally.of(self.edges[rows], split)

    def forget(self) -> None:
        """Begin anew."""
        for table in (self.less, self.equal, self.bins):
            table.zero_()
        if self.split is not None:
            self.split.forget()

    def replace(self, rows: Any, other: DeviceTally) -> None:
        """Take these rows' counts from another tally of the same thresholds."""
        self.less[rows], self.equal[rows], self.bins[rows] = other.less, other.equal, other.bins

    def take_out(self, query: Any, distance: Any) -> None:
        """Take excluded pairs out again, which have been counted like any other."""
        step = max(1, COMPARISONS // self.edges.shape[1])
        for start in range(0, len(query), step):
            some = query[start : start + step]
            d = distance[start : start + step, None]
            edges = self.edges[some]
            self.less.index_add_(0, some, (d < edges).to(torch.int32), alpha=-1)
            self.equal.index_add_(0, some, (d == edges).to(torch.int32), alpha=-1)

    def tie_groups(self, graded: Any, candidates: Any, *, distances: bool = False) -> TieGroups:
        """Tie groups once the whole gallery is counted; with their distances if asked for."""
        held = self.edges != NOTHING
        place = torch.nonzero(held.flatten()).flatten()
        nearer = self.less + torch.cumsum(self.bins, 1, dtype=torch.int32)[:, :-1]
        before, size = nearer.flatten()[place], self.equal.flatten()[place]
        if bool(((size < graded.sum(1)) | (before < 0)).any()):
            raise ExactnessError(
                "a relevant item was not met at its own exact distance: the matrix product of this "
                "GPU is not exact in float64; use device='cpu'."
            )
        offsets = np.zeros(len(held) + 1, np.int64)
        offsets[1:] = fetched(torch.cumsum(held.sum(1), 0))
        before, size = fetched(torch.stack([before, size]).long())
        groups = (offsets, before, size, fetched(graded.to(torch.int32)), fetched(candidates))
        if not distances:
            return TieGroups(*groups)
        return LocatedGroups(*groups, fetched(self.edges.flatten()[place]))


# Counts by fold of the gallery, beside those of a tally, for the queries that want them.
#
# The kernels that count an item for a query count it for the item's folds as well.


COMPARISONS = 1 << 26
"""Comparisons of single pairs with thresholds that are made at a time."""


@dataclass(frozen=True)
class Splitting:
    """Tables of (queries to split, thresholds, columns), as a tally's `bins` and `equal`."""

    fold: Any
    """(items, ways): the columns of each item's folds."""
    place: Any
    """The place of each query of the block in the tables; -1 for those that are not split."""
    bins: Any
    equal: Any

    @staticmethod
    def of(fold: Any, columns: int, wanted: Any, thresholds: int) -> Splitting:
        """Tables with nothing counted yet."""
        place = torch.where(wanted, torch.cumsum(wanted, 0) - 1, -1).to(torch.int32)
        shape = (int(wanted.sum()), thresholds + 1, columns)
        bins = torch.zeros(shape, dtype=torch.int32, device=place.device)
        return Splitting(fold, place, bins, torch.zeros_like(bins[:, 1:].contiguous()))

    @property
    def columns(self) -> int:
        """The number of columns, in all ways together."""
        return int(self.bins.shape[2])

    @property
    def ways(self) -> int:
        """The number of ways in which the gallery is cut into folds."""
        return int(self.fold.shape[1])

    def part(self, rows: Any) -> Splitting:
        """A view of some of the queries: what is counted there is counted here."""
        return replace(self, place=self.place[rows])

    def items(self, start: int, stop: int) -> Splitting:
        """A view of the same tables for tiles that hold a range of items."""
        return replace(self, fold=self.fold[start:stop])

    @property
    def rows(self) -> Any:
        """The queries of the block that are split."""
        return torch.nonzero(self.place >= 0).flatten()

    def forget(self) -> None:
        """Set the counts of these queries to zero."""
        mine = self.place[self.rows].long()
        self.bins[mine] = 0
        self.equal[mine] = 0

    def take_out(self, query: Any, item: Any, distance: Any, edges: Any) -> None:
        """Take excluded pairs out again, which have been counted like any other."""
        query, item, distance = self._wanted(query, item, distance)
        step = max(1, COMPARISONS // edges.shape[1])
        for start in range(0, len(query), step):
            some = slice(start, start + step)
            mine, among = self.place[query[some]].long(), edges[query[some]]
            at = torch.searchsorted(among, distance[some, None]).flatten()
            same = (distance[some, None] == among).any(1)
            for way in self.fold.T:
                column = way[item[some]].long()
                _add(self.bins, (mine, at + same, column), -1)
                _add(self.equal, (mine[same], at[same], column[same]), -1)

    def counts(
        self,
        query: Any,
        item: Any,
        grade: Any,
        at: Any,
        edges: Any,
        grades: int,
        folds: GalleryFolds,
    ) -> npt.NDArray[Any]:
        """The table of truerank.core.tie_groups.SplitGroups, once the whole gallery is counted.

        Relevant pairs lie at thresholds `at`.
        """
        query, item, grade, at = self._wanted(query, item, grade, at)
        mine = self.place[query].long()
        between = self.bins[:, :-1].clone()
        between[:, 1:] -= self.equal[:, :-1]
        relevant = torch.zeros((grades, *self.equal.shape), dtype=torch.int32, device=edges.device)
        for way in self.fold.T:
            _add(relevant, (grade - 1, mine, at, way[item].long()), 1)
        held = edges[self.rows] > -torch.inf
        table = torch.stack([between, self.equal, *relevant])[:, held]
        narrow = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
        wide = np.dtype(folds.dtype).itemsize
        return fetched(table.to(narrow[wide])).view(folds.dtype)

    def candidates(self, query: Any, item: Any, folds: GalleryFolds) -> npt.NDArray[np.int32]:
        """(split queries, columns): the items of each fold that they can rank, all but
        these excluded ones."""
        query, item = self._wanted(query, item)
        mine = self.place[query].long()
        sizes = torch.from_numpy(folds.sizes.astype(np.int32)).to(mine.device)
        met = sizes.repeat(len(self.bins), 1)
        for way in self.fold.T:
            _add(met, (mine, way[item].long()), -1)
        found: npt.NDArray[np.int32] = fetched(met)
        return found

    def _wanted(self, query: Any, *others: Any) -> tuple[Any, ...]:
        mine = self.place[query] >= 0
        return (query[mine], *(other[mine] for other in others))


def _add(table: Any, at: tuple[Any, ...], step: int) -> None:
    """Add to entries, which may come more than once: of integers no order shows.

    By their places in the whole table that is one launch; by several indices torch sorts them.
    """
    place = at[0]
    for size, index in zip(table.shape[1:], at[1:], strict=True):
        place = place * size + index
    table.view(-1).index_add_(0, place, torch.full_like(place, step, dtype=table.dtype))


def tables_of(split: Splitting | None) -> tuple[Any, Any, Any, Any]:
    """What kernels are given of a splitting."""
    if split is None:
        return None, None, None, None
    return split.fold, split.place, split.bins, split.equal


# What filters leave of a tile, products that matter and pairs that stay open, and who decides.


PART = 16
"""Items whose products are kept together, if one of them matters."""
LISTS = 4
"""Lists of open items that a query has: each is written by one program."""


@dataclass(frozen=True)
class Near:
    """Room for the products of some queries with some items, of which near parts are kept."""

    number: Any
    """How many parts of each query are kept."""
    parts: Any
    """(queries, places): their numbers; there is room for a multiple of four."""
    products: Any
    """(queries, places x PART): products, each in its own place; those of other parts are left as
    they were."""

    @staticmethod
    def room(queries: int, items: int, device: Any) -> Near:
        """Room for so many queries and items."""
        places = -(-items // (4 * PART)) * 4
        return Near(
            torch.empty(queries, dtype=torch.int32, device=device),
            torch.empty((queries, places), dtype=torch.int32, device=device),
            torch.empty((queries, places * PART), dtype=torch.float32, device=device),
        )

    @property
    def places(self) -> int:
        """Parts that there may be of each query."""
        return int(self.parts.shape[1])


@dataclass(frozen=True)
class Opened:
    """Items of a strip that a filter could not decide: LISTS lists for each query, one after the
    other."""

    found: Any
    """How many each list has; more than there is room for are not listed."""
    entries: Any
    """(lists, room): the items' numbers in the strip."""

    @staticmethod
    def room(queries: int, room: int, device: Any) -> Opened:
        """Empty lists of so many queries, with room for so many items each."""
        found = torch.zeros(LISTS * queries, dtype=torch.int32, device=device)
        entries = torch.empty((LISTS * queries, room), dtype=torch.int32, device=device)
        return Opened(found, entries)

    def part(self, queries: int) -> Opened:
        """The lists of the first queries."""
        return Opened(self.found[: LISTS * queries], self.entries[: LISTS * queries])


def decide(
    filters: ModuleType,
    cuts: tuple[Any, Any],
    near: Near,
    items: int,
    tally: DeviceTally,
    opened: Opened,
) -> None:
    """Count the items of near parts that lie on a known side of each threshold, by the kernels
    `filters`; the open ones are listed. `cuts` are the sure and the lost ones of each query."""
    if tally.split is None and tally.edges.shape[1] <= front.FEW:
        filters.compare(*cuts, near, items, tally.less, opened)
    else:
        filters.settle(*cuts, near, items, tally.bins, opened, tally.split)


# Filter, then refine: half-precision tensor cores decide almost every comparison, rigorously.


SHIFT = 17
"""X 2^-17 is below 2^8 + 1 for unit vectors on the 2^-25 grid, and small integers stay exact."""
IN_PRODUCTS = 2.0 ** (-2 * SHIFT)
"""A unit of X.Y in products of halves."""
LOST_BITS = 22
_CAUTION = 1.0 + 2.0**-30
"""A factor for the roundings of the bound itself, which is computed in float64."""
CHUNK = 64
"""Terms that tensor cores accumulate of the large part of a fine product, before it is added."""
_ROWS, _COLUMNS = 256, 64
"""Rows and dimensions are padded to multiples of these."""


@dataclass(frozen=True)
class Halves:
    """Half-precision rows, padded with zeros, and what is known about them."""

    rows: Any
    length: Any
    """|X|, rounded up."""
    half_length: Any
    """2^17 |H|, rounded up."""
    residual: Any
    """|X - 2^17 H|, rounded up."""

    @staticmethod
    def room(count: int, dimension: int, device: Any) -> Halves:
        """Rows to be put in; until then, zeros."""
        shape = (-(-count // _ROWS) * _ROWS, -(-dimension // _COLUMNS) * _COLUMNS)
        lengths = [torch.empty(count, dtype=torch.float64, device=device) for _ in range(3)]
        return Halves(torch.zeros(shape, dtype=torch.float16, device=device), *lengths)

    def put(self, start: int, some: Halves) -> None:
        """Take in further rows, from `start` on."""
        here = slice(start, start + len(some.length))
        self.rows[here] = some.rows[: len(some.length)]
        self.length[here], self.half_length[here] = some.length, some.half_length
        self.residual[here] = some.residual

    def take(self, index: Any) -> Halves:
        """The rows of an index, padded again."""
        return replace(self.known(index), rows=padded(self.rows[index]))

    def known(self, index: Any) -> Halves:
        """What is known about the rows of an index, without these."""
        lengths = (self.length[index], self.half_length[index], self.residual[index])
        return Halves(self.rows[:0], *lengths)


def padded(rows: Any) -> Any:
    """Half-precision rows with zeros behind them."""
    return torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % _ROWS))


def strip(rows: Any, start: int, stop: int) -> Any:
    """The half-precision rows start to stop, padded; behind them may be others, or zeros."""
    end = start + -(-(stop - start) // _ROWS) * _ROWS
    missing = max(0, end - len(rows))
    return (
        torch.nn.functional.pad(rows[start:end], (0, 0, 0, missing)) if missing else rows[start:end]
    )


def halves(integers: Any) -> Halves:
    """Integer rows rounded to half precision, with bounds of what that loses."""
    count, dimension = integers.shape
    found = Halves.room(count, dimension, integers.device)
    lengths = (found.length, found.half_length, found.residual)
    step = max(1, (1 << 26) // dimension)
    for start in range(0, count, step):
        some = slice(start, min(start + step, count))
        exact = integers[some].double()
        half = (exact * 2.0**-SHIFT).to(torch.float16)
        found.rows[some, :dimension] = half
        back = half.double() * 2.0**SHIFT
        for out, part in zip(lengths, (exact, back, exact - back), strict=True):
            out[some] = torch.linalg.vector_norm(part, dim=1) * _CAUTION
    return found


@dataclass(frozen=True)
class Extremes:
    """The worst that any of some items adds to the error; numbers that stay on the device."""

    shortest: Any
    """The smallest |Y|^2."""
    longest: Any
    half_length: Any
    residual: Any

    @staticmethod
    def of(items: Halves, norm: Any) -> Extremes:
        """`norm` is |Y|^2."""
        return Extremes(norm.min(), norm.max(), items.half_length.max(), items.residual.max())


def product_bound(queries: Halves, items: Extremes) -> Any:
    """How far the products of these queries with any of these items may be off, in units of X."""
    bound = queries.length * items.residual
    bound += queries.residual * items.half_length
    accumulated = queries.rows.shape[1] * 2.0**-LOST_BITS
    bound += accumulated * queries.half_length * items.half_length
    return bound * _CAUTION


@dataclass(frozen=True)
class FineRows:
    """Rows of two halves, H and L: those of items as H, L, H side by side, those of queries as
    L, H, H, so that one product has all three terms, the small ones first."""

    rows: Any
    length: Any
    """|X|, rounded up."""
    high: Any
    """2^17 |H|, rounded up."""
    low: Any
    """2^17 |L|, rounded up."""
    residual: Any
    """|X - 2^17 (H + L)|, rounded up."""

    @staticmethod
    def room(count: int, dimension: int, device: Any) -> FineRows:
        """Rows to be put in; until then, zeros."""
        shape = (-(-count // _ROWS) * _ROWS, 3 * (-(-dimension // _COLUMNS) * _COLUMNS))
        lengths = [torch.empty(count, dtype=torch.float64, device=device) for _ in range(4)]
        return FineRows(torch.zeros(shape, dtype=torch.float16, device=device), *lengths)

    def put(self, start: int, integers: Any) -> None:
        """Take in integer rows of items, from `start` on."""
        some, wide = slice(start, start + len(integers)), self.rows.shape[1] // 3
        here = slice(0, integers.shape[1])
        exact = integers.double()
        high = (exact * 2.0**-SHIFT).to(torch.float16)
        rest = exact - high.double() * 2.0**SHIFT
        low = (rest * 2.0**-SHIFT).to(torch.float16)
        for place, part in enumerate((high, low, high)):
            self.rows[some, place * wide : (place + 1) * wide][:, here] = part
        back = low.double() * 2.0**SHIFT
        parts = (exact, exact - rest, back, rest - back)
        lengths = (self.length, self.high, self.low, self.residual)
        for out, part in zip(lengths, parts, strict=True):
            out[some] = torch.linalg.vector_norm(part, dim=1) * _CAUTION

    def queries(self, index: Any) -> FineRows:
        """The items of an index as queries, padded again."""
        wide = self.rows.shape[1] // 3
        shape = (-(-len(index) // _ROWS) * _ROWS, self.rows.shape[1])
        rows = torch.zeros(shape, dtype=torch.float16, device=self.rows.device)
        rows[: len(index), : 2 * wide] = self.rows[index, wide:]
        rows[: len(index), 2 * wide :] = self.rows[index, :wide]
        lengths = (self.length, self.high, self.low, self.residual)
        return FineRows(rows, *(one[index] for one in lengths))


def fine_rows(integers: Any) -> FineRows:
    """Integer rows of items in two halves."""
    count, dimension = integers.shape
    found = FineRows.room(count, dimension, integers.device)
    step = max(1, (1 << 26) // dimension)
    for start in range(0, count, step):
        found.put(start, integers[start : start + step])
    return found


@dataclass(frozen=True)
class FineExtremes:
    """The worst that any of some items adds to the error of fine products."""

    shortest: Any
    longest: Any
    high: Any
    low: Any
    residual: Any

    @staticmethod
    def of(items: FineRows, norm: Any) -> FineExtremes:
        """`norm` is |Y|^2."""
        worst = (items.high.max(), items.low.max(), items.residual.max())
        return FineExtremes(norm.min(), norm.max(), *worst)


def _fine_product_bound(queries: FineRows, items: FineExtremes) -> Any:
    """How far H.K + H.M + L.K may be off, in units of X.

    If X = 2^17 (H + L) + a and Y = 2^17 (K + M) + b, X.Y = 2^34 (H + L).(K + M) + X.b + a.(Y - b).
    Tensor cores accumulate 2 d terms of H.M and L.K, and CHUNK terms of H.K at a time; the d/CHUNK
    sums of these are added in float32, which loses 2^-24 of a sum each time.
    """
    d = queries.rows.shape[1] // 3
    small = queries.low * items.high + queries.high * items.low
    large = queries.high * items.high
    added = d / CHUNK / 4 + 1
    bound = queries.length * items.residual + queries.residual * (items.high + items.low)
    bound += queries.low * items.low
    bound += 2.0**-LOST_BITS * ((CHUNK + added) * large + (2 * d + added) * small)
    return bound * _CAUTION


def error_bound(queries: Halves | FineRows, items: Extremes | FineExtremes, slack: float) -> Any:
    """How far (|X|^2 + middle - D)/2 may be from a query's product with any of these items, in
    units of X; `middle` is that of their squared lengths, and `slack` as in thresholds."""
    if isinstance(queries, FineRows):
        bound = _fine_product_bound(queries, items)  # type: ignore[arg-type]
    else:
        bound = product_bound(queries, items)  # type: ignore[arg-type]
    bound += (items.longest - items.shortest) / 4 + slack / 2 + 4
    return bound * _CAUTION


def thresholds(
    edges: Any, norm: Any, queries: Halves | FineRows, items: Extremes | FineExtremes, slack: float
) -> tuple[Any, Any]:
    """Two products for each query and threshold: above the first is nearer, below the second not.

    `norm` is |X|^2, and distances differ from |X|^2 + |Y|^2 - 2 X.Y by at most `slack`.
    """
    bound = error_bound(queries, items, slack)
    middle = (items.shortest + items.longest) / 2
    at = (norm[:, None] + middle - edges) / 2
    sure = ((at + bound[:, None]) * IN_PRODUCTS).float()
    sure = torch.nextafter(sure, torch.full_like(sure, torch.inf))
    lost = ((at - bound[:, None]) * IN_PRODUCTS).float()
    lost = torch.nextafter(lost, torch.full_like(lost, -torch.inf))
    return sure.contiguous(), lost.contiguous()


def probe_rows(dimension: int, device: Any) -> Any:
    """Integer rows that show an accumulation in fewer bits than assumed.

    Sums that only grow; one large term before, amid or after many that are just too small for its
    last bits; large terms that cancel around small ones; and terms of all sizes.
    """
    generator = torch.Generator().manual_seed(20)
    noise = torch.rand((128, dimension), generator=generator, dtype=torch.float64)
    sign = torch.where(torch.rand(noise.shape, generator=generator) < 0.5, -1.0, 1.0)
    rows = torch.empty_like(noise)
    rows[:32] = 1.0 + noise[:32] * 2.0**-6
    rows[32:64] = 2.0**-6 * (1.0 + noise[32:64])
    rows[torch.arange(32, 64), torch.arange(32) * max(1, dimension // 32) % dimension] = 2.0**6
    rows[64:96] = 2.0**-5 * (1.0 + noise[64:96])
    rows[64:96, 0] = 2.0**6
    rows[64:80, dimension // 2] = 2.0**6
    rows[80:96, dimension // 2] = -(2.0**6)
    rows[96:] = sign[96:] * 2.0 ** (-12.0 * noise[96:])
    rows /= torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return torch.round(rows * 2.0**25).to(torch.int32).to(device)


def holds(products: Any, rows: Halves) -> bool:
    """Whether these products of the rows with themselves keep the accumulation bound, well inside.

    Half of it is asked for: the probe sees some sums, the bound is for all.
    """
    wide = rows.rows.double()
    exact = wide @ wide.T
    allowed = (
        wide.shape[1]
        * 2.0 ** -(LOST_BITS + 1)
        * torch.outer(rows.half_length, rows.half_length)
        * 2.0 ** (-2 * SHIFT)
    )
    count = len(rows.length)
    error = (products.double() - exact).abs()[:count, :count]
    return bool((error <= allowed).all())
