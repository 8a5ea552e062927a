"""From real vectors to integer grids: rounding that is a definition, not an algorithm.

A row comes in as float64, an integer row (and, where rows keep their length, an exponent) goes
out. Each component is the real number x_i/|x| (or x_i/2^e) rounded to the nearest multiple of the
grid, ties to even. Floating point only proposes; wherever its error bound cannot exclude the other
neighbour, integers decide. So permuting dimensions, widening the dtype, another summation order or
another machine cannot change a single component.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.jit import compiled
from truerank.space import kernels

__all__ = [
    "CITYBLOCK_BITS",
    "LARGEST_EXPONENT",
    "SCALED_BITS",
    "UNIT_BITS",
    "cityblock_exponent",
    "cityblock_grid",
    "scaled_grid",
    "unit_grid",
]

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

UNIT_BITS = 25
"""Unit vectors are rounded to multiples of 2^-25: products are multiples of 2^-50 and sums stay
below 2^3, which fits the 53 bits of a float64 in any order of summation."""
SCALED_BITS = 26
"""Bits of vectors with an exponent of their own: their length is at most 1, one more bit fits."""
CITYBLOCK_BITS = 52
"""Bits of cityblock rows: sums of differences have no products, so all bits are available."""

LARGEST_EXPONENT = 480
"""The limit of magnitudes: beyond 2^480 or below 2^-480 a squared length leaves float64."""

_ROUNDOFF = 2.0**-53


def unit_grid(rows: Reals) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """x/|x| in units of 2^-25, and which rows are zero (they stay zero).

    The computed quotient differs from the real one by at most (d/2 + 4) 2^-53 of itself: d
    roundings in the sum of squares, halved by the root, and one each for root and quotient. A
    component closer than that to a midpoint of the grid is decided by squares of integers.
    """
    bound = (rows.shape[1] / 2 + 4) * _ROUNDOFF
    if compiled():
        integers = np.empty(rows.shape, np.int32)
        zero, uncertain = np.empty(len(rows), bool), np.empty(len(rows), bool)
        kernels.round_units(rows, UNIT_BITS, bound, integers, zero, uncertain)
    else:
        quotients = _quotients(rows)
        integers = np.rint(quotients).astype(np.int32)
        zero = np.asarray(~rows.any(axis=1))
        uncertain = np.asarray(_doubtful(quotients, bound).any(axis=1))
    for row in np.flatnonzero(uncertain):
        integers[row] = _round_exactly(rows[row], bound)
    return integers, zero


def _quotients(rows: Reals) -> Reals:
    """The quotients x/|x| in grid units, as close as unit_grid says."""
    largest = np.abs(rows).max(axis=1)
    scaled = np.ldexp(rows, -np.frexp(largest)[1][:, None])
    norm = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    norm[largest == 0] = 1.0
    quotients: Reals = scaled / norm[:, None] * 2.0**UNIT_BITS
    return quotients


def _doubtful(quotients: Reals, bound: float) -> npt.NDArray[np.bool_]:
    off = np.abs(np.abs(quotients - np.rint(quotients)) - 0.5)
    return off <= bound * np.abs(quotients)


def _round_exactly(row: Reals, bound: float) -> Reals:
    quotient = _quotients(row[None, :])[0]
    rounded: Reals = np.rint(quotient)
    integers = _as_integers(row)
    square = sum(value * value for value in integers)
    for column in np.flatnonzero(_doubtful(quotient, bound)):
        below = int(np.rint(abs(quotient[column]) - 0.5))
        magnitude = _round_ratio(integers[column], square, below)
        rounded[column] = np.copysign(magnitude, quotient[column])
    return rounded


def _round_ratio(component: int, square: int, below: int) -> int:
    """|component|/sqrt(square) in grid units: `below`, `below + 1`, or the even one of a tie."""
    actual = component * component << (2 * UNIT_BITS + 2)
    midpoint = (2 * below + 1) ** 2 * square
    if actual == midpoint:
        return below + (below & 1)
    return below + (actual > midpoint)


def scaled_grid(rows: Reals) -> tuple[Integers, npt.NDArray[np.int32], bool]:
    """Integers X and exponents e with x = X 2^(e - 26), rounded; whether anything was rounded.

    e is defined by 2^(e-1) <= |x| < 2^e, in reals. Scaling by a power of two is exact, so only
    the rounding itself loses anything, and only the choice of e needs care.
    """
    largest = np.abs(rows).max(axis=1)
    shift = np.frexp(largest)[1]
    scaled = np.ldexp(rows, -shift[:, None])
    square = np.einsum("ij,ij->i", scaled, scaled)
    # 4^(e-1) <= |x|^2 < 4^e, read off the binary exponent E of |x|^2 as e = ceil(E/2).
    exponent = (np.frexp(square)[1] + 1) // 2
    nearest_power = np.ldexp(1.0, 2 * np.rint(np.log2(np.maximum(square, 0.1)) / 2).astype(int))
    bound = (rows.shape[1] + 4) * _ROUNDOFF
    doubtful = (np.abs(square - nearest_power) <= bound * nearest_power) & (largest > 0)
    if doubtful.any():
        # On a coarse grid (signs, counts, small integers) the sum of squares above is exact.
        coarse = scaled[doubtful] * 2.0**20
        exact = (coarse == np.rint(coarse)).all(axis=1) & (rows.shape[1] <= 2**12)
        for row in np.flatnonzero(doubtful)[~exact]:
            integers = _as_integers(scaled[row])
            total = sum(value * value for value in integers)
            unit = _integer_unit(scaled[row])
            exponent[row] = (_ceil_log4(total) if total else 0) - unit
    exponent[largest == 0] = 0
    steps = np.ldexp(scaled, SCALED_BITS - exponent[:, None])
    rounded = np.rint(steps)
    exponent = np.where(largest == 0, 0, exponent + shift).astype(np.int32)
    return rounded.astype(np.int32), exponent, bool((rounded != steps).any())


def _ceil_log4(value: int) -> int:
    """The e with 4^(e-1) <= value < 4^e."""
    return (value.bit_length() + 1) // 2


def _integer_unit(row: Reals) -> int:
    """The u for which every component of the row is an integer multiple of 2^-u."""
    _, exponents = np.frexp(row[row != 0])
    return int(53 - exponents.min()) if exponents.size else 0


def _as_integers(row: Reals) -> list[int]:
    """The row times a power of two that makes every component an integer."""
    unit = _integer_unit(row)
    mantissas, exponents = np.frexp(row)
    integers = np.ldexp(mantissas, 53).astype(np.int64).tolist()
    return [
        value << (shift + unit - 53) if value else 0
        for value, shift in zip(integers, exponents.tolist(), strict=True)
    ]


def cityblock_exponent(rows: Reals) -> int:
    """The smallest e with every row's L1 norm <= 2^e, in reals (-10000 if all rows are zero)."""
    if not rows.any():
        return -10_000
    norms = np.abs(rows).sum(axis=1)
    bound = (rows.shape[1] + 1) * _ROUNDOFF
    exponent = -10_000
    for row in np.flatnonzero(norms >= norms.max() * (1 - 2 * bound)):
        unit = _integer_unit(rows[row])
        total = sum(abs(value) for value in _as_integers(rows[row]))
        exponent = max(exponent, (total - 1).bit_length() - unit)
    return exponent


def cityblock_grid(rows: Reals, exponent: int) -> tuple[npt.NDArray[np.int64], bool]:
    """x in units of 2^(exponent - 52), and whether anything was rounded."""
    steps = np.ldexp(rows, CITYBLOCK_BITS - exponent)
    rounded = np.rint(steps)
    return rounded.astype(np.int64), bool((rounded != steps).any())
