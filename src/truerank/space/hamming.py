"""Hamming distance: bits by matrix product, other integers by counting unequal components."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError
from truerank.files.manifest import Manifest
from truerank.files.shards import read_shard
from truerank.space.base import Space
from truerank.space.elementwise import Hamming
from truerank.space.inner import SquaredDistance
from truerank.space.rows import GridRows, ask_shards, round_sides
from truerank.space.sides import Side, Sides

__all__ = ["hamming", "integer_rows", "shard_of_bits"]


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
