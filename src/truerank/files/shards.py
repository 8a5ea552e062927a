"""Shards: the rows of a manifest, read where they are asked for.

Shards stands for a (rows, dimensions) array: slices and lists of rows are read from the files that
hold them, and nothing else of them is held. A local .npy shard is read a range at a time; what is
stored as Parquet or elsewhere is read as a whole and kept for a while. Every shard is compared with
its checksum before its first row is used.
"""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError
from truerank.extras import install
from truerank.files.manifest import Manifest, Part, Stored, is_url, npy_shape
from truerank.files.tables import known_columns, only_matrix, read_parquet
from truerank.files.wide import dimensions
from truerank.storage import allocate, check_fits

__all__ = ["Shards", "read_columns", "read_shard"]

Array = npt.NDArray[Any]
KEPT = 4
"""Shards that are kept as a whole after they were read as one."""
SPARSE = 8
"""Rows that are farther apart than so many, on average, are read one by one."""
FIELDS = frozenset({"labels", "ids", "groups"})
"""What a manifest may know about rows."""
LARGEST = 1 << 53
"""Integers beyond it cannot be told apart as float64."""


class Shards:
    """The (rows, dimensions) array of a manifest, of which rows are read when they are needed."""

    ndim = 2

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.shape = (manifest.rows, manifest.dimensions)
        self.dtype = manifest.dtype
        self.starts = np.cumsum([0, *(part.rows for part in manifest.parts)])
        """The first row of every shard, and the number of all rows."""
        self.spans = [
            (int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)
        ]
        """First and last row of each shard, the last not included."""
        self._locks = [Lock() for _ in manifest.parts]
        self._verified: set[int] = set()
        self._kept: OrderedDict[int, Array] = OrderedDict()
        self._keeping = Lock()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Array:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return (
                self._range(start, max(start, stop))[::step]
                if step > 0
                else self._rows(np.arange(start, stop, step))
            )
        if np.ndim(index) == 0:
            row: Array = self._rows(np.array([index]))[0]
            return row
        return self._rows(np.asarray(index))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All of it, in a temporary file where it does not fit into memory."""
        out = allocate(self.shape, self.dtype if dtype is None else dtype)
        for number, (start, stop) in enumerate(self.spans):
            out[start:stop] = self._part(number, 0, stop - start)
        return out

    def min(self) -> Any:
        """The smallest number."""
        return min(self._part(n, 0, b - a).min() for n, (a, b) in enumerate(self.spans))

    def max(self) -> Any:
        """The largest number."""
        return max(self._part(n, 0, b - a).max() for n, (a, b) in enumerate(self.spans))

    def _range(self, start: int, stop: int) -> Array:
        """Consecutive rows."""
        out = np.empty((stop - start, self.shape[1]), self.dtype)
        first, last = np.searchsorted(self.starts, [start, stop - 1], "right") - 1
        for number in range(first, last + 1) if stop > start else ():
            low, high = self.spans[number]
            a, b = max(low, start), min(high, stop)
            out[a - start : b - start] = self._part(number, a - low, b - low)
        return out

    def _rows(self, index: npt.NDArray[Any]) -> Array:
        """Rows in any order."""
        if index.dtype == bool:
            index = np.flatnonzero(index)
        index = np.where(index < 0, index + len(self), index)
        if len(index) and not 0 <= index.min() <= index.max() < len(self):
            raise IndexError(f"rows beyond the {len(self)} of {self.manifest.path}")
        out = np.empty((len(index), self.shape[1]), self.dtype)
        number = np.searchsorted(self.starts, index, "right") - 1
        for shard in np.unique(number).tolist():
            mine = np.flatnonzero(number == shard)
            rows = index[mine] - self.starts[shard]
            low, high = int(rows.min()), int(rows.max()) + 1
            if high - low <= SPARSE * len(rows):
                out[mine] = self._part(shard, low, high)[rows - low]
            else:
                for place, row in zip(mine.tolist(), rows.tolist(), strict=True):
                    out[place] = self._part(shard, row, row + 1)[0]
        return out

    def _part(self, number: int, start: int, stop: int) -> Array:
        """Consecutive rows of one shard."""
        part = self.manifest.parts[number]
        with self._locks[number]:
            if not _is_local_npy(part.stored):
                return self._whole(number)[start:stop]
            if number not in self._verified:
                part.stored.verify()
                self._verified.add(number)
        return _checked(_read_range(part, self.manifest, start, stop), part.stored)

    def _whole(self, number: int) -> Array:
        """A shard that is read as one, from those that are kept if it is among them."""
        with self._keeping:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        rows = read_shard(self.manifest, number)
        with self._keeping:
            self._kept[number] = rows
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return rows


def read_shard(manifest: Manifest, number: int) -> Array:
    """All rows of a shard, compared with its checksum."""
    part = manifest.parts[number]
    stored = part.stored
    check_fits(f"shard {stored.location}", 2 * stored.length, "write smaller shards")
    data = stored.read()
    if stored.location.lower().endswith(".parquet"):
        rows = _parquet_rows(stored, data)
    else:
        file = io.BytesIO(data)
        (shape, dtype), offset = npy_shape(file, stored), file.tell()
        if len(data) - offset < int(np.prod(shape)) * dtype.itemsize:
            raise InputError(f"shard {stored.location} is cut off; write it again.")
        rows = np.frombuffer(data, dtype, int(np.prod(shape)), offset).reshape(shape)
    if rows.shape != (part.rows, manifest.dimensions) or rows.dtype != manifest.dtype:
        raise InputError(
            f"shard {stored.location} holds {rows.dtype} of shape {rows.shape} and the manifest "
            f"says {manifest.dtype} of shape {(part.rows, manifest.dimensions)}; write it again."
        )
    return _checked(rows, stored)


def read_columns(manifest: Manifest) -> dict[str, Any]:
    """What the manifest knows of all rows: labels (a list, or lists by level), ids and groups."""
    found: dict[str, Any] = {}
    for part in manifest.parts:
        if part.columns is None:
            continue
        try:
            some = json.loads(part.columns.read())
            if not FIELDS.issuperset(some):
                raise ValueError(f"it may have the columns {', '.join(sorted(FIELDS))} alone")
            _extend(found, some, part.rows)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise part.columns.unreadable(error) from None
    return found


def _extend(found: dict[str, Any], some: dict[str, Any], rows: int) -> None:
    """Append the columns of a shard."""
    if found and set(found) != set(some):
        raise ValueError("it has other columns than the shards before it")
    for name, values in some.items():
        if isinstance(values, dict):
            _extend(found.setdefault(name, {}), values, rows)
        elif len(values) != rows:
            raise ValueError(f"column {name!r} has {len(values)} values for {rows} rows")
        else:
            found.setdefault(name, []).extend(values)


def _is_local_npy(stored: Stored) -> bool:
    return not is_url(stored.location) and stored.location.lower().endswith(".npy")


def _read_range(part: Part, manifest: Manifest, start: int, stop: int) -> Array:
    """Rows of a local .npy file, by reading and not by mapping: a file may be cut off meanwhile."""
    rows = np.empty((stop - start, manifest.dimensions), manifest.dtype)
    with part.stored.open() as file:
        npy_shape(file, part.stored)
        file.seek(file.tell() + start * rows.itemsize * manifest.dimensions)
        try:
            got = file.readinto(rows.reshape(-1).view(np.uint8).data)  # type: ignore[attr-defined]
        except OSError as error:
            raise part.stored.unreadable(error) from None
    if got != rows.nbytes:
        raise InputError(f"shard {part.stored.location} is cut off; write it again.")
    return rows


def _parquet_rows(stored: Stored, data: bytes) -> Array:
    """The embeddings of a Parquet file."""
    path = Path(stored.location)
    try:
        columns = read_parquet(path, lambda names: dimensions(path, names), io.BytesIO(data))
    except InputError as error:
        raise InputError(f"shard {stored.location} cannot be read: {error}") from None
    except ImportError:
        raise InputError(f"reading {stored.location} needs pyarrow: {install('io')}.") from None
    except Exception as error:  # whatever a malformed file makes pyarrow say
        raise stored.unreadable(error) from None
    named = {name.strip().lower(): column for name, column in columns.items()}
    known = known_columns("embeddings", named)
    found = named[known[0]] if len(known) == 1 else only_matrix(named)
    if not isinstance(found, np.ndarray):
        raise InputError(f"shard {stored.location} holds no embeddings, or several.")
    return found


def _checked(rows: Array, stored: Stored) -> Array:
    """Rows, of which no integer is beyond what float64 can tell apart."""
    long = rows.dtype.kind in "iu" and rows.itemsize == 8 and rows.size > 0
    if long and (int(rows.max()) > LARGEST or int(rows.min()) < -LARGEST):
        raise InputError(
            f"shard {stored.location} holds integers beyond 2^53, which float64 cannot tell "
            "apart; subtract an offset or divide by a power of two first."
        )
    return rows
