# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

"""Triton kernel of row digests on a GPU: one thread takes in a row, number after number.

Multiplications wrap modulo 2^64 in signed integers as in unsigned ones; a shift, which would
extend the sign, is followed by a mask.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from truerank.distance.distance_kernels import FACTORS, SEEDS, SHIFTS

_ROWS, _WARPS = 64, 2
_WORD = 1 << 64


def _signed(number: int) -> int:
    """The signed integer with the same 64 bits."""
    number %= _WORD
    return number - _WORD if number >= _WORD // 2 else number


def _begun(half: int) -> int:
    """A chain that has taken in the 0 that every row of this kind begins with."""
    state = SEEDS[half] * FACTORS[half] % _WORD
    return _signed(state ^ (state >> SHIFTS[half]))


@triton.jit(do_not_specialize=["count", "dimension", "stride"])
def _digest(
    rows,
    out,
    count,
    dimension,
    stride,
    BEGUN_A: tl.constexpr,
    BEGUN_B: tl.constexpr,
    FACTOR_A: tl.constexpr,
    FACTOR_B: tl.constexpr,
    SHIFT_A: tl.constexpr,
    SHIFT_B: tl.constexpr,
    KEPT_A: tl.constexpr,
    KEPT_B: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    held = row < count
    start = rows + row * stride
    a = tl.full((ROWS,), BEGUN_A, tl.int64)
    b = tl.full((ROWS,), BEGUN_B, tl.int64)
    for column in range(dimension):
        number = tl.load(start + column, mask=held, other=0).to(tl.int64)
        a = (a ^ number) * FACTOR_A
        b = (b ^ number) * FACTOR_B
        a = a ^ ((a >> SHIFT_A) & KEPT_A)
        b = b ^ ((b >> SHIFT_B) & KEPT_B)
    tl.store(out + 2 * row, a, mask=held)
    tl.store(out + 2 * row + 1, b, mask=held)


def row_digests(rows: Any) -> Any:
    """(rows, 2) int64: the bits of distance.digests.row_digests, of integer rows on a GPU."""
    rows = rows.contiguous()
    count, dimension = rows.shape
    out = torch.empty((count, 2), dtype=torch.int64, device=rows.device)
    with torch.cuda.device_of(rows):
        _digest[(triton.cdiv(count, _ROWS),)](
            rows,
            out,
            count,
            dimension,
            rows.stride(0),
            BEGUN_A=_begun(0),
            BEGUN_B=_begun(1),
            FACTOR_A=_signed(FACTORS[0]),
            FACTOR_B=_signed(FACTORS[1]),
            SHIFT_A=SHIFTS[0],
            SHIFT_B=SHIFTS[1],
            KEPT_A=(1 << (64 - SHIFTS[0])) - 1,
            KEPT_B=(1 << (64 - SHIFTS[1])) - 1,
            ROWS=_ROWS,
            num_warps=_WARPS,
        )
    return out
