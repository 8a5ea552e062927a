"""Writing shards: rows as they come, and what is known about them, with sizes and checksums."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_plain
from truerank.errors import InputError
from truerank.files.reading import Bundle
from truerank.files.writing import atomic_path
from truerank.storage import check_fits

__all__ = ["ShardWriter", "append", "known_columns", "measured", "names_of", "write_columns"]

Array = npt.NDArray[Any]
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
