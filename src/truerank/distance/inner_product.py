"""Euclidean distance and dot product: inner products of integer rows, without rounding.

Why no order of summation, BLAS, FMA or GPU can change a bit:

dot         x = 2^e x^ with |x^| in [1/2, 1] on the grid 2^-26, one exponent per row so that an
            outlier cannot coarsen the others. Terms are multiples of 2^-52 below 2, and powers
            of two change exponents only: -x.y is exact.
euclidean   the same rows. n_q, n_g and s = x.y are exact; (h, l) = TwoSum(n_q, n_g) is exact by
            construction, and D = (h - 2s) + l rounds in elementwise IEEE operations only, which
            are the same everywhere. The subtraction is exact whenever it cancels (Sterbenz), so
            D >= 0, and D = 0 exactly for equal rows.

Rows are held as int32 (half the size of float64) and widened tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import fits
from truerank._util.cluster import LocalLock
from truerank.distance.base import Distances, Facts, Rows, Sides, Space
from truerank.distance.digests import Fingerprints, row_prints, told_apart
from truerank.distance.grid import LARGEST_EXPONENT, SCALED_BITS
from truerank.distance.remote_rows import Pieces
from truerank.distance.rows import GridRows, integer_products, round_sides, scaled_rows


class _InnerProductSpace(Space):
    """Integer rows whose distance is made of inner products."""

    def __init__(self, queries: GridRows, gallery: GridRows, facts: Facts) -> None:
        self._left, self._right = queries, gallery
        self.queries, self.gallery = len(queries.integers), len(gallery.integers)
        self.dimension = queries.integers.shape[1]
        self.facts = facts
        self._left_square = queries.squares()
        self._right_square = self._left_square if gallery is queries else gallery.squares()

    @property
    def grids(self) -> tuple[GridRows, GridRows]:
        """The integer rows of queries and gallery."""
        return self._left, self._right

    @property
    def refers(self) -> bool:
        """See Space."""
        return any(isinstance(grid.integers, Pieces) for grid in self.grids)

    @property
    def symmetric(self) -> bool:
        """See Space: products are exact, and so is the TwoSum of two squares."""
        return self._left is self._right

    @property
    def norms(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """|x|^2 of queries and gallery, as it enters a distance."""
        return self._left_square, self._right_square

    def fingerprints(self) -> Fingerprints:
        """See Space."""
        return row_prints(self._left.integers)

    def contents(self) -> tuple[Rows, Rows] | None:
        """See Space: the squared length, to the last bit, hardly ever repeats."""
        return self._left_square, self._right_square


KEPT_NUMBERS = 1 << 24
"""Galleries up to this many numbers (128 MB) are kept in float64 as well."""


class SquaredDistance(_InnerProductSpace):
    """D = |X - Y|^2, an integer, from a matrix product; for rows of bits the hamming distance."""

    integral = True
    _widened: Distances | None = None

    def __init__(self, queries: GridRows, gallery: GridRows, facts: Facts) -> None:
        super().__init__(queries, gallery, facts)
        self._lock = LocalLock()
        self._widened_rows = 0
        size = self.gallery * self.dimension
        self._keeps = size <= KEPT_NUMBERS and fits(8 * size) and not self.refers

    @property
    def holds_gallery(self) -> bool:
        """See Space."""
        return self._keeps

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""
        left = self._left_rows(rows)

        def tile(start: int, stop: int) -> Distances:
            distances: Distances = left @ self._right_rows(start, stop).T
            self._finish(rows, slice(start, stop), distances)
            return distances

        return tile

    def fill_rows(self, rows: Rows, out: Distances) -> None:
        """See Space."""
        np.matmul(self._left_rows(rows), self._right_rows(0, self.gallery).T, out=out)
        self._finish(rows, slice(0, self.gallery), out)

    def _finish(self, rows: Rows, items: slice, products: Distances) -> None:
        """From x.y of these queries and items to their distances, in place."""
        products *= -2.0
        products += self._left_square[rows].astype(np.float64)[:, None]
        products += self._right_square[items].astype(np.float64)

    def _left_rows(self, rows: Rows) -> Distances:
        """These queries, in float64."""
        some = _in_a_row(rows)
        if some is not None and self.symmetric and self._widened is not None:
            return self._widened[some]
        left: Distances = self._left.integers[rows if some is None else some].astype(np.float64)
        return left

    def _right_rows(self, start: int, stop: int) -> Distances:
        """These items, in float64; a small gallery is kept once it is asked for again."""
        right = self._right.integers
        if self._keeps:
            with self._lock:
                self._widened_rows += stop - start
                whole = stop - start == self.gallery
                if self._widened is None and (whole or self._widened_rows > self.gallery):
                    self._widened = right[0 : self.gallery].astype(np.float64)
        if self._widened is not None:
            return self._widened[start:stop]
        some: Distances = right[start:stop].astype(np.float64)
        return some

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        product = integer_products(self._left.integers, self._right.integers, query, item)
        distances = self._left_square[query] + self._right_square[item] - 2 * product
        return distances.astype(np.float64)

    def in_unit(self, distances: Distances) -> Distances:
        """See Space: the number of unequal bits, as it is."""
        return distances


class _Scaled(_InnerProductSpace):
    """Rows with exponents: the power of two is applied to the operands, where it is exact."""

    factor: float

    @classmethod
    def of(cls, sides: Sides) -> Space:
        """The space of these sides, each row with an exponent of its own."""
        rows = round_sides(sides, scaled_rows, LARGEST_EXPONENT)
        return cls(rows[0], rows[-1], sides.facts("2^-26 of each row's length"))

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""
        left = _widen(self._left, rows, self.factor)

        def tile(start: int, stop: int) -> Distances:
            product: Distances = left @ _widen(self._right, slice(start, stop), 1.0).T
            return self._finish(product, rows[:, None], np.arange(start, stop)[None, :])

        return tile

    def fingerprints(self) -> Fingerprints:
        """See Space: rows that differ in their exponents alone are told apart by these."""
        exponent = np.where(self._left.zero, np.int32(LARGEST_EXPONENT), self._left.exponent)
        above = exponent.astype(np.int64) - int(exponent.min())  # no common scale shows
        return told_apart(super().fingerprints(), above.astype(np.uint64))

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        product = integer_products(self._left.integers, self._right.integers, query, item)
        exponent = self._left.exponent[query] + self._right.exponent[item] - 2 * SCALED_BITS
        return self._finish(np.ldexp(self.factor * product, exponent), query, item)

    def _finish(self, product: Distances, query: Rows, item: Rows) -> Distances:
        """The distance, elementwise, from factor * x.y."""
        raise NotImplementedError


def _widen(rows: GridRows, index: Rows | slice, factor: float) -> Distances:
    scale = np.ldexp(factor, rows.exponent[index] - SCALED_BITS)
    widened: Distances = np.multiply(rows.integers[index], scale[:, None], dtype=np.float64)
    return widened


class Dot(_Scaled):
    """The inner product with its sign turned, -x.y, exact."""

    factor = -1.0

    def _finish(self, product: Distances, query: Rows, item: Rows) -> Distances:
        product += 0.0  # -0.0 becomes 0.0
        return product

    def in_unit(self, distances: Distances) -> Distances:
        """See Space: -s as it is."""
        return distances


class Euclidean(_Scaled):
    """The squared euclidean distance, |x - y|^2."""

    factor = -2.0
    unit_rounds = True
    squared = True

    def __init__(self, queries: GridRows, gallery: GridRows, facts: Facts) -> None:
        super().__init__(queries, gallery, facts)
        self._left_norm = _scaled_square(queries, self._left_square)
        self._right_norm = _scaled_square(gallery, self._right_square)

    @property
    def norms(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """|x|^2 of queries and gallery, with each row's exponent."""
        return self._left_norm, self._right_norm

    def _finish(self, product: Distances, query: Rows, item: Rows) -> Distances:
        a, b = self._left_norm[query], self._right_norm[item]
        high = a + b
        part = high - a
        low = (a - (high - part)) + (b - part)
        product += high
        product += low
        return product

    def grain(self, query: Rows, item: Rows, distances: Distances) -> Distances | None:
        """See Space: as of unit vectors, in steps of the longer row's grid."""
        exponent = np.maximum(self._left.exponent[query], self._right.exponent[item])
        step = np.ldexp(1.0, exponent - SCALED_BITS)
        grain: Distances = np.sqrt(distances * (4 / 6)) * step + self.dimension / 6 * step * step
        return grain

    def vectors(self) -> Distances | None:
        """See Space: the rounded rows."""
        return _widen(self._left, slice(None), 1.0)

    def in_unit(self, distances: Distances) -> Distances:
        """See Space: the distance unsquared."""
        return np.sqrt(distances)

    def raw(self, threshold: Fraction) -> Fraction:
        """See Space."""
        return threshold * threshold if threshold >= 0 else Fraction(-1)


def _in_a_row(rows: Rows) -> slice | None:
    """Rows that follow one another, as a slice."""
    if not len(rows) or not (rows[1:] == rows[:-1] + 1).all():
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1)


def _scaled_square(rows: GridRows, squares: Rows) -> Distances:
    return np.ldexp(squares.astype(np.float64), 2 * (rows.exponent - SCALED_BITS))
