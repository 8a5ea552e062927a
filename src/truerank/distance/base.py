"""Base class of distances, the user's rows as it reads them, and matrices handed over.

A distance is a float64 whose order is exact: smaller is nearer, equal means tied. Tiles come
from the fastest arithmetic available, single pairs from integers; distance/probe.py compares
the two. Rows are read in chunks and every number is checked; memory-mapped input is never held
as a whole. A matrix handed over in place of embeddings holds distances, or similarities (larger
is better).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import DeviceMatrix, name_rows
from truerank._util.cached import cached_property
from truerank._util.cluster import Cluster
from truerank._util.errors import InputError, warn
from truerank._util.types import Array
from truerank.distance.digests import (
    Digests,
    Fingerprints,
    all_differ,
    classes_of_equals,
    content_order,
    mix,
    row_digests,
    sorted_bytes,
)
from truerank.distance.grid import SinglePrecision
from truerank.io.shards import Shards

Distances = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass
class Facts:
    """What the result must say about how its distances were made."""

    distance: str
    grid: str
    merged_rows: int = 0
    """Distinct input rows that became equal (cosine: also rows of one direction)."""
    zero_rows: int = 0
    input_digest: str = ""
    short_rows: int = 0
    """Rows of small integers, of which two have their true cosine."""
    rounded_alike: int = 0
    """Distinct true cosines to the same query that tie for want of bits, among those looked at."""
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain JSON values."""
        return dict(vars(self))


class Space(ABC):
    """Exact distances between queries and gallery items."""

    facts: Facts
    integral = False
    """Whether distances are integers below 2^54 in size, so that a grade can be attached."""
    queries: int
    gallery: int
    query_digests: Digests
    """Digests of the queries' rounded rows, by which a row met twice is recognised."""
    gallery_digests: Digests
    """Digests of the gallery's rounded rows; both are empty for given matrices."""

    cluster: Cluster | None = None
    """The cluster on which passes over this space are made; None for this machine."""
    unit_rounds = False
    """Whether `in_unit` rounds up or down, so that `raw` of a distance may fall short of it."""
    squared = False
    """Whether distances are the squares of those that `in_unit` gives."""
    unit_scale: float | None = None
    """Factor from a distance to the threshold axis [0, 1] of GOM; None if only min-max does."""

    def __getstate__(self) -> dict[str, Any]:
        """The space as another process gets it: it has no cluster, and makes what can be made."""
        made = ("cluster", "single", "_widened")
        return {name: value for name, value in vars(self).items() if name not in made}

    @property
    def holds_gallery(self) -> bool:
        """Whether whole rows of distances can be made in place, by `fill_rows`."""
        return False

    def fill_rows(self, rows: Rows, out: Distances) -> None:
        """Put the distances of these queries to the whole gallery into `out`."""
        out[...] = self.block(rows)(0, self.gallery)

    @property
    def refers(self) -> bool:
        """Whether a cluster holds its rows, of which this is no more than the names."""
        return False

    @property
    def symmetric(self) -> bool:
        """Whether the queries are the gallery and a pair has one distance in both orders."""
        return False

    @cached_property
    def single(self) -> SinglePrecision | None:
        """Float32 scores that decide most comparisons, where the distance has them."""
        return None

    @abstractmethod
    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """A function of (start, stop) that gives the tile of these queries x those items."""

    @abstractmethod
    def pairs(self, query: Rows, item: Rows) -> Distances:
        """The distances of single pairs, by integer arithmetic."""

    @abstractmethod
    def in_unit(self, distances: Distances) -> Distances:
        """Distances in the unit a user thinks in: cosine 1 - s, euclidean unsquared, and so on."""

    @abstractmethod
    def fingerprints(self) -> Fingerprints:
        """A number for each query row that the order of rows, items or dimensions cannot change."""

    def vectors(self) -> Distances | None:
        """The query rows as points whose euclidean distance ranks as this space does, if any."""
        return None

    def raw(self, threshold: Fraction) -> Fraction:
        """The distance, as a rational number, that a threshold in the user's unit stands for."""
        return threshold

    def grain(self, query: Rows, item: Rows, distances: Distances) -> Distances | None:
        """By how much rounding the rows has moved distances, about; None if nothing is rounded."""
        return None

    def linear(self, distances: Distances) -> Distances:
        """Distances in a unit that ascends with them and in which thresholds may be averaged."""
        return self.in_unit(distances)

    def contents(self) -> tuple[Rows, Rows] | None:
        """A number for each query and item that follows its content, not its place, or None.

        Rows chosen by it are the same rows in whatever order they come.
        """
        return None


# Sides: the user's arrays for a space, read in chunks, every number checked.
#
# Memory-mapped input is never held as a whole; what becomes of its rows is remembered by digest,
# and told in the facts of the space.


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
            warn(note + ".")
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


# A matrix handed over instead of embeddings: distances, or similarities (larger is better).


class Given(Space):
    """A given matrix: its entries widened to float64, similarities with their sign turned.

    `columns` are the gallery items that take part, None for all.
    """

    def __init__(self, matrix: Distances, sign: float, columns: Rows | None, facts: Facts) -> None:
        self._matrix, self._sign, self._columns = matrix, sign, columns
        self.queries = matrix.shape[0]
        self.gallery = matrix.shape[1] if columns is None else len(columns)
        self.facts = facts
        kept = slice(None) if columns is None else columns
        inside = (matrix.min(axis=0) >= 0) & (matrix.max(axis=0) <= 1)
        if sign > 0 and inside[kept].all():
            self.unit_scale = 1.0

    @classmethod
    def of_distances(cls, sides: Sides) -> Space:
        """The space of a matrix in which smaller is nearer."""
        return cls._of(sides, 1.0)

    @classmethod
    def of_similarities(cls, sides: Sides) -> Space:
        """The space of a matrix in which larger is nearer."""
        return cls._of(sides, -1.0)

    @classmethod
    def _of(cls, sides: Sides, sign: float) -> Space:
        digest = blake2b(digest_size=16)
        for _, rows in sides.queries.chunks(None):
            digest.update((rows + 0.0).data)
        facts = Facts(sides.distance, "as given", input_digest=digest.hexdigest())
        return cls(sides.queries.array, sign, sides.columns, facts)

    def block(self, rows: Rows) -> Callable[[int, int], Distances]:
        """See Space."""

        def tile(start: int, stop: int) -> Distances:
            if self._columns is None:
                return self._distances(self._matrix[rows, start:stop])
            return self._distances(self._matrix[np.ix_(rows, self._columns[start:stop])])

        return tile

    def pairs(self, query: Rows, item: Rows) -> Distances:
        """See Space."""
        columns = item if self._columns is None else self._columns[item]
        return self._distances(self._matrix[query, columns])

    def in_unit(self, distances: Distances) -> Distances:
        """See Space: distances and similarities as they were given."""
        return distances * self._sign

    def fingerprints(self) -> Fingerprints:
        """See Space: by significands, which no scale that is a power of two changes."""
        prints = np.array([mix(row).sum(dtype=np.uint64) for row in self._significands()])
        if self.queries != self._matrix.shape[1]:
            return prints
        return np.array([mix(row + prints).sum(dtype=np.uint64) for row in self._significands()])

    def _significands(self) -> Iterator[Fingerprints]:
        for row in range(self.queries):
            significands = np.ldexp(np.frexp(self._distances(self._matrix[row]))[0], 53)
            yield np.abs(significands).astype(np.uint64)

    def raw(self, threshold: Fraction) -> Fraction:
        """See Space: the threshold becomes a float64, as the entries are."""
        return Fraction(float(threshold)) * int(self._sign)

    def linear(self, distances: Distances) -> Distances:
        """See Space: entries as given, similarities with their sign turned."""
        return distances

    def _distances(self, entries: Distances) -> Distances:
        return np.asarray(entries, np.float64) * self._sign + 0.0  # no -0.0
