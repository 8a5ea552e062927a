"""shard: one large file, or a stream of rows, becomes shards and a manifest that names them.

Rows pass through a block at a time. Shards are written in one step each, and the manifest, without
which they are nothing, at the end: what was interrupted is simply written again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from truerank.errors import InputError, shortened
from truerank.extras import install
from truerank.files import Bundle, read_json, read_labels, to_json
from truerank.files.alignment import aligned
from truerank.files.manifest import FORMAT, parse_manifest
from truerank.files.paths import as_path
from truerank.files.shard_writing import (
    ShardWriter,
    append,
    known_columns,
    measured,
    names_of,
    write_columns,
)
from truerank.files.streams import blocks, piece

__all__ = ["NAME", "check", "list_shards", "shard"]

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
    """Write embeddings as shards, with a manifest that `evaluate` takes in a file's place.

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
