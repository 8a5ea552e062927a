# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

"""Triton kernels of exact distances: counts at each threshold, and reductions of whole rows.

A query's thresholds are its distinct relevant distances u_0 < u_1 < ..., right-aligned in a row
of `edges` (unused places in front hold -inf). Kernels add to `less` (items nearer than u_j),
`equal` (items at u_j) and `bins` (an item in bin j is nearer than u_j, u_{j+1}, ...). These are
integers: the order in which programs run cannot show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from truerank.engine.cuda import torch_kernels
from truerank.engine.cuda.counting import Splitting

if TYPE_CHECKING:
    from truerank.engine.blocks import DistanceRange
    from truerank.engine.cuda.worker import DeviceCuts


# Triton kernels: tiles of exact distances into counts at each threshold.


FUSED = True
"""Whether the low-precision filter exists here."""

LINEAR = 16
"""Up to this many thresholds a query, exact tiles compare each with every item; beyond, items are
looked up."""

_AS_IS = tl.constexpr(0)
_SQUARED = tl.constexpr(1)
_EUCLIDEAN = tl.constexpr(2)
_COSINE = tl.constexpr(3)
_SHORT = tl.constexpr(4)
_ZERO = tl.constexpr(2.0**51)
_WHOLE = tl.constexpr(2.0**52)
MODES = {"as is": 0, "squared": 1, "euclidean": 2, "cosine": 3, "short": 4}
EXACT = {"enable_fp_fusion": True}
"""Options of kernels with exact sums: fusing a product into them changes nothing."""
_COLUMNS, _WARPS = 2048, 4
_LOOKED_UP = 2048


@triton.jit
def distance(product, a, b, MODE: tl.constexpr):
    """The distance from a product and two norms; see distance/inner_product.py for why it is exact,
    and truerank.distance.cosine and short for what is more."""
    if MODE == _SQUARED:
        d = (a + b) - 2.0 * product
    elif MODE == _COSINE:
        d = tl.where(product == 0, _ZERO, (a + b) - 2.0 * product)
    elif MODE == _SHORT:
        steps = tl.sqrt(product * product / (a * b)) * _ZERO
        steps = (steps + _WHOLE) - _WHOLE  # to an integer, ties to even
        d = tl.where(product < 0, _ZERO + steps, _ZERO - steps)
    elif MODE == _EUCLIDEAN:
        high = a + b
        part = high - a
        low = (a - (high - part)) + (b - part)
        d = (product + high) + low
    else:
        d = product + 0.0
    return d


@triton.jit(do_not_specialize=["width", "stride", "out_stride"])
def _fill_distances(
    out, tile, a, b, width, stride, out_stride, MODE: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    held = column < width
    product = tl.load(tile + row * stride + column, mask=held, other=0.0)
    d = distance(product, tl.load(a + row), tl.load(b + column, mask=held, other=0.0), MODE)
    tl.store(out + row * out_stride + column, d, mask=held)


def fill_distances(out: Any, tile: Any, a: Any, b: Any, mode: str) -> None:
    """Distances from a (queries, items) tile of exact products and the norms of rows and items."""
    rows, width = tile.shape
    _fill_distances[(rows, triton.cdiv(width, _COLUMNS))](
        out,
        tile,
        a,
        b,
        width,
        tile.stride(0),
        out.stride(0),
        MODE=MODES[mode],
        COLUMNS=_COLUMNS,
        num_warps=_WARPS,
        **ROUNDED,
    )


@triton.jit(do_not_specialize=["pairs"])
def _pair_products(
    left,
    right,
    query,
    item,
    out,
    pairs,
    dimension,
    PAIRS: tl.constexpr,
    PART: tl.constexpr,
):
    p = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    held = p < pairs
    q = tl.load(query + p, mask=held, other=0)
    g = tl.load(item + p, mask=held, other=0)
    total = tl.zeros([PAIRS, PART], tl.float64)
    for start in range(0, dimension, PART):
        c = start + tl.arange(0, PART)
        inside = held[:, None] & (c < dimension)[None, :]
        x = tl.load(left + q[:, None] * dimension + c[None, :], mask=inside, other=0)
        y = tl.load(right + g[:, None] * dimension + c[None, :], mask=inside, other=0)
        total += x.to(tl.float64) * y.to(tl.float64)
    tl.store(out + p, tl.sum(total, 1), mask=held)


def pair_products(left: Any, right: Any, query: Any, item: Any) -> Any:
    """X_q . Y_g of single pairs of integer rows: exact, since every partial sum is below 2^53."""
    out = torch.empty(len(query), dtype=torch.float64, device=left.device)
    if len(query):
        dimension = left.shape[1]
        part = min(128, triton.next_power_of_2(dimension))
        grid = (triton.cdiv(len(query), 16),)
        _pair_products[grid](
            left, right, query, item, out, len(query), dimension, PAIRS=16, PART=part, **EXACT
        )
    return out


@triton.jit(do_not_specialize=["width", "stride", "m"])
def _count_linear(
    tile,
    a,
    b,
    edges,
    less,
    equal,
    width,
    stride,
    m,
    MODE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    held = column < width
    product = tl.load(tile + row * stride + column, mask=held, other=0.0)
    d = distance(product, tl.load(a + row), tl.load(b + column, mask=held, other=0.0), MODE)
    d = tl.where(held, d, float("inf"))
    nearest = tl.min(d, 0)
    at = row * m
    j = m - 1
    u = tl.load(edges + at + j)
    while (j >= 0) & (nearest <= u):  # most tiles end here: everything lies beyond the last mate
        both = tl.sum((d < u).to(tl.int32) + ((d == u).to(tl.int32) << 16), 0)
        tl.atomic_add(less + at + j, both & 0xFFFF, sem="relaxed")
        tl.atomic_add(equal + at + j, both >> 16, mask=both > 0xFFFF, sem="relaxed")
        j -= 1
        u = tl.load(edges + at + tl.maximum(j, 0))


@triton.jit
def look_up(edges, d, counts, m, steps, SIZE: tl.constexpr):
    """The first threshold that is not nearer than each distance, and whether it is as near."""
    low = tl.zeros([SIZE], tl.int32)
    high = low + (m - 1)
    for _ in range(steps):
        middle = (low + high) >> 1
        u = tl.load(edges + middle, mask=counts, other=0.0)
        beyond = (u < d) & (low < high)
        low = tl.where(beyond, middle + 1, low)
        high = tl.where(beyond, high, middle)
    return low, counts & (tl.load(edges + low, mask=counts, other=0.0) == d)


@triton.jit(do_not_specialize=["width", "stride", "m", "steps"])
def _count_looked_up(
    tile,
    a,
    b,
    edges,
    bins,
    equal,
    width,
    stride,
    m,
    steps,
    MODE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    held = column < width
    product = tl.load(tile + row * stride + column, mask=held, other=0.0)
    d = distance(product, tl.load(a + row), tl.load(b + column, mask=held, other=0.0), MODE)
    at = row * m
    d = tl.where(held, d, float("inf"))
    last = tl.load(edges + at + m - 1)
    ends = tl.sum((d == last).to(tl.int32), 0)  # often many: what is orthogonal ties
    tl.atomic_add(equal + at + m - 1, ends, mask=ends > 0, sem="relaxed")
    counts = d < last
    if tl.max(counts.to(tl.int32), 0) > 0:
        low, same = look_up(edges + at, d, counts, m, steps, COLUMNS)
        place = bins + row * (m + 1) + low + same.to(tl.int32)
        tl.atomic_add(place, 1, mask=counts, sem="relaxed")
        tl.atomic_add(equal + at + low, 1, mask=same, sem="relaxed")


def count_tile(
    tile: Any, a: Any, b: Any, mode: str, edges: Any, less: Any, bins: Any, equal: Any
) -> None:
    """Add a (queries, items) tile of exact products; a and b are the norms of rows and items."""
    rows, width = tile.shape
    m = edges.shape[1]
    if m <= LINEAR:
        _count_linear[(rows, triton.cdiv(width, _COLUMNS))](
            tile,
            a,
            b,
            edges,
            less,
            equal,
            width,
            tile.stride(0),
            m,
            MODE=MODES[mode],
            COLUMNS=_COLUMNS,
            num_warps=_WARPS,
            **ROUNDED,
        )
    else:
        _count_looked_up[(rows, triton.cdiv(width, _LOOKED_UP))](
            tile,
            a,
            b,
            edges,
            bins,
            equal,
            width,
            tile.stride(0),
            m,
            m.bit_length(),
            MODE=MODES[mode],
            COLUMNS=_LOOKED_UP,
            num_warps=8,
            **ROUNDED,
        )


@triton.jit
def by_fold(fold, table, row, column_of, columns, item, counts, WAYS: tl.constexpr):
    """Add counted items to their folds' columns of a table's row."""
    for way in tl.static_range(WAYS):
        column = tl.load(fold + item * WAYS + way, mask=counts, other=0).to(tl.int32)
        at = (row + column_of) * columns + column
        tl.atomic_add(table + at, 1, mask=counts, sem="relaxed")


@triton.jit(do_not_specialize=["width", "stride", "m", "steps", "columns"])
def _split_tile(
    tile,
    a,
    b,
    edges,
    rows,
    fold,
    place,
    bins,
    equal,
    width,
    stride,
    m,
    steps,
    columns,
    MODE: tl.constexpr,
    COLUMNS: tl.constexpr,
    WAYS: tl.constexpr,
):
    row = tl.load(rows + tl.program_id(0))
    mine = tl.load(place + row).to(tl.int64)
    item = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    held = item < width
    product = tl.load(tile + row * stride + item, mask=held, other=0.0)
    d = distance(product, tl.load(a + row), tl.load(b + item, mask=held, other=0.0), MODE)
    d = tl.where(held, d, float("inf"))
    counts = d <= tl.load(edges + row * m + m - 1)
    if tl.max(counts.to(tl.int32), 0) > 0:
        low, same = look_up(edges + row * m, d, counts, m, steps, COLUMNS)
        by_fold(fold, bins, mine * (m + 1), low + same.to(tl.int32), columns, item, counts, WAYS)
        by_fold(fold, equal, mine * m, low, columns, item, same, WAYS)


def split_tile(
    tile: Any, a: Any, b: Any, mode: str, edges: Any, rows: Any, split: Splitting
) -> None:
    """Add a tile as count_tile does, by fold, for the queries that are split."""
    width, m = tile.shape[1], edges.shape[1]
    _split_tile[(len(rows), triton.cdiv(width, _LOOKED_UP))](
        tile,
        a,
        b,
        edges,
        rows,
        split.fold,
        split.place,
        split.bins,
        split.equal,
        width,
        tile.stride(0),
        m,
        m.bit_length(),
        split.columns,
        MODE=MODES[mode],
        COLUMNS=_LOOKED_UP,
        WAYS=split.ways,
        num_warps=8,
        **ROUNDED,
    )


@triton.jit(do_not_specialize=["rows", "items"])
def _elementwise_tile(
    left,
    right,
    out,
    rows,
    items,
    dimension,
    CENTRE: tl.constexpr,
    UNEQUAL: tl.constexpr,
    SIDE: tl.constexpr,
):
    q = tl.program_id(0).to(tl.int64) * SIDE + tl.arange(0, SIDE)
    g = tl.program_id(1).to(tl.int64) * SIDE + tl.arange(0, SIDE)
    total = tl.zeros([SIDE, SIDE], tl.int64)
    for c in range(dimension):
        x = tl.load(left + q * dimension + c, mask=q < rows, other=0)
        y = tl.load(right + g * dimension + c, mask=g < items, other=0)
        if UNEQUAL:
            total += (x[:, None] != y[None, :]).to(tl.int64)
        else:
            total += tl.abs(x[:, None] - y[None, :])
    inside = (q < rows)[:, None] & (g < items)[None, :]
    tl.store(out + q[:, None] * items + g[None, :], (total - CENTRE).to(tl.float64), mask=inside)


def elementwise_tile(left: Any, right: Any, centre: int, *, unequal: bool) -> Any:
    """Sums of absolute differences (or numbers of unequal components) of int64 rows, centred."""
    rows, items = len(left), len(right)
    out = torch.empty((rows, items), dtype=torch.float64, device=left.device)
    side = 64
    _elementwise_tile[(triton.cdiv(rows, side), triton.cdiv(items, side))](
        left,
        right,
        out,
        rows,
        items,
        left.shape[1],
        CENTRE=centre,
        UNEQUAL=unequal,
        SIDE=side,
        **EXACT,
    )
    return out


# Triton kernels over whole rows of distances: what observers ask for, in one reading of them.


ROUNDED = {"enable_fp_fusion": False}
"""Options of kernels in which every operation is rounded, as on the CPU."""
_OBSERVED_COLUMNS = 1024
_STRIP = 16 * _OBSERVED_COLUMNS
"""Items that a program goes through, _COLUMNS at a time."""
_COPIES, _NUMBERS = 64, 1 << 20
"""Small tables are counted in several copies, lest programs wait for each other."""
_COLLECTED = 4096
_SPARSE = 32
"""At most one distance in so many is expected in a range; more are collected another way."""


@triton.jit(do_not_specialize=["items"])
def _nearer(distances, limit, found, items, COLUMNS: tl.constexpr, STRIP: tl.constexpr):
    q = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1) * STRIP
    most = tl.load(limit + q)
    count = tl.zeros([COLUMNS], tl.int32)
    for first in range(start, min(start + STRIP, items), COLUMNS):
        item = first + tl.arange(0, COLUMNS)
        d = tl.load(distances + q * items + item, mask=item < items, other=float("inf"))
        count += (d < most).to(tl.int32)
    tl.atomic_add(found + q, tl.sum(count, 0), sem="relaxed")


def nearer(distances: Any, limit: Any) -> Any:
    """How many items of each row are nearer than its limit."""
    rows, items = distances.shape
    found = torch.zeros(rows, dtype=torch.int32, device=distances.device)
    grid = (rows, triton.cdiv(items, _STRIP))
    _nearer[grid](
        distances, limit, found, items, COLUMNS=_OBSERVED_COLUMNS, STRIP=_STRIP, num_warps=4
    )
    return found


@triton.jit(do_not_specialize=["items"])
def _count_on_grid(
    distances,
    grid,
    axis,
    counts,
    items,
    LAST: tl.constexpr,
    COLUMNS: tl.constexpr,
    STRIP: tl.constexpr,
):
    q = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1) * STRIP
    low = tl.load(axis)
    scale = tl.load(axis + 1)
    for first in range(start, min(start + STRIP, items), COLUMNS):
        item = first + tl.arange(0, COLUMNS)
        inside = item < items
        d = tl.load(distances + q * items + item, mask=inside, other=0.0)
        place = tl.maximum(tl.minimum((d - low) * scale, LAST - 1.0), 0.0).to(tl.int32) + 1
        place += (d > tl.load(grid + place, mask=inside, other=0.0)).to(tl.int32)
        place = tl.where(d <= tl.load(grid), 0, place)
        tl.atomic_add(counts + q * (LAST + 2) + place, 1, mask=inside, sem="relaxed")


def count_on_grid(distances: Any, grid: Any, low: float, scale: float | None) -> Any:
    """(rows, cuts + 1): distances that each cut accepts, and all of them."""
    if scale is None:
        return torch_kernels.count_on_grid(distances, grid, low, scale)
    rows, items = distances.shape
    counts = torch.zeros((rows, len(grid) + 1), dtype=torch.int32, device=grid.device)
    # in a tensor: as arguments they would be float32
    axis = torch.tensor([low, scale], dtype=torch.float64, device=grid.device)
    _count_on_grid[(rows, triton.cdiv(items, _STRIP))](
        distances,
        grid,
        axis,
        counts,
        items,
        LAST=len(grid) - 1,
        COLUMNS=_OBSERVED_COLUMNS,
        STRIP=_STRIP,
        num_warps=4,
        **ROUNDED,
    )
    return torch.cumsum(counts, 1, dtype=torch.int32)


@triton.jit
def _place(d, is_near, at, start, low, scale, cells, steps):
    """The first cut that each near distance does not exceed; see truerank.engine.blocks.tally."""
    d = tl.where(is_near, d, low)
    cell = tl.maximum((d - low) * scale, 0.0)
    cell = tl.minimum(cell, cells.to(tl.float64)).to(tl.int64)
    place = tl.load(start + cell, mask=is_near, other=0)
    after = tl.load(start + cell + 1, mask=is_near, other=0)
    for _ in range(steps):
        middle = (place + after) >> 1
        some = is_near & (place < after)
        above = some & (tl.load(at + middle, mask=some, other=0.0) < d)
        place = tl.where(above, middle + 1, place)
        after = tl.where(above, after, middle)
    return place


@triton.jit(do_not_specialize=["items", "cuts", "cells", "steps", "copies", "size"])
def _tally(
    distances,
    at,
    start,
    axis,
    who,
    found,
    items,
    cuts,
    cells,
    steps,
    copies,
    size,
    TURNED: tl.constexpr,
    COLUMNS: tl.constexpr,
    STRIP: tl.constexpr,
):
    q = tl.program_id(0).to(tl.int64)
    begin = tl.program_id(1) * STRIP
    low = tl.load(axis)
    scale = tl.load(axis + 1)
    last = tl.load(at + cuts - 1)
    mine = found + ((q + tl.program_id(1)) % copies) * size
    if not TURNED:
        mine += tl.load(who + q) * (cuts + 1)
    beyond = tl.zeros([COLUMNS], tl.int32)
    for first in range(begin, min(begin + STRIP, items), COLUMNS):
        item = first + tl.arange(0, COLUMNS)
        inside = item < items
        d = tl.load(distances + q * items + item, mask=inside, other=float("inf"))
        is_near = d <= last
        is_beyond = (d > last) & (d < float("inf"))
        row = tl.zeros([COLUMNS], tl.int64)
        if TURNED:
            row += tl.load(who + item, mask=inside, other=0) * (cuts + 1)
            tl.atomic_add(mine + row + cuts, 1, mask=is_beyond, sem="relaxed")
        else:
            beyond += is_beyond.to(tl.int32)
        if tl.max(is_near.to(tl.int32), 0) > 0:
            place = _place(d, is_near, at, start, low, scale, cells, steps)
            tl.atomic_add(mine + row + place, 1, mask=is_near, sem="relaxed")
    if not TURNED:
        tl.atomic_add(mine + cuts, tl.sum(beyond, 0), sem="relaxed")


def tally(distances: Any, cuts: DeviceCuts, who: Any, owners: int, *, turned: bool) -> Any:
    """(owners, cuts + 1): finite distances up to each cut and above the one before, by the owner of
    their row, or of their column if turned."""
    rows, items = distances.shape
    size = owners * (len(cuts.at) + 1)
    copies = max(1, min(_COPIES, _NUMBERS // size))
    found = torch.zeros((copies, size), dtype=torch.int32, device=distances.device)
    _tally[(rows, triton.cdiv(items, _STRIP))](
        distances,
        cuts.at,
        cuts.start,
        cuts.axis,
        who,
        found,
        items,
        len(cuts.at),
        len(cuts.start) - 2,
        cuts.steps,
        copies,
        size,
        TURNED=turned,
        COLUMNS=_OBSERVED_COLUMNS,
        STRIP=_STRIP,
        num_warps=4,
        **ROUNDED,
    )
    return found.sum(0).view(owners, -1)


@triton.jit(do_not_specialize=["items", "cuts", "cells", "steps", "columns"])
def _tally_by_fold(
    distances,
    at,
    start,
    axis,
    who,
    fold,
    found,
    items,
    cuts,
    cells,
    steps,
    columns,
    TURNED: tl.constexpr,
    WAYS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STRIP: tl.constexpr,
):
    q = tl.program_id(0).to(tl.int64)
    begin = tl.program_id(1) * STRIP
    low = tl.load(axis)
    scale = tl.load(axis + 1)
    last = tl.load(at + cuts - 1)
    for first in range(begin, min(begin + STRIP, items), COLUMNS):
        item = first + tl.arange(0, COLUMNS)
        d = tl.load(distances + q * items + item, mask=item < items, other=float("inf"))
        is_near = d <= last
        if tl.max(is_near.to(tl.int32), 0) > 0:
            place = _place(d, is_near, at, start, low, scale, cells, steps)
            one, other = q, item
            if TURNED:
                one, other = item, q
            owner = tl.load(who + one + 0 * item, mask=is_near, other=0)
            for way in tl.static_range(WAYS):
                column = tl.load(fold + (other + 0 * item) * WAYS + way, mask=is_near, other=0)
                table = (owner * columns + column) * cuts
                tl.atomic_add(found + table + place, 1, mask=is_near, sem="relaxed")


def tally_by_fold(
    distances: Any,
    cuts: DeviceCuts,
    who: Any,
    owners: int,
    fold: Any,
    columns: int,
    *,
    turned: bool,
) -> Any:
    """(owners, columns, cuts): distances up to each cut and above the one before, by the owner of
    their row and the folds of their column, or the other way round if turned."""
    rows, items = distances.shape
    shape = (owners, columns, len(cuts.at))
    found = torch.zeros(shape, dtype=torch.int32, device=distances.device)
    _tally_by_fold[(rows, triton.cdiv(items, _STRIP))](
        distances,
        cuts.at,
        cuts.start,
        cuts.axis,
        who,
        fold,
        found,
        items,
        len(cuts.at),
        len(cuts.start) - 2,
        cuts.steps,
        columns,
        TURNED=turned,
        WAYS=fold.shape[1],
        COLUMNS=_OBSERVED_COLUMNS,
        STRIP=_STRIP,
        num_warps=4,
        **ROUNDED,
    )
    return found


@triton.jit(do_not_specialize=["count", "room"])
def _between(distances, ends, found, out, count, room, RANGES: tl.constexpr, PART: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * PART + tl.arange(0, PART)
    d = tl.load(distances + place, mask=place < count, other=float("inf"))
    for number in tl.static_range(RANGES):
        low = tl.load(ends + 2 * number)
        high = tl.load(ends + 2 * number + 1)
        is_inside = (d > low) & (d <= high)
        one = is_inside.to(tl.int32)
        held = tl.sum(one, 0)
        if held > 0:
            slot = tl.atomic_add(found + number, held, sem="relaxed") + tl.cumsum(one, 0) - 1
            slot = slot.to(tl.int64)
            tl.store(out + number * room + slot, d, mask=is_inside & (slot < room))


def between(distances: Any, ranges: Sequence[DistanceRange]) -> list[Any]:
    """The distances in each range (low, high], in no order; ends must be finite above."""
    if not ranges:
        return []
    count = distances.numel()
    room = count // _SPARSE + 1
    device = distances.device
    ends = torch.tensor(ranges, dtype=torch.float64, device=device)
    found = torch.zeros(len(ranges), dtype=torch.int32, device=device)
    out = torch.empty((len(ranges), room), dtype=torch.float64, device=device)
    _between[(triton.cdiv(count, _COLLECTED),)](
        distances, ends, found, out, count, room, RANGES=len(ranges), PART=_COLLECTED, num_warps=8
    )
    held = zip(out, found.tolist(), ranges, strict=True)
    return [
        part[:number] if number <= room else torch_kernels.between(distances, [one])[0]
        for part, number, one in held
    ]
