"""Integer rows, from a side's real ones, of distances that are made of inner products.

Rows are held as int32. Those that do not fit into memory are rounded once, into a temporary file:
every block of queries reads the whole gallery, and rounding costs more than reading.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.jit import compiled
from truerank.space import grid, kernels
from truerank.space.base import Rows
from truerank.space.digests import Digests, row_digests
from truerank.space.sides import Side
from truerank.storage import allocate

__all__ = ["GridRows", "integer_products", "round_rows", "scaled_rows", "unit_rows"]


@dataclass(frozen=True)
class GridRows:
    """Integer rows, the power of two that scales each, and which of them have no direction."""

    integers: npt.NDArray[np.int32]
    exponent: npt.NDArray[np.int32]
    zero: npt.NDArray[np.bool_]

    def squares(self) -> npt.NDArray[np.int64]:
        """|X|^2 of every row, in integers."""
        index = np.arange(len(self.integers))
        return integer_products(self, self, index, index)


def integer_products(left: GridRows, right: GridRows, query: Rows, item: Rows) -> Rows:
    """X_q . Y_g for single pairs: an integer below 2^53."""
    out = np.empty(query.size, np.int64)
    if compiled:
        kernels.pair_product(left.integers, right.integers, query, item, out)
        return out
    step = max(1, (1 << 22) // left.integers.shape[1])
    for first in range(0, query.size, step):
        some = slice(first, first + step)
        x = left.integers[query[some]].astype(np.int64)
        out[some] = np.einsum("ij,ij->i", x, right.integers[item[some]].astype(np.int64))
    return out


def round_rows(
    side: Side,
    rounding: Callable[[npt.NDArray[np.float64]], tuple[GridRows, bool]],
    limit: int | None,
) -> GridRows:
    """A side's rows as integers; a larger magnitude than 2^limit is refused."""
    integers = allocate((side.count, side.dimension), np.int32)
    exponent = np.zeros(side.count, np.int32)
    zero = np.zeros(side.count, bool)

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
        side.note_rounding(rows, inexact)
        digests = row_digests(rounded.integers, rounded.exponent)
        return digests, int(np.count_nonzero(rounded.zero)), bad, wild

    with ThreadPoolExecutor(side.threads) as pool:
        parts = list(pool.map(work, side.slices()))
    side.refuse([part[2] for part in parts], [part[3] for part in parts], limit)
    side.rounded = [part[0] for part in parts]
    side.zero_rows = sum(part[1] for part in parts)
    return GridRows(integers, exponent, zero)


def unit_rows(rows: npt.NDArray[np.float64]) -> tuple[GridRows, bool]:
    """The directions of rows, for which no rounding is worth a note."""
    integers, zero = grid.unit_grid(rows)
    return GridRows(integers, np.zeros(len(rows), np.int32), zero), False


def scaled_rows(rows: npt.NDArray[np.float64]) -> tuple[GridRows, bool]:
    """Rows with their lengths, and whether anything was rounded."""
    integers, exponent, inexact = grid.scaled_grid(rows)
    return GridRows(integers, exponent, np.logical_not(rows.any(axis=1))), inexact
