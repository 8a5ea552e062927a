"""Triton kernels over whole rows of distances: what observers ask for, in one reading of them."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from truerank.engine.cuda import torch_kernels

if TYPE_CHECKING:
    from truerank.engine.cuda.distance_block import DeviceCuts
    from truerank.engine.distance_block import DistanceRange

__all__ = ["ROUNDED", "between", "count_on_grid", "nearer", "tally", "tally_by_fold"]

ROUNDED = {"enable_fp_fusion": False}
"""Options of kernels in which every operation is rounded, as on the CPU."""
_COLUMNS = 1024
_STRIP = 16 * _COLUMNS
"""Items that a program goes through, _COLUMNS at a time."""
_COPIES, _NUMBERS = 64, 1 << 20
"""Small tables are counted in several copies, lest programs wait for each other."""
_COLLECTED = 4096
_SPARSE = 32
"""At most one distance in so many is expected in a range; more are collected another way."""


@triton.jit(do_not_specialize=["items"])
def _nearer(distances, limit, found, items, COLUMNS: tl.constexpr, STRIP: tl.constexpr):
    q = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1) * STRIP
    most = tl.load(limit + q)
    count = tl.zeros([COLUMNS], tl.int32)
    for first in range(start, min(start + STRIP, items), COLUMNS):
        item = first + tl.arange(0, COLUMNS)
        d = tl.load(distances + q * items + item, mask=item < items, other=float("inf"))
        count += (d < most).to(tl.int32)
    tl.atomic_add(found + q, tl.sum(count, 0), sem="relaxed")


def nearer(distances: Any, limit: Any) -> Any:
    """How many items of each row are nearer than its limit."""
    rows, items = distances.shape
    found = torch.zeros(rows, dtype=torch.int32, device=distances.device)
    grid = (rows, triton.cdiv(items, _STRIP))
    _nearer[grid](distances, limit, found, items, COLUMNS=_COLUMNS, STRIP=_STRIP, num_warps=4)
    return found


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
    # in a tensor: as arguments they would be float32
    axis = torch.tensor([low, scale], dtype=torch.float64, device=grid.device)
    _count_on_grid[(rows, triton.cdiv(items, _STRIP))](
        distances,
        grid,
        axis,
        counts,
        items,
        LAST=len(grid) - 1,
        COLUMNS=_COLUMNS,
        STRIP=_STRIP,
        num_warps=4,
        **ROUNDED,
    )
    return torch.cumsum(counts, 1, dtype=torch.int32)


@triton.jit
def _place(d, is_near, at, start, low, scale, cells, steps):
    """The first cut that each near distance does not exceed; see truerank.engine.cuts.tally."""
    d = tl.where(is_near, d, low)
    cell = tl.maximum((d - low) * scale, 0.0)
    cell = tl.minimum(cell, cells.to(tl.float64)).to(tl.int64)
    place = tl.load(start + cell, mask=is_near, other=0)
    after = tl.load(start + cell + 1, mask=is_near, other=0)
    for _ in range(steps):
        middle = (place + after) >> 1
        some = is_near & (place < after)
        above = some & (tl.load(at + middle, mask=some, other=0.0) < d)
        place = tl.where(above, middle + 1, place)
        after = tl.where(above, after, middle)
    return place


@triton.jit(do_not_specialize=["items", "cuts", "cells", "steps", "copies", "size"])
def _tally(
    distances,
    at,
    start,
    axis,
    who,
    found,
    items,
    cuts,
    cells,
    steps,
    copies,
    size,
    TURNED: tl.constexpr,
    COLUMNS: tl.constexpr,
    STRIP: tl.constexpr,
):
    q = tl.program_id(0).to(tl.int64)
    begin = tl.program_id(1) * STRIP
    low = tl.load(axis)
    scale = tl.load(axis + 1)
    last = tl.load(at + cuts - 1)
    mine = found + ((q + tl.program_id(1)) % copies) * size
    if not TURNED:
        mine += tl.load(who + q) * (cuts + 1)
    beyond = tl.zeros([COLUMNS], tl.int32)
    for first in range(begin, min(begin + STRIP, items), COLUMNS):
        item = first + tl.arange(0, COLUMNS)
        inside = item < items
        d = tl.load(distances + q * items + item, mask=inside, other=float("inf"))
        is_near = d <= last
        is_beyond = (d > last) & (d < float("inf"))
        row = tl.zeros([COLUMNS], tl.int64)
        if TURNED:
            row += tl.load(who + item, mask=inside, other=0) * (cuts + 1)
            tl.atomic_add(mine + row + cuts, 1, mask=is_beyond, sem="relaxed")
        else:
            beyond += is_beyond.to(tl.int32)
        if tl.max(is_near.to(tl.int32), 0) > 0:
            place = _place(d, is_near, at, start, low, scale, cells, steps)
            tl.atomic_add(mine + row + place, 1, mask=is_near, sem="relaxed")
    if not TURNED:
        tl.atomic_add(mine + cuts, tl.sum(beyond, 0), sem="relaxed")


def tally(distances: Any, cuts: DeviceCuts, who: Any, owners: int, *, turned: bool) -> Any:
    """(owners, cuts + 1): finite distances up to each cut and above the one before, by the owner of
    their row, or of their column if turned."""
    rows, items = distances.shape
    size = owners * (len(cuts.at) + 1)
    copies = max(1, min(_COPIES, _NUMBERS // size))
    found = torch.zeros((copies, size), dtype=torch.int32, device=distances.device)
    _tally[(rows, triton.cdiv(items, _STRIP))](
        distances,
        cuts.at,
        cuts.start,
        cuts.axis,
        who,
        found,
        items,
        len(cuts.at),
        len(cuts.start) - 2,
        cuts.steps,
        copies,
        size,
        TURNED=turned,
        COLUMNS=_COLUMNS,
        STRIP=_STRIP,
        num_warps=4,
        **ROUNDED,
    )
    return found.sum(0).view(owners, -1)


@triton.jit(do_not_specialize=["items", "cuts", "cells", "steps", "columns"])
def _tally_by_fold(
    distances,
    at,
    start,
    axis,
    who,
    fold,
    found,
    items,
    cuts,
    cells,
    steps,
    columns,
    TURNED: tl.constexpr,
    WAYS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STRIP: tl.constexpr,
):
    q = tl.program_id(0).to(tl.int64)
    begin = tl.program_id(1) * STRIP
    low = tl.load(axis)
    scale = tl.load(axis + 1)
    last = tl.load(at + cuts - 1)
    for first in range(begin, min(begin + STRIP, items), COLUMNS):
        item = first + tl.arange(0, COLUMNS)
        d = tl.load(distances + q * items + item, mask=item < items, other=float("inf"))
        is_near = d <= last
        if tl.max(is_near.to(tl.int32), 0) > 0:
            place = _place(d, is_near, at, start, low, scale, cells, steps)
            one, other = q, item
            if TURNED:
                one, other = item, q
            owner = tl.load(who + one + 0 * item, mask=is_near, other=0)
            for way in tl.static_range(WAYS):
                column = tl.load(fold + (other + 0 * item) * WAYS + way, mask=is_near, other=0)
                table = (owner * columns + column) * cuts
                tl.atomic_add(found + table + place, 1, mask=is_near, sem="relaxed")


def tally_by_fold(
    distances: Any,
    cuts: DeviceCuts,
    who: Any,
    owners: int,
    fold: Any,
    columns: int,
    *,
    turned: bool,
) -> Any:
    """(owners, columns, cuts): distances up to each cut and above the one before, by the owner of
    their row and the folds of their column, or the other way round if turned."""
    rows, items = distances.shape
    shape = (owners, columns, len(cuts.at))
    found = torch.zeros(shape, dtype=torch.int32, device=distances.device)
    _tally_by_fold[(rows, triton.cdiv(items, _STRIP))](
        distances,
        cuts.at,
        cuts.start,
        cuts.axis,
        who,
        fold,
        found,
        items,
        len(cuts.at),
        len(cuts.start) - 2,
        cuts.steps,
        columns,
        TURNED=turned,
        WAYS=fold.shape[1],
        COLUMNS=_COLUMNS,
        STRIP=_STRIP,
        num_warps=4,
        **ROUNDED,
    )
    return found


@triton.jit(do_not_specialize=["count", "room"])
def _between(distances, ends, found, out, count, room, RANGES: tl.constexpr, PART: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * PART + tl.arange(0, PART)
    d = tl.load(distances + place, mask=place < count, other=float("inf"))
    for number in tl.static_range(RANGES):
        low = tl.load(ends + 2 * number)
        high = tl.load(ends + 2 * number + 1)
        is_inside = (d > low) & (d <= high)
        one = is_inside.to(tl.int32)
        held = tl.sum(one, 0)
        if held > 0:
            slot = tl.atomic_add(found + number, held, sem="relaxed") + tl.cumsum(one, 0) - 1
            slot = slot.to(tl.int64)
            tl.store(out + number * room + slot, d, mask=is_inside & (slot < room))


def between(distances: Any, ranges: Sequence[DistanceRange]) -> list[Any]:
    """The distances in each range (low, high], in no order; ends must be finite above."""
    if not ranges:
        return []
    count = distances.numel()
    room = count // _SPARSE + 1
    device = distances.device
    ends = torch.tensor(ranges, dtype=torch.float64, device=device)
    found = torch.zeros(len(ranges), dtype=torch.int32, device=device)
    out = torch.empty((len(ranges), room), dtype=torch.float64, device=device)
    _between[(triton.cdiv(count, _COLLECTED),)](
        distances, ends, found, out, count, room, RANGES=len(ranges), PART=_COLLECTED, num_warps=8
    )
    held = zip(out, found.tolist(), ranges, strict=True)
    return [
        part[:number] if number <= room else torch_kernels.between(distances, [one])[0]
        for part, number, one in held
    ]
