"""Manifests: a large matrix in shards, what each holds, and whether they are what they were.

A manifest is a JSON file: rows, dimensions and dtype of the whole, the names of the columns that
say something about each row, and for every shard its file (.npy or .parquet, beside the manifest or
by a URL that fsspec opens), its rows, its bytes and its checksum. All but the checksums is compared
with the files before anything is computed; checksums are compared when a shard is read.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import numpy as np

from truerank.errors import InputError, shortened
from truerank.extras import install
from truerank.files.paths import as_path
from truerank.wording import count

__all__ = ["FORMAT", "Manifest", "Part", "Stored", "is_url", "npy_shape", "parse_manifest"]

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
class Part:
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
    parts: tuple[Part, ...]

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
            Part(stored, rows, None if beside is None else fields.stored(beside, number, base))
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
