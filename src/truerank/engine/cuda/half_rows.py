"""What a search in half precision multiplies: a gallery that is kept, and queries.

The larger P = H.K is (less the item's shift, where there are some), the nearer is the item. Every
query comes with a margin: who is more than that below another is farther than it.
"""

from __future__ import annotations

from typing import Any

from truerank.engine.cuda import tensor_filter
from truerank.engine.cuda.rows import InnerProducts, free_bytes
from truerank.engine.cuda.transfer import DeviceQueries
from truerank.space.grid import LARGEST_EXPONENT, SCALED_BITS
from truerank.space.inner import Dot, Euclidean

__all__ = ["HalfRows", "half_rows"]

_NUMBERS = 1 << 26
"""Most numbers that are widened at a time."""


def half_rows(space: InnerProducts) -> HalfRows | None:
    """The rows of this space; None where half precision cannot tell, or has no room."""
    size = 2 * space.space.gallery * space.dimension
    if not space.resident or size > free_bytes(space.device) // 4:
        return None
    if isinstance(space.space, (Euclidean, Dot)):
        return _ScaledRows(space, space.space)
    return HalfRows(space) if space.filters else None


class HalfRows:
    """Unit vectors, for the cosine."""

    items: tensor_filter.Halves
    shift: Any = None
    """What each item's products are less, in float32."""

    def __init__(self, space: InnerProducts) -> None:
        self._space = space
        integers, norm = space.unit_items(0, space.space.gallery)
        self.items = tensor_filter.halves(integers)
        self._extremes = tensor_filter.Extremes.of(self.items, norm)

    def queries(self, queries: DeviceQueries) -> tuple[tensor_filter.Halves, Any]:
        """These queries, and their margins."""
        if self._space.one_side:
            halves = self.items.take(queries.there)
        else:
            halves = tensor_filter.halves(self._space.unit_queries(queries)[0])
        bound = tensor_filter.error_bound(halves, self._extremes, self._space.slack)
        return halves, 2 * tensor_filter.IN_PRODUCTS * bound


class _ScaledRows(HalfRows):
    """Rows in units of the longest: x.y tells who is near, and x.y - |y|^2 / 2 does for the
    euclidean distance |x|^2 + |y|^2 - 2 x.y."""

    def __init__(self, space: InnerProducts, distance: Euclidean | Dot) -> None:
        self._space = space
        exponents = [grid.exponent[~grid.zero] for grid in distance.grids]
        longest = max(int(some.max(initial=-LARGEST_EXPONENT)) for some in exponents)
        self._unit = 2.0 ** (SCALED_BITS - longest)
        self._factor = distance.factor
        integers, norm, scale = space.gallery_side()
        self.items = tensor_filter.Halves.room(len(integers), space.dimension, space.device)
        step = max(1, _NUMBERS // space.dimension)
        for start in range(0, len(integers), step):
            some = slice(start, start + step)
            rows = integers[some].double() * (scale[some] * self._unit)[:, None]
            self.items.put(start, tensor_filter.halves(rows))
        square = self.items.length**2
        self._extremes = tensor_filter.Extremes.of(self.items, square)
        self._shifted = isinstance(distance, Euclidean)
        if self._shifted:
            in_products = self._unit**2 * tensor_filter.IN_PRODUCTS
            self.shift = (norm * in_products / 2).float()

    def queries(self, queries: DeviceQueries) -> tuple[tensor_filter.Halves, Any]:
        """See HalfRows.

        A shift is rounded to float32, and so is the difference; a euclidean distance to float64.
        """
        integers, _, scale = self._space.query_side(queries)
        rows = integers.double() * (scale * (self._unit / self._factor))[:, None]
        halves = tensor_filter.halves(rows)
        bound = tensor_filter.product_bound(halves, self._extremes)
        if self._shifted:
            both = halves.half_length * self._extremes.half_length + self._extremes.longest
            bound += 2.0**-23 * both + 2.0**-50 * (halves.length**2 + self._extremes.longest)
        return halves, 2 * tensor_filter.IN_PRODUCTS * bound
