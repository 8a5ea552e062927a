"""Triton kernels: tiles of distances, or of approximate products, into counts at each threshold.

A query's thresholds are its distinct mate distances u_0 < u_1 < ..., right-aligned in a row of
`edges` (unused places in front hold -inf). Kernels add to `less` (items nearer than u_j), `equal`
(items at u_j) and `bins` (an item in bin j is nearer than u_j, u_{j+1}, ...). These are integers:
the order in which programs run cannot show.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import os
from typing import Any

import torch
import triton
import triton.language as tl

from truerank.engine.cuda import torch_kernels

__all__ = [
    "FUSED",
    "count_on_grid",
    "count_tile",
    "elementwise_tile",
    "fill_distances",
    "filter_products",
    "filter_tile",
    "pair_products",
    "refine",
]

FUSED = True
"""Whether the low-precision filter exists here."""

LINEAR = 64
"""Up to this many thresholds a query, the filter compares each with every item; beyond, items are
looked up by bisection."""
LINEAR_EXACT = 16
"""The same for exact tiles."""

_AS_IS = tl.constexpr(0)
_SQUARED = tl.constexpr(1)
_EUCLIDEAN = tl.constexpr(2)
_ZERO = tl.constexpr(2.0**51)
_NOWHERE = tl.constexpr(-(2.0**19))
"""Scaled products stay below 2^17 in size: this one belongs to no item."""
_OPEN = tl.constexpr(-(2.0**20))
"""And this one to an item that the filter cannot decide."""

_FARTHEST = tl.constexpr(2.0**18)
_WIDER = tl.constexpr(1.0 + 2.0**-20)
_ASSEMBLY = tl.constexpr(os.environ.get("TRITON_INTERPRET") != "1")
"""Triton's interpreter, good for looking at these kernels without a GPU, knows none."""

MODES = {"as is": 0, "squared": 1, "euclidean": 2}
_SHAPE = (128, 128, 4, 3)
"""Rows and items of the filter's tiles, warps and stages: the fastest of those tried on an H200."""
_LOOKED_UP_SHAPE = (64, 64, 4, 3)
_EXACT = {"enable_fp_fusion": True}
"""Where sums are exact, fusing a product into them changes nothing."""
_ROUNDED = {"enable_fp_fusion": False}
_COLUMNS, _WARPS = 2048, 4
_ON_GRID = 1024
_LOOKED_UP = 2048


@triton.jit
def _distance(product, a, b, MODE: tl.constexpr):
    """The distance from a product and two norms; see truerank.space.inner for why it is exact."""
    if MODE == _SQUARED:
        d = (a + b) - 2.0 * product
        d = tl.where(tl.minimum(a, b) < 0, _ZERO, d)  # a row without a direction
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
    d = _distance(product, tl.load(a + row), tl.load(b + column, mask=held, other=0.0), MODE)
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
        **_ROUNDED,
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
            left, right, query, item, out, len(query), dimension, PAIRS=16, PART=part, **_EXACT
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
    d = _distance(product, tl.load(a + row), tl.load(b + column, mask=held, other=0.0), MODE)
    d = tl.where(held, d, float("inf"))
    nearest = tl.min(d, 0)
    at = row * m
    j = m - 1
    u = tl.load(edges + at + j)
    while (j >= 0) & (nearest <= u):  # most tiles end here: everything lies beyond the last mate
        both = tl.sum((d < u).to(tl.int32) + ((d == u).to(tl.int32) << 16), 0)
        tl.atomic_add(less + at + j, both & 0xFFFF)
        tl.atomic_add(equal + at + j, both >> 16, mask=both > 0xFFFF)
        j -= 1
        u = tl.load(edges + at + tl.maximum(j, 0))


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
    d = _distance(product, tl.load(a + row), tl.load(b + column, mask=held, other=0.0), MODE)
    at = row * m
    d = tl.where(held, d, float("inf"))
    counts = d <= tl.load(edges + at + m - 1)
    if tl.max(counts.to(tl.int32), 0) > 0:
        low = tl.zeros([COLUMNS], tl.int32)
        high = low + (m - 1)
        for _ in range(steps):
            middle = (low + high) >> 1
            u = tl.load(edges + at + middle, mask=counts, other=0.0)
            beyond = (u < d) & (low < high)
            low = tl.where(beyond, middle + 1, low)
            high = tl.where(beyond, high, middle)
        same = counts & (tl.load(edges + at + low, mask=counts, other=0.0) == d)
        tl.atomic_add(bins + row * (m + 1) + low + same.to(tl.int32), 1, mask=counts)
        tl.atomic_add(equal + at + low, 1, mask=same)


def count_tile(
    tile: Any, a: Any, b: Any, mode: str, edges: Any, less: Any, bins: Any, equal: Any
) -> None:
    """Add a (queries, items) tile of exact products; a and b are the norms of rows and items."""
    rows, width = tile.shape
    m = edges.shape[1]
    if m <= LINEAR_EXACT:
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
            **_ROUNDED,
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
            **_ROUNDED,
        )


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
    axis = torch.tensor([low, scale], dtype=torch.float64, device=grid.device)  # not as arguments,
    strip = 16 * _ON_GRID  # which would be float32
    _count_on_grid[(rows, triton.cdiv(items, strip))](
        distances,
        grid,
        axis,
        counts,
        items,
        LAST=len(grid) - 1,
        COLUMNS=_ON_GRID,
        STRIP=strip,
        num_warps=4,
        **_ROUNDED,
    )
    return torch.cumsum(counts, 1, dtype=torch.int32)


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
        **_EXACT,
    )
    return out


@triton.jit
def _product(
    left,
    right,
    DIMENSION: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
    q,
    g,
):
    """Products of half-precision rows in the tensor cores, accumulated in float32."""
    c = tl.arange(0, DEPTH)
    x_at = left + q.to(tl.int64)[:, None] * DIMENSION + c[None, :]
    y_at = right + g.to(tl.int64)[None, :] * DIMENSION + c[:, None]
    total = tl.zeros([ROWS, ITEMS], tl.float32)
    for _ in range(0, DIMENSION, DEPTH):
        total = tl.dot(tl.load(x_at), tl.load(y_at), total)
        x_at += DEPTH
        y_at += DEPTH
    return total


@triton.jit
def _append(found, entries, q, g, open_, room, ITEMS: tl.constexpr):
    """Write down the open items of each query, 32 of them a word, and count the words.

    An entry is the number of the word and its bits; beyond `room` only the count goes on.
    """
    row = q.to(tl.int64)
    for word in tl.static_range(ITEMS // 32):
        local = g % ITEMS
        bit = tl.where(open_ & (local // 32 == word)[None, :], (1 << (local % 32))[None, :], 0)
        bits = tl.sum(bit, 1)
        some = bits != 0
        slot = tl.atomic_add(found + row, 1, mask=some, sem="relaxed")
        number = (tl.min(g, 0) // 32 + word).to(tl.int64)
        entry = (number << 32) | (bits.to(tl.int64) & 0xFFFFFFFF)
        tl.store(entries + row * room + slot, entry, mask=some & (slot < room))


@triton.jit
def _above(product, high):
    """1.0 where product > high, else 0.0, in one multiply-add that saturates to [0, 1].

    |high| is at least 2^-36 and infinite at most, so a product above it is so by 2^-60 or more.
    """
    if _ASSEMBLY:
        return tl.inline_asm_elementwise(
            "fma.rn.sat.f32 $0, $1, 0f5D800000, $2;",  # times 2^60
            "=f,f,f",
            [product, high * -(2.0**60)],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    return (product > high).to(tl.float32)


@triton.jit(do_not_specialize=["queries", "items", "m", "room"])
def _filter_linear(
    left,
    right,
    sure,
    lost,
    less,
    found,
    entries,
    queries,
    items,
    m,
    room,
    DIMENSION: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    """A product above sure[q, j] is nearer than u_j, one below lost[q, j] is farther.

    Thresholds are visited from the farthest mate inwards, until no item of the tile reaches them:
    once to find the open items, and once to count the others.
    """
    q, g = _place(queries, items, ROWS, ITEMS, GROUP)
    product = _product(left, right, DIMENSION, ROWS, ITEMS, DEPTH, q, g)
    product = tl.where((g < items)[None, :], product, _NOWHERE)
    best = tl.max(product, 1)
    real = q < queries
    at = q.to(tl.int64) * m
    j = m - 1
    low = tl.load(lost + at + j, mask=real, other=float("inf"))
    reached = tl.max((best >= low).to(tl.int32), 0)
    while (reached > 0) & (j >= 0):
        low = tl.load(lost + at + j, mask=real, other=float("inf"))
        high = tl.load(sure + at + j, mask=real, other=float("inf"))
        # One comparison instead of two: around the middle, and a little wider for its rounding.
        middle = 0.5 * (low + high)
        reach = tl.maximum(high - middle, middle - low) * _WIDER
        reach = tl.where(high < _FARTHEST, reach, -1.0)  # no such threshold
        beside = tl.abs(product - middle[:, None])
        product = tl.where(beside <= reach[:, None], _OPEN, product)
        j -= 1
        low = tl.load(lost + at + tl.maximum(j, 0), mask=real, other=float("inf"))
        reached = tl.max((best >= low).to(tl.int32), 0)
    for threshold in range(j + 1, m):
        high = tl.load(sure + at + threshold, mask=real, other=float("inf"))
        count = tl.sum(_above(product, high[:, None]), 1).to(tl.int32)
        tl.atomic_add(less + at + threshold, count, mask=count > 0, sem="relaxed")
    open_ = product < _NOWHERE
    if tl.max(tl.max(open_.to(tl.int32), 1), 0) > 0:
        _append(found, entries, q, g, open_, room, ITEMS)


@triton.jit
def _place(queries, items, ROWS: tl.constexpr, ITEMS: tl.constexpr, GROUP: tl.constexpr):
    """This program's rows and items; neighbouring programs share items, which stay in the cache."""
    tall = tl.cdiv(queries, ROWS)
    wide = tl.cdiv(items, ITEMS)
    program = tl.program_id(0)
    group = program // (GROUP * wide)
    height = tl.minimum(tall - group * GROUP, GROUP)
    inside = program % (GROUP * wide)
    q = (group * GROUP + inside % height) * ROWS + tl.arange(0, ROWS)
    g = (inside // height) * ITEMS + tl.arange(0, ITEMS)
    return q, g


@triton.jit(do_not_specialize=["queries", "items", "m", "room", "steps"])
def _filter_looked_up(
    left,
    right,
    sure,
    lost,
    bins,
    found,
    entries,
    queries,
    items,
    m,
    room,
    steps,
    DIMENSION: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    """The same by bisection among the thresholds, which fall with j as products."""
    q, g = _place(queries, items, ROWS, ITEMS, GROUP)
    product = _product(left, right, DIMENSION, ROWS, ITEMS, DEPTH, q, g)
    product = tl.where((g < items)[None, :], product, _NOWHERE)
    real = q < queries
    at = q.to(tl.int64)[:, None] * m
    last = tl.load(lost + q.to(tl.int64) * m + m - 1, mask=real, other=float("inf"))
    counts = product >= last[:, None]
    if tl.max(tl.max(counts.to(tl.int32), 1), 0) > 0:
        low = tl.zeros([ROWS, ITEMS], tl.int32)
        high = low + m
        for _ in range(steps):
            middle = (low + high) >> 1
            some = counts & (low < high)
            h = tl.load(sure + at + middle, mask=some, other=0.0)
            above = some & (h >= product)
            low = tl.where(above, middle + 1, low)
            high = tl.where(above, high, middle)
        before = tl.load(lost + at + low - 1, mask=counts & (low > 0), other=float("inf"))
        open_ = counts & (product >= before)
        tl.atomic_add(
            bins + q.to(tl.int64)[:, None] * (m + 1) + low,
            1,
            mask=counts & (low < m) & (product < before),
            sem="relaxed",
        )
        if tl.max(tl.max(open_.to(tl.int32), 1), 0) > 0:
            _append(found, entries, q, g, open_, room, ITEMS)


def filter_tile(
    left: Any,
    right: Any,
    queries: int,
    items: int,
    sure: Any,
    lost: Any,
    less: Any,
    bins: Any,
    found: Any,
    entries: Any,
) -> None:
    """Count what half-precision products decide; words of open items go to `entries`.

    Rows of `left` and `right` are padded with zero rows to multiples of 256 and their dimension to
    one of 64.
    """
    m = sure.shape[1]
    shape = {"DIMENSION": left.shape[1], "DEPTH": 64, "GROUP": 16, **_EXACT}
    if m <= LINEAR:
        rows, columns, warps, stages = _SHAPE
        grid = (triton.cdiv(queries, rows) * triton.cdiv(items, columns),)
        _filter_linear[grid](
            left,
            right,
            sure,
            lost,
            less,
            found,
            entries,
            queries,
            items,
            m,
            entries.shape[1],
            ROWS=rows,
            ITEMS=columns,
            num_warps=warps,
            num_stages=stages,
            **shape,
        )
    else:
        rows, columns, warps, stages = _LOOKED_UP_SHAPE
        grid = (triton.cdiv(queries, rows) * triton.cdiv(items, columns),)
        _filter_looked_up[grid](
            left,
            right,
            sure,
            lost,
            bins,
            found,
            entries,
            queries,
            items,
            m,
            entries.shape[1],
            m.bit_length(),
            ROWS=rows,
            ITEMS=columns,
            num_warps=warps,
            num_stages=stages,
            **shape,
        )


@triton.jit
def _filter_products(
    left,
    right,
    out,
    DIMENSION: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    q = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    g = tl.program_id(1) * ITEMS + tl.arange(0, ITEMS)
    product = _product(left, right, DIMENSION, ROWS, ITEMS, DEPTH, q, g)
    wide = tl.num_programs(1) * ITEMS
    tl.store(out + q[:, None] * wide + g[None, :], product)


def filter_products(left: Any, right: Any) -> Any:
    """The products that the filter sees, for the probe of this device's accumulation."""
    out = torch.empty((len(left), len(right)), dtype=torch.float32, device=left.device)
    _filter_products[(len(left) // 128, len(right) // 128)](
        left,
        right,
        out,
        DIMENSION=left.shape[1],
        ROWS=128,
        ITEMS=128,
        DEPTH=64,
        num_warps=4,
        num_stages=3,
        **_EXACT,
    )
    return out


@triton.jit(do_not_specialize=["m", "room", "steps"])
def _refine(
    left,
    right,
    a,
    b,
    edges,
    found,
    entries,
    bins,
    equal,
    m,
    room,
    dimension,
    steps,
    PAIRS: tl.constexpr,
    PART: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    number = tl.load(found + row)
    number = tl.where(number > room, 0, number)  # too many: the whole row is counted exactly
    own = tl.load(a + row)
    at = row * m
    for start in range(tl.program_id(1) * PAIRS, number, PAIRS * tl.num_programs(1)):
        p = start + tl.arange(0, PAIRS)
        entry = tl.load(entries + row * room + p, mask=p < number, other=0)
        bits = entry & 0xFFFFFFFF
        while tl.max(bits, 0) > 0:
            held = bits > 0
            lowest = bits & (-bits)
            bits -= lowest
            # The logarithm of a power of two; a half keeps its last bit from mattering.
            place = (tl.log2(tl.maximum(lowest, 1).to(tl.float32)) + 0.5).to(tl.int64)
            g = tl.where(held, (entry >> 32) * 32 + place, 0)
            total = tl.zeros([PAIRS, PART], tl.float64)
            for part in range(0, dimension, PART):
                c = part + tl.arange(0, PART)
                x = tl.load(left + row * dimension + c, mask=c < dimension, other=0)
                y = tl.load(
                    right + g[:, None] * dimension + c[None, :],
                    mask=held[:, None] & (c < dimension)[None, :],
                    other=0,
                )
                total += x.to(tl.float64)[None, :] * y.to(tl.float64)
            d = _distance(tl.sum(total, 1), own, tl.load(b + g), _SQUARED)
            counts = held & (d <= tl.load(edges + at + m - 1))
            low = tl.zeros([PAIRS], tl.int32)
            high = low + (m - 1)
            for _ in range(steps):
                middle = (low + high) >> 1
                u = tl.load(edges + at + middle, mask=counts, other=0.0)
                beyond = (u < d) & (low < high)
                low = tl.where(beyond, middle + 1, low)
                high = tl.where(beyond, high, middle)
            same = counts & (tl.load(edges + at + low, mask=counts, other=0.0) == d)
            tl.atomic_add(bins + row * (m + 1) + low + same.to(tl.int32), 1, mask=counts)
            tl.atomic_add(equal + at + low, 1, mask=same)


def refine(
    left: Any,
    right: Any,
    a: Any,
    b: Any,
    edges: Any,
    found: Any,
    entries: Any,
    bins: Any,
    equal: Any,
) -> None:
    """Decide the open pairs by exact products of integer rows.

    Rows with more open pairs than there was room for are left alone.
    """
    dimension = left.shape[1]
    m = edges.shape[1]
    _refine[(len(left), 4)](
        left,
        right,
        a,
        b,
        edges,
        found,
        entries,
        bins,
        equal,
        m,
        entries.shape[1],
        dimension,
        m.bit_length(),
        PAIRS=16,
        PART=min(128, triton.next_power_of_2(dimension)),
        **_EXACT,
    )
