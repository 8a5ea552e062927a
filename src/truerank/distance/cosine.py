"""Cosine distance, exact on a grid, and true where rows are short or orthogonal.

x^ = x/|x| on the grid 2^-25, D = n_q + n_g - 2 x^.y^ with n = |x^|^2. Every term is a multiple
of 2^-50 and the absolute values of all terms add up to at most (|x^| + |y^|)^2 < 2^3, so each
partial sum, in any order, is a multiple of 2^-50 below 2^3: 53 bits, a float64. D is therefore
exact, symmetric, and zero exactly for equal rows.

Two kinds of pairs are not left to the grid, whose noise in n would order items that are equally
near: rows with x^.y^ = 0 are orthogonal, D = 2, and so is a row without a direction to
everything; two short rows (distance/grid.py) have the distance of their true cosine. A gallery
may also come from a source, which makes or reads any of its rows again whenever they are
needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import fits
from truerank._util.cached import cached_property
from truerank._util.cluster import LocalLock
from truerank._util.errors import InputError
from truerank._util.kernels import compiled
from truerank.distance import distance_kernels
from truerank.distance.base import Distances, Facts, Rows, Side, Sides, Space
from truerank.distance.digests import Fingerprints, first_by_content, row_prints
from truerank.distance.grid import (
    KEPT_BYTES,
    MOST_DIMENSIONS,
    UNIT_BITS,
    ShortRows,
    SinglePrecision,
    short_distances,
    short_tile,
)
from truerank.distance.inner_product import SquaredDistance
from truerank.distance.remote_rows import over
from truerank.distance.rows import GridRows, integer_products, round_rows, round_sides, unit_rows

# Cosine: distances of directions, exact on a grid, and true where rows are short or orthogonal.


LOOKED_AT = 1 << 17
"""Pairs among which cosines that are rounded alike are looked for."""
Tile = Callable[[int, int], Distances]


class ShortPairs:
    """Pairs of short rows, in whose place the grid is not asked."""

    def __init__(self, left: ShortRows, right: ShortRows, complete: bool) -> None:
        self.left, self.right = left, right
        self.complete = complete
        """Whether every row is short or has no direction."""
        self.dtype: npt.DTypeLike = np.float32
        """In which products are made; the probe asks for float64 where float32 is not exact."""
        self._lock = LocalLock()
        self._kept: npt.NDArray[Any] | None = None
        small = 2 * right.integers.nbytes <= KEPT_BYTES and fits(2 * right.integers.nbytes)
        self._keeps = small and isinstance(right.integers, np.ndarray)

    @staticmethod
    def of(queries: GridRows, gallery: GridRows) -> ShortPairs | None:
        """The short pairs of two sides; None where there are none."""
        if queries.short is None or gallery.short is None:
            return None
        complete = all(((side.short.square > 0) | side.zero).all() for side in (queries, gallery))  # type: ignore[union-attr]
        return ShortPairs(queries.short, gallery.short, complete)

    def block(self, rows: Rows) -> Tile:
        """Tiles of these queries, where all rows are short."""
        left = self.left.integers[rows].astype(self.dtype)
        square = self.left.square[rows]

        def tile(start: int, stop: int) -> Distances:
            items = self._items(start, stop)
            return short_tile(left @ items.T, square, self.right.square[start:stop])

        return tile

    def _items(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Items as floats; a small gallery is kept."""
        integers = self.right.integers
        if not self._keeps:
            some: npt.NDArray[Any] = integers[start:stop].astype(self.dtype)
            return some
        with self._lock:
            if self._kept is None or self._kept.dtype != self.dtype:
                self._kept = integers.astype(self.dtype)
            return self._kept[start:stop]

    def amend(self, rows: Rows, start: int, distances: Distances) -> None:
        """Put the distances of short pairs into a tile of these queries, from item `start` on."""
        query = np.flatnonzero(self.left.square[rows])
        item = np.flatnonzero(self.right.square[start : start + distances.shape[1]])
        if len(query) and len(item):
            mine, others = rows[query], start + item
            left = self.left.integers[mine].astype(self.dtype)
            products = left @ self.right.integers[others].astype(self.dtype).T
            found = short_tile(products, self.left.square[mine], self.right.square[others])
            distances[np.ix_(query, item)] = found

    def amend_pairs(self, query: Rows, item: Rows, distances: Distances) -> None:
        """Put the distances of short pairs into those of single pairs."""
        mine = np.flatnonzero((self.left.square[query] > 0) & (self.right.square[item] > 0))
        query, item = query[mine], item[mine]
        products = integer_products(self.left.integers, self.right.integers, query, item)
        distances[mine] = short_distances(
            products, self.left.square[query], self.right.square[item]
        )

    def rounded_alike(self, queries: Rows) -> int:
        """How many distinct cosines to one of these queries have the distance of another.

        Two squared cosines to x differ by at least 1/(|x|^2 |y|^2 |z|^2) and cosines by half of
        that. As long as it is more than two steps of 2^-51, there are none.
        """
        longest = int(self.left.square.max()) * int(self.right.square.max()) ** 2
        if longest < 1 << 49:
            return 0
        return sum(self._alike(row) for row in queries if self.left.square[row])

    def _alike(self, row: int) -> int:
        item = np.flatnonzero(self.right.square)
        mine = self.left.integers[np.array([row])]
        product = np.concatenate(
            over(self.right.integers, f"{__name__}:products_with", shared=(mine,))
        )[item]
        square = self.right.square[item]
        distance = short_distances(product, self.left.square[row], square)
        tied = _shared(distance)
        if not tied.any():
            return 0
        product, square, distance = product[tied], square[tied], distance[tied]
        common = np.gcd(product * product, square)
        cosine = np.sign(product) * (product * product // common), square // common
        order = np.lexsort((*cosine, distance))
        distinct = [np.any([part[order][1:] != part[order][:-1] for part in parts], axis=0).sum()
                    for parts in (cosine, [distance])]  # fmt: skip
        return int(distinct[0] - distinct[1])


class Cosine(SquaredDistance):
    """Cosine, D in units of 2^-50; a row without a direction has D = 2 with everything."""

    ZERO = 2.0 ** (2 * UNIT_BITS + 1)
    """D = 2: the distance of what is orthogonal."""
    unit_scale = 2.0 ** -(2 * UNIT_BITS + 2)

    def __init__(self, queries: GridRows, gallery: GridRows, facts: Facts) -> None:
        super().__init__(queries, gallery, facts)
        self._left_square = _unit_square(queries, self._left_square)
        self._right_square = (
            self._left_square if gallery is queries else _unit_square(gallery, self._right_square)
        )
        self.short = ShortPairs.of(queries, gallery)

    @classmethod
    def of(cls, sides: Sides) -> Space:
        """The cosine space of these sides."""
        rows = round_sides(sides, unit_rows, None)
        space = cls(rows[0], rows[-1], sides.facts("2^-25 of the unit vector"))
        shorts = [side.short for side in rows if side.short is not None]
        space.facts.short_rows = sum(int(np.count_nonzero(some.square)) for some in shorts)
        if space.short is not None:
            some = first_by_content(sides.queries.digests, max(1, LOOKED_AT // space.gallery))
            space.facts.rounded_alike = space.short.rounded_alike(some)
        return space

    @property
    def slack(self) -> float:
        """How far D may be from n_q + n_g - 2 x^.y^, at most.

        Orthogonal rows are moved by what their squares differ from 1. A short row differs from its
        place on the grid by at most sqrt(d)/2, so a product of two by at most sqrt(d) 2^25 + d/4.
        """
        middle = 1 << (2 * UNIT_BITS)
        sides = (self._left_square, self._right_square)
        moved = sum(int(np.abs(square - middle).max()) for square in sides)
        if self.short is not None:
            moved += 2 * int(math.sqrt(self.dimension) * 2.0**UNIT_BITS + self.dimension / 4 + 1)
        return float(moved)

    @cached_property
    def single(self) -> SinglePrecision | None:
        """See Space."""
        if self.dimension > MOST_DIMENSIONS:
            return None
        squares = self._left_square, self._right_square
        return SinglePrecision(self._left, self._right, *squares, self.slack)

    @property
    def holds_gallery(self) -> bool:
        """See Space."""
        return super().holds_gallery and self.short is None

    def block(self, rows: Rows) -> Tile:
        """See Space."""
        if self.short is not None and self.short.complete:
            return self.short.block(rows)
        return super().block(rows)

    def _finish(self, rows: Rows, items: slice, products: Distances) -> None:
        """See SquaredDistance: orthogonal and short pairs know better than the grid."""
        if compiled():
            left = self._left_square[rows].astype(np.float64)
            right = self._right_square[items].astype(np.float64)
            distance_kernels.unit_distances(products, left, right, self.ZERO)
        else:
            orthogonal = products == 0
            super()._finish(rows, items, products)
            products[orthogonal] = self.ZERO
        if self.short is not None:
            self.short.amend(rows, items.start, products)

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        product = integer_products(self._left.integers, self._right.integers, query, item)
        squares = self._left_square, self._right_square
        if compiled():
            distances = np.empty(len(product))
            distance_kernels.pair_cosine(product, *squares, query, item, self.ZERO, distances)
        else:
            every = squares[0][query] + squares[1][item]
            distances = np.where(product == 0, self.ZERO, every - 2.0 * product)
        if self.short is not None:
            self.short.amend_pairs(query, item, distances)
        return distances

    def grain(self, query: Rows, item: Rows, distances: Distances) -> Distances | None:
        """See Space: components of x^ - y^ are off by sqrt(1/6) of a step, and D accordingly."""
        if self.short is not None and self.short.complete:
            return None
        grain: Distances = np.sqrt(distances * (4 / 6)) + self.dimension / 6
        return grain

    def vectors(self) -> Distances | None:
        """See Space: the rounded unit vectors."""
        unit: Distances = np.ldexp(self._left.integers.astype(np.float64), -UNIT_BITS)
        return unit

    def in_unit(self, distances: Distances) -> Distances:
        """See Space: 1 - s, which is D/2."""
        return np.ldexp(distances, -(2 * UNIT_BITS + 1))

    def raw(self, threshold: Fraction) -> Fraction:
        """See Space."""
        return threshold * int(2 ** (2 * UNIT_BITS + 1))

    def linear(self, distances: Distances) -> Distances:
        """See Space: the L2 distance of unit vectors."""
        return np.sqrt(np.ldexp(distances, -2 * UNIT_BITS))


def products_with(rows: npt.NDArray[Any], one: npt.NDArray[Any]) -> Rows:
    """x.y of every row and one row of small integers."""
    index = np.arange(len(rows))
    return integer_products(one, rows, np.zeros_like(index), index)


def _shared(values: Distances) -> npt.NDArray[np.bool_]:
    """Which values come more than once."""
    ordered = np.sort(values)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    found: npt.NDArray[np.bool_] = np.isin(values, twice)
    return found


def _unit_square(rows: GridRows, square: Rows) -> Rows:
    """Squares, in which a row without a direction counts as one of length 1."""
    return np.where(rows.zero, 1 << (2 * UNIT_BITS), square) if rows.zero.any() else square


# Cosine against a gallery that is not held: its rows are made or read again wherever needed.
#
# A source gives any rows by their numbers, always the same. A device keeps them in half precision
# and asks again for those about which that leaves a doubt (truerank.engine.cuda.rows); on the CPU
# every tile is rounded again, which is slow and right.


class RowSource(Protocol):
    """Rows of real numbers, of which any can be had again, the same each time."""

    shape: tuple[int, int]

    def read(self, rows: Rows) -> npt.NDArray[Any]:
        """Some rows, in main memory."""

    def send(self, rows: Any) -> Any:
        """Some rows as a tensor of float64, on the device of the tensor that names them."""


class ArraySource:
    """The rows of an array, such as a .npy file that is mapped and not read."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array
        self.shape: tuple[int, int] = (array.shape[0], array.shape[1])

    def read(self, rows: Rows) -> npt.NDArray[Any]:
        """See RowSource."""
        return np.asarray(self._array[rows])

    def send(self, rows: Any) -> Any:
        """See RowSource."""
        import torch

        found = torch.from_numpy(np.ascontiguousarray(self.read(rows.cpu().numpy())))
        return found.to(rows.device).double()


class SourcedCosine(Space):
    """The cosine space of queries that are held and a gallery that is not.

    Queries must not be short (truerank.distance.grid): whether an item is, nobody has looked.
    """

    integral = True
    unit_scale = Cosine.unit_scale
    ZERO = Cosine.ZERO

    def __init__(self, queries: npt.NDArray[Any], source: RowSource) -> None:
        sides = Sides("cosine", Side("queries", queries, None))
        self.left, self.source = round_rows(sides.queries, unit_rows, None), source
        if self.left.integers.shape[1] != source.shape[1]:
            raise InputError(
                "queries and gallery must have the same number of dimensions. "
                f"Got {self.left.integers.shape} and {source.shape}."
            )
        if self.left.short is not None:
            raise InputError(
                "queries of small integers have their true cosines only against a gallery that is "
                "held; pass it as an array."
            )
        self.queries, (self.gallery, self.dimension) = len(self.left.integers), source.shape
        self.facts = sides.facts("2^-25 of the unit vector")
        self.query_digests = sides.queries.digests
        self.gallery_digests = self.query_digests[:0]

    def items(self, rows: Rows) -> Cosine:
        """The space of all queries and some items."""
        found = self.source.read(rows).astype(np.float64)
        if not np.isfinite(found).all():
            raise InputError("NaN or infinity in the gallery; every number must be finite.")
        rounded, _ = unit_rows(found)
        return Cosine(self.left, rounded, self.facts)

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""

        def tile(start: int, stop: int) -> Distances:
            return self.items(np.arange(start, stop)).block(rows)(0, stop - start)

        return tile

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        items, place = np.unique(item, return_inverse=True)
        if not len(items):
            return np.empty(0)
        return self.items(items).pairs(query, place)

    def query_norm(self) -> npt.NDArray[Any]:
        """|x|^2 of the queries, as it enters a distance."""
        return Cosine(self.left, self.left, self.facts).norms[0]

    def in_unit(self, distances: Distances) -> Distances:
        """See Space."""
        return Cosine.in_unit(self, distances)  # type: ignore[arg-type]

    def raw(self, threshold: Fraction) -> Fraction:
        """See Space."""
        return Cosine.raw(self, threshold)  # type: ignore[arg-type]

    def fingerprints(self) -> Fingerprints:
        """See Space."""
        return row_prints(self.left.integers)
