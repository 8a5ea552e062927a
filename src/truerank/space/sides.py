"""Sides: the user's arrays for a space, read in chunks, every number checked.

Memory-mapped input is never held as a whole; what becomes of its rows is remembered by digest, and
told in the facts of the space.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import DeviceMatrix, name_rows
from truerank.cluster import Cluster
from truerank.errors import InputError, TruerankWarning
from truerank.files.shards import Shards
from truerank.space.base import Facts, Rows
from truerank.space.digests import (
    Digests,
    all_differ,
    classes_of_equals,
    content_order,
    row_digests,
    sorted_bytes,
)

__all__ = ["Side", "Sides"]

Array = npt.NDArray[Any]
_CHUNK_NUMBERS = 1 << 19
_THREADS = min(8, os.cpu_count() or 1)
"""Most threads that read, check and round a chunk each."""


class Side:
    """One side's rows, read a chunk at a time as float64 and remembered by digest."""

    def __init__(
        self,
        name: str,
        array: Array,
        columns: Rows | None,
        threads: int | None = None,
        device: str | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.name, self.array, self.columns, self.cluster = name, array, columns, cluster
        self.device = device
        """Where rows are to be rounded, if not on the CPU."""
        self.count = len(array) if columns is None else len(columns)
        self.dimension = array.shape[1]
        self.rounded: list[Digests] = []
        self.originals: Digests | None = None
        """Digests of the rows before they were rounded, where they are not at hand."""
        self.order: Rows | None = None
        """An order of the rows by the second half of their digests, where it is known."""
        self.inexact = False
        self.zero_rows = 0
        self.threads = min(_THREADS, threads or _THREADS)

    @property
    def spread(self) -> bool:
        """Whether the workers of a cluster can read the rows."""
        return self.cluster is not None and isinstance(self.array, Shards)

    @property
    def digests(self) -> Digests:
        """The digests of all rounded rows."""
        return np.concatenate([np.empty((0, 2), np.uint64), *self.rounded])

    def chunks(self, limit: int | None) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
        """All rows in chunks, as finite float64; a larger magnitude than 2^limit is refused."""
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
        """The ranges of rows that are read at a time."""
        step = max(1, _CHUNK_NUMBERS // self.dimension)
        starts = range(0, self.count, step)
        return [slice(start, min(start + step, self.count)) for start in starts]

    def read(self, where: slice, limit: int | None) -> tuple[npt.NDArray[np.float64], Rows, Rows]:
        """A range of rows, and which of them are not finite or beyond the limit."""
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

    def before(self, rows: Rows, *, digested: bool) -> Array:
        """Some rows as they were before they were rounded (no zero is -0), or their digests."""
        if self.originals is not None:
            return self.originals[rows]
        index = rows if self.columns is None else self.columns[rows]
        found: Array = np.asarray(self.array[index], np.float64, order="C") + 0.0
        return row_digests(found.view(np.int64)) if digested else found

    def tensor(self, where: slice, device: Any) -> Any:
        """A range of rows as a tensor on a device."""
        import torch

        if isinstance(self.array, DeviceMatrix):
            return self.array.tensor[where].to(device)
        rows = np.ascontiguousarray(self.array[where])
        return torch.from_numpy(rows if rows.flags.writeable else rows.copy()).to(device)

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


class Sides:
    """The queries and, unless they are their own gallery, the gallery of one distance.

    That may be the side of the queries once more, which is then rounded once. `columns` are
    the columns of a given matrix that take part, None for all.
    """

    def __init__(self, distance: str, *sides: Side, columns: Rows | None = None) -> None:
        self.distance, self._sides, self.columns = distance, sides, columns

    @property
    def queries(self) -> Side:
        """The side of the queries, which is the first."""
        return self._sides[0]

    @property
    def gallery(self) -> Side:
        """The side of the gallery: the queries, where they are their own gallery."""
        return self._sides[-1]

    def __len__(self) -> int:
        return len(self._sides)

    def __iter__(self) -> Iterator[Side]:
        return iter(self._sides)

    def facts(self, grid: str) -> Facts:
        """What the result must say of rows that have been rounded to this grid."""
        total = blake2b(digest_size=16)
        different = list(dict.fromkeys(self))
        orders = [content_order(side.digests, side.order) for side in different]
        ordered = {
            side: sorted_bytes(side.digests, order)
            for side, order in zip(different, orders, strict=True)
        }
        for side in self:
            total.update(b"side")
            total.update(ordered[side])
        zero_rows = sum(side.zero_rows for side in self)
        facts = Facts(self.distance, grid, _merged(different, orders), zero_rows, total.hexdigest())
        if any(side.inexact for side in self):
            note = (
                f"float64 input holds more significant bits than the {self.distance} grid "
                f"({grid}); distances are exact between the rounded rows"
            )
            facts.notes.append(note)
            warnings.warn(note + ".", TruerankWarning, stacklevel=6)
        return facts


def _merged(sides: list[Side], orders: list[Rows]) -> int:
    """How many fewer distinct rows there are after rounding; only equal rounded rows can tell."""
    if len(sides) == 1 and all_differ(sides[0].digests, orders[0]):
        return 0
    digests = np.concatenate([side.digests for side in sides])
    number, times = classes_of_equals(digests, orders[0] if len(sides) == 1 else None)
    originals: dict[int, set[bytes]] = {}
    # A side that a cluster holds knows its rows by their digests alone.
    digested = any(side.originals is not None for side in sides)
    for side, numbers in zip(sides, np.split(number, [sides[0].count]), strict=False):
        several = np.flatnonzero(times[numbers] > 1)
        step = max(1, _CHUNK_NUMBERS // side.dimension)
        for start in range(0, len(several), step):
            some = several[start : start + step]
            before = side.before(some, digested=digested)
            for row, original in zip(numbers[some].tolist(), before, strict=True):
                originals.setdefault(row, set()).add(original.tobytes())
    return sum(len(distinct) - 1 for distinct in originals.values())
