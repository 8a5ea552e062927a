"""Hamming distance: bits by matrix product, other integers by counting unequal components."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError
from truerank.space.base import Space
from truerank.space.digests import row_digests
from truerank.space.elementwise import Hamming
from truerank.space.inner import SquaredDistance
from truerank.space.rows import GridRows
from truerank.space.sides import Sides
from truerank.storage import allocate

__all__ = ["hamming"]


def hamming(sides: Sides) -> Space:
    """The hamming space of these sides, whose components must be bool or integer."""
    for side in sides:
        if side.array.dtype.kind not in "biu":
            raise InputError(
                f"hamming distance counts unequal components, so {side.name} must be bool or "
                f"integer. Got dtype {side.array.dtype} instead; binarise first, for example "
                f"{side.name} > 0."
            )
    bits = all(
        side.array.dtype.kind == "b" or (side.array.min() >= 0 and side.array.max() <= 1)
        for side in sides
    )
    grids: list[npt.NDArray[Any]] = []
    for side in sides:
        integers = allocate((side.count, side.dimension), np.int32 if bits else np.int64)
        for where, rows in side.chunks(None):
            integers[where] = rows
            side.rounded.append(row_digests(integers[where]))
        grids.append(integers)
    facts = sides.facts("integers")
    if not bits:
        return Hamming(grids[0], grids[-1], facts)
    bit_rows = [
        GridRows(integers, np.zeros(len(integers), np.int32), np.zeros(len(integers), bool))
        for integers in grids
    ]
    return SquaredDistance(bit_rows[0], bit_rows[-1], facts)
