"""Triton kernels that compare products in half precision where they are made.

Of a tile, only parts reach memory in which one product matters: for its row, and, where the items
are queries themselves, for its column. So each pair is multiplied once for both of its queries.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from truerank.engine.cuda.half_kernels import TILE, half_product, place_of_tile
from truerank.engine.cuda.near import PART, Near

__all__ = ["count_fine", "near_products"]

_MORE_WARPS = TILE | {"num_warps": 8}
"""For kernels that compare where they multiply."""
_BOTH = _MORE_WARPS | {"maxnreg": 128}
"""Two programs at a time on each multiprocessor: one compares while the other multiplies."""
_PART: tl.constexpr = tl.constexpr(PART)
_DIRECT: tl.constexpr = tl.constexpr(torch.version.hip is None)
_STORE: tl.constexpr = tl.constexpr(
    "{ .reg .pred %kept; .reg .b64 %at; setp.ne.s32 %kept, $3, 0; mad.wide.u32 %at, $2, 4, $1; "
    "@%kept st.global.f32 [%at], $4; mov.b32 $0, 0; }"
)


@triton.jit
def _put(base, place, kept, value):
    """Store float32 numbers from the layout that they have.

    tl.store would first exchange them between threads, through shared memory, which the products
    need for themselves: a tile that is kept both ways took half as long again.
    """
    if _DIRECT:
        tl.inline_asm_elementwise(
            _STORE,
            "=r,l,r,r,f",
            [base.to(tl.int64), place, kept.to(tl.int32), value],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
    else:
        tl.store(base + place, value, mask=kept)


@triton.jit
def _keep_rows(product, near, q, g, queries, items, flags, products, places, PARTS: tl.constexpr):
    """Keep the near parts of a tile (rows, parts, items of a part): their products, each in its own
    place, and a flag for every part, near or not."""
    part = tl.min(g, 0) // _PART + tl.arange(0, PARTS)
    near &= (part * _PART < items)[None, :]  # rows behind the items may be anything
    at = q[:, None] * places + part[None, :]
    there = (q < queries)[:, None] & (part < places)[None, :]
    tl.store(flags + at, near.to(tl.int8), mask=there)
    place = at[:, :, None] * _PART + tl.arange(0, _PART)[None, None, :]
    _put(products, place, near[:, :, None], product)


@triton.jit
def _keep_columns(
    product, near, g, q, items, queries, flags, products, places, PARTS: tl.constexpr
):
    """The same for the columns of a tile (parts, queries of a part, items)."""
    part = tl.min(q, 0) // _PART + tl.arange(0, PARTS)
    near &= (part * _PART < queries)[:, None]
    at = g[None, :] * places + part[:, None]
    there = (g < items)[None, :] & (part < places)[:, None]
    tl.store(flags + at, near.to(tl.int8), mask=there)
    place = at[:, None, :] * _PART + tl.arange(0, _PART)[None, :, None]
    _put(products, place, near[:, None, :], product)


@triton.jit(do_not_specialize=["queries", "items", "places", "item_places"])
def _near_products(
    left,
    right,
    limit,
    flags,
    products,
    item_limit,
    item_flags,
    item_products,
    queries,
    items,
    places,
    item_places,
    DIMENSION: tl.constexpr,
    BOTH: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    q, g = place_of_tile(queries, items, ROWS, ITEMS, GROUP)
    product = half_product(left, right, DIMENSION, ROWS, ITEMS, DEPTH, q, g)
    rows = tl.reshape(product, [ROWS, ITEMS // _PART, _PART])
    least = tl.load(limit + q, mask=q < queries, other=float("inf"))
    near = tl.max(rows, 2) >= least[:, None]
    _keep_rows(rows, near, q, g, queries, items, flags, products, places, ITEMS // _PART)
    if BOTH:
        columns = tl.reshape(product, [ROWS // _PART, _PART, ITEMS])
        least = tl.load(item_limit + g, mask=g < items, other=float("inf"))
        near = tl.max(columns, 1) >= least[None, :]
        kept = item_flags, item_products, item_places
        _keep_columns(columns, near, g, q, items, queries, *kept, ROWS // _PART)


@triton.jit(do_not_specialize=["held", "words"])
def _list_parts(flags, number, parts, held, words, WIDE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    word = tl.arange(0, WIDE)
    four = tl.load(flags + row * words + word, mask=word * 4 < held, other=0)
    one = (four[:, None] >> (8 * tl.arange(0, 4))[None, :]) & 1
    part = tl.arange(0, 4 * WIDE)
    one = tl.where(part < held, tl.reshape(one, [4 * WIDE]), 0)
    slot = tl.cumsum(one, 0) - 1
    tl.store(parts + row * words * 4 + slot, part, mask=one > 0)
    tl.store(number + row, tl.sum(one, 0))


def near_products(
    left: Any,
    right: Any,
    size: tuple[int, int],
    limit: Any,
    near: Near,
    item_limit: Any = None,
    item_near: Near | None = None,
) -> None:
    """Products of half-precision rows, of each few items of which one reaches a query's limit.

    `size` is that of the matrix (queries, items); rows are padded as half_products wants them. With
    `item_near`, the same for the items as queries, which have limits of their own.
    """
    flags = _flags(near)
    item_flags = None if item_near is None else _flags(item_near)
    tile = _MORE_WARPS if item_near is None else _BOTH
    _near_products[(_tiles(size, tile),)](
        left,
        right,
        limit,
        flags,
        near.products,
        item_limit,
        item_flags,
        None if item_near is None else item_near.products,
        *size,
        near.places,
        0 if item_near is None else item_near.places,
        DIMENSION=left.shape[1],
        BOTH=item_near is not None,
        **tile,
    )
    _list(flags, near, *size)
    if item_near is not None:
        _list(item_flags, item_near, *reversed(size))


def _flags(near: Near) -> Any:
    return torch.empty(near.parts.shape, dtype=torch.int8, device=near.parts.device)


def _tiles(size: tuple[int, int], tile: dict[str, Any]) -> int:
    tiles: int = triton.cdiv(size[0], tile["ROWS"]) * triton.cdiv(size[1], tile["ITEMS"])
    return tiles


def _list(flags: Any, near: Near, queries: int, items: int) -> None:
    """From flags to the numbers of parts."""
    words = near.places // 4
    _list_parts[(queries,)](
        flags.view(torch.int32),
        near.number,
        near.parts,
        triton.cdiv(items, PART),
        words,
        WIDE=triton.next_power_of_2(words),
        num_warps=2,
    )


@triton.jit
def _fine_product(
    left,
    right,
    DIMENSION: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
    q,
    g,
):
    """Products of rows of three parts (see tensor_filter.FineRows): the tensor cores accumulate the
    first two, which are small; of the third a few terms at a time, added up in float32."""
    c = tl.arange(0, DEPTH)
    x_at = left + q.to(tl.int64)[:, None] * DIMENSION + c[None, :]
    y_at = right + g.to(tl.int64)[None, :] * DIMENSION + c[:, None]
    total = tl.zeros([ROWS, ITEMS], tl.float32)
    for _ in range(0, 2 * (DIMENSION // 3), DEPTH):
        total = tl.dot(tl.load(x_at), tl.load(y_at), total)
        x_at += DEPTH
        y_at += DEPTH
    for _ in range(0, DIMENSION // 3, DEPTH):
        # A bound on imprecise additions, which halves do not have, keeps Triton from making the
        # addition a part of the tensor cores' accumulation.
        total += tl.dot(tl.load(x_at), tl.load(y_at), max_num_imprecise_acc=DEPTH)
        x_at += DEPTH
        y_at += DEPTH
    return total


@triton.jit(do_not_specialize=["queries", "items", "m", "places"])
def _count_fine(
    left,
    right,
    sure,
    lost,
    less,
    flags,
    products,
    queries,
    items,
    m,
    places,
    DIMENSION: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    q, g = place_of_tile(queries, items, ROWS, ITEMS, GROUP)
    product = _fine_product(left, right, DIMENSION, ROWS, ITEMS, DEPTH, q, g)
    product = tl.where((g < items)[None, :], product, float("-inf"))
    product = tl.reshape(product, [ROWS, ITEMS // _PART, _PART])
    mine = q < queries
    at = q.to(tl.int64) * m
    doubtful = tl.zeros([ROWS, ITEMS // _PART], tl.int32)
    for j in range(m):
        upper = tl.load(sure + at + j, mask=mine, other=float("inf"))
        lower = tl.load(lost + at + j, mask=mine, other=float("inf"))
        above = (product > upper[:, None, None]).to(tl.int32)
        both = tl.sum(above + tl.where(product >= lower[:, None, None], 1 << 16, 0), 2)
        nearer = both & 0xFFFF
        doubtful |= (both >> 16) ^ nearer
        number = tl.sum(nearer, 1)
        tl.atomic_add(less + at + j, number, mask=mine & (number > 0), sem="relaxed")
    kept = flags, products, places
    _keep_rows(product, doubtful != 0, q, g, queries, items, *kept, ITEMS // _PART)


def count_fine(
    left: Any,
    right: Any,
    size: tuple[int, int],
    sure: Any,
    lost: Any,
    less: Any,
    near: Near,
) -> None:
    """Add to less[q, j] the items whose product is above sure[q, j]; of each few items of which one
    lies between a lost[q, j] and its sure[q, j], the products are kept as by near_products.
    """
    flags = _flags(near)
    _count_fine[(_tiles(size, _MORE_WARPS),)](
        left,
        right,
        sure,
        lost,
        less,
        flags,
        near.products,
        *size,
        sure.shape[1],
        near.places,
        DIMENSION=left.shape[1],
        **_MORE_WARPS,
    )
    _list(flags, near, *size)
