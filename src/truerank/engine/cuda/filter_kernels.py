# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

"""Triton kernels of the half-precision filter: products, comparisons, open pairs refined.

A product above sure[q, j] is nearer than threshold j, one below lost[q, j] is farther. Few
thresholds are compared with each product that was kept; among more of them, and where counts
are split by jackknife group, it is looked up. Products are compared where they are made, and
only parts of a tile in which one product matters, for its row or for its column, reach memory.
Open pairs are decided by exact products of integer rows. torch_kernels.py has the same
contracts in plain torch.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from truerank.engine.cuda import front
from truerank.engine.cuda.counting import LISTS, PART, Near, Opened, Splitting, tables_of
from truerank.engine.cuda.exact_kernels import EXACT, MODES, by_fold, distance, look_up

_TAKEN = 8
"""Parts whose products a program compares at a time."""
_LOOKED_UP = 128
"""Items that a program looks up at a time."""
_PART: tl.constexpr = tl.constexpr(PART)
_LISTS: tl.constexpr = tl.constexpr(LISTS)


@triton.jit
def _four(cuts, m, FIRST: tl.constexpr):
    """Four cuts; those that are missing are never reached."""
    a = tl.load(cuts + FIRST, mask=m > FIRST, other=float("inf"))
    b = tl.load(cuts + FIRST + 1, mask=m > FIRST + 1, other=float("inf"))
    c = tl.load(cuts + FIRST + 2, mask=m > FIRST + 2, other=float("inf"))
    d = tl.load(cuts + FIRST + 3, mask=m > FIRST + 3, other=float("inf"))
    return a, b, c, d


@triton.jit
def _above(product, a, b, c, d):
    """Which of four cuts a product lies above: eight bits for each."""
    low = tl.where(product > a, 1, 0) + tl.where(product > b, 1 << 8, 0)
    return low + tl.where(product > c, 1 << 16, 0) + tl.where(product > d, 1 << 24, 0)


@triton.jit
def _reached(product, a, b, c, d):
    """The same for cuts that it lies at least at."""
    low = tl.where(product >= a, 1, 0) + tl.where(product >= b, 1 << 8, 0)
    return low + tl.where(product >= c, 1 << 16, 0) + tl.where(product >= d, 1 << 24, 0)


@triton.jit
def _add_up(less, counts, m, FIRST: tl.constexpr, SIGN: tl.constexpr):
    """Add counts of eight bits each to those of four thresholds, or take them away."""
    for j in tl.static_range(4):
        number = tl.sum((counts >> (8 * j)) & 255)
        some = (FIRST + j < m) & (number > 0)
        tl.atomic_add(less + FIRST + j, SIGN * number, mask=some, sem="relaxed")


@triton.jit
def _list_open(is_open, item, listed, entries, room):
    """Put open items behind those that are listed; returns how many there are then."""
    one = is_open.to(tl.int32)
    new = tl.sum(one, 0)
    if new > 0:
        slot = listed + tl.cumsum(one, 0) - 1
        tl.store(entries + slot, item, mask=is_open & (slot < room))
    return listed + new


@triton.jit(do_not_specialize=["items", "m", "places", "room"])
def _compare(
    sure,
    lost,
    near_number,
    parts,
    products,
    less,
    found,
    entries,
    items,
    m,
    places,
    room,
    TAKEN: tl.constexpr,
    EIGHT: tl.constexpr,
    COUNTED: tl.constexpr,
    WHOLE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    way = tl.program_id(1)
    number = tl.load(near_number + row)
    if way * TAKEN >= number:
        tl.store(found + row * _LISTS + way, 0)
        return
    less += row * m
    parts += row * places
    products += row * places * _PART
    entries += (row * _LISTS + way) * room
    nearer, nearest = _four(sure + row * m, m, 0), _four(lost + row * m, m, 0)
    farther, farthest = _four(sure + row * m, m, 4), _four(lost + row * m, m, 4)
    p = way * TAKEN + tl.arange(0, TAKEN)
    inside = tl.arange(0, _PART)[None, :]
    ahead_part = tl.load(parts + p, mask=p < number, other=0)
    at = products + ahead_part[:, None] * _PART + inside
    ahead = tl.load(at, mask=(p < number)[:, None], other=float("-inf"))
    p += TAKEN * _LISTS
    later = tl.load(parts + p, mask=p < number, other=0)
    few = tl.zeros([TAKEN, _PART], tl.int32)  # four counts of eight bits: there are few rounds
    more = tl.zeros([TAKEN, _PART], tl.int32)
    listed = 0
    for _ in range(way * TAKEN, number, TAKEN * _LISTS):
        part, product = ahead_part, ahead
        if not WHOLE:
            held = part[:, None] * _PART + inside < items
            product = tl.where(held, product, float("-inf"))
        ahead_part = later
        at = products + ahead_part[:, None] * _PART + inside
        ahead = tl.load(at, mask=(p < number)[:, None], other=float("-inf"))
        p += TAKEN * _LISTS
        later = tl.load(parts + p, mask=p < number, other=0)
        above = _above(product, *nearer)
        is_open = above != _reached(product, *nearest)
        if EIGHT:
            beyond = _above(product, *farther)
            is_open |= beyond != _reached(product, *farthest)
            more += tl.where(is_open == COUNTED, beyond, 0)
        few += tl.where(is_open == COUNTED, above, 0)
        one = is_open.to(tl.int32)
        new = tl.sum(one)
        if new > 0:
            each = tl.sum(one, 1)
            before = listed + tl.cumsum(each, 0) - each
            slot = before[:, None] + tl.cumsum(one, 1) - 1
            item = part[:, None] * _PART + inside
            tl.store(entries + slot, item, mask=is_open & (slot < room))
            listed += new
    tl.store(found + row * _LISTS + way, listed)
    _add_up(less, few, m, 0, -1 if COUNTED else 1)
    if EIGHT:
        _add_up(less, more, m, 4, -1 if COUNTED else 1)


def compare(
    sure: Any,
    lost: Any,
    near: Near,
    items: int,
    less: Any,
    opened: Opened,
    *,
    counted: bool = False,
) -> None:
    """Count the items of near parts at up to eight thresholds; the open ones are listed.

    An item above sure[q, j] is added to less[q, j]. One that is open, between a lost[q, j] and its
    sure[q, j], is not counted; where that has been done already (`counted`), it is taken out.
    """
    m = sure.shape[1]
    if m > front.FEW:
        raise ValueError(f"{m} thresholds are too many to be compared one by one")
    _compare[(len(sure), LISTS)](
        sure,
        lost,
        near.number,
        near.parts,
        near.products,
        less,
        opened.found,
        opened.entries,
        items,
        m,
        near.places,
        opened.entries.shape[1],
        TAKEN=_TAKEN,
        EIGHT=m > 4,
        COUNTED=counted,
        WHOLE=items % PART == 0,
        num_warps=1,
    )


@triton.jit(do_not_specialize=["items", "m", "places", "room", "steps", "columns"])
def _settle(
    sure,
    lost,
    near_number,
    parts,
    products,
    bins,
    found,
    entries,
    fold,
    place,
    split_bins,
    split_equal,
    items,
    m,
    places,
    room,
    steps,
    columns,
    TAKEN: tl.constexpr,
    WAYS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    way = tl.program_id(1)
    number = tl.load(near_number + row) * _PART
    at = row * m
    last = tl.load(lost + at + m - 1)
    parts += row * places
    products += row * places * _PART
    entries += (row * _LISTS + way) * room
    listed = 0
    for start in range(way * TAKEN, number, TAKEN * _LISTS):
        p = start + tl.arange(0, TAKEN)
        item = tl.load(parts + p // _PART, mask=p < number, other=0) * _PART + p % _PART
        held = (p < number) & (item < items)
        product = tl.load(products + item, mask=held, other=float("-inf"))
        held &= product >= last
        low = tl.zeros([TAKEN], tl.int32)
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
                g = item.to(tl.int64)
                by_fold(fold, split_bins, mine * (m + 1), low, columns, g, counts, WAYS)
        listed = _list_open(open_, item, listed, entries, room)
    tl.store(found + row * _LISTS + way, listed)


def settle(
    sure: Any,
    lost: Any,
    near: Near,
    items: int,
    bins: Any,
    opened: Opened,
    split: Splitting | None,
) -> None:
    """Count the items of near parts among any number of thresholds; the open ones are listed.

    Both cuts fall with j, so that an item's place is found by bisection.
    """
    m = sure.shape[1]
    _settle[(len(sure), LISTS)](
        sure,
        lost,
        near.number,
        near.parts,
        near.products,
        bins,
        opened.found,
        opened.entries,
        *tables_of(split),
        items,
        m,
        near.places,
        opened.entries.shape[1],
        m.bit_length(),
        0 if split is None else split.columns,
        TAKEN=_LOOKED_UP,
        WAYS=0 if split is None else split.ways,
        num_warps=_LOOKED_UP // 64,
        **EXACT,
    )


# Triton kernels of products in half precision: tensor cores multiply, float32 accumulates.


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


# Triton kernels that compare products in half precision where they are made.


_MORE_WARPS = TILE | {"num_warps": 8}
"""For kernels that compare where they multiply."""
_BOTH = _MORE_WARPS | {"maxnreg": 128}
"""Two programs at a time on each multiprocessor: one compares while the other multiplies."""

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


# Triton kernel that decides open pairs: exact products of integer rows.


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
    mine = tl.program_id(0).to(tl.int64)
    row = mine // _LISTS
    number = tl.load(found + mine)
    if number == 0:
        return
    number = tl.where(number > room, 0, number)  # too many: the whole row is counted exactly
    entries += mine * room
    own = tl.load(a + row)
    at = row * m
    for start in range(0, number, PAIRS):
        p = start + tl.arange(0, PAIRS)
        held = p < number
        g = tl.load(entries + p, mask=held, other=0).to(tl.int64)
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
            split = tl.load(place + row).to(tl.int64)
            if split >= 0:
                after = low + same.to(tl.int32)
                by_fold(fold, split_bins, split * (m + 1), after, columns, g, counts, WAYS)
                by_fold(fold, split_equal, split * m, low, columns, g, same, WAYS)


def refine(
    left: Any,
    right: Any,
    a: Any,
    b: Any,
    mode: str,
    edges: Any,
    opened: Opened,
    bins: Any,
    equal: Any,
    split: Splitting | None,
) -> None:
    """Decide the open pairs by exact products of integer rows.

    Lists that have more than there is room for are not looked at.
    """
    dimension = left.shape[1]
    m = edges.shape[1]
    _refine[(len(opened.found),)](
        left,
        right,
        a,
        b,
        edges,
        opened.found,
        opened.entries,
        bins,
        equal,
        *tables_of(split),
        m,
        opened.entries.shape[1],
        dimension,
        m.bit_length(),
        0 if split is None else split.columns,
        MODE=MODES[mode],
        PAIRS=4,
        PART=min(128, triton.next_power_of_2(dimension)),
        WAYS=0 if split is None else split.ways,
        num_warps=2,
        **EXACT,
    )
