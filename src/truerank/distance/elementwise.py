"""Cityblock and Hamming distance: sums over components, in integers.

Cityblock rows are integers in units of 2^(e-52), where 2^e bounds every row's L1 norm (one e
for the whole task): a sum of absolute differences is an integer up to slightly more than 2^53,
held in a float64 as its difference from 2^52. Hamming counts unequal components: of bits by a
matrix product, of other integers one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError
from truerank._util.kernels import compiled
from truerank.distance import distance_kernels, grid
from truerank.distance.base import Distances, Facts, Rows, Side, Sides, Space
from truerank.distance.digests import Fingerprints, row_prints
from truerank.distance.inner_product import SquaredDistance
from truerank.distance.remote_rows import Pieces
from truerank.distance.rows import GridRows, ask_shards, round_sides
from truerank.io.shards import Manifest, read_shard

Grid = Any
"""An array of int64, or rows in a cluster (Pieces)."""
_CHUNK = 1 << 22


class _Elementwise(Space):
    """Integer rows whose distance is a sum over components."""

    pair_kernel: Callable[..., None]
    tile_kernel: Callable[..., None]
    centre = 0.0
    integral = True

    def __init__(
        self, queries: GridRows, gallery: GridRows, facts: Facts, unit: float = 1.0
    ) -> None:
        self._left, self._right, self._unit = queries.integers, gallery.integers, unit
        self.queries, self.gallery, self.facts = len(self._left), len(self._right), facts

    @property
    def grids(self) -> tuple[Grid, Grid]:
        """The integer rows of queries and gallery."""
        return self._left, self._right

    @property
    def refers(self) -> bool:
        """See Space."""
        return any(isinstance(grid, Pieces) for grid in self.grids)

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""
        left = np.ascontiguousarray(self._left[rows])

        def tile(start: int, stop: int) -> Distances:
            right = self._right[start:stop]
            out = np.empty((len(left), len(right)))
            if compiled():
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
        left = self._left
        if isinstance(left, Pieces):
            some, query = np.unique(query, return_inverse=True)
            left = left[some]
        if isinstance(self._right, Pieces):
            target = f"{__name__}:{type(self).__name__.lower()}_pairs"
            return self._right.products(target, left, query, item).astype(np.float64)
        return self.of_pairs(left, self._right, query, item)

    @classmethod
    def of_pairs(cls, left: Grid, right: Grid, query: Rows, item: Rows) -> Distances:
        """The distances of single pairs of rows that are here."""
        out = np.empty(query.size)
        if compiled():
            cls.pair_kernel(left, right, query, item, out)
        else:
            out[:] = cls._broadcast(left[query], right[item])
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
        exponent = max(_exponent(side, limit) for side in dict.fromkeys(sides))
        exponent = 0 if exponent == -10_000 else exponent
        grids = round_sides(sides, partial(cityblock_rows, exponent), limit, np.int64)
        facts = sides.facts("2^-52 of the largest L1 norm")
        return cls(grids[0], grids[-1], facts, unit=2.0 ** (exponent - grid.CITYBLOCK_BITS))

    pair_kernel = staticmethod(distance_kernels.pair_cityblock)
    tile_kernel = staticmethod(distance_kernels.tile_cityblock)
    centre = float(distance_kernels.CENTRE)

    @staticmethod
    def _broadcast(left: Grid, right: Grid) -> npt.NDArray[np.int64]:
        return np.asarray(np.abs(left - right).sum(axis=-1) - distance_kernels.CENTRE, np.int64)


class Hamming(_Elementwise):
    """The hamming distance of integers: the number of unequal components."""

    pair_kernel = staticmethod(distance_kernels.pair_unequal)
    tile_kernel = staticmethod(distance_kernels.tile_unequal)

    @staticmethod
    def _broadcast(left: Grid, right: Grid) -> npt.NDArray[np.int64]:
        return np.asarray((left != right).sum(axis=-1), np.int64)


def cityblock_pairs(right: Grid, left: Grid, query: Rows, item: Rows) -> Rows:
    """Distances of single pairs of the cityblock space, which are integers."""
    return Cityblock.of_pairs(left, right, query, item).astype(np.int64)


def hamming_pairs(right: Grid, left: Grid, query: Rows, item: Rows) -> Rows:
    """Distances of single pairs of the hamming space, which are integers."""
    return Hamming.of_pairs(left, right, query, item).astype(np.int64)


def cityblock_rows(exponent: int, rows: Distances) -> tuple[GridRows, bool]:
    """Rows in units of 2^(exponent - 52), and whether anything was rounded."""
    integers, inexact = grid.cityblock_grid(rows, exponent)
    nothing = np.zeros(len(rows), np.int32)
    return GridRows(integers, nothing, np.logical_not(rows.any(axis=1))), inexact


def _exponent(side: Side, limit: int) -> int:
    """The exponent of the largest L1 norm of a side's rows; workers read shards for it."""
    if not side.spread:
        return max(grid.cityblock_exponent(rows) for _, rows in side.chunks(limit))
    asked = ask_shards(side, f"{__name__}:shard_exponent", limit)
    found: list[tuple[int, Rows, Rows]] = asked.answers
    bad = [one[1] + first for one, first in zip(found, asked.first, strict=True)]
    wild = [one[2] + first for one, first in zip(found, asked.first, strict=True)]
    side.refuse(bad, wild, limit)
    return max(one[0] for one in found)


def shard_exponent(
    held: list[Any], shard: Manifest, chosen: Rows | None, limit: int
) -> tuple[int, Rows, Rows]:
    """A task: the exponent of a shard's largest L1 norm, and the rows that cannot be used."""
    side = Side("embeddings", read_shard(shard, 0), chosen, 1)
    exponent, bad, wild = -10_000, [], []
    for where in side.slices():
        rows, not_finite, too_large = side.read(where, limit)
        bad.append(not_finite)
        wild.append(too_large)
        if not len(not_finite) and not len(too_large):
            exponent = max(exponent, grid.cityblock_exponent(rows))
    return exponent, np.concatenate(bad), np.concatenate(wild)


# Hamming distance: bits by matrix product, other integers by counting unequal components.


def hamming(sides: Sides) -> Space:
    """The hamming space of these sides, whose components must be bool or integer."""
    for side in sides:
        if side.array.dtype.kind not in "biu":
            raise InputError(
                f"hamming distance counts unequal components, so {side.name} must be bool or "
                f"integer. Got dtype {side.array.dtype} instead; binarise first, for example "
                f"{side.name} > 0."
            )
    bits = all(_bits(side) for side in dict.fromkeys(sides))
    dtype = np.int32 if bits else np.int64
    grids = round_sides(sides, integer_rows, None, dtype)
    facts = sides.facts("integers")
    return (SquaredDistance if bits else Hamming)(grids[0], grids[-1], facts)


def integer_rows(rows: npt.NDArray[np.float64]) -> tuple[GridRows, bool]:
    """Rows of integers as they are."""
    nothing = np.zeros(len(rows), np.int32)
    return GridRows(rows.astype(np.int64), nothing, np.logical_not(rows.any(axis=1))), False


def _bits(side: Side) -> bool:
    """Whether there are only zeros and ones in a side's array; workers read shards for it."""
    array = side.array
    if array.dtype.kind == "b":
        return True
    if not side.spread:
        return bool(array.min() >= 0 and array.max() <= 1)
    whole = Side(side.name, array, None, cluster=side.cluster)
    return all(ask_shards(whole, f"{__name__}:shard_of_bits").answers)


def shard_of_bits(held: list[Any], shard: Manifest, chosen: None) -> bool:
    """A task: whether there are only zeros and ones in a shard."""
    rows = read_shard(shard, 0)
    return bool(rows.min() >= 0 and rows.max() <= 1)
