# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

"""Triton kernels of the search: candidates for the k nearest, exact distances, their order.

Products in half precision are compared where they are made: only parts of a tile in which one
may belong to the k nearest of its query reach memory. The list of a query is short: one program
selects from it, two measure it exactly, and one orders it by counting how many items stand
before each.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from truerank.engine.cuda import torch_kernels
from truerank.engine.cuda.exact_kernels import EXACT, MODES, distance
from truerank.engine.cuda.filter_kernels import half_product, place_of_tile
from truerank.engine.cuda.filter_kernels import half_products as half_products  # for search.py
from truerank.engine.cuda.filter_kernels import room_for_products as room_for_products
from truerank.engine.cuda.torch_kernels import MISSED, SEARCH_PART

TILE: dict[str, Any] = {
    "ROWS": 128,
    "ITEMS": 128,
    "DEPTH": 64,
    "GROUP": 16,
    "num_warps": 4,
    "num_stages": 3,
}
_SELECTED, _ORDERED = 1 << 13, 1 << 11
"""The longest lists that one program selects from, and that it puts in order by counting."""
_TAKEN = 256
"""Products of near parts that a program looks at at a time."""


@triton.jit(do_not_specialize=["queries", "items", "room"])
def _near_parts(
    left,
    right,
    shift,
    limit,
    count,
    parts,
    products,
    queries,
    items,
    room,
    DIMENSION: tl.constexpr,
    PART: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    q, g = place_of_tile(queries, items, ROWS, ITEMS, GROUP)
    product = half_product(left, right, DIMENSION, ROWS, ITEMS, DEPTH, q, g)
    if shift is not None:
        product -= tl.load(shift + g, mask=g < items, other=0.0)[None, :]
    product = tl.reshape(product, [ROWS, ITEMS // PART, PART])
    least = tl.load(limit + q, mask=q < queries, other=float("inf"))
    near = tl.max(product, 2) >= least[:, None]
    part = tl.min(g, 0) // PART + tl.arange(0, ITEMS // PART)
    counter = (count + q)[:, None] + tl.zeros_like(part)[None, :]
    slot = tl.atomic_add(counter, tl.full(near.shape, 1, tl.int32), mask=near, sem="relaxed")
    held = near & (slot < room)
    at = q.to(tl.int64)[:, None] * room + slot
    tl.store(parts + at, tl.zeros_like(slot) + part[None, :], mask=held)
    inside = tl.arange(0, PART)[None, None, :]
    tl.store(products + at[:, :, None] * PART + inside, product, mask=held[:, :, None])


def near_parts(
    left: Any,
    right: Any,
    shift: Any,
    limit: Any,
    size: tuple[int, int],
    count: Any,
    parts: Any,
    products: Any,
) -> None:
    """Products of half-precision rows, less each item's shift if there are some, where they are
    large: of each PART items of which one reaches a query's limit.

    `size` is that of the matrix (queries, items); rows are padded as half_products wants them.
    `count` says how many such parts a query has, of which as many are held as there is room for, in
    no order: their numbers, and the products of each.
    """
    queries, items = size
    tiles = triton.cdiv(queries, TILE["ROWS"]) * triton.cdiv(items, TILE["ITEMS"])
    _near_parts[(tiles,)](
        left,
        right,
        shift,
        limit,
        count,
        parts,
        products,
        queries,
        items,
        parts.shape[1],
        DIMENSION=left.shape[1],
        PART=SEARCH_PART,
        **TILE,
        **EXACT,
    )


@triton.jit(do_not_specialize=["items", "parts_room", "room"])
def _write_down(
    near,
    parts,
    products,
    limit,
    count,
    entries,
    items,
    parts_room,
    room,
    missed,
    PART: tl.constexpr,
    TAKEN: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    least = tl.load(limit + row)
    found = tl.load(near + row)
    total = tl.minimum(found, parts_room) * PART
    products += row * parts_room * PART
    parts += row * parts_room
    p = tl.arange(0, TAKEN)
    ahead = tl.load(products + p, mask=p < total, other=float("-inf"))
    listed = 0
    for start in range(0, total, TAKEN):
        product = ahead
        at = start + p
        after = at + TAKEN
        ahead = tl.load(products + after, mask=after < total, other=float("-inf"))
        item = tl.load(parts + at // PART, mask=at < total, other=0) * PART + at % PART
        is_near = (product >= least) & (at < total) & (item < items)
        one = is_near.to(tl.int32)
        slot = listed + tl.cumsum(one, 0) - 1
        bits = product.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
        entry = (item.to(tl.int64) << 32) | bits
        tl.store(entries + row * room + slot, entry, mask=is_near & (slot < room))
        listed += tl.sum(one, 0)
    tl.store(count + row, tl.where(found > parts_room, listed + missed, listed))


def write_down(
    near: Any, parts: Any, products: Any, limit: Any, items: int, count: Any, entries: Any
) -> None:
    """Write down the items of near parts whose products reach their query's limit.

    An entry is the item's number and the bits of its product. `count` is how many there are, of
    which as many are held as there is room for; MISSED is added where parts had no room.
    """
    _write_down[(len(near),)](
        near,
        parts,
        products,
        limit,
        count,
        entries,
        items,
        parts.shape[1],
        entries.shape[1],
        MISSED,
        PART=SEARCH_PART,
        TAKEN=_TAKEN,
        num_warps=1,
    )


@triton.jit(do_not_specialize=["sampled", "rank", "steps"])
def _limits(products, shift, limit, sampled, stride, rank, steps, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    p = tl.arange(0, SIZE)
    held = p < sampled
    product = tl.load(products + row * stride + p, mask=held, other=float("-inf"))
    if shift is not None:
        product -= tl.load(shift + p, mask=held, other=0.0)
    low = tl.min(tl.where(held, product, float("inf")), 0)
    high = tl.max(product, 0)
    for _ in range(steps):  # at least `rank` products are not below `low`
        middle = (low + high) / 2
        enough = tl.sum((product >= middle).to(tl.int32), 0) >= rank
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    tl.store(limit + row, low)


def limits(
    products: Any, shift: Any, size: tuple[int, int], rank: int, steps: int, limit: Any
) -> None:
    """For each query a product, less the items' shifts, that at least `rank` of its row reach, and
    after some steps of bisection hardly more."""
    queries, sampled = size
    _limits[(queries,)](
        products,
        shift,
        limit,
        sampled,
        products.stride(0),
        rank,
        steps,
        SIZE=triton.next_power_of_2(sampled),
        num_warps=8,
    )


@triton.jit(do_not_specialize=["k", "room", "steps"])
def _choose(
    entries,
    count,
    limit,
    margin,
    cut,
    number,
    chosen,
    k,
    room,
    missed,
    steps,
    SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    listed = tl.load(count + row)
    least = tl.load(limit + row)
    p = tl.arange(0, SIZE)
    held = p < tl.minimum(listed & (missed - 1), room)
    entry = tl.load(entries + row * room + p, mask=held, other=0)
    product = (entry & 0xFFFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
    product = tl.where(held, product, float("-inf"))
    low = least
    high = tl.max(product, 0)
    for _ in range(steps):  # if k are listed, at least k products are not below `low`
        middle = (low + high) / 2
        enough = tl.sum((product >= middle).to(tl.int32), 0) >= k
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    wide = low.to(tl.float64)
    lowest = wide - tl.load(margin + row) - tl.abs(wide) * 2.0**-40
    good = (listed >= k) & (listed <= room) & (lowest >= least.to(tl.float64))
    keep = held & good & (product.to(tl.float64) >= lowest)
    one = keep.to(tl.int32)
    tl.store(chosen + row * room + tl.cumsum(one, 0) - 1, (entry >> 32).to(tl.int32), mask=keep)
    tl.store(number + row, tl.sum(one, 0))
    tl.store(cut + row, lowest)


def choose(
    entries: Any,
    count: Any,
    limit: Any,
    margin: Any,
    k: int,
    steps: int,
    cut: Any,
    number: Any,
    chosen: Any,
) -> None:
    """Of the items written down, those whose products are within `margin` of the k-th.

    `cut` says from which product on, `number` how many there are, `chosen` who they are. None are
    chosen where fewer than k are written down, or not all that had to be.
    """
    room = entries.shape[1]
    if room > _SELECTED:
        torch_kernels.choose(entries, count, limit, margin, k, steps, cut, number, chosen)
        return
    size = triton.next_power_of_2(room)
    _choose[(len(entries),)](
        entries,
        count,
        limit,
        margin,
        cut,
        number,
        chosen,
        k,
        room,
        MISSED,
        steps,
        SIZE=size,
        num_warps=max(1, min(8, size // 512)),
    )


@triton.jit(do_not_specialize=["room"])
def _measure(
    left,
    right,
    a,
    b,
    left_scale,
    right_scale,
    number,
    chosen,
    out,
    room,
    dimension,
    MODE: tl.constexpr,
    PAIRS: tl.constexpr,
    PART: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    listed = tl.load(number + row)
    own = tl.load(a + row)
    for start in range(tl.program_id(1) * PAIRS, listed, PAIRS * tl.num_programs(1)):
        p = start + tl.arange(0, PAIRS)
        held = p < listed
        g = tl.load(chosen + row * room + p, mask=held, other=0).to(tl.int64)
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
        product = tl.sum(total, 1)
        if left_scale is not None:  # powers of two: exact
            product = product * tl.load(left_scale + row) * tl.load(right_scale + g)
        d = distance(product, own, tl.load(b + g), MODE)
        tl.store(out + row * room + p, d, mask=held)


def measure(
    left: tuple[Any, Any, Any],
    right: tuple[Any, Any, Any],
    mode: str,
    number: Any,
    chosen: Any,
    out: Any,
) -> None:
    """Exact distances of the chosen items; a side is its integer rows, norms and scales, if any."""
    dimension = left[0].shape[1]
    _measure[(len(number), 2)](
        left[0],
        right[0],
        left[1],
        right[1],
        left[2],
        right[2],
        number,
        chosen,
        out,
        chosen.shape[1],
        dimension,
        MODE=MODES[mode],
        PAIRS=16,
        PART=min(128, triton.next_power_of_2(dimension)),
        **EXACT,
    )


@triton.jit(do_not_specialize=["k", "room"])
def _order(
    number,
    chosen,
    distances,
    out_distance,
    out_item,
    out_tied,
    k,
    room,
    OWN: tl.constexpr,
    OTHERS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    listed = tl.load(number + row)
    last = tl.full([], float("-inf"), tl.float64)
    for start in range(0, listed, OWN):
        p = start + tl.arange(0, OWN)
        held = p < listed
        own = tl.load(distances + row * room + p, mask=held, other=float("inf"))
        item = tl.load(chosen + row * room + p, mask=held, other=0)
        before = tl.zeros([OWN], tl.int32)
        for begin in range(0, listed, OTHERS):
            r = begin + tl.arange(0, OTHERS)
            there = r < listed
            other = tl.load(distances + row * room + r, mask=there, other=float("inf"))
            number_of = tl.load(chosen + row * room + r, mask=there, other=0)
            same = (other[None, :] == own[:, None]) & (number_of[None, :] < item[:, None])
            first = ((other[None, :] < own[:, None]) | same) & there[None, :]
            before += tl.sum(first.to(tl.int32), 1)
        keep = held & (before < k)
        tl.store(out_distance + row * k + before, own, mask=keep)
        tl.store(out_item + row * k + before, item.to(tl.int64), mask=keep)
        at_last = tl.where(held & (before == k - 1), own, float("-inf"))
        last = tl.maximum(last, tl.max(at_last, 0))
    tied = tl.zeros([OTHERS], tl.int32)
    for begin in range(0, listed, OTHERS):
        r = begin + tl.arange(0, OTHERS)
        other = tl.load(distances + row * room + r, mask=r < listed, other=float("inf"))
        tied += ((other == last) & (r < listed)).to(tl.int32)
    if listed > 0:
        tl.store(out_tied + row, tl.sum(tied, 0).to(tl.int64))


def order(number: Any, most: int, chosen: Any, distances: Any, out: tuple[Any, Any, Any]) -> None:
    """The k nearest of the chosen items, by distance and then by number: distances, items, and how
    many of the chosen lie at the last distance. `most` is the largest number; rows of queries
    without any stay as they are."""
    if most > _ORDERED:
        torch_kernels.order(number, most, chosen, distances, out)
        return
    _order[(len(number),)](
        number,
        chosen,
        distances,
        *out,
        out[0].shape[1],
        chosen.shape[1],
        OWN=32,
        OTHERS=128,
        num_warps=4,
    )
