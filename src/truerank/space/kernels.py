"""Integer distances between grid rows, compiled: what BLAS cannot do, single pairs, and rounding.

Sums of integers are exact in any order, so the compiler may vectorise them freely.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from truerank.jit import kernel

__all__ = [
    "CENTRE",
    "pair_cityblock",
    "pair_product",
    "pair_unequal",
    "round_units",
    "tile_cityblock",
    "tile_unequal",
]

CENTRE = 1 << 52
"""What is taken off sums of absolute differences, which rounding may carry beyond 2^53: less
2^52 they are integers below 2^53 in size again, which a float64 holds exactly."""


@kernel
def pair_product(left: Any, right: Any, query: Any, item: Any, out: Any) -> None:
    """Inner products of the pairs (query[p], item[p])."""
    for p in range(query.size):
        total = np.int64(0)
        a = left[query[p]]
        b = right[item[p]]
        for i in range(a.size):
            total += np.int64(a[i]) * np.int64(b[i])
        out[p] = total


@kernel
def pair_cityblock(left: Any, right: Any, query: Any, item: Any, out: Any) -> None:
    """Sums of absolute differences of the pairs, less CENTRE."""
    for p in range(query.size):
        total = np.int64(0)
        a = left[query[p]]
        b = right[item[p]]
        for i in range(a.size):
            total += abs(a[i] - b[i])
        out[p] = total - CENTRE


@kernel
def pair_unequal(left: Any, right: Any, query: Any, item: Any, out: Any) -> None:
    """Numbers of unequal components of the pairs."""
    for p in range(query.size):
        total = np.int64(0)
        a = left[query[p]]
        b = right[item[p]]
        for i in range(a.size):
            total += np.int64(a[i] != b[i])
        out[p] = total


@kernel
def tile_cityblock(left: Any, right: Any, out: Any) -> None:
    """Sums of absolute differences between every row of left and of right, less CENTRE."""
    for q in range(left.shape[0]):
        for g in range(right.shape[0]):
            total = np.int64(0)
            a = left[q]
            b = right[g]
            for i in range(a.size):
                total += abs(a[i] - b[i])
            out[q, g] = total - CENTRE


@kernel
def tile_unequal(left: Any, right: Any, out: Any) -> None:
    """Numbers of unequal components between every row of left and every row of right."""
    for q in range(left.shape[0]):
        for g in range(right.shape[0]):
            total = np.int64(0)
            a = left[q]
            b = right[g]
            for i in range(a.size):
                total += np.int64(a[i] != b[i])
            out[q, g] = total


@kernel
def round_units(
    rows: Any, bits: int, bound: float, integers: Any, zero: Any, doubtful: Any
) -> None:
    """x/|x| in units of 2^-bits; rows with a component closer than `bound` to a midpoint are told.

    Rows are scaled by a power of two first, in two steps of which each is within range.
    """
    for r in range(rows.shape[0]):
        row = rows[r]
        largest = 0.0
        for i in range(row.size):
            largest = max(largest, abs(row[i]))
        zero[r] = largest == 0
        exponent = -math.frexp(largest)[1]
        once = math.ldexp(1.0, exponent // 2)
        twice = math.ldexp(1.0, exponent - exponent // 2)
        square = 0.0
        for i in range(row.size):
            scaled = row[i] * once * twice
            square += scaled * scaled
        norm = 1.0 if zero[r] else math.sqrt(square)
        unit = 2.0**bits
        close = 0
        for i in range(row.size):
            quotient = row[i] * once * twice / norm * unit
            rounded = np.rint(quotient)
            close += abs(abs(quotient - rounded) - 0.5) <= bound * abs(quotient)
            integers[r, i] = np.int32(rounded)
        doubtful[r] = close > 0
