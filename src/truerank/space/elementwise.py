"""Cityblock and hamming of integers: sums over components, in int64.

Cityblock rows are integers in units of 2^(e-52), where 2^e bounds every row's L1 norm (one e for
the whole task): a sum of absolute differences is an integer up to 2^53 and a little, held in a
float64 as its difference from 2^52.
Hamming counts unequal components.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from truerank.jit import compiled
from truerank.space import grid, kernels
from truerank.space.base import Distances, Facts, Rows, Space
from truerank.space.digests import row_digests
from truerank.space.fingerprint import Fingerprints, row_prints
from truerank.space.sides import Sides
from truerank.storage import allocate

__all__ = ["Cityblock", "Hamming"]

Grid = npt.NDArray[np.int64]
_CHUNK = 1 << 22


class _Elementwise(Space):
    """Integer rows whose distance is a sum over components."""

    pair_kernel: Callable[..., None]
    tile_kernel: Callable[..., None]
    centre = 0.0
    integral = True

    def __init__(self, queries: Grid, gallery: Grid, facts: Facts, unit: float = 1.0) -> None:
        self._left, self._right, self._unit = queries, gallery, unit
        self.queries, self.gallery, self.facts = len(queries), len(gallery), facts

    @property
    def grids(self) -> tuple[Grid, Grid]:
        """The integer rows of queries and gallery."""
        return self._left, self._right

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""
        left = np.ascontiguousarray(self._left[rows])

        def tile(start: int, stop: int) -> Distances:
            right = self._right[start:stop]
            out = np.empty((len(left), len(right)))
            if compiled:
                type(self).tile_kernel(left, right, out)
                return out
            step = max(1, _CHUNK // max(1, right.size))
            for first in range(0, len(left), step):
                out[first : first + step] = self._broadcast(
                    left[first : first + step, None], right[None]
                )
            return out

        return tile

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        out = np.empty(query.size)
        if compiled:
            type(self).pair_kernel(self._left, self._right, query, item, out)
        else:
            out[:] = self._broadcast(self._left[query], self._right[item])
        return out

    def in_unit(self, distances: Distances) -> Distances:
        """Distances in the scale of the input."""
        return (distances + self.centre) * self._unit

    def fingerprints(self) -> Fingerprints:
        """See Space."""
        return row_prints(self._left)

    def raw(self, threshold: Fraction) -> Fraction:
        """See Space."""
        return threshold / Fraction(self._unit) - Fraction(self.centre)

    @staticmethod
    def _broadcast(left: Grid, right: Grid) -> npt.NDArray[np.int64]:
        raise NotImplementedError


class Cityblock(_Elementwise):
    """The cityblock distance, sum |x_i - y_i|."""

    @classmethod
    def of(cls, sides: Sides) -> Space:
        """The cityblock space of these sides."""
        limit = grid.LARGEST_EXPONENT
        exponent = max(
            grid.cityblock_exponent(rows) for side in sides for _, rows in side.chunks(limit)
        )
        exponent = 0 if exponent == -10_000 else exponent
        grids = []
        for side in sides:
            integers = allocate((side.count, side.dimension), np.int64)
            for where, rows in side.chunks(limit):
                integers[where], inexact = grid.cityblock_grid(rows, exponent)
                side.note_rounding(rows, inexact)
                side.rounded.append(row_digests(integers[where]))
            grids.append(integers)
        facts = sides.facts("2^-52 of the largest L1 norm")
        return cls(grids[0], grids[-1], facts, unit=2.0 ** (exponent - grid.CITYBLOCK_BITS))

    pair_kernel = staticmethod(kernels.pair_cityblock)
    tile_kernel = staticmethod(kernels.tile_cityblock)
    centre = float(kernels.CENTRE)

    @staticmethod
    def _broadcast(left: Grid, right: Grid) -> npt.NDArray[np.int64]:
        return np.asarray(np.abs(left - right).sum(axis=-1) - kernels.CENTRE, np.int64)


class Hamming(_Elementwise):
    """The hamming distance of integers: the number of unequal components."""

    pair_kernel = staticmethod(kernels.pair_unequal)
    tile_kernel = staticmethod(kernels.tile_unequal)

    @staticmethod
    def _broadcast(left: Grid, right: Grid) -> npt.NDArray[np.int64]:
        return np.asarray((left != right).sum(axis=-1), np.int64)
