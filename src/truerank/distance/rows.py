"""Rounding of one side's real rows to integer rows, on the CPU, a GPU or a cluster.

Rows are held as int32. Rows that do not fit into memory are rounded once, into a temporary
file: every block of queries reads the whole gallery, and rounding costs more than reading. A
GPU gives the same integers as the CPU: its float64 operations are IEEE, the order of the one
sum is covered by the error bound of distance/grid.py, and what stays in doubt is decided by
integers on the CPU. Shards of an evaluation on a cluster are rounded and held by its workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import allocate
from truerank._util.cluster import Call
from truerank._util.kernels import compiled
from truerank.distance import distance_kernels, grid
from truerank.distance.base import Rows, Side, Sides
from truerank.distance.digests import Digests, row_digests
from truerank.distance.grid import SHORT_BITS, ShortRows, short_rows
from truerank.distance.remote_rows import CHUNK_NUMBERS, DeviceRows, Pieces
from truerank.io.shards import Manifest, Shards, read_shard

# Integer rows, from a side's real ones, of distances that are made of inner products.


Integers = Any
"""An array of int16 or int32; or rows on a device or in a cluster (DeviceRows, Pieces)."""


@dataclass(frozen=True)
class GridRows:
    """Integer rows, the power of two that scales each, and which of them have no direction."""

    integers: Integers
    exponent: npt.NDArray[np.int32]
    zero: npt.NDArray[np.bool_]
    short: ShortRows | None = None
    """The rows as small integers, where distances care and some are short."""
    square: npt.NDArray[np.int64] | None = None
    """|X|^2 of every row, where it is known."""

    def squares(self) -> npt.NDArray[np.int64]:
        """|X|^2 of every row, in integers."""
        if isinstance(self.integers, DeviceRows):
            return self.integers.squares()
        if self.square is not None:
            return self.square
        index = np.arange(len(self.integers))
        return integer_products(self.integers, self.integers, index, index)


def integer_products(left: Integers, right: Integers, query: Rows, item: Rows) -> Rows:
    """X_q . Y_g for single pairs of integer rows: an integer below 2^53."""
    if isinstance(left, DeviceRows) and isinstance(right, DeviceRows):
        return left.products(right, query, item)
    if isinstance(left, Pieces):
        some, query = np.unique(query, return_inverse=True)
        left = left[some]
    if isinstance(right, Pieces):
        return right.products(f"{__name__}:products_of", left, query, item)
    return products_of(right, left, query, item)


def products_of(right: Integers, left: Integers, query: Rows, item: Rows) -> Rows:
    """See integer_products, of rows that are here."""
    out = np.empty(query.size, np.int64)
    if compiled():
        distance_kernels.pair_product(left, right, query, item, out)
        return out
    step = max(1, (1 << 22) // left.shape[1])
    for first in range(0, query.size, step):
        some = slice(first, first + step)
        x = left[query[some]].astype(np.int64)
        out[some] = np.einsum("ij,ij->i", x, right[item[some]].astype(np.int64))
    return out


Rounding = Callable[[npt.NDArray[np.float64]], tuple["GridRows", bool]]
"""From rows to integers, and whether anything was rounded that is worth a note."""


def round_sides(
    sides: Sides, rounding: Rounding, limit: int | None, dtype: Any = np.int32
) -> list[GridRows]:
    """Each side's rows; those of a side that comes twice are rounded once, and share an array."""
    rows = [round_rows(side, rounding, limit, dtype) for side in dict.fromkeys(sides)]
    return rows if len(rows) == len(sides) else [rows[0], replace(rows[0])]


def round_rows(
    side: Side, rounding: Rounding, limit: int | None, dtype: Any = np.int32
) -> GridRows:
    """A side's rows as integers; a larger magnitude than 2^limit is refused.

    Shards are read and rounded by the workers of a cluster, where there is one.
    """
    if side.spread:
        return _spread_rows(side, rounding, limit, dtype)
    there = round_units(side) if rounding is unit_rows else None
    if there is not None:
        side.refuse([np.flatnonzero(there.bad)], [np.empty(0, np.int64)], limit)
        digests, side.order = there.rows.digests()
        side.rounded, side.zero_rows = [digests], int(np.count_nonzero(there.zero))
        nothing = np.zeros(side.count, np.int32)
        return GridRows(there.rows, nothing, there.zero)
    found = _rounded(side, rounding, limit, dtype)
    side.refuse([found.bad], [found.wild], limit)
    side.rounded, side.zero_rows = [found.digests], int(np.count_nonzero(found.rows.zero))
    return found.rows


@dataclass(frozen=True)
class _Rounded:
    """Rows as integers, their digests, and which of them could not be rounded."""

    rows: GridRows
    digests: Digests
    bad: Rows
    wild: Rows


def _rounded(side: Side, rounding: Rounding, limit: int | None, dtype: Any) -> _Rounded:
    """A side's rows, chunk by chunk, in threads."""
    integers = allocate((side.count, side.dimension), dtype)
    exponent = np.zeros(side.count, np.int32)
    zero = np.zeros(side.count, bool)
    shorts = _Shorts(side.count, side.dimension)

    def work(where: slice) -> tuple[Digests, Rows, Rows]:
        rows, bad, wild = side.read(where, limit)
        if len(bad) or len(wild):
            return np.empty((0, 2), np.uint64), bad, wild
        rounded, inexact = rounding(rows)
        integers[where], exponent[where], zero[where] = (
            rounded.integers,
            rounded.exponent,
            rounded.zero,
        )
        shorts.put(where, rounded.short)
        side.note_rounding(rows, inexact)
        return row_digests(rounded.integers, rounded.exponent), bad, wild

    slices = side.slices()
    if len(slices) == 1:  # not worth a thread
        parts = [work(slices[0])]
    else:
        with ThreadPoolExecutor(side.threads) as pool:
            parts = list(pool.map(work, slices))
    digests, bad, wild = (np.concatenate(some) for some in zip(*parts, strict=True))
    return _Rounded(GridRows(integers, exponent, zero, shorts.rows), digests, bad, wild)


@dataclass(frozen=True)
class _Piece:
    """What is small about a shard that was rounded in a cluster."""

    exponent: npt.NDArray[np.int32]
    zero: npt.NDArray[np.bool_]
    square: npt.NDArray[np.int64]
    short_square: npt.NDArray[np.int64] | None
    digests: Digests
    originals: Digests
    """Digests of the rows before they were rounded."""
    inexact: bool
    bad: Rows
    wild: Rows


def round_shard(
    held: list[Any],
    shard: Manifest,
    chosen: Rows | None,
    rounding: Rounding,
    limit: int | None,
    dtype: Any,
) -> tuple[_Piece, dict[str, Any]]:
    """A task: some rows of a shard, read here and rounded; the integers stay in the cluster."""
    array = read_shard(shard, 0)
    side = Side("embeddings", array, chosen, 1)
    found = _rounded(side, rounding, limit, dtype)
    rows, short = found.rows, found.rows.short
    originals = [
        row_digests((side.read(where, None)[0] + 0.0).view(np.int64)) for where in side.slices()
    ]
    piece = _Piece(
        rows.exponent,
        rows.zero,
        rows.squares() if dtype == np.int32 else np.zeros(side.count, np.int64),
        None if short is None else short.square,
        found.digests,
        np.concatenate(originals),
        side.inexact,
        found.bad,
        found.wild,
    )
    return piece, {"integers": rows.integers, "short": None if short is None else short.integers}


@dataclass(frozen=True)
class ShardAnswers:
    """What tasks said about the shards of a side that have rows of it, in their order."""

    answers: list[Any]
    first: list[int]
    """The first row of each in the side."""
    counts: list[int]


def ask_shards(side: Side, target: str, *given: Any, keeps: bool = False) -> ShardAnswers:
    """What a function says about each shard: the shard, the rows of it that the side has (None for
    all), and what else it is given."""
    cluster, shards = side.cluster, side.array
    assert cluster is not None
    assert isinstance(shards, Shards)
    bounds = np.searchsorted(side.columns, shards.starts) if side.columns is not None else None
    starts = (shards.starts if bounds is None else bounds).tolist()
    counts = np.diff(starts)
    order = np.flatnonzero(counts).tolist()

    def calls() -> Iterator[Call]:
        for number in order:
            chosen = None
            if side.columns is not None:
                chosen = side.columns[starts[number] : starts[number + 1]] - shards.starts[number]
            some = (shards.manifest.only(number), chosen, *given)
            yield Call(number, target, given=some, keeps=keeps)

    with closing(cluster.gather(calls())) as answers:
        found = dict(answers)
    return ShardAnswers(
        [found[number] for number in order],
        [starts[number] for number in order],
        counts[order].tolist(),
    )


def _spread_rows(side: Side, rounding: Rounding, limit: int | None, dtype: Any) -> GridRows:
    """A side's shards, each read and rounded by a worker; what is large stays there."""
    given = (rounding, limit, dtype)
    asked = ask_shards(side, f"{__name__}:round_shard", *given, keeps=True)
    found: list[_Piece] = [piece for piece, _ in asked.answers]
    side.refuse(
        [piece.bad + first for piece, first in zip(found, asked.first, strict=True)],
        [piece.wild + first for piece, first in zip(found, asked.first, strict=True)],
        limit,
    )
    side.rounded = [piece.digests for piece in found]
    side.originals = np.concatenate([piece.originals for piece in found])
    side.inexact = any(piece.inexact for piece in found)
    zero = np.concatenate([piece.zero for piece in found])
    side.zero_rows = int(np.count_nonzero(zero))

    def held(member: str) -> Any:
        there = [reference for _, reference in asked.answers]
        kind = np.int16 if member == "short" else dtype
        return Pieces(side.cluster, there, asked.counts, side.dimension, member, kind)

    short = None
    if any(piece.short_square is not None for piece in found):
        squares = [
            np.zeros(len(piece.zero), np.int64)
            if piece.short_square is None
            else piece.short_square
            for piece in found
        ]
        short = ShortRows(held("short"), np.concatenate(squares))
    exponent = np.concatenate([piece.exponent for piece in found])
    square = np.concatenate([piece.square for piece in found])
    return GridRows(held("integers"), exponent, zero, short, square)


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


# Rows rounded on a GPU: the same integers as on the CPU.


_SHARE = 4
"""Integer rows may take one part in so many of a device's free memory."""


def propose(rows: Any) -> tuple[Any, Any]:
    """Directions of float64 rows in grid units, as far as floating point can tell: int32, and
    (4, rows) flags: not finite, zero, in doubt, maybe short.

    The same steps as truerank.distance.distance_kernels.round_units.
    """
    import torch

    bound = (rows.shape[1] / 2 + 4) * 2.0**-53
    largest = rows.abs().amax(1)
    exponent = -torch.frexp(largest).exponent.long()[:, None]
    half = exponent >> 1
    scaled = rows * _power(half)
    scaled *= _power(exponent - half)
    coarse = scaled * 2.0**SHORT_BITS
    whole = (coarse == coarse.trunc()) & ((scaled != 0) | (rows == 0))
    short = whole.all(1) & (largest > 0)
    norm = torch.sqrt((scaled * scaled).sum(1))
    norm = torch.where(largest == 0, 1.0, norm)[:, None]
    quotient = scaled.div_(norm).mul_(2.0**grid.UNIT_BITS)
    rounded = torch.round(quotient)
    integers = rounded.to(torch.int32)
    off = rounded.sub_(quotient).abs_().sub_(0.5).abs_()
    doubtful = (off <= quotient.abs_().mul_(bound)).any(1)
    return integers, torch.stack([~torch.isfinite(largest), largest == 0, doubtful, short])


class RoundedUnits:
    """Unit vectors on the grid, and what must be known of them in main memory."""

    def __init__(self, side: Side, device: Any) -> None:
        import torch

        self._side, self._device = side, device
        shape = side.count, side.dimension
        self._integers = torch.empty(shape, dtype=torch.int32, device=device)
        self._flags = torch.empty((4, side.count), dtype=torch.bool, device=device)
        step = max(1, CHUNK_NUMBERS // side.dimension)
        for start in range(0, side.count, step):
            some = slice(start, min(start + step, side.count))
            self._round(some, side.tensor(some, device).double())
        self.bad, self.zero, doubtful, self.short = self._flags.cpu().numpy()
        self._decide(np.flatnonzero(doubtful & ~self.bad))
        self.rows = DeviceRows(self._integers)

    def _round(self, some: slice, rows: Any) -> None:
        """Round a chunk."""
        self._integers[some], self._flags[:, some] = propose(rows)

    def _decide(self, rows: npt.NDArray[np.int64]) -> None:
        """Round the rows that are in doubt by integers, on the CPU."""
        import torch

        if len(rows):
            exact, _ = grid.unit_grid(np.asarray(self._side.array[rows], np.float64, order="C"))
            place = torch.from_numpy(rows).to(self._device)
            self._integers[place] = torch.from_numpy(exact).to(self._device)


def round_units(side: Side) -> RoundedUnits | None:
    """A side's directions, rounded on its device; None where that is left to the CPU.

    It is where some rows may be short (truerank.distance.grid), the device has no room, or the rows
    are no floats.
    """
    if side.device is None or side.columns is not None:
        return None
    import torch

    device = torch.device(side.device)
    if np.dtype(side.array.dtype) not in (np.float16, np.float32, np.float64):
        return None
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        if 4 * side.count * side.dimension > free // _SHARE:
            return None
    with torch.no_grad():
        found = RoundedUnits(side, device)
    return None if bool((found.short & ~found.bad).any()) else found


def _power(exponent: Any) -> Any:
    """2^exponent in float64, for exponents of normal numbers."""
    import torch

    return ((exponent + 1023) << 52).view(torch.float64)
