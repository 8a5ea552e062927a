"""Vectors of index benchmarks, mapped into memory: fvecs, bvecs, ivecs, fbin, u8bin, i8bin, ibin.

In a ...vecs file each row begins with its length (32 bits); a ...bin file begins with the numbers
of rows and of dimensions (32 bits each), and behind ibin's numbers there may be as many distances.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError
from truerank.wording import count

__all__ = ["LONGEST", "MATRICES", "ROWS", "read_ibin", "read_ivecs", "read_matrix", "read_rows"]

Array = npt.NDArray[Any]
ROWS = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}
"""Formats whose rows begin with their length, and what they hold."""
MATRICES = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1", ".ibin": "<i4"}
"""Formats that begin with the shape."""
LONGEST = 1 << 24
"""No vector or list is longer; a larger length means that the file is something else."""

LOOKED_AT = 1 << 20
"""Rows whose length is compared with that of the first: of longer files, not every one."""


def read_rows(path: Path) -> Array:
    """The (rows, dimensions) of an .fvecs, .bvecs or .ivecs file whose rows have one length."""
    kind = np.dtype(ROWS[path.suffix.lower()])
    width, step, rows = _shape_of_rows(path, kind)
    if rows * step != os.path.getsize(path):
        raise InputError(
            f"{path} is cut off, or its rows have different lengths: {os.path.getsize(path)} bytes "
            f"are no whole number of rows of {count(width, 'component')}."
        )
    raw = np.memmap(path, np.uint8, "r").reshape(rows, step)
    step = max(1, rows // LOOKED_AT)
    wrong = np.flatnonzero(raw[::step, :4].copy().view("<i4").ravel() != width)
    if len(wrong):
        raise InputError(
            f"{path} row {step * wrong[0]} does not have the {count(width, 'component')} of row 0."
        )
    return (
        raw[:, 4:].view(kind)
        if kind.itemsize == 1
        else np.memmap(path, kind, "r").reshape(rows, width + 1)[:, 1:]
    )


def read_ivecs(path: Path) -> Array | list[Array]:
    """The lists of an .ivecs file: a matrix, or lists of different lengths."""
    size = os.path.getsize(path)
    if size % 4:
        raise InputError(f"{path} is cut off: {size} bytes are no whole number of integers.")
    flat = np.memmap(path, "<i4", "r")
    width = int(flat[0])
    if width > 0 and len(flat) % (width + 1) == 0:
        table = flat.reshape(-1, width + 1)
        if (table[:, 0] == width).all():
            return table[:, 1:]
    lists: list[Array] = []
    at = 0
    while at < len(flat):
        length = int(flat[at])
        if not 0 <= length <= len(flat) - at - 1:
            raise InputError(f"{path} is cut off in list {len(lists)}.")
        lists.append(flat[at + 1 : at + 1 + length])
        at += 1 + length
    return lists


def read_matrix(path: Path) -> Array:
    """The (rows, dimensions) of an .fbin, .u8bin, .i8bin or .ibin file."""
    return _matrices(path)[0]


def read_ibin(path: Path) -> tuple[Array, Array | None]:
    """The lists of an .ibin file, and the distances behind them, where it holds any."""
    found = _matrices(path)
    return found[0], found[1] if len(found) > 1 else None


def _shape_of_rows(path: Path, kind: np.dtype[Any]) -> tuple[int, int, int]:
    """Components of the first row, bytes of a row of as many, and such rows in the file."""
    size = os.path.getsize(path)
    if size < 4:
        raise InputError(f"{path} is cut off: it has {count(size, 'byte')}.")
    width = int(np.fromfile(path, "<i4", 1)[0])
    if not 0 < width <= LONGEST:
        raise InputError(
            f"{path} is no {path.suffix} file: its first row would have length {width}."
        )
    step = 4 + width * kind.itemsize
    return width, step, size // step


def _matrices(path: Path) -> list[Array]:
    kind = np.dtype(MATRICES[path.suffix.lower()])
    size = os.path.getsize(path)
    if size < 8:
        raise InputError(f"{path} is cut off: it has {count(size, 'byte')}.")
    rows, width = (int(number) for number in np.fromfile(path, "<u4", 2))
    body = rows * width * kind.itemsize
    twice = path.suffix.lower() == ".ibin" and size == 8 + 2 * body
    if not rows or not width or (size != 8 + body and not twice):
        raise InputError(
            f"{path} says that it holds {rows} x {width} numbers, which would take "
            f"{8 + body} bytes; it has {size}."
        )
    found: list[Array] = [np.memmap(path, kind, "r", 8, (rows, width))]
    if twice:
        found.append(np.memmap(path, "<f4", "r", 8 + body, (rows, width)))
    return found
