"""From the user's arrays to a Space: read in chunks, check every number, round to the grid.

Memory-mapped input is never held as a whole: only its integer rows are (int32, or int64 for
cityblock and hamming). Rows that do not fit into memory are rounded once, into a temporary file:
every block of queries reads the whole gallery, and rounding costs more than reading.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import name_rows
from truerank.errors import InputError, TruerankWarning
from truerank.space import grid
from truerank.space.base import Facts, Rows, Space
from truerank.space.digests import Digests, classes_of_equals, row_digests, sorted_bytes
from truerank.space.elementwise import Cityblock, Hamming
from truerank.space.given import Given
from truerank.space.inner import Cosine, Dot, Euclidean, GridRows, SquaredDistance
from truerank.storage import room

__all__ = ["DISTANCES", "build"]

DISTANCES = ("cosine", "euclidean", "dot", "cityblock", "hamming", "precomputed", "similarity")

Array = npt.NDArray[Any]
_CHUNK_NUMBERS = 1 << 19
_THREADS = min(8, os.cpu_count() or 1)
"""That read, check and round a chunk each."""


def build(
    distance: str,
    queries: Array,
    gallery: Array | None = None,
    columns: Rows | None = None,
    *,
    threads: int | None = None,
) -> Space:
    """The space of this distance.

    Parameters
    ----------
    distance : one of DISTANCES
    queries : (Q, d) embeddings, or the (Q, G) matrix for "precomputed" and "similarity"
    gallery : (G, d) embeddings; None if the queries are their own gallery
    columns : gallery rows that take part; None for all
    threads : most threads that round rows; a few by default
    """
    if distance in ("precomputed", "similarity"):
        return _given(distance, queries, columns)
    sides = [_Side("embeddings", queries, None)]
    if gallery is not None:
        sides.append(_Side("gallery", gallery, columns))
    elif columns is not None:
        sides.append(_Side("embeddings", queries, columns))
    for side in sides:
        side.threads = min(_THREADS, threads or _THREADS)
    space = _BUILDERS[distance](sides)
    space.query_digests, space.gallery_digests = sides[0].digests, sides[-1].digests
    return space


class _Side:
    """One side's rows, read a chunk at a time as float64 and remembered by digest."""

    def __init__(self, name: str, array: Array, columns: Rows | None) -> None:
        self.name, self.array, self.columns = name, array, columns
        self.count = len(array) if columns is None else len(columns)
        self.dimension = array.shape[1]
        self.rounded: list[Digests] = []
        self.inexact = False
        self.zero_rows = 0
        self.threads = 1

    @property
    def digests(self) -> Digests:
        """Of all rounded rows."""
        return np.concatenate(self.rounded)

    def chunks(self, limit: int | None) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
        """Finite float64 rows; a larger magnitude than 2^limit is refused."""
        bad: list[Rows] = []
        wild: list[Rows] = []
        self.rounded, self.zero_rows = [], 0
        for where in self.slices():
            rows, not_finite, too_large = self.read(where, limit)
            bad.append(not_finite)
            wild.append(too_large)
            if not any(len(rows_) for rows_ in (*bad, *wild)):
                self.zero_rows += int(np.count_nonzero(~rows.any(axis=1)))
                yield where, rows
        self.refuse(bad, wild, limit)

    def slices(self) -> list[slice]:
        """Rows that are read at a time."""
        step = max(1, _CHUNK_NUMBERS // self.dimension)
        starts = range(0, self.count, step)
        return [slice(start, min(start + step, self.count)) for start in starts]

    def read(self, where: slice, limit: int | None) -> tuple[npt.NDArray[np.float64], Rows, Rows]:
        """These rows, and which of them are not finite or beyond the limit."""
        index = where if self.columns is None else self.columns[where]
        with np.errstate(invalid="ignore"):  # a signalling NaN; it is refused below
            rows = np.asarray(self.array[index], np.float64, order="C")
        finite = np.isfinite(rows).all(axis=1)
        wild = np.empty(0, np.int64)
        if limit is not None:
            largest = np.abs(rows).max(axis=1)
            tame = (largest <= 2.0**limit) & ((largest >= 2.0**-limit) | (largest == 0))
            wild = np.flatnonzero(finite & ~tame) + where.start
        return rows, np.flatnonzero(~finite) + where.start, wild

    def refuse(self, bad: list[Rows], wild: list[Rows], limit: int | None) -> None:
        """Name the rows that cannot be used, if there are any."""
        for rows_, problem, fix in (
            (np.concatenate(bad), "NaN or infinity", "drop those rows or compute them again"),
            (
                np.concatenate(wild),
                f"numbers beyond 2^{limit} or all below 2^-{limit}",
                "rescale the embeddings",
            ),
        ):
            if len(rows_):
                named = name_rows(rows_ if self.columns is None else self.columns[rows_])
                raise InputError(
                    f"{problem} in {self.name} {named} of {len(self.array)}; "
                    f"every number must be finite and representable: {fix}."
                )

    def note_rounding(self, rows: npt.NDArray[np.float64], inexact: bool) -> None:
        """Remember whether more than float32 carries was lost."""
        if inexact and self.array.dtype == np.float64 and not self.inexact:
            with np.errstate(over="ignore"):
                if (rows.astype(np.float32) != rows).any():  # chunks come from several threads
                    self.inexact = True


def _facts(distance: str, grid_text: str, sides: list[_Side]) -> Facts:
    total = blake2b(digest_size=16)
    for side in sides:
        total.update(b"side")
        total.update(sorted_bytes(side.digests))
    zero_rows = sum(side.zero_rows for side in sides)
    facts = Facts(distance, grid_text, _merged(sides), zero_rows, total.hexdigest())
    if any(side.inexact for side in sides):
        note = (
            f"float64 input holds more significant bits than the {distance} grid ({grid_text}); "
            "distances are exact between the rounded rows"
        )
        facts.notes.append(note)
        warnings.warn(note + ".", TruerankWarning, stacklevel=6)
    return facts


def _merged(sides: list[_Side]) -> int:
    """How many fewer distinct rows there are after rounding; only equal rounded rows can tell."""
    number, times = classes_of_equals(np.concatenate([side.digests for side in sides]))
    originals: dict[int, set[bytes]] = {}
    for side, numbers in zip(sides, np.split(number, [sides[0].count]), strict=False):
        for row in np.flatnonzero(times[numbers] > 1):
            index = row if side.columns is None else side.columns[row]
            original = np.asarray(side.array[index], np.float64) + 0.0
            originals.setdefault(int(numbers[row]), set()).add(original.tobytes())
    return sum(len(distinct) - 1 for distinct in originals.values())


def _round_rows(
    side: _Side,
    rounding: Callable[[npt.NDArray[np.float64]], tuple[GridRows, bool]],
    limit: int | None,
) -> GridRows:
    integers = room((side.count, side.dimension), np.int32)
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


def _unit(rows: npt.NDArray[np.float64]) -> tuple[GridRows, bool]:
    integers, zero = grid.unit_grid(rows)
    return GridRows(integers, np.zeros(len(rows), np.int32), zero), False


def _scaled(rows: npt.NDArray[np.float64]) -> tuple[GridRows, bool]:
    integers, exponent, inexact = grid.scaled_grid(rows)
    return GridRows(integers, exponent, np.logical_not(rows.any(axis=1))), inexact


def _cosine(sides: list[_Side]) -> Space:
    rows = [_round_rows(side, _unit, None) for side in sides]
    facts = _facts("cosine", "2^-25 of the unit vector", sides)
    return Cosine(rows[0], rows[-1], facts)


def _euclidean(sides: list[_Side]) -> Space:
    rows = [_round_rows(side, _scaled, grid.LARGEST_EXPONENT) for side in sides]
    return Euclidean(rows[0], rows[-1], _facts("euclidean", "2^-26 of each row's length", sides))


def _dot(sides: list[_Side]) -> Space:
    rows = [_round_rows(side, _scaled, grid.LARGEST_EXPONENT) for side in sides]
    return Dot(rows[0], rows[-1], _facts("dot", "2^-26 of each row's length", sides))


def _cityblock(sides: list[_Side]) -> Space:
    exponent = max(
        grid.cityblock_exponent(rows)
        for side in sides
        for _, rows in side.chunks(grid.LARGEST_EXPONENT)
    )
    exponent = 0 if exponent == -10_000 else exponent
    grids = []
    for side in sides:
        integers = room((side.count, side.dimension), np.int64)
        for where, rows in side.chunks(grid.LARGEST_EXPONENT):
            integers[where], inexact = grid.cityblock_grid(rows, exponent)
            side.note_rounding(rows, inexact)
            side.rounded.append(row_digests(integers[where]))
        grids.append(integers)
    facts = _facts("cityblock", "2^-52 of the largest L1 norm", sides)
    return Cityblock(grids[0], grids[-1], facts, unit=2.0 ** (exponent - grid.CITYBLOCK_BITS))


def _hamming(sides: list[_Side]) -> Space:
    """Bits by matrix product, other integers by counting unequal components."""
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
        integers = room((side.count, side.dimension), np.int32 if bits else np.int64)
        for where, rows in side.chunks(None):
            integers[where] = rows
            side.rounded.append(row_digests(integers[where]))
        grids.append(integers)
    facts = _facts("hamming", "integers", sides)
    if not bits:
        return Hamming(grids[0], grids[-1], facts)
    bit_rows = [
        GridRows(integers, np.zeros(len(integers), np.int32), np.zeros(len(integers), bool))
        for integers in grids
    ]
    return SquaredDistance(bit_rows[0], bit_rows[-1], facts)


def _given(distance: str, matrix: Array, columns: Rows | None) -> Space:
    side = _Side(f"the {distance} matrix", matrix, None)
    digest = blake2b(digest_size=16)
    for _, rows in side.chunks(None):
        digest.update((rows + 0.0).data)
    facts = Facts(distance, "as given", input_digest=digest.hexdigest())
    space = Given(matrix, -1.0 if distance == "similarity" else 1.0, columns, facts)
    space.query_digests = space.gallery_digests = np.empty((0, 2), np.uint64)
    return space


_BUILDERS = {
    "cosine": _cosine,
    "euclidean": _euclidean,
    "dot": _dot,
    "cityblock": _cityblock,
    "hamming": _hamming,
}
