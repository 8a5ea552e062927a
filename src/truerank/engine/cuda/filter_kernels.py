"""Triton kernels of the filters: products in half precision, what they decide and leave open.

Of each row of products, the items within the query's farthest mate are looked at. If its thresholds
(see truerank.engine.cuda.triton_kernels) are few, products are compared where they are made, those
that matter are kept, and each is compared with all thresholds; if they are many, products are
written down, items listed and looked up. Open ones are refined exactly.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from truerank.engine.cuda.splitting import Splitting
from truerank.engine.cuda.torch_filter import part_of
from truerank.engine.cuda.triton_kernels import EXACT, MODES, by_fold, distance, look_up

__all__ = [
    "compare",
    "count_fine",
    "half_product",
    "half_products",
    "list_near",
    "near_products",
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
_MORE_WARPS = _TILE | {"num_warps": 8}
"""For kernels that compare where they multiply."""
_TAKEN = 128
"""Products that a program compares at a time."""
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


@triton.jit
def keep_parts(
    product,
    near,
    q,
    g,
    queries,
    items,
    marks,
    products,
    tiles,
    room,
    PARTS: tl.constexpr,
    PART: tl.constexpr,
):
    """Keep the near parts of a tile (rows, parts of a row, items of a part): their products, each
    in its own place, and for every row the bits of these parts."""
    tile = tl.min(g, 0) // (PARTS * PART)
    part = tile * PARTS + tl.arange(0, PARTS)
    near &= (part * PART < items)[None, :]  # rows behind the items may be anything
    bits = tl.sum(near.to(tl.int32) << tl.arange(0, PARTS)[None, :], 1)
    row = q.to(tl.int64)
    tl.store(marks + row * tiles + tile, bits, mask=q < queries)
    at = (row[:, None] * room + part[None, :]) * PART
    inside = tl.arange(0, PART)[None, None, :]
    tl.store(products + at[:, :, None] + inside, product, mask=near[:, :, None])


@triton.jit(do_not_specialize=["queries", "items", "tiles", "room"])
def _near_products(
    left,
    right,
    limit,
    marks,
    products,
    queries,
    items,
    tiles,
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
    product = tl.reshape(product, [ROWS, ITEMS // PART, PART])
    least = tl.load(limit + q, mask=q < queries, other=float("inf"))
    near = tl.max(product, 2) >= least[:, None]
    place = (queries, items, marks, products, tiles, room)
    keep_parts(product, near, q, g, *place, ITEMS // PART, PART)


@triton.jit(do_not_specialize=["tiles", "room"])
def _list_parts(marks, count, parts, tiles, room, TILES: tl.constexpr, PARTS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    tile = tl.arange(0, TILES)
    bits = tl.load(marks + row * tiles + tile, mask=tile < tiles, other=0)
    part = tl.arange(0, PARTS)
    one = tl.reshape((bits[:, None] >> part[None, :]) & 1, [TILES * PARTS])
    slot = tl.cumsum(one, 0) - 1
    tl.store(parts + row * room + slot, tl.arange(0, TILES * PARTS), mask=one > 0)
    tl.store(count + row, tl.sum(one, 0))


def near_products(
    left: Any,
    right: Any,
    limit: Any,
    size: tuple[int, int],
    count: Any,
    parts: Any,
    products: Any,
) -> None:
    """Products of half-precision rows, of each few items of which one reaches a query's limit.

    `size` is that of the matrix (queries, items); rows are padded as half_products wants them.
    `products` has a place for each pair, of which those of other items are left as they are;
    `count` says how many such parts a query has, and `parts` their numbers.
    """
    queries, items = size
    tiles, part = triton.cdiv(items, _MORE_WARPS["ITEMS"]), part_of(parts, products)
    marks = torch.empty((queries, tiles), dtype=torch.int32, device=left.device)
    _near_products[(triton.cdiv(queries, _MORE_WARPS["ROWS"]) * tiles,)](
        left,
        right,
        limit,
        marks,
        products,
        queries,
        items,
        tiles,
        parts.shape[1],
        DIMENSION=left.shape[1],
        PART=part,
        **_MORE_WARPS,
    )
    _list(marks, count, parts, _MORE_WARPS["ITEMS"] // part)


def _list(marks: Any, count: Any, parts: Any, in_tile: int) -> None:
    """From bits to the numbers of parts."""
    tiles = marks.shape[1]
    _list_parts[(len(marks),)](
        marks,
        count,
        parts,
        tiles,
        parts.shape[1],
        TILES=triton.next_power_of_2(tiles),
        PARTS=in_tile,
        num_warps=1,
    )


@triton.jit
def fine_product(
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


@triton.jit(do_not_specialize=["queries", "items", "m", "tiles", "room"])
def _count_fine(
    left,
    right,
    sure,
    lost,
    less,
    marks,
    products,
    queries,
    items,
    m,
    tiles,
    room,
    DIMENSION: tl.constexpr,
    PART: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    q, g = place_of_tile(queries, items, ROWS, ITEMS, GROUP)
    product = fine_product(left, right, DIMENSION, ROWS, ITEMS, DEPTH, q, g)
    product = tl.where((g < items)[None, :], product, float("-inf"))
    product = tl.reshape(product, [ROWS, ITEMS // PART, PART])
    mine = q < queries
    at = q.to(tl.int64) * m
    doubtful = tl.zeros([ROWS, ITEMS // PART], tl.int32)
    for j in range(m):
        upper = tl.load(sure + at + j, mask=mine, other=float("inf"))
        lower = tl.load(lost + at + j, mask=mine, other=float("inf"))
        above = (product > upper[:, None, None]).to(tl.int32)
        both = tl.sum(above + tl.where(product >= lower[:, None, None], 1 << 16, 0), 2)
        nearer = both & 0xFFFF
        doubtful |= (both >> 16) ^ nearer
        number = tl.sum(nearer, 1)
        tl.atomic_add(less + at + j, number, mask=mine & (number > 0), sem="relaxed")
    place = (queries, items, marks, products, tiles, room)
    keep_parts(product, doubtful != 0, q, g, *place, ITEMS // PART, PART)


def count_fine(
    left: Any,
    right: Any,
    sure: Any,
    lost: Any,
    size: tuple[int, int],
    less: Any,
    count: Any,
    parts: Any,
    products: Any,
) -> None:
    """Add to less[q, j] the items whose product is above sure[q, j]; of each few items of which one
    lies between a lost[q, j] and its sure[q, j], the products are kept as by near_products.
    """
    queries, items = size
    tiles, part = triton.cdiv(items, _MORE_WARPS["ITEMS"]), part_of(parts, products)
    marks = torch.empty((queries, tiles), dtype=torch.int32, device=left.device)
    _count_fine[(triton.cdiv(queries, _MORE_WARPS["ROWS"]) * tiles,)](
        left,
        right,
        sure,
        lost,
        less,
        marks,
        products,
        queries,
        items,
        sure.shape[1],
        tiles,
        parts.shape[1],
        DIMENSION=left.shape[1],
        PART=part,
        **_MORE_WARPS,
    )
    _list(marks, count, parts, _MORE_WARPS["ITEMS"] // part)


@triton.jit
def put_open(is_open, item, row, low, m, bins, found, entries, room):
    """List open items, and take them out again where they have been counted: at every threshold
    that they are above."""
    one = is_open.to(tl.int32)
    opened = tl.sum(one, 0)
    if opened > 0:
        slot = tl.atomic_add(found + row, opened, sem="relaxed") + tl.cumsum(one, 0) - 1
        tl.store(entries + row * room + slot, item, mask=is_open & (slot < room))
        tl.atomic_add(bins + row * (m + 1) + low, -1, mask=is_open & (low < m), sem="relaxed")


@triton.jit(do_not_specialize=["items", "m", "near_room", "room"])
def _compare(
    sure,
    lost,
    near_found,
    parts,
    products,
    less,
    bins,
    found,
    entries,
    items,
    m,
    near_room,
    room,
    PART: tl.constexpr,
    TAKEN: tl.constexpr,
    MOST: tl.constexpr,
    COUNTED: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    number = tl.load(near_found + row) * PART
    at = row * m
    parts += row * near_room
    products += row * near_room * PART
    step = TAKEN * tl.num_programs(1)
    p = tl.program_id(1) * TAKEN + tl.arange(0, TAKEN)
    inside = p % PART
    ahead_item = tl.load(parts + p // PART, mask=p < number, other=0) * PART + inside
    ahead = tl.load(products + ahead_item, mask=p < number, other=float("-inf"))
    p += step
    later_item = tl.load(parts + p // PART, mask=p < number, other=0) * PART + inside
    few = tl.zeros([TAKEN], tl.int32)  # four counts of eight bits: no strip takes 256 rounds
    more = tl.zeros([TAKEN], tl.int32)
    for _ in range(tl.program_id(1) * TAKEN, number, step):
        item = ahead_item
        product = tl.where(item < items, ahead, float("-inf"))
        ahead_item = later_item
        ahead = tl.load(products + ahead_item, mask=p < number, other=float("-inf"))
        p += step
        later_item = tl.load(parts + p // PART, mask=p < number, other=0) * PART + inside
        low = tl.zeros([TAKEN], tl.int32)
        high = tl.zeros([TAKEN], tl.int32)
        for j in tl.static_range(MOST):
            upper = tl.load(sure + at + j, mask=j < m, other=float("inf"))
            lower = tl.load(lost + at + j, mask=j < m, other=float("inf"))
            if not COUNTED:
                if j < 4:
                    few += tl.where(product > upper, 1 << (8 * (j % 4)), 0)
                else:
                    more += tl.where(product > upper, 1 << (8 * (j % 4)), 0)
            low += (product <= upper).to(tl.int32)
            high += (product < lower).to(tl.int32)
        low -= MOST - m
        put_open(high - (MOST - m) < low, item, row, low, m, bins, found, entries, room)
    if not COUNTED:
        for j in tl.static_range(MOST):
            if j < 4:
                nearer = tl.sum((few >> (8 * (j % 4))) & 255, 0)
            else:
                nearer = tl.sum((more >> (8 * (j % 4))) & 255, 0)
            tl.atomic_add(less + at + j, nearer, mask=(j < m) & (nearer > 0), sem="relaxed")


def compare(
    sure: Any,
    lost: Any,
    near: tuple[Any, Any, Any],
    items: int,
    less: Any,
    bins: Any,
    found: Any,
    entries: Any,
    *,
    counted: bool = False,
) -> None:
    """Count the items of near parts at few thresholds; the open ones go to `entries`.

    `near` is what near_products kept: how many parts, their numbers and their products. An item
    above sure[q, j] is added to less[q, j], if that is not done already (`counted`). One that is
    open, between a lost[q, j] and its sure[q, j], is taken out again, in the bin from which on it
    was counted.
    """
    m = sure.shape[1]
    _, parts, products = near
    _compare[(len(sure), 2)](
        sure,
        lost,
        *near,
        less,
        bins,
        found,
        entries,
        items,
        m,
        parts.shape[1],
        entries.shape[1],
        PART=part_of(parts, products),
        TAKEN=_TAKEN,
        MOST=4 * triton.cdiv(m, 4),
        COUNTED=counted,
        num_warps=1,
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
        PAIRS=8,
        PART=min(128, triton.next_power_of_2(dimension)),
        WAYS=0 if split is None else split.ways,
        **EXACT,
    )
