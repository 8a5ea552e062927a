"""Triton kernels: tiles of exact distances into counts at each threshold.

A query's thresholds are its distinct mate distances u_0 < u_1 < ..., right-aligned in a row of
`edges` (unused places in front hold -inf). Kernels add to `less` (items nearer than u_j), `equal`
(items at u_j) and `bins` (an item in bin j is nearer than u_j, u_{j+1}, ...). These are integers:
the order in which programs run cannot show.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from truerank.engine.cuda.observer_kernels import (
    ROUNDED,
    between,
    count_on_grid,
    nearer,
    tally,
    tally_by_fold,
)
from truerank.engine.cuda.splitting import Splitting

__all__ = [
    "EXACT",
    "FUSED",
    "MODES",
    "between",
    "by_fold",
    "count_on_grid",
    "count_tile",
    "distance",
    "elementwise_tile",
    "fill_distances",
    "look_up",
    "nearer",
    "pair_products",
    "split_tile",
    "tally",
    "tally_by_fold",
]

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
    """The distance from a product and two norms; see truerank.space.inner for why it is exact,
    and truerank.space.cosine and short for what is more."""
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
