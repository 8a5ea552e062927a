"""Smaller copies of embeddings: the first dimensions, and components of fewer bits.

In: rows and gallery items as they are stored. Out: the same as a smaller index would hold them,
both sides alike, with the distance that goes with them and the bytes that one vector takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError, shortened
from truerank.space import catalogue
from truerank.wording import either

__all__ = ["DTYPES", "OF_SIGNS", "QUANTILE", "Copy", "chosen_copies", "make_copy"]

Array = npt.NDArray[Any]
QUANTILE = 0.999
"""Of the absolute values of a dimension; it becomes 127, and what lies beyond is cut."""
LEVELS = 127
ROWS, COLUMNS = 65_536, 32
DTYPES = ("float16", "int8", "binary")
"""What components may become."""
OF_SIGNS = "hamming"
"""The distance of binary copies; embeddings that have it already hold nothing but signs."""


@dataclass(frozen=True)
class Copy:
    """How vectors are kept: their first dimensions, and what a component is."""

    dims: int
    dtype: str
    """One of DTYPES, or that of the embeddings as they are."""
    bytes: int
    """That one vector takes."""

    def __str__(self) -> str:
        return f"{self.dims} x {self.dtype}"


def chosen_copies(rows: Array, dims: Any, dtypes: Any) -> tuple[Copy, list[Copy]]:
    """The original, and every choice of dimensions with every kind of component, smallest first."""
    width, stored = int(rows.shape[1]), str(rows.dtype)
    widths = [*dict.fromkeys(_dims(dims, width)), width]
    kinds = [*dict.fromkeys(_dtypes(dtypes)), stored]
    sizes = {"float16": lambda d: 2 * d, "int8": lambda d: d, "binary": lambda d: -(-d // 8)}
    of_stored: Callable[[int], int] = lambda d: d * rows.dtype.itemsize  # noqa: E731
    copies = {Copy(d, kind, sizes.get(kind, of_stored)(d)) for d in widths for kind in kinds}
    original = Copy(width, stored, of_stored(width))
    smaller = [copy for copy in copies if copy.bytes < original.bytes]
    if not smaller:
        raise InputError(
            f"nothing here is smaller than the embeddings, {original}; name fewer dims, or dtypes "
            "of fewer bits."
        )
    return original, sorted(smaller, key=lambda copy: (copy.bytes, copy.dims))


def _dims(dims: Any, width: int) -> list[int]:
    given = [] if dims is None else _listed(dims, "dims")
    for one in given:
        if isinstance(one, bool) or not isinstance(one, (int, np.integer)) or not 0 < one <= width:
            raise InputError(
                f"dims are numbers from 1 to {width}, the dimensions of the embeddings. "
                f"Got {shortened(one)}."
            )
    return [int(one) for one in given]


def _dtypes(dtypes: Any) -> list[str]:
    given = _listed(dtypes, "dtypes")
    for one in given:
        if not isinstance(one, str) or one not in DTYPES:
            raise InputError(f"dtypes are {either(DTYPES)}. Got {shortened(one)}.")
    return given


def _listed(values: Any, name: str) -> list[Any]:
    if isinstance(values, (str, int, np.integer)):
        return [values]
    try:
        return list(values)
    except TypeError:
        raise InputError(
            f"The '{name}' parameter must hold several. Got {shortened(values)}."
        ) from None


def make_copy(
    copy: Copy, rows: Array, items: Array | None, distance: str
) -> tuple[Array, Array | None, str]:
    """Queries, gallery items and the distance between them.

    Cosine copies are of vectors of length 1, as an index for cosine holds them; each prefix is
    brought to length 1 anew. The scales of int8 come from the gallery, which is what an index has
    before any query comes.
    """
    sides = [rows] if items is None else [rows, items]
    cut = [side[:, : copy.dims] for side in sides]
    if copy.dtype not in DTYPES:
        made: Sequence[Array] = cut
    elif copy.dtype == "binary":
        made, distance = [side > 0 for side in cut], OF_SIGNS
    else:
        turns = catalogue.find(distance).points == "directions"  # lengths do not count
        real = [_unit(side) for side in cut] if turns else cut
        made = _in_int8(real) if copy.dtype == "int8" else [_in_float16(side) for side in real]
    return made[0], None if items is None else made[1], distance


def _blocks(count: int, size: int) -> Iterator[slice]:
    """Parts of rows or columns: what is worked on in float64 stays small."""
    return (slice(start, start + size) for start in range(0, count, size))


def _unit(side: Array) -> Array:
    """Rows of length 1 in float32; zero rows stay what they are."""
    found = np.empty(side.shape, np.float32)
    for block in _blocks(len(side), ROWS):
        real = side[block].astype(np.float64)
        largest = np.abs(real).max(axis=1, keepdims=True)
        real /= np.where(largest > 0, largest, 1.0)  # so that no square overflows or vanishes
        length = np.sqrt((real * real).sum(axis=1, keepdims=True))
        found[block] = real / np.where(length > 0, length, 1.0)
    return found


def _in_float16(side: Array) -> Array:
    with np.errstate(over="ignore"):
        found = side.astype(np.float16)
    if not np.isfinite(found).all():
        raise InputError(
            "float16 holds numbers up to 65504, and some components are larger; scale the "
            "embeddings, or leave float16 out."
        )
    return found


def _in_int8(sides: Sequence[Array]) -> list[Array]:
    """Each dimension by one scale, from the side that is searched; as numbers again."""
    searched = sides[-1]
    scale = np.concatenate(
        [
            np.quantile(np.abs(searched[:, block].astype(np.float64)), QUANTILE, axis=0)
            for block in _blocks(searched.shape[1], COLUMNS)
        ]
    )
    scale /= LEVELS
    steps = np.where(scale > 0, scale, 1.0)
    made = []
    for side in sides:
        found = np.empty(side.shape, np.float64 if side.dtype == np.float64 else np.float32)
        for block in _blocks(len(side), ROWS):
            found[block] = np.clip(np.rint(side[block] / steps), -LEVELS, LEVELS) * scale
        made.append(found)
    return made
