"""shard: write one large file, or a stream of rows, as shards with a manifest.

Rows pass through block by block. Memory-mapped formats, Parquet, HDF5 and shards are never held
as a whole. Each shard is written in one step and the manifest last, so an interrupted run is
simply repeated.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import numpy as np

from truerank._util.arrays import as_array, as_plain, check_fits
from truerank._util.errors import InputError, shortened
from truerank._util.files import as_path, atomic_path, check_readable, to_json
from truerank._util.installed import install
from truerank._util.text import count
from truerank._util.types import Array
from truerank.io import vectors
from truerank.io.reading import (
    Bundle,
    aligned,
    bundled,
    is_path,
    read,
    read_json,
    read_labels,
    require_embeddings,
)
from truerank.io.shards import FORMAT, Stored, npy_shape, parse_manifest
from truerank.io.tables import dimensions, parquet_batches
from truerank.io.vectors import LONGEST, MATRICES, ROWS

# shard: one large file, or a stream of rows, becomes shards and a manifest that names them.
#
# Rows pass through a block at a time. Shards are written in one step each, and the manifest,
# without which they are nothing, at the end: what was interrupted is simply written again.


NAME = "manifest.json"
MOST_ROWS = 1 << 40
"""Of a shard."""
OURS = re.compile(r"(rows|columns)-\d{5,}\.(npy|json)")


def shard(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    levels: Sequence[str] | None = None,
    rows: int | None = None,
    base: str | None = None,
) -> Path:
    """Write embeddings as shards, with a manifest that `evaluate` accepts like a file.

    Parameters
    ----------
    source : path, array, or iterable of arrays
        Any file of embeddings that `evaluate` reads; blocks of rows as they come. Memory stays
        that of a shard, except for .npz, .pt, .safetensors and .csv, which are read as a whole.
    folder : path
        Where shards and manifest.json go; made where it is not there. A folder that holds a
        manifest is refused.
    labels : path, optional
        A file of labels, ids and groups for the rows, as for `evaluate`; by default what the file
        of embeddings holds.
    levels : names, optional
        The columns of labels, from coarse to fine.
    rows : int, optional
        Rows of a shard; by default as many as make 64 MB.
    base : str, optional
        Where workers will find the shards, such as "s3://bucket/folder"; by default beside the
        manifest.

    Returns
    -------
    Path
        The manifest.

    Examples
    --------
    >>> import tempfile
    >>> import truerank
    >>> found = truerank.shard([[[0., 1], [0, 2]], [[1., 0], [1, 1]]], tempfile.mkdtemp(), rows=3)
    >>> truerank.evaluate(found, ["a", "a", "b", "b"])["map@r"].value
    0.75
    """
    whole = isinstance(rows, (int, np.integer)) and not isinstance(rows, bool)
    if rows is not None and (not whole or not 1 <= rows <= MOST_ROWS):
        raise InputError(
            f"The 'rows' parameter must be an int from 1 to {MOST_ROWS}. "
            f"Got {shortened(rows)} instead."
        )
    chosen = _checked(levels, base)
    target = _made(folder)
    more = None if labels is None else read_labels(labels, chosen)
    writer = ShardWriter(target, rows)
    known = _Known(source, labels, more)
    for some in _readable(blocks(source, None if labels is not None else chosen), source):
        writer.add(known.of(some, writer.done))
    writer.finish()
    known.check_all(writer.done)
    return _write_manifest(target / NAME, writer.facts(), writer.parts, writer.columns, base)


def list_shards(
    paths: Iterable[str | os.PathLike[str]],
    manifest: str | os.PathLike[str],
    *,
    levels: Sequence[str] | None = None,
    base: str | None = None,
) -> Path:
    """Write a manifest of .npy and .parquet files as they are, in this order.

    They are named relative to the manifest's folder, or to `base`. What Parquet files hold besides
    embeddings (labels, ids, groups) is written beside the manifest.
    """
    target = as_path(manifest)
    with suppress(OSError, ValueError):  # what is wrong is told when a file is written
        target.parent.mkdir(parents=True, exist_ok=True)
    chosen = _checked(levels, base)
    parts: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    columns: list[str] = []
    for number, path in enumerate(map(as_path, paths)):
        if path.suffix.lower() not in (".npy", ".parquet"):
            raise InputError(f"{path} must be .npy or .parquet to be listed as it is.")
        counter = _Counter(path)
        for some in _readable(blocks(path, chosen), path):
            counter.add(some)
        found = {"dimensions": counter.dimensions, "dtype": counter.dtype}
        if facts and facts != found:
            raise InputError(f"{path} holds {found} and the files before it {facts}.")
        facts = found
        name = os.path.relpath(path.resolve(), target.resolve().parent)
        part = {"file": Path(name).as_posix(), "rows": counter.rows, **measured(path)}
        if counter.columns:
            beside = target.with_name(f"{target.stem}-columns-{number:05d}.json")
            part["columns"] = write_columns(beside, counter.columns)
        names = names_of(counter.columns)
        if number and names != columns:
            raise InputError(f"{path} has the columns {names} and the files before it {columns}.")
        columns = names
        parts.append(part)
    if not parts:
        raise InputError("no files were given to be listed.")
    return _write_manifest(target, facts, parts, columns, base)


def check(manifest: str | os.PathLike[str]) -> dict[str, Any]:
    """Compare all shards of a manifest with their sizes, headers and checksums; what it says."""
    found = parse_manifest(as_path(manifest), read_json(manifest))
    found.check(checksums=True)
    return {
        "shards": len(found.parts),
        "rows": found.rows,
        "dimensions": found.dimensions,
        "dtype": str(found.dtype),
        "columns": list(found.columns),
    }


def _checked(levels: Sequence[str] | None, base: str | None) -> list[str] | None:
    """The names of levels; what is none is refused."""
    if base is not None and not isinstance(base, str):
        raise InputError(f"The 'base' parameter must be text. Got {shortened(base)} instead.")
    if levels is None:
        return None
    named = isinstance(levels, (list, tuple)) and all(isinstance(one, str) for one in levels)
    if not named or not levels:
        raise InputError(
            "The 'levels' parameter must be a list of names of columns. "
            f"Got {shortened(levels)} instead."
        )
    return list(levels)


def _made(folder: str | os.PathLike[str]) -> Path:
    """The folder, empty of what an interrupted run has left."""
    target = as_path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if (target / NAME).exists():
            raise InputError(
                f"{target} holds a manifest already; delete it or name another folder."
            )
        for left in target.iterdir():
            if OURS.fullmatch(left.name):
                left.unlink()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write to {target}: {reason}.") from None
    return target


def _readable(found: Iterator[Bundle], source: Any) -> Iterator[Bundle]:
    """The blocks of a source, whose parser's complaints become one sentence."""
    try:
        yield from found
    except (InputError, MemoryError):
        raise
    except ImportError as error:
        extra = {"h5py": "hdf5", "torch": "torch"}.get(error.name or "", "io")
        raise InputError(
            f"reading {source} needs {error.name or error}: {install(extra)}."
        ) from error
    except Exception as error:
        if not isinstance(source, (str, os.PathLike)):
            raise
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise InputError(f"{source} cannot be read: {reason}.") from error


class _Known:
    """What a file of labels says about rows, block by block; what these bring along otherwise."""

    def __init__(self, source: Any, path: Any, more: Bundle | None) -> None:
        self._path, self._more = path, more
        self._source = Path(source) if isinstance(source, (str, os.PathLike)) else Path("the rows")
        self._by_id = False

    def of(self, some: Bundle, start: int) -> Bundle:
        """A block with what is known about its rows, the first of which is `start`."""
        more = self._more
        if more is None:
            return some
        stop = start + len(some.embeddings)
        here = piece(more, slice(start, stop))
        both = some.ids is not None and more.ids is not None
        if both and list(map(str, some.ids)) != list(map(str, here.ids)):
            self._by_id = True
            here = aligned(more, Path(self._path), some, self._source)
        ids = here.ids if here.ids is not None else some.ids
        groups = here.groups if here.groups is not None else some.groups
        return Bundle(some.embeddings, here.labels, ids, groups)

    def check_all(self, rows: int) -> None:
        """Refuse labels for more rows than there are."""
        if self._more is None or self._by_id:
            return
        labels = self._more.labels
        column = next(iter(labels.values())) if isinstance(labels, dict) else labels
        if len(column) != rows:
            raise InputError(
                f"{self._path} has {len(column)} labels and {self._source} has {rows} rows."
            )


class _Counter:
    """What a file holds, without its rows."""

    def __init__(self, path: Path) -> None:
        self._path, self.rows, self.dimensions, self.dtype = path, 0, 0, ""
        self.columns: dict[str, Any] = {}

    def add(self, some: Bundle) -> None:
        """Take in a block."""
        block = some.embeddings
        if block is None:
            raise InputError(f"{self._path} holds no embeddings.")
        self.rows += len(block)
        self.dimensions, self.dtype = block.shape[1], str(block.dtype)
        append(self.columns, known_columns(some), slice(None))


def _write_manifest(
    path: Path,
    facts: dict[str, Any],
    parts: list[dict[str, Any]],
    columns: list[str],
    base: str | None,
) -> Path:
    value = {"format": FORMAT, "version": 1, "rows": sum(part["rows"] for part in parts), **facts}
    value["columns"] = columns
    if base is not None:
        value["base"] = base
    to_json(value | {"shards": parts}, path)
    return path


# Writing shards: rows as they come, and what is known about them, with sizes and checksums.


SHARD_BYTES = 1 << 26
"""Bytes of a shard, by default."""


class ShardWriter:
    """Rows as they come, written whenever they fill a shard."""

    def __init__(self, folder: Path, rows: int | None) -> None:
        self._folder, self._rows = folder, rows
        self._buffer: Array | None = None
        self._filled = 0
        self._columns: dict[str, Any] = {}
        self.columns: list[str] = []
        self.done = 0
        self.parts: list[dict[str, Any]] = []

    def add(self, some: Bundle) -> None:
        """Take in a block."""
        block = some.embeddings
        buffer = self._begin(block)
        known = known_columns(some)
        if self.done and names_of(known) != self.columns:
            raise InputError(f"what is known about rows changes after row {self.done}.")
        self.columns = names_of(known)
        start = 0
        while start < len(block):
            room = min(len(buffer) - self._filled, len(block) - start)
            buffer[self._filled : self._filled + room] = block[start : start + room]
            append(self._columns, known, slice(start, start + room))
            self._filled += room
            start += room
            if self._filled == len(buffer):
                self._write()
        self.done += len(block)

    def _begin(self, block: Array) -> Array:
        """Room for a shard, into whose rows these fit."""
        if block.dtype.kind not in "fiub" or block.dtype.itemsize > 8:
            raise InputError(f"shards hold real numbers of at most 64 bits. Got {block.dtype}.")
        if self._buffer is None:
            dtype = block.dtype.newbyteorder("<")
            each = block.shape[1] * dtype.itemsize
            rows = self._rows or max(1, SHARD_BYTES // each)
            check_fits(f"a shard of {rows} rows", rows * each, "write smaller ones")
            self._buffer = np.empty((rows, block.shape[1]), dtype)
        expected = self._buffer
        if block.shape[1] != expected.shape[1] or block.dtype.newbyteorder("<") != expected.dtype:
            raise InputError(
                f"rows from {self.done} on are {block.dtype} of {block.shape[1]} dimensions, those "
                f"before are {expected.dtype} of {expected.shape[1]}."
            )
        return expected

    def _write(self) -> None:
        assert self._buffer is not None
        number = len(self.parts)
        path = self._folder / f"rows-{number:05d}.npy"
        with atomic_path(path) as partial, partial.open("wb") as file:
            np.save(file, self._buffer[: self._filled])
        part = {"file": path.name, "rows": self._filled, **measured(path)}
        if self._columns:
            beside = self._folder / f"columns-{number:05d}.json"
            part["columns"] = write_columns(beside, self._columns)
        self.parts.append(part)
        self._filled, self._columns = 0, {}

    def finish(self) -> None:
        """Write what is left."""
        if self._filled:
            self._write()
        if not self.parts:
            raise InputError("there are no rows to be written.")

    def facts(self) -> dict[str, Any]:
        """What all shards have in common."""
        assert self._buffer is not None
        return {"dimensions": self._buffer.shape[1], "dtype": str(self._buffer.dtype)}


def known_columns(some: Bundle) -> dict[str, Any]:
    """What is known about a block's rows, as plain lists."""
    found: dict[str, Any] = {}
    for name in ("labels", "ids", "groups"):
        value = getattr(some, name)
        if isinstance(value, dict):
            found[name] = {key: _plain(column, key) for key, column in value.items()}
        elif value is not None:
            found[name] = _plain(value, name)
    rows = len(some.embeddings)
    for name, column in _flat(found):
        if len(column) != rows:
            raise InputError(f"{name} has {len(column)} values for {rows} rows.")
    return found


def _plain(column: Any, name: str) -> list[Any]:
    values = column.tolist() if hasattr(column, "tolist") else [as_plain(one) for one in column]
    try:
        json.dumps(values)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} holds values that are neither numbers nor text; convert them to text."
        ) from None
    return list(values)


def _flat(columns: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """The columns, levels of labels by their names."""
    found: list[tuple[str, list[Any]]] = []
    for name, value in columns.items():
        found += value.items() if isinstance(value, dict) else [(name, value)]
    return found


def names_of(columns: dict[str, Any]) -> list[str]:
    return [name for name, _ in _flat(columns)]


def append(into: dict[str, Any], known: dict[str, Any], where: slice) -> None:
    for name, value in known.items():
        if isinstance(value, dict):
            append(into.setdefault(name, {}), value, where)
        else:
            into.setdefault(name, []).extend(value[where])


def write_columns(path: Path, columns: dict[str, Any]) -> dict[str, Any]:
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(columns), encoding="utf-8")
    return {"file": path.name, **measured(path)}


def measured(path: Path) -> dict[str, Any]:
    """Bytes and checksum of a file."""
    found, size = blake2b(digest_size=16), 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
            size += len(block)
    return {"bytes": size, "checksum": found.hexdigest()}


# Streams: rows with what is known about each, a block at a time, from a file of any size.
#
# Memory-mapped formats, Parquet, HDF5 and shards are never held as a whole; other formats are read
# as one and handed out in blocks.


BLOCK_NUMBERS = 1 << 20
"""Numbers of a block."""
STREAMED = ("npy", "fbin", "u8bin", "i8bin", "fvecs", "bvecs")
"""Formats that can be read from a pipe."""


def blocks(source: Any, levels: list[str] | None = None) -> Iterator[Bundle]:
    """The rows of a path, of an array, or of an iterable of arrays, a block at a time."""
    if is_path(source):
        yield from _of_file(source, levels)
    elif hasattr(source, "__array__") or hasattr(source, "detach") or hasattr(source, "shape"):
        yield from _cut(Bundle(as_array(source, "the rows")), "the rows")
    elif isinstance(source, Iterable):
        for number, some in enumerate(source):
            yield from _cut(Bundle(as_array(some, f"block {number}")), f"block {number}")
    else:
        raise InputError(
            "rows to be written as shards are a path, an array, or an iterable of arrays."
        )


def _of_file(source: Any, levels: list[str] | None) -> Iterator[Bundle]:
    path, part = vectors.divided(as_path(source))
    if path.suffix.lower() in (".parquet", ".pq"):
        check_readable(path)
        for columns in parquet_batches(path, lambda names: dimensions(path, names, levels or [])):
            yield bundled(path, columns, levels)
    elif part is not None:
        check_readable(path)
        for rows in vectors.batches(path, part, BLOCK_NUMBERS):
            yield Bundle(rows)
    else:
        bundle = read(source, levels=levels)
        yield from _cut(bundle, str(source))


def _cut(bundle: Bundle, name: str) -> Iterator[Bundle]:
    rows = require_embeddings(bundle, name)
    if not hasattr(rows, "dtype") or type(rows).__module__.startswith("torch"):
        rows = bundle.embeddings = as_array(rows, name)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(f"{name} must have shape (rows, dimensions). Got {tuple(rows.shape)}.")
    step = max(1, BLOCK_NUMBERS // rows.shape[1])
    for start in range(0, len(rows), step):
        yield piece(bundle, slice(start, start + step))


def piece(bundle: Bundle, where: slice) -> Bundle:
    """Some rows of a bundle."""
    labels = bundle.labels
    if isinstance(labels, dict):
        labels = {name: column[where] for name, column in labels.items()}
    elif labels is not None:
        labels = labels[where]
    rows, ids, groups = (
        None if column is None else column[where]
        for column in (bundle.embeddings, bundle.ids, bundle.groups)
    )
    return Bundle(rows, labels, ids, groups)


def read_stream(file: IO[bytes], kind: str) -> Iterator[Array]:
    """Blocks of rows from a stream that cannot be rewound, in one of the formats of STREAMED."""
    record, rows, ahead = _begin(file, kind)
    width = record["row"].shape[0]
    step, done = max(1, BLOCK_NUMBERS // width), 0
    while rows is None or done < rows:
        want = record.itemsize * (step if rows is None else min(step, rows - done))
        data = ahead + _take(file, want - len(ahead))
        ahead = b""
        done += len(data) // record.itemsize
        if len(data) % record.itemsize or (rows is not None and len(data) < want):
            raise InputError(f"the stream is cut off after {count(done, 'row')}.")
        if not data:
            break
        found = np.frombuffer(data, record)
        if "length" in (record.names or ()) and (found["length"] != width).any():
            raise InputError(f"the rows of the stream do not all have {count(width, 'component')}.")
        yield found["row"]
    if rows is not None and file.read(1):
        raise InputError(f"the stream goes on after its {count(rows, 'row')}.")


def _begin(file: IO[bytes], kind: str) -> tuple[Any, int | None, bytes]:
    """What a row is, how many there are if the stream says so, and bytes that were read ahead."""
    if kind == "npy":
        shape, dtype = npy_shape(file, Stored("the stream", 0, None))
        if len(shape) != 2 or 0 in shape or dtype.kind not in "fiub":
            raise InputError(f"the stream must hold a matrix of numbers. Got {dtype} {shape}.")
        return np.dtype([("row", dtype, (shape[1],))]), shape[0], b""
    ending = f".{kind}"
    head = _take(file, 8 if ending in MATRICES else 4)
    numbers = np.frombuffer(head[: len(head) // 4 * 4], "<u4").tolist()
    if ending in MATRICES and kind in STREAMED and len(numbers) == 2:
        rows, width = numbers
        if rows and 0 < width <= LONGEST:
            return np.dtype([("row", MATRICES[ending], (width,))]), rows, b""
    elif ending in ROWS and kind in STREAMED and len(numbers) == 1 and 0 < numbers[0] <= LONGEST:
        row = ("row", ROWS[ending], (numbers[0],))
        return np.dtype([("length", "<i4"), row]), None, head
    raise InputError(f"the stream is no {kind}; expected one of {', '.join(STREAMED)}.")


def _take(file: IO[bytes], size: int) -> bytes:
    """As many bytes, or all that is left."""
    parts = []
    while size:
        data = file.read(size)
        if not data:
            break
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
