"""Triton kernels of the filter: products in half precision, what they decide and leave open.

Of each row of products, the items within the query's farthest mate are listed, looked up among its
thresholds (see truerank.engine.cuda.triton_kernels) and counted; open ones are refined exactly.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from truerank.engine.cuda.splitting import Splitting
from truerank.engine.cuda.triton_kernels import EXACT, MODES, by_fold, distance, look_up

__all__ = [
    "half_product",
    "half_products",
    "list_near",
    "place_of_tile",
    "refine",
    "room_for_products",
    "settle",
]

_TILE: dict[str, Any] = {
    "ROWS": 128,
    "ITEMS": 128,
    "DEPTH": 64,
    "GROUP": 16,
    "num_warps": 4,
    "num_stages": 3,
    **EXACT,
}
"""The filter's tiles: the fastest of those tried on an H200."""
_LISTED, _PARTS = 2048, 8


@triton.jit
def half_product(
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
def place_of_tile(queries, items, ROWS: tl.constexpr, ITEMS: tl.constexpr, GROUP: tl.constexpr):
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


@triton.jit(do_not_specialize=["queries", "items"])
def _half_products(
    left,
    right,
    out,
    queries,
    items,
    stride,
    DIMENSION: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    q, g = place_of_tile(queries, items, ROWS, ITEMS, GROUP)
    product = half_product(left, right, DIMENSION, ROWS, ITEMS, DEPTH, q, g)
    tl.store(out + q.to(tl.int64)[:, None] * stride + g[None, :], product)


def room_for_products(queries: int, items: int, device: Any) -> Any:
    """An empty matrix for half_products, padded to whole tiles."""
    tall = triton.cdiv(queries, _TILE["ROWS"]) * _TILE["ROWS"]
    wide = triton.cdiv(items, _LISTED) * _LISTED
    return torch.empty((tall, wide), dtype=torch.float32, device=device)


def half_products(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
    """Products of half-precision rows.

    Rows of `left` and `right` are padded to multiples of 256, and their dimension to one of 64.
    """
    tiles = triton.cdiv(queries, _TILE["ROWS"]) * triton.cdiv(items, _TILE["ITEMS"])
    _half_products[(tiles,)](
        left, right, out, queries, items, out.stride(0), DIMENSION=left.shape[1], **_TILE
    )


@triton.jit(do_not_specialize=["items", "m", "room"])
def _list_near(
    products,
    lost,
    found,
    near,
    items,
    stride,
    m,
    room,
    COLUMNS: tl.constexpr,
    PARTS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    last = tl.load(lost + row * m + m - 1)
    for part in range(PARTS):
        item = (tl.program_id(1) * PARTS + part) * COLUMNS + tl.arange(0, COLUMNS)
        product = tl.load(products + row * stride + item)  # without a mask: in whole words
        is_near = (product >= last) & (item < items)
        one = is_near.to(tl.int32)
        number = tl.sum(one, 0)
        if number > 0:
            slot = tl.atomic_add(found + row, number, sem="relaxed") + tl.cumsum(one, 0) - 1
            bits = product.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
            tl.store(near + row * room + slot, (item.to(tl.int64) << 32) | bits, mask=is_near)


def list_near(products: Any, queries: int, items: int, lost: Any, found: Any, near: Any) -> None:
    """Write down the items that may lie within each query's farthest mate.

    An entry is the item's number and the bits of its product; `near` has a place for each item.
    """
    _list_near[(queries, triton.cdiv(items, _LISTED))](
        products,
        lost,
        found,
        near,
        items,
        products.stride(0),
        lost.shape[1],
        near.stride(0),
        COLUMNS=_LISTED // _PARTS,
        PARTS=_PARTS,
        num_warps=1,
    )


@triton.jit(do_not_specialize=["m", "near_room", "room", "steps", "columns"])
def _settle(
    sure,
    lost,
    near_found,
    near,
    bins,
    found,
    entries,
    fold,
    place,
    split_bins,
    split_equal,
    m,
    near_room,
    room,
    steps,
    columns,
    PART: tl.constexpr,
    WAYS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    number = tl.load(near_found + row)
    at = row * m
    for start in range(tl.program_id(1) * PART, number, PART * tl.num_programs(1)):
        p = start + tl.arange(0, PART)
        held = p < number
        entry = tl.load(near + row * near_room + p, mask=held, other=0)
        product = (entry & 0xFFFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
        low = tl.zeros([PART], tl.int32)
        high = low + m
        for _ in range(steps):
            middle = (low + high) >> 1
            some = held & (low < high)
            above = some & (tl.load(sure + at + middle, mask=some, other=0.0) >= product)
            low = tl.where(above, middle + 1, low)
            high = tl.where(above, high, middle)
        before = tl.load(lost + at + low - 1, mask=held & (low > 0), other=float("inf"))
        open_ = held & (product >= before)
        counts = held & (low < m) & (product < before)
        tl.atomic_add(bins + row * (m + 1) + low, 1, mask=counts, sem="relaxed")
        if WAYS > 0:
            mine = tl.load(place + row).to(tl.int64)
            if mine >= 0:
                item = entry >> 32
                by_fold(fold, split_bins, mine * (m + 1), low, columns, item, counts, WAYS)
        one = open_.to(tl.int32)
        slot = tl.atomic_add(found + row, tl.sum(one, 0), sem="relaxed") + tl.cumsum(one, 0) - 1
        tl.store(entries + row * room + slot, entry >> 32, mask=open_ & (slot < room))


def settle(
    sure: Any,
    lost: Any,
    near_found: Any,
    near: Any,
    bins: Any,
    found: Any,
    entries: Any,
    split: Splitting | None,
) -> None:
    """Count the listed items that half precision decides; the open ones go to `entries`.

    A product above sure[q, j] is nearer than u_j, one below lost[q, j] is farther. Both fall with
    j, so that an item's place is found by bisection.
    """
    m = sure.shape[1]
    _settle[(len(sure), 2)](
        sure,
        lost,
        near_found,
        near,
        bins,
        found,
        entries,
        *_tables(split),
        m,
        near.shape[1],
        entries.shape[1],
        m.bit_length(),
        0 if split is None else split.columns,
        PART=256,
        WAYS=0 if split is None else split.ways,
        num_warps=4,
        **EXACT,
    )


def _tables(split: Splitting | None) -> tuple[Any, Any, Any, Any]:
    if split is None:
        return None, None, None, None
    return split.fold, split.place, split.bins, split.equal


@triton.jit(do_not_specialize=["m", "room", "steps", "columns"])
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
    fold,
    place,
    split_bins,
    split_equal,
    m,
    room,
    dimension,
    steps,
    columns,
    MODE: tl.constexpr,
    PAIRS: tl.constexpr,
    PART: tl.constexpr,
    WAYS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    number = tl.load(found + row)
    number = tl.where(number > room, 0, number)  # too many: the whole row is counted exactly
    own = tl.load(a + row)
    at = row * m
    for start in range(tl.program_id(1) * PAIRS, number, PAIRS * tl.num_programs(1)):
        p = start + tl.arange(0, PAIRS)
        held = p < number
        g = tl.load(entries + row * room + p, mask=held, other=0).to(tl.int64)
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
        d = distance(tl.sum(total, 1), own, tl.load(b + g), MODE)
        counts = held & (d <= tl.load(edges + at + m - 1))
        low, same = look_up(edges + at, d, counts, m, steps, PAIRS)
        place_of = bins + row * (m + 1) + low + same.to(tl.int32)
        tl.atomic_add(place_of, 1, mask=counts, sem="relaxed")
        tl.atomic_add(equal + at + low, 1, mask=same, sem="relaxed")
        if WAYS > 0:
            mine = tl.load(place + row).to(tl.int64)
            if mine >= 0:
                after = low + same.to(tl.int32)
                by_fold(fold, split_bins, mine * (m + 1), after, columns, g, counts, WAYS)
                by_fold(fold, split_equal, mine * m, low, columns, g, same, WAYS)


def refine(
    left: Any,
    right: Any,
    a: Any,
    b: Any,
    mode: str,
    edges: Any,
    found: Any,
    entries: Any,
    bins: Any,
    equal: Any,
    split: Splitting | None,
) -> None:
    """Decide the open pairs by exact products of integer rows.

    Rows with more open pairs than `entries` holds are not touched.
    """
    dimension = left.shape[1]
    m = edges.shape[1]
    _refine[(len(left), 2)](
        left,
        right,
        a,
        b,
        edges,
        found,
        entries,
        bins,
        equal,
        *_tables(split),
        m,
        entries.shape[1],
        dimension,
        m.bit_length(),
        0 if split is None else split.columns,
        MODE=MODES[mode],
        PAIRS=16,
        PART=min(128, triton.next_power_of_2(dimension)),
        WAYS=0 if split is None else split.ways,
        **EXACT,
    )
