"""Triton kernel that decides open pairs: exact products of integer rows."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from truerank.engine.cuda.near import LISTS, Opened
from truerank.engine.cuda.splitting import Splitting, tables_of
from truerank.engine.cuda.triton_kernels import EXACT, MODES, by_fold, distance, look_up

__all__ = ["refine"]

_LISTS: tl.constexpr = tl.constexpr(LISTS)


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
