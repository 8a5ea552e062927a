"""Rounding of real vectors to integer grids, short rows, and float32 products with a bound.

A float64 row becomes an integer row (and, where rows keep their length, an exponent). Each
component is the real number x_i/|x| (or x_i/2^e) rounded to the nearest multiple of the grid,
ties to even. Floating point proposes; wherever its error bound leaves two candidates, integers
decide. So permuting dimensions, widening the dtype, another order of summation or another
machine cannot change a component.

A row is short if, divided by its largest common power of two, its components are integers with
|x|^2 < 2^24: counts, bits, attributes, ternary codes, bytes. Of two such rows x.y, |x|^2 and
|y|^2 are integers below 2^24, so

    r = (x.y)^2 / (|x|^2 |y|^2)

is one division of exact float64 numbers, and rows with the same true cosine to a query tie. A
float32 product of short rows is exact as well, since sums of |x_i y_i| are at most |x| |y| <
2^24. Of other unit rows, single precision gives an interval of scores around each exact
distance; a score outside it is decided without float64 arithmetic.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import fits
from truerank._util.kernels import compiled
from truerank._util.types import Integers, Reals
from truerank.distance import distance_kernels

Integers32 = npt.NDArray[np.int32]

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


def unit_grid(rows: Reals) -> tuple[Integers32, npt.NDArray[np.bool_]]:
    """x/|x| in units of 2^-25, and which rows are zero (they stay zero).

    The computed quotient differs from the real one by at most (d/2 + 4) 2^-53 of itself: d
    roundings in the sum of squares, halved by the root, and one each for root and quotient. A
    component closer than that to a midpoint of the grid is decided by squares of integers.
    """
    bound = (rows.shape[1] / 2 + 4) * _ROUNDOFF
    if compiled():
        integers = np.empty(rows.shape, np.int32)
        zero, uncertain = np.empty(len(rows), bool), np.empty(len(rows), bool)
        distance_kernels.round_units(rows, UNIT_BITS, bound, integers, zero, uncertain)
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


def scaled_grid(rows: Reals) -> tuple[Integers32, npt.NDArray[np.int32], bool]:
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


# Short rows: small integers times a power of two, whose cosines are known as rational numbers.


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
        distance_kernels.short_rows(rows, SHORT_BITS, integers, square)
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
    distance_kernels.short_tile(
        product, np.maximum(left, 1.0), np.maximum(right, 1.0), HALF_TURN, out
    )
    return out


# Single precision: float32 products of grid rows, and how far they can stray from the truth.
#
# In comes a squared distance between unit rows on a grid; out come float32 rows, and for an exact
# distance the interval of scores that leaves open on which side of it an item lies. Whatever falls
# outside is decided without any float64 arithmetic.


Singles = npt.NDArray[np.float32]

ROUNDOFF = 2.0**-24
MOST_DIMENSIONS = 1 << 18
"""Most dimensions: with more terms the bound would leave hardly anything certain."""
KEPT_BYTES = 1 << 27
"""Rows of up to 128 MB are kept in float32 as well."""
SLICE = 64
"""Dimensions of a slice, where products are added up slice by slice."""


class SinglePrecision:
    """Scores X.Y of integer rows in float32, and which of them decide a comparison of distances.

    Why the interval is wide enough: converting an integer to float32 and each multiplication and
    addition changes a value by a factor between 1 - u and 1 + u, u = 2^-24; in any order of
    summation, fused or not, a term passes 2 conversions and at most d such operations, so the
    product is off by at most gamma_{d+2} sum|X_i Y_i| <= gamma_{d+2} |X| |Y|, gamma_n = nu/(1 - nu)
    (nothing underflows: all values are integers or larger). And D = n_q + n_g - 2 X.Y < D_p means
    X.Y > (n_q + n_g - D_p)/2, of which all is known exactly but n_g, which lies between the
    smallest and the largest square of the gallery. Where D itself differs from
    n_q + n_g - 2 X.Y, it does so by at most `slack`.

    In slices of the dimensions, of which s are multiplied one by one and then added up, a term
    passes at most as many operations as the longest slice has dimensions, and s - 1 additions.
    """

    def __init__(
        self,
        left: Any,
        right: Any,
        left_square: Integers,
        right_square: Integers,
        slack: float,
    ) -> None:
        self._left, self._right = left, right
        self._whole: SinglePrecision | None = None
        self._lock = Lock()
        self._kept: Singles | None = None
        size = right.integers.nbytes
        self._keeps = isinstance(right.integers, np.ndarray) and size <= KEPT_BYTES and fits(size)
        self._query_square = left_square
        self._smallest, self._largest = int(right_square.min()), int(right_square.max())
        self._least_query, self._most_query = int(left_square.min()), int(left_square.max())
        self.dimension = left.integers.shape[1]
        self._slack = slack / 2 + 2  # the 2 covers every rounding of the float64 sums below
        self._cut((slice(0, self.dimension),))

    def _cut(self, slices: tuple[slice, ...]) -> None:
        self.slices = slices
        """The dimensions that are multiplied together; what slices give is added up in turn."""
        terms = max(part.stop - part.start for part in slices) + len(slices) - 1 + 2
        gamma = terms * ROUNDOFF / (1 - terms * ROUNDOFF)
        self._factor = gamma * math.sqrt(self._largest) * (1 + 2.0**-40)

    def in_slices(self) -> SinglePrecision:
        """The same rows, multiplied slice by slice: closer to the truth, for a little more time."""
        sliced = copy(self)
        ends = [*range(0, self.dimension, SLICE), self.dimension]
        sliced._cut(tuple(slice(*ends) for ends in pairwise(ends)))
        sliced._whole = self  # one copy of the rows serves both
        return sliced

    @property
    def middle(self) -> float:
        """n_q + n_g of rows of middling length: a distance is about this, less twice a score."""
        return (self._smallest + self._largest + self._least_query + self._most_query) / 2

    @property
    def reach(self) -> float:
        """How far a distance may be from that, at most."""
        spread = self._largest - self._smallest + self._most_query - self._least_query
        longest = math.sqrt(self._most_query)
        bound: float = 2 * self._factor * longest * (1 + 2.0**-40)
        return bound + spread / 2 + 2 * self._slack + 4

    def queries(self, rows: Integers) -> Singles:
        """Some queries' rows in float32."""
        singles: Singles = self._left.integers[rows].astype(np.float32)
        return singles

    def items(self, start: int, stop: int, out: Singles) -> Singles:
        """Gallery rows in float32, in `out` or, where the gallery is small, from a copy of all."""
        if self._whole is not None:
            return self._whole.items(start, stop, out)
        integers = self._right.integers
        if not self._keeps:
            np.copyto(out[: stop - start], integers[start:stop])
            return out[: stop - start]
        with self._lock:
            if self._kept is None:
                self._kept = integers.astype(np.float32)
        return self._kept[start:stop]

    def intervals(
        self, query: Integers, distance: npt.NDArray[np.float64]
    ) -> tuple[Singles, Singles]:
        """For each distance from a query: scores above `high` are nearer, below `low` farther."""
        square = self._query_square[query]
        reach = self._factor * np.sqrt(square.astype(np.float64)) + self._slack
        twice = square - distance.astype(np.int64)
        low = (twice + self._smallest) / 2 - reach
        high = (twice + self._largest) / 2 + reach
        # A conversion moves a value by half a step at most; a whole step is outward.
        down, up = np.float32(-np.inf), np.float32(np.inf)
        return np.nextafter(low.astype(np.float32), down), np.nextafter(high.astype(np.float32), up)
