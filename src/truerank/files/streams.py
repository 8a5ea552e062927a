"""Streams: rows with what is known about each, a block at a time, from a file of any size.

Memory-mapped formats, Parquet, HDF5 and shards are never held as a whole; other formats are read
as one and handed out in blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_array
from truerank.errors import InputError
from truerank.files import hdf5
from truerank.files.manifest import Stored, npy_shape
from truerank.files.paths import as_path
from truerank.files.reading import Bundle, bundled, read, require_embeddings
from truerank.files.sides import is_path
from truerank.files.tables import parquet_batches
from truerank.files.text import check_readable
from truerank.files.vectors import LONGEST, MATRICES, ROWS
from truerank.files.wide import dimensions
from truerank.wording import count

__all__ = ["STREAMED", "blocks", "piece", "read_stream"]

Array = npt.NDArray[Any]
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
    path, part = hdf5.divided(as_path(source))
    if path.suffix.lower() in (".parquet", ".pq"):
        check_readable(path)
        for columns in parquet_batches(path, lambda names: dimensions(path, names, levels or [])):
            yield bundled(path, columns, levels)
    elif part is not None:
        check_readable(path)
        for rows in hdf5.batches(path, part, BLOCK_NUMBERS):
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
