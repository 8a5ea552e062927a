# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

"""Kernels of rankings on a GPU: grades of items, and sums down sorted rows of grades.

Sums are in double-double arithmetic, one query per GPU thread, by the operations of the kernels
in metrics for queries without ties in the same order, so they have the same bits (contraction
to fused multiply-adds is off). Each gives the two parts of a sum; the value is computed on the
CPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# The grades of gallery items as integers on a GPU: of each pair, and where they lie in a row.


@triton.jit(do_not_specialize=["queries", "items", "levels", "lowest"])
def _common_grades(
    query, item, out, queries, items, levels, lowest, ROWS: tl.constexpr, ITEMS: tl.constexpr
):
    q = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    g = tl.program_id(1).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    inside = (q < queries)[:, None] & (g < items)[None, :]
    top = tl.load(query + q, mask=q < queries, other=-1)
    same = inside & (top >= 0)[:, None]
    length = tl.zeros([ROWS, ITEMS], tl.int32)
    for level in range(levels):
        x = tl.load(query + level * queries + q, mask=q < queries, other=-1)
        y = tl.load(item + level * items + g, mask=g < items, other=-2)
        same &= x[:, None] == y[None, :]
        length += same.to(tl.int32)
    grade = tl.where(length > 0, lowest - 1 + length, 0)
    tl.store(out + q[:, None] * items + g[None, :], grade.to(tl.uint8), mask=inside)


def common_grades(query: Any, item: Any, lowest: int) -> Any:
    """Lengths of common paths from (levels, queries) and (levels, items) int32 codes."""
    levels, queries = query.shape
    items = item.shape[1]
    out = torch.empty((queries, items), dtype=torch.uint8, device=query.device)
    grid = (triton.cdiv(queries, 16), triton.cdiv(items, 512))
    _common_grades[grid](
        query,
        item,
        out,
        queries,
        items,
        levels,
        lowest,
        ROWS=16,
        ITEMS=512,
        enable_fp_fusion=False,
    )
    return out


@triton.jit(do_not_specialize=["width"])
def _survey(grades, out, width, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    grade = tl.program_id(1) + 1
    number = tl.zeros([COLUMNS], tl.int32)
    first = number + width
    last = number - 1
    for start in range(0, width, COLUMNS):
        rank = start + tl.arange(0, COLUMNS)
        found = tl.load(grades + row * width + rank, mask=rank < width, other=0).to(tl.int32)
        same = found == grade
        number += same.to(tl.int32)
        first = tl.minimum(first, tl.where(same, rank, width))
        last = tl.maximum(last, tl.where(same, rank, -1))
    at = out + 3 * (row * tl.num_programs(1) + grade - 1)
    tl.store(at, tl.sum(number, 0))
    tl.store(at + 1, tl.min(first, 0))
    tl.store(at + 2, tl.max(last, 0))


def survey(grades: Any, count: int) -> Any:
    """(queries, grades, 3): the items of each grade, the ranks of the first and the last of them.

    Where there is none, these are the number of items and -1.
    """
    queries, width = grades.shape
    out = torch.empty((queries, count, 3), dtype=torch.int32, device=grades.device)
    if queries:
        _survey[(queries, count)](grades, out, width, COLUMNS=2048, num_warps=4)
    return out


# Walks down sorted rows of grades in double-double arithmetic, a query for each GPU thread.


_LANES = 32
_SPLIT = tl.constexpr(134217729.0)
_SHORT = tl.constexpr(67108864.0)
_EXACTLY = {"num_warps": 1, "enable_fp_fusion": False}


@triton.jit
def _two_sum(a, b):
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


@triton.jit
def _two_product(a, b):
    high = a * b
    split = _SPLIT * a
    a1 = split - (split - a)
    a2 = a - a1
    split = _SPLIT * b
    b1 = split - (split - b)
    b2 = b - b1
    return high, a2 * b2 - (((high - a1 * b1) - a2 * b1) - a1 * b2)


@triton.jit
def _add(a, a_low, b, b_low):
    high, error = _two_sum(a, b)
    low, more = _two_sum(a_low, b_low)
    high, error = _two_sum(high, error + low)
    return _two_sum(high, error + more)


@triton.jit
def _accumulate(total, total_low, a, a_low):
    high, error = _two_sum(total, a)
    return high, total_low + (error + a_low)


@triton.jit
def _over(a, a_low, b):
    first = a / b
    high, error = _two_product(first, b)
    rest = ((a - high) - error) + a_low
    return _two_sum(first, rest / b)


@triton.jit
def _times(a, a_low, b):
    high, error = _two_product(a, b)
    return _two_sum(high, error + a_low * b)


@triton.jit
def _times_count(a, a_top, a_low, n):
    high = a * n
    low = ((a_top * n - high) + (a - a_top) * n) + a_low * n
    long, long_low = _times(a, a_low, n)
    return tl.where(n >= _SHORT, long, high), tl.where(n >= _SHORT, long_low, low)


@triton.jit
def _over_rank(a, a_low, rank):
    first = a / rank
    split = _SPLIT * first
    top = split - (split - first)
    rest = ((a - top * rank) - (first - top) * rank) + a_low
    long, long_low = _over(a, a_low, rank)
    return tl.where(rank >= _SHORT, long, first), tl.where(rank >= _SHORT, long_low, rest / rank)


@triton.jit(do_not_specialize=["queries", "width", "lowest"])
def _precision_sum(grades, cut, sum_high, sum_low, queries, width, lowest, LANES: tl.constexpr):
    q = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = q < queries
    row = grades + q.to(tl.int64) * width
    stop = tl.load(cut + q, mask=real, other=0)
    n = tl.zeros([LANES], tl.int32)
    high = tl.zeros([LANES], tl.float64)
    low = tl.zeros([LANES], tl.float64)
    last = tl.max(stop, 0)
    for k in range(last):
        inside = real & (k < stop)
        relevant = inside & (tl.load(row + k, mask=inside, other=0).to(tl.int32) >= lowest)
        if tl.max(relevant.to(tl.int32), 0) > 0:
            n += relevant.to(tl.int32)
            rank = tl.full([LANES], 1.0, tl.float64) + k
            part, part_low = _over(n.to(tl.float64), 0.0, rank)
            more, more_low = _accumulate(high, low, part, part_low)
            high = tl.where(relevant, more, high)
            low = tl.where(relevant, more_low, low)
    tl.store(sum_high + q, high, mask=real)
    tl.store(sum_low + q, low, mask=real)


def precision_sum(grades: Any, cut: Any, lowest: int) -> tuple[Any, Any]:
    """Precisions at the ranks, up to the cut, of items of grade `lowest` and above."""
    high, low = _pair(grades)
    queries, width = grades.shape
    grid = (triton.cdiv(queries, _LANES),)
    _precision_sum[grid](grades, cut, high, low, queries, width, lowest, LANES=_LANES, **_EXACTLY)
    return high, low


@triton.jit(do_not_specialize=["queries", "width"])
def _hierarchical_precision(
    grades,
    place,
    value,
    value_top,
    value_low,
    seen,
    end,
    sum_high,
    sum_low,
    queries,
    width,
    GRADES: tl.constexpr,
    LANES: tl.constexpr,
):
    q = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = q < queries
    row = grades + q.to(tl.int64) * width
    at_row = q * GRADES
    stop = tl.load(end + q, mask=real, other=0)
    found = tl.zeros([LANES], tl.int32)
    high = tl.zeros([LANES], tl.float64)
    low = tl.zeros([LANES], tl.float64)
    for k in range(tl.max(stop, 0)):
        inside = real & (k < stop)
        own = tl.load(row + k, mask=inside, other=0).to(tl.int32) - 1
        relevant = own >= 0
        if tl.max(relevant.to(tl.int32), 0) > 0:
            at = tl.load(place + at_row + own, mask=relevant, other=0)
            mine = tl.load(seen + at_row + at, mask=relevant, other=0) + 1
            tl.store(seen + at_row + at, mine, mask=relevant)
            found += relevant.to(tl.int32)
            lower = tl.zeros([LANES], tl.int32)
            most = tl.max(at, 0)
            for p in range(most):
                lower += tl.load(seen + at_row + p, mask=p < at, other=0)
            part, part_low = _times_count(
                tl.load(value + at_row + at, mask=relevant, other=0.0),
                tl.load(value_top + at_row + at, mask=relevant, other=0.0),
                tl.load(value_low + at_row + at, mask=relevant, other=0.0),
                (found - lower).to(tl.float64),
            )
            for p in range(most):
                below = p < at
                more, more_low = _times_count(
                    tl.load(value + at_row + p, mask=below, other=0.0),
                    tl.load(value_top + at_row + p, mask=below, other=0.0),
                    tl.load(value_low + at_row + p, mask=below, other=0.0),
                    tl.load(seen + at_row + p, mask=below, other=0).to(tl.float64),
                )
                more, more_low = _accumulate(part, part_low, more, more_low)
                part = tl.where(below, more, part)
                part_low = tl.where(below, more_low, part_low)
            rank = tl.full([LANES], 1.0, tl.float64) + k
            part, part_low = _over_rank(part, part_low, rank)
            more, more_low = _accumulate(high, low, part, part_low)
            high = tl.where(relevant, more, high)
            low = tl.where(relevant, more_low, low)
    tl.store(sum_high + q, high, mask=real)
    tl.store(sum_low + q, low, mask=real)


def hierarchical_precision(
    grades: Any, end: Any, place: Any, value: Any, value_top: Any, value_low: Any
) -> tuple[Any, Any]:
    """Hierarchical precisions at relevant ranks; relevances by their place from the lowest."""
    high, low = _pair(grades)
    queries, width = grades.shape
    seen = torch.zeros(place.shape, dtype=torch.int32, device=grades.device)
    _hierarchical_precision[(triton.cdiv(queries, _LANES),)](
        grades,
        place,
        value,
        value_top,
        value_low,
        seen,
        end,
        high,
        low,
        queries,
        width,
        GRADES=place.shape[1],
        LANES=_LANES,
        **_EXACTLY,
    )
    return high, low


@triton.jit(do_not_specialize=["queries", "width", "cut"])
def _discounted_gain(
    grades,
    table,
    table_low,
    end,
    alone,
    alone_low,
    queries,
    width,
    cut,
    GRADES: tl.constexpr,
    LANES: tl.constexpr,
):
    q = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = q < queries
    row = grades + q.to(tl.int64) * width
    at_row = q * GRADES
    stop = tl.minimum(tl.load(end + q, mask=real, other=0), cut)
    for k in range(tl.max(stop, 0)):
        inside = real & (k < stop)
        own = tl.load(row + k, mask=inside, other=0).to(tl.int32) - 1
        relevant = own >= 0
        if tl.max(relevant.to(tl.int32), 0) > 0:
            part, part_low = _add(
                tl.load(table + k + 1),
                tl.load(table_low + k + 1),
                -tl.load(table + k),
                -tl.load(table_low + k),
            )
            high = tl.load(alone + at_row + own, mask=relevant, other=0.0)
            low = tl.load(alone_low + at_row + own, mask=relevant, other=0.0)
            high, low = _accumulate(high, low, part, part_low)
            tl.store(alone + at_row + own, high, mask=relevant)
            tl.store(alone_low + at_row + own, low, mask=relevant)


def discounted_gain(
    grades: Any, end: Any, count: int, cut: int, table: Any, table_low: Any
) -> tuple[Any, Any]:
    """Discounts of the relevant ranks up to the cut, added up for each of `count` grades."""
    queries, width = grades.shape
    shape = (queries, count)
    alone = torch.zeros(shape, dtype=torch.float64, device=grades.device)
    alone_low = torch.zeros_like(alone)
    _discounted_gain[(triton.cdiv(queries, _LANES),)](
        grades,
        table,
        table_low,
        end,
        alone,
        alone_low,
        queries,
        width,
        cut,
        GRADES=count,
        LANES=_LANES,
        **_EXACTLY,
    )
    return alone, alone_low


@triton.jit(do_not_specialize=["queries", "width", "lowest"])
def _set_intersection(
    grades,
    totals,
    found,
    table,
    table_low,
    sum_high,
    sum_low,
    overlap_out,
    queries,
    width,
    lowest,
    GRADES: tl.constexpr,
    LANES: tl.constexpr,
):
    q = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = q < queries
    row = grades + q.to(tl.int64) * width
    depth = tl.zeros([LANES], tl.int32)
    for i in range(GRADES):
        depth += tl.load(totals + q * GRADES + i, mask=real, other=0)
    at_row = q * (GRADES + 1)
    best = tl.zeros([LANES], tl.int32) + GRADES
    room = tl.load(totals + q * GRADES + best - 1, mask=real, other=1)
    reached = tl.zeros([LANES], tl.int32)
    overlap = tl.zeros([LANES], tl.int32)
    high = tl.zeros([LANES], tl.float64)
    low = tl.zeros([LANES], tl.float64)
    for n in range(tl.max(depth, 0)):
        inside = real & (n < depth)
        grade = tl.load(row + n, mask=inside, other=0).to(tl.int32)
        own = tl.minimum(tl.maximum(grade - (lowest - 1), 0), GRADES)
        spent = inside & (reached == room)
        while tl.max(spent.to(tl.int32), 0) > 0:
            best = tl.where(spent, best - 1, best)
            reached = tl.where(spent, 0, reached)
            room = tl.where(
                spent, tl.load(totals + q * GRADES + best - 1, mask=spent, other=1), room
            )
            spent = inside & (reached == room)
        reached += inside.to(tl.int32)
        known = tl.load(found + at_row + best, mask=inside, other=0)
        step = (inside & (reached <= known)).to(tl.int32) + (inside & (own > best)).to(tl.int32)
        mine = tl.load(found + at_row + own, mask=inside, other=0) + 1
        tl.store(found + at_row + own, mine, mask=inside)
        step += (inside & (own == best) & (mine <= reached)).to(tl.int32)
        if tl.max(step, 0) > 0:
            overlap += step
            weight = -step.to(tl.float64)
            more, more_low = _accumulate(
                high, low, weight * tl.load(table + n), weight * tl.load(table_low + n)
            )
            high = tl.where(step > 0, more, high)
            low = tl.where(step > 0, more_low, low)
    tl.store(sum_high + q, high, mask=real)
    tl.store(sum_low + q, low, mask=real)
    tl.store(overlap_out + q, overlap, mask=real)


def set_intersection(
    grades: Any, totals: Any, lowest: int, table: Any, table_low: Any
) -> tuple[Any, Any, Any]:
    """ASI's sums over depths without their common part, and the overlap at the last depth.

    `totals` counts each query's items by grade from `lowest` up; lower grades are irrelevant.
    """
    high, low = _pair(grades)
    queries, width = grades.shape
    overlap = torch.empty(queries, dtype=torch.int32, device=grades.device)
    count = totals.shape[1]
    found = torch.zeros((queries, count + 1), dtype=torch.int32, device=grades.device)
    _set_intersection[(triton.cdiv(queries, _LANES),)](
        grades,
        totals,
        found,
        table,
        table_low,
        high,
        low,
        overlap,
        queries,
        width,
        lowest,
        GRADES=count,
        LANES=_LANES,
        **_EXACTLY,
    )
    return high, low, overlap


def _pair(grades: Any) -> tuple[Any, Any]:
    high = torch.empty(len(grades), dtype=torch.float64, device=grades.device)
    return high, torch.empty_like(high)
