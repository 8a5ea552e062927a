"""Kernels of integer distances: single pairs, tiles without BLAS, rounding, row digests.

Sums of integers are exact in any order, so the compiler may vectorise them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from truerank._util.kernels import kernel

SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)
FACTORS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
SHIFTS = (29, 32)


@kernel
def _digest(rows: Any, first: Any, out: Any) -> None:
    for r in range(rows.shape[0]):
        number = np.uint64(first[r])
        a = (np.uint64(SEEDS[0]) ^ number) * np.uint64(FACTORS[0])
        b = (np.uint64(SEEDS[1]) ^ number) * np.uint64(FACTORS[1])
        a ^= a >> np.uint64(SHIFTS[0])
        b ^= b >> np.uint64(SHIFTS[1])
        for i in range(rows.shape[1]):
            number = np.uint64(np.int64(rows[r, i]))
            a = (a ^ number) * np.uint64(FACTORS[0])
            b = (b ^ number) * np.uint64(FACTORS[1])
            a ^= a >> np.uint64(SHIFTS[0])
            b ^= b >> np.uint64(SHIFTS[1])
        out[r, 0] = a
        out[r, 1] = b


@kernel
def _scrambled(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _sum_rows(rows: Any, out: Any) -> None:
    for row in range(rows.shape[0]):
        total = np.uint64(0)
        for column in range(rows.shape[1]):
            total += _scrambled(np.uint64(abs(np.int64(rows[row, column]))))
        out[row] = total


@kernel
def _sum_weighted(rows: Any, weights: Any, out: Any) -> None:
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            out[column] += np.uint64(np.int64(rows[row, column])) * weights[row]


@kernel
def _multiply(rows: Any, reference: Any, out: Any) -> None:
    for row in range(rows.shape[0]):
        total = np.uint64(0)
        for column in range(rows.shape[1]):
            total += np.uint64(np.int64(rows[row, column])) * reference[column]
        out[row] = total


# Integer distances between grid rows, compiled: what BLAS cannot do, single pairs, and rounding.
#
# Sums of integers are exact in any order, so the compiler may vectorise them freely.


CENTRE = 1 << 52
"""What is taken off sums of absolute differences, which rounding may carry beyond 2^53: less
2^52 they are integers below 2^53 in size again, which a float64 holds exactly."""


@kernel
def pair_product(left: Any, right: Any, query: Any, item: Any, out: Any) -> None:
    """Inner products of the pairs (query[p], item[p]); two of a query at a time share its row."""
    p = 0
    while p < query.size:
        a = left[query[p]]
        b = right[item[p]]
        total = np.int64(0)
        if p + 1 < query.size and query[p + 1] == query[p]:
            c = right[item[p + 1]]
            other = np.int64(0)
            for i in range(a.size):
                total += np.int64(a[i]) * np.int64(b[i])
                other += np.int64(a[i]) * np.int64(c[i])
            out[p + 1] = other
            out[p] = total
            p += 2
            continue
        for i in range(a.size):
            total += np.int64(a[i]) * np.int64(b[i])
        out[p] = total
        p += 1


@kernel
def pair_cosine(
    product: Any, left: Any, right: Any, query: Any, item: Any, half_turn: float, out: Any
) -> None:
    """|x|^2 + |y|^2 - 2 x.y of the pairs, from the squares of all rows; see unit_distances."""
    for p in range(query.size):
        d = left[query[p]] + right[item[p]] - 2 * product[p]
        out[p] = half_turn if product[p] == 0 else np.float64(d)


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


@kernel
def short_rows(rows: Any, bits: int, integers: Any, square: Any) -> None:
    """Rows as integers below 2^bits and their squares; 0 and anything for rows that are not short.

    A row is scaled by the power of two that leaves its largest component `bits` bits: what is no
    integer then would need more of them.
    """
    for r in range(rows.shape[0]):
        row = rows[r]
        square[r] = 0
        largest = 0.0
        for i in range(row.size):
            largest = max(largest, abs(row[i]))
        if largest == 0:
            continue
        exponent = bits - math.frexp(largest)[1]
        once = math.ldexp(1.0, exponent // 2)
        twice = math.ldexp(1.0, exponent - exponent // 2)
        common = np.int32(0)
        start = 0
        while start < row.size:  # a few at a time, without a branch: most rows end after the first
            stop = min(start + 64, row.size)
            odd = np.int32(0)
            for i in range(start, stop):
                scaled = row[i] * once * twice
                rounded = np.int32(scaled)
                odd |= np.int32((scaled != rounded) | ((scaled == 0) & (row[i] != 0)))
                common |= rounded
            if odd:
                break
            start = stop
        if start < row.size:
            continue
        unit = np.float64(common & -common)
        once /= unit
        total = np.int64(0)
        for i in range(row.size):
            value = np.int32(row[i] * once * twice)
            integers[r, i] = np.int16(value)
            total += value * value
        if total < np.int64(1) << (2 * bits):
            square[r] = total


@kernel
def short_tile(products: Any, left: Any, right: Any, half_turn: float, out: Any) -> None:
    """See truerank.distance.grid.short_distances; squares are float64, none of them 0."""
    for q in range(products.shape[0]):
        for g in range(products.shape[1]):
            product = np.float64(products[q, g])
            cosine = math.sqrt(product * product / (left[q] * right[g]))
            steps = np.rint(cosine * half_turn)
            out[q, g] = half_turn + steps if product < 0 else half_turn - steps


@kernel
def unit_distances(products: Any, left: Any, right: Any, half_turn: float) -> None:
    """From x.y to |x|^2 + |y|^2 - 2 x.y, in place; orthogonal rows all have the same distance."""
    for q in range(products.shape[0]):
        row = products[q]
        for g in range(row.size):
            d = left[q] + right[g] - 2.0 * row[g]
            row[g] = half_turn if row[g] == 0.0 else d
