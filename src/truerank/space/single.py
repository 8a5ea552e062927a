"""Single precision: float32 products of grid rows, and how far they can stray from the truth.

In comes a squared distance between unit rows on a grid; out come float32 rows, and for an exact
distance the interval of scores that leaves open on which side of it an item lies. Whatever falls
outside is decided without any float64 arithmetic.
"""

from __future__ import annotations

import math
from copy import copy
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.storage import fits

__all__ = ["KEPT_BYTES", "MOST_DIMENSIONS", "SinglePrecision"]

Singles = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

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
