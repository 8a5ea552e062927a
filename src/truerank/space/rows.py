"""Integer rows, from a side's real ones, of distances that are made of inner products.

Rows are held as int32. Those that do not fit into memory are rounded once, into a temporary file:
every block of queries reads the whole gallery, and rounding costs more than reading.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from truerank.jit import compiled
from truerank.space import grid, kernels
from truerank.space.base import Rows
from truerank.space.device_rounding import round_units
from truerank.space.device_rows import DeviceRows
from truerank.space.digests import Digests, row_digests
from truerank.space.short import ShortRows, short_rows
from truerank.space.sides import Side
from truerank.storage import allocate

__all__ = ["GridRows", "integer_products", "round_rows", "scaled_rows", "unit_rows"]

Integers = npt.NDArray[np.int16] | npt.NDArray[np.int32]


@dataclass(frozen=True)
class GridRows:
    """Integer rows, the power of two that scales each, and which of them have no direction."""

    integers: npt.NDArray[np.int32]
    """An array, or in its place the rows on a device (DeviceRows)."""
    exponent: npt.NDArray[np.int32]
    zero: npt.NDArray[np.bool_]
    short: ShortRows | None = None
    """The rows as small integers, where distances care and some are short."""

    def squares(self) -> npt.NDArray[np.int64]:
        """|X|^2 of every row, in integers."""
        if isinstance(self.integers, DeviceRows):
            return self.integers.squares()
        index = np.arange(len(self.integers))
        return integer_products(self.integers, self.integers, index, index)


def integer_products(left: Integers, right: Integers, query: Rows, item: Rows) -> Rows:
    """X_q . Y_g for single pairs of integer rows: an integer below 2^53."""
    if isinstance(left, DeviceRows) and isinstance(right, DeviceRows):
        return left.products(right, query, item)
    out = np.empty(query.size, np.int64)
    if compiled:
        kernels.pair_product(left, right, query, item, out)
        return out
    step = max(1, (1 << 22) // left.shape[1])
    for first in range(0, query.size, step):
        some = slice(first, first + step)
        x = left[query[some]].astype(np.int64)
        out[some] = np.einsum("ij,ij->i", x, right[item[some]].astype(np.int64))
    return out


def round_rows(
    side: Side,
    rounding: Callable[[npt.NDArray[np.float64]], tuple[GridRows, bool]],
    limit: int | None,
) -> GridRows:
    """A side's rows as integers; a larger magnitude than 2^limit is refused."""
    there = round_units(side) if rounding is unit_rows else None
    if there is not None:
        side.refuse([np.flatnonzero(there.bad)], [np.empty(0, np.int64)], limit)
        side.rounded, side.zero_rows = [there.rows.digests()], int(np.count_nonzero(there.zero))
        nothing = np.zeros(side.count, np.int32)
        return GridRows(there.rows, nothing, there.zero)  # type: ignore[arg-type]
    integers = allocate((side.count, side.dimension), np.int32)
    exponent = np.zeros(side.count, np.int32)
    zero = np.zeros(side.count, bool)
    shorts = _Shorts(side.count, side.dimension)

    def work(where: slice) -> tuple[Digests, int, Rows, Rows]:
        rows, bad, wild = side.read(where, limit)
        if len(bad) or len(wild):
            return np.empty((0, 2), np.uint64), 0, bad, wild
        rounded, inexact = rounding(rows)
        integers[where], exponent[where], zero[where] = (
            rounded.integers,
            rounded.exponent,
            rounded.zero,
        )
        shorts.put(where, rounded.short)
        side.note_rounding(rows, inexact)
        digests = row_digests(rounded.integers, rounded.exponent)
        return digests, int(np.count_nonzero(rounded.zero)), bad, wild

    slices = side.slices()
    if len(slices) == 1:  # not worth a thread
        parts = [work(slices[0])]
    else:
        with ThreadPoolExecutor(side.threads) as pool:
            parts = list(pool.map(work, slices))
    side.refuse([part[2] for part in parts], [part[3] for part in parts], limit)
    side.rounded = [part[0] for part in parts]
    side.zero_rows = sum(part[1] for part in parts)
    return GridRows(integers, exponent, zero, shorts.rows)


class _Shorts:
    """Room for the short rows of a side, made when the first of them comes."""

    def __init__(self, count: int, dimension: int) -> None:
        self._shape, self._lock = (count, dimension), Lock()
        self.rows: ShortRows | None = None

    def put(self, where: slice, some: ShortRows | None) -> None:
        """Take the short rows of a chunk in, from any thread."""
        if some is None:
            return
        with self._lock:
            if self.rows is None:
                integers = allocate(self._shape, np.int16)
                self.rows = ShortRows(integers, np.zeros(self._shape[0], np.int64))
        self.rows.integers[where], self.rows.square[where] = some.integers, some.square


def unit_rows(rows: npt.NDArray[np.float64]) -> tuple[GridRows, bool]:
    """The directions of rows, for which no rounding is worth a note."""
    integers, zero = grid.unit_grid(rows)
    return GridRows(integers, np.zeros(len(rows), np.int32), zero, short_rows(rows)), False


def scaled_rows(rows: npt.NDArray[np.float64]) -> tuple[GridRows, bool]:
    """Rows with their lengths, and whether anything was rounded."""
    integers, exponent, inexact = grid.scaled_grid(rows)
    return GridRows(integers, exponent, np.logical_not(rows.any(axis=1))), inexact
