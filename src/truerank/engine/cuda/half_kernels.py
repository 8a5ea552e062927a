"""Triton kernels of products in half precision: tensor cores multiply, float32 accumulates."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from truerank.engine.cuda.triton_kernels import EXACT

__all__ = [
    "LISTED",
    "TILE",
    "half_product",
    "half_products",
    "place_of_tile",
    "room_for_products",
]

TILE: dict[str, Any] = {
    "ROWS": 128,
    "ITEMS": 128,
    "DEPTH": 64,
    "GROUP": 16,
    "num_warps": 4,
    "num_stages": 3,
    **EXACT,
}
"""Tiles of products: the fastest of those tried on an H200."""
LISTED = 2048
"""Rows of products are padded to multiples of this."""


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
    tall = triton.cdiv(queries, TILE["ROWS"]) * TILE["ROWS"]
    wide = triton.cdiv(items, LISTED) * LISTED
    return torch.empty((tall, wide), dtype=torch.float32, device=device)


def half_products(left: Any, right: Any, queries: int, items: int, out: Any) -> None:
    """Products of half-precision rows.

    Rows of `left` and `right` are padded to multiples of 256, and their dimension to one of 64.
    """
    tiles = triton.cdiv(queries, TILE["ROWS"]) * triton.cdiv(items, TILE["ITEMS"])
    _half_products[(tiles,)](
        left, right, out, queries, items, out.stride(0), DIMENSION=left.shape[1], **TILE
    )
