"""Triton kernels that decide items by their products in half precision, and list the open ones.

A product above sure[q, j] is nearer than threshold j, one below lost[q, j] is farther. Few
thresholds are compared with each product that was kept; among more of them, and where counts are
split by fold, it is looked up.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from truerank.engine.cuda import sizes
from truerank.engine.cuda.near import LISTS, PART, Near, Opened
from truerank.engine.cuda.splitting import Splitting, tables_of
from truerank.engine.cuda.triton_kernels import EXACT, by_fold

__all__ = ["compare", "settle"]

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
    if m > sizes.FEW:
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
