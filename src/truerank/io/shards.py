"""Read a large matrix in shards by its manifest, with sizes and checksums verified.

A manifest is a JSON file: rows, dimensions and dtype of the whole, the names of the columns,
and per shard its file (.npy or .parquet, beside the manifest or at a URL that fsspec opens),
rows, bytes and checksum. All but the checksums is compared with the files before anything is
computed; a checksum is compared before the first row of its shard is used. `Shards` stands for
a (rows, dimensions) array. A local .npy shard is read range by range, any other shard as a
whole.
"""

from __future__ import annotations

import io
import json
import os
import posixpath
from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import allocate, check_fits
from truerank._util.errors import InputError, shortened
from truerank._util.files import as_path
from truerank._util.installed import install
from truerank._util.text import count
from truerank._util.types import Array
from truerank.io.tables import dimensions, known_columns, only_matrix, read_parquet

FORMAT = "truerank-shards"
ENDINGS = (".npy", ".parquet")
_BLOCK = 1 << 20


def is_url(text: str) -> bool:
    """Whether a file is named by a URL, such as s3://bucket/rows.npy."""
    return "://" in text


@dataclass(frozen=True)
class Stored:
    """A file of a manifest: where it is, its bytes and the checksum of what it holds."""

    location: str
    length: int
    """In bytes."""
    checksum: str | None

    def open(self) -> IO[bytes]:
        """The file, to be read."""
        try:
            if not is_url(self.location):
                return open(self.location, "rb")
            found: IO[bytes] = _filesystem(self.location).open(self.location, "rb")
        except (OSError, ValueError) as error:
            raise self.unreadable(error) from None
        return found

    def size(self) -> int:
        """Its bytes now."""
        try:
            if not is_url(self.location):
                return os.path.getsize(self.location)
            return int(_filesystem(self.location).size(self.location))
        except (OSError, ValueError) as error:
            raise self.unreadable(error) from None

    def check_size(self) -> None:
        """Refuse a file that is missing, or longer or shorter than it was."""
        found = self.size()
        if found != self.length:
            raise InputError(
                f"shard {self.location} has {count(found, 'byte')} and the manifest says "
                f"{self.length}; write it again."
            )

    def read(self) -> bytes:
        """All of it, compared with its checksum."""
        with self.open() as file:
            try:
                data = file.read()
            except OSError as error:
                raise self.unreadable(error) from None
        if len(data) != self.length:
            self.check_size()
        self._compare(blake2b(data, digest_size=16).hexdigest())
        return data

    def verify(self) -> None:
        """Compare it with its size and checksum, a block at a time."""
        self.check_size()
        if self.checksum is None:
            return
        found = blake2b(digest_size=16)
        with self.open() as file:
            try:
                while block := file.read(_BLOCK):
                    found.update(block)
            except OSError as error:
                raise self.unreadable(error) from None
        self._compare(found.hexdigest())

    def _compare(self, found: str) -> None:
        if self.checksum is not None and found != self.checksum:
            raise InputError(
                f"shard {self.location} does not hold what it held when the manifest was written "
                f"(checksum {found}, expected {shortened(self.checksum)}); write it again."
            )

    def unreadable(self, error: Exception) -> InputError:
        """One sentence on a file that cannot be read."""
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        told = reason.rstrip(".") or type(error).__name__
        return InputError(f"shard {self.location} cannot be read: {told}.")


@dataclass(frozen=True)
class ShardFile:
    """A shard: its rows, and the file of what is known about them."""

    stored: Stored
    rows: int
    columns: Stored | None


@dataclass(frozen=True)
class Manifest:
    """The shards of a matrix, in the order of its rows."""

    path: str
    rows: int
    dimensions: int
    dtype: np.dtype[Any]
    columns: tuple[str, ...]
    """What is known about each row: names of labels, ids, groups."""
    parts: tuple[ShardFile, ...]

    def only(self, number: int) -> Manifest:
        """The manifest of one of its shards alone."""
        part = self.parts[number]
        return replace(self, rows=part.rows, columns=(), parts=(part,))

    def check(self, *, checksums: bool = False) -> None:
        """Refuse shards that are missing, of another size, or that begin otherwise."""
        for part in self.parts:
            for stored in (part.stored, part.columns):
                if stored is not None:
                    stored.verify() if checksums else stored.check_size()
            shape, dtype = _header(part.stored)
            if shape is None:
                continue
            expected = (part.rows, self.dimensions)
            if shape != expected or dtype != self.dtype:
                raise InputError(
                    f"shard {part.stored.location} holds {dtype} of shape {shape} and the manifest "
                    f"says {self.dtype} of shape {expected}; write it again."
                )


def _filesystem(location: str) -> Any:
    """What opens a URL."""
    try:
        import fsspec
    except ImportError:
        raise InputError(f"reading {location} needs fsspec: {install('cluster')}.") from None
    try:
        return fsspec.core.url_to_fs(location)[0]
    except ImportError as error:
        raise InputError(f"shard {location} cannot be read: {error}.") from None


def _header(stored: Stored) -> tuple[tuple[int, ...] | None, np.dtype[Any] | None]:
    """Shape and dtype that a shard begins with; None for Parquet, whose end says so."""
    with stored.open() as file:
        if stored.location.lower().endswith(".parquet"):
            if file.read(4) != b"PAR1":
                raise InputError(f"shard {stored.location} is no Parquet file.")
            return None, None
        return npy_shape(file, stored)


def npy_shape(file: IO[bytes], stored: Stored) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of an .npy file, of which the numbers come next."""
    try:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, by_column, dtype = read(file)
    except Exception as error:  # whatever a malformed header makes numpy say
        raise stored.unreadable(error) from None
    if by_column and len(shape) > 1 and min(shape) > 1:
        raise InputError(f"shard {stored.location} is stored column by column; save it in C order.")
    return shape, dtype


def parse_manifest(path: str | os.PathLike[str], value: Any) -> Manifest:
    """The manifest in a JSON value, every field checked; the shards are not looked at."""
    fields = _Fields(str(path))
    value = fields.of(value, dict, "a JSON object")
    if value.get("format") != FORMAT:
        raise InputError(f"{path} is no manifest of shards: its format is not {FORMAT!r}.")
    if value.get("version") != 1:
        raise InputError(f"{path} is a manifest of a later version; update truerank.")
    base = fields.of(value.get("base", ""), str, "the text 'base'")
    try:
        dtype = np.dtype(fields.of(value.get("dtype"), str, "a 'dtype'"))
    except (TypeError, ValueError, SyntaxError):  # numpy parses the text
        raise InputError(
            f"{path}: {shortened(value['dtype'])} is no dtype, such as float32."
        ) from None
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise InputError(f"{path}: shards must hold real numbers of at most 64 bits, not {dtype}.")
    parts = []
    for number, one in enumerate(fields.of(value.get("shards"), list, "a list of 'shards'")):
        one = fields.of(one, dict, f"shard {number} as an object")
        rows = fields.number(one.get("rows"), f"the 'rows' of shard {number}")
        stored = fields.stored(one, number, base)
        if not stored.location.lower().endswith(ENDINGS):
            raise InputError(f"{path}: shard {stored.location} must be .npy or .parquet.")
        beside = one.get("columns")
        parts.append(
            ShardFile(stored, rows, None if beside is None else fields.stored(beside, number, base))
        )
    columns = fields.of(value.get("columns", []), list, "a list of 'columns'")
    found = Manifest(
        str(path),
        fields.number(value.get("rows"), "'rows'"),
        fields.number(value.get("dimensions"), "'dimensions'"),
        dtype,
        tuple(str(name) for name in columns),
        tuple(parts),
    )
    total = sum(part.rows for part in parts)
    if total != found.rows:
        raise InputError(f"{path} says {found.rows} rows, and its shards have {total}.")
    if columns and any(part.columns is None for part in parts):
        raise InputError(f"{path} names columns, and a shard has none.")
    return found


class _Fields:
    """The fields of a manifest, each refused by its name if it is something else."""

    def __init__(self, path: str) -> None:
        self._path = path

    def of(self, value: Any, kind: type, what: str) -> Any:
        """A value of this kind."""
        if not isinstance(value, kind):
            raise InputError(f"{self._path} is a damaged manifest: expected {what}.")
        return value

    def number(self, value: Any, what: str) -> int:
        """A whole number of one or more."""
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{self._path} is a damaged manifest: {what} must be an int >= 1.")
        return value

    def stored(self, value: Any, number: int, base: str) -> Stored:
        """A file: relative names begin at the base, or at the manifest's folder."""
        value = self.of(value, dict, f"the files of shard {number} as objects")
        name = self.of(value.get("file"), str, f"the 'file' of shard {number}")
        if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise InputError(
                f"{self._path} is a damaged manifest: {shortened(name)} of shard {number} is no "
                "name of a file."
            )
        checksum = value.get("checksum")
        if checksum is not None:
            self.of(checksum, str, f"the 'checksum' of shard {number}")
        size = self.number(value.get("bytes"), f"the 'bytes' of shard {number}")
        return Stored(self._location(name, base), size, checksum)

    def _location(self, name: str, base: str) -> str:
        if is_url(name):
            return name
        for folder in (base, "" if not is_url(self._path) else posixpath.dirname(self._path)):
            if is_url(folder):
                return posixpath.join(folder, name)
        return str(Path(as_path(self._path).resolve().parent, base, name))


# Shards: the rows of a manifest, read where they are asked for.


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


def _read_range(part: ShardFile, manifest: Manifest, start: int, stop: int) -> Array:
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
            f"shard {stored.location} holds integers beyond 2^53, which float64 cannot "
            "distinguish; subtract an offset or divide by a power of two first."
        )
    return rows
