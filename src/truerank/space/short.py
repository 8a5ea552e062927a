"""Short rows: small integers times a power of two, whose cosines are known as rational numbers.

A row is short if, divided by its largest common power of two, its components are integers with
|x|^2 < 2^24: counts, bits, attributes, ternary codes, bytes. Of two such rows x.y, |x|^2 and |y|^2
are integers below 2^24, so

    r = (x.y)^2 / (|x|^2 |y|^2)

is one division of exact float64 numbers: equal squared cosines become the same r, a larger one
never a smaller. D = 2 -+ 2 sqrt(r), rounded to the unit 2^-50 of all cosine distances, follows by
two more operations that keep the order. So rows with the same true cosine to a query tie, which
rows on a grid need not.

A product of short rows is exact in float32 as well: sums of |x_i y_i| are at most |x| |y| < 2^24.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.jit import compiled
from truerank.space import kernels

__all__ = ["SHORT_BITS", "ShortRows", "short_distances", "short_rows", "short_tile"]

SHORT_BITS = 12
"""Components of short rows are below 2^12 in size, and squared lengths below 2^24."""
HALF_TURN = 2.0**51
"""The distance of orthogonal rows, D = 2 in units of 2^-50."""


@dataclass(frozen=True)
class ShortRows:
    """Rows as small integers, and which of them are short."""

    integers: Any
    """An array of int16, or pieces of one that a cluster holds; only short rows are filled in."""
    square: npt.NDArray[np.int64]
    """|x|^2; 0 for rows that are not short or hold nothing but zeros."""


def short_rows(rows: npt.NDArray[np.float64]) -> ShortRows | None:
    """Rows as small integers where they are short; None where none is."""
    integers = np.zeros(rows.shape, np.int16)
    square = np.zeros(len(rows), np.int64)
    if compiled():
        kernels.short_rows(rows, SHORT_BITS, integers, square)
    else:
        for number, row in enumerate(rows):
            square[number] = _short_row(row, integers[number])
    return ShortRows(integers, square) if square.any() else None


def _short_row(row: npt.NDArray[np.float64], out: npt.NDArray[np.int16]) -> int:
    """One row as small integers in `out`; returns |x|^2, 0 if the row is not short."""
    if not row.any():
        return 0
    scaled = np.ldexp(row, SHORT_BITS - int(np.frexp(np.abs(row).max())[1]))
    if (scaled != np.rint(scaled)).any() or ((scaled == 0) & (row != 0)).any():
        return 0
    integers = scaled.astype(np.int64)
    common = int(np.bitwise_or.reduce(integers))
    integers //= common & -common
    square = int(integers @ integers)
    if square >= 1 << (2 * SHORT_BITS):
        return 0
    out[:] = integers
    return square


def short_distances(
    product: npt.NDArray[Any], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Distances from products of short rows and their squares; rows of zeros have any square."""
    product = product.astype(np.float64)
    both = np.maximum(left, 1).astype(np.float64) * np.maximum(right, 1).astype(np.float64)
    cosine = np.sqrt(product * product / both)
    distances: npt.NDArray[np.float64] = HALF_TURN - np.copysign(
        np.rint(cosine * HALF_TURN), product
    )
    return distances


def short_tile(
    product: npt.NDArray[np.float32], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Distances from a tile of products, and the squares of its rows and of its columns."""
    if not compiled():
        return short_distances(product, left[:, None], right[None, :])
    out = np.empty(product.shape)
    kernels.short_tile(product, np.maximum(left, 1.0), np.maximum(right, 1.0), HALF_TURN, out)
    return out
