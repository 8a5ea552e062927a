"""Vectors of index benchmarks (fvecs, bvecs, ivecs, fbin, u8bin, i8bin, ibin, HDF5), and MATLAB's.

In a ...vecs file each row begins with its length (32 bits). A ...bin file begins with the
numbers of rows and of dimensions (32 bits each); after the numbers of an .ibin there may be
equally many distances. Both are mapped into memory. HDF5 files are those of ann-benchmarks:
train, test, neighbors, distances.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from truerank._util.arrays import check_fits
from truerank._util.errors import InputError, shortened
from truerank._util.files import as_path
from truerank._util.text import count
from truerank._util.types import Array
from truerank.io.tables import NAMES

# HDF5 files, as ann-benchmarks writes them: arrays by name (train, test, neighbors, distances).


ENDINGS = (".hdf5", ".h5")

SAID = {
    "angular": "cosine",
    "cosine": "cosine",
    "dot": "dot",
    "euclidean": "euclidean",
    "hamming": "hamming",
    "ip": "dot",
    "l2": "euclidean",
}
"""What the attribute "distance" of a file means here."""
_PIECES = "save a large array as .npy or .fbin, which are read piece by piece"


def divided(path: Path) -> tuple[Path, str | None]:
    """A file and the array in it that a path names, as in sift.hdf5:train."""
    start, colon, name = path.name.rpartition(":")
    if colon and name and start.lower().endswith(ENDINGS):
        return path.with_name(start), name
    return path, None


def chosen_distance(distance: str | None, *sources: Any) -> str:
    """The distance that was asked for, else the one that an HDF5 file says, else cosine."""
    if distance is not None:
        return distance
    found: dict[str, str] = {}
    for source in sources:
        if isinstance(source, (str, os.PathLike)):
            path = divided(as_path(source))[0]
            said = _said(path)
            if said is not None:
                found.setdefault(said, str(path))
    if len(found) > 1:
        both = " and ".join(f"{path} says {said}" for said, path in found.items())
        raise InputError(f"{both}; pass the distance that is meant.")
    return next(iter(found), "cosine")


def _said(path: Path) -> str | None:
    """The distance that a file says it is for, by its name here; a distmat is one of distances."""
    if path.suffix.lower() in (".mat", ".npz"):
        try:
            names = {name.strip().lower() for name in _names(path)}
            return "precomputed" if DISTANCES in names else None
        except Exception:  # whatever a parser says of a damaged file; reading it says it better
            return None
    if path.suffix.lower() not in ENDINGS:
        return None
    try:
        import h5py

        with h5py.File(path, "r") as file:
            said = file.attrs.get("distance")
    except (ImportError, OSError):  # which reading it says better
        return None
    if said is None:
        return None
    name = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if name.lower() not in SAID:
        raise InputError(
            f"{path} says that its distance is {shortened(name)}, which is none of "
            f"{', '.join(SAID)}; pass the distance that is meant."
        )
    return SAID[name.lower()]


def read_hdf5(path: Path, only: Collection[str] | None = None) -> dict[str, Any]:
    """The arrays at the root of a file, by name; `only` those of some names, where it has any."""
    import h5py

    with h5py.File(path, "r") as file:
        present = [name for name in file if isinstance(file[name], h5py.Dataset)]
        if only is None and {"train", "test"} <= set(present):
            raise InputError(f"{path} holds train and test: name one of them, {path}:test.")
        wanted = [name for name in present if only is None or name.lower() in only]
        if not wanted:
            known = ", ".join(map(repr, present)) or "nothing"
            asked = "" if only is None else f"; expected {' or '.join(only)}"
            raise InputError(f"{path} holds {known} at its root{asked}.")
        for name in wanted:
            if file[name].dtype.kind not in "fiub":
                raise InputError(f"array {name!r} of {path} holds no numbers.")
            check_fits(f"array {name!r} of {path}", file[name].nbytes, _PIECES)
        return {name: file[name][()] for name in wanted}


# MATLAB files: arrays by name. Those of version 7.3 are HDF5 files with transposed arrays, where
# characters are numbers (UTF-16) and the cells of a cell array are references.


DISTANCES = "distmat"
"""The name of a matrix of distances."""
_NUMBERS = re.compile("(double|single|logical|u?int(8|16|32|64))?")
"""The classes whose arrays hold numbers; files that MATLAB did not write may not name any."""


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(10) == b"MATLAB 7.3"


def _names(path: Path) -> list[str]:
    """The names of the arrays in a .mat or .npz file."""
    if path.suffix.lower() == ".npz":
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    if _is_hdf5(path):
        import h5py

        with h5py.File(path, "r") as file:
            return list(file)
    from scipy.io import whosmat

    return [name for name, *_ in whosmat(path)]


def read_matlab(path: Path) -> dict[str, Any]:
    """The arrays of numbers and the lists of texts in a MATLAB file, by name; others are skipped.

    Texts are the rows of a character matrix, without the blanks that pad them, or a cell array.
    A row or a column of numbers is a list, unless its name is that of embeddings or distances.
    """
    check_fits(f"what {path} holds", os.path.getsize(path), _PIECES)
    if _is_hdf5(path):
        found = _read_matlab_7_3(path)
    else:
        from scipy.io import loadmat

        found = {}
        for name, value in loadmat(path).items():
            if not isinstance(value, np.ndarray) or value.dtype.names:
                continue
            if value.dtype == object:
                value = np.array([
                    str(np.squeeze(cell)) if np.size(cell) else "" for cell in value.ravel()
                ])  # fmt: skip
            elif value.dtype.kind == "U":
                value = np.char.rstrip(value, " ")
            if value.dtype.kind in "fiubU" and not name.startswith("__"):
                found[name] = value
    if not found:
        raise InputError(f"{path} holds no array of numbers or text.")
    matrices = {*NAMES["embeddings"], "query", "gallery", "query_f", "gallery_f"}
    return {
        name: value if name.lower() in matrices or 1 not in value.shape else value.ravel()
        for name, value in found.items()
    }


def _read_matlab_7_3(path: Path) -> dict[str, Any]:
    """The same of an HDF5 file, before rows and columns become lists."""
    import h5py

    found: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        for name, one in file.items():
            if not isinstance(one, h5py.Dataset):
                continue
            kind, called = _class_of(one), f"array {name!r} of {path}"
            if kind == "cell" and one.dtype == h5py.ref_dtype:
                check_fits(called, one.nbytes, _PIECES)
                cells: list[Any] = [file[place] if place else file for place in one[()].T.flat]
                if all(_class_of(cell) == "char" for cell in cells):
                    longest = max(cell.size for cell in cells)
                    check_fits(called, 4 * longest * len(cells), _PIECES)
                    found[name] = np.array(["".join(_texts(cell)) for cell in cells])
            elif kind == "char":
                check_fits(called, one.nbytes, _PIECES)
                found[name] = np.array([text.rstrip(" ") for text in _texts(one)])
            elif one.attrs.get("MATLAB_empty"):  # it holds the shape
                continue
            elif _NUMBERS.fullmatch(kind) and one.dtype.kind in "fiub":
                check_fits(called, one.nbytes, _PIECES)
                found[name] = one[()].T
    return found


def _class_of(held: Any) -> str:
    """MATLAB's class of an array, such as char; nothing where it is not named."""
    kind = held.attrs.get("MATLAB_class", b"")
    return kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)


def _texts(dataset: Any) -> list[str]:
    """The rows of a character matrix; of an empty one the file holds the shape."""
    if dataset.attrs.get("MATLAB_empty"):
        return []
    rows = np.atleast_2d(dataset[()].T).astype("<u2")
    return [row.tobytes().decode("utf-16-le", "replace") for row in rows]


def batches(path: Path, name: str, numbers: int) -> Iterator[Any]:
    """Some rows at a time of one array at the root of a file."""
    import h5py

    with h5py.File(path, "r") as file:
        known = {one.lower(): one for one in file if isinstance(file[one], h5py.Dataset)}
        found = file[known[name.lower()]] if name.lower() in known else None
        if found is None or found.ndim != 2 or found.dtype.kind not in "fiub":
            raise InputError(f"{path} holds no matrix of numbers {name!r} at its root.")
        step = max(1, numbers // max(1, found.shape[1]))
        for start in range(0, len(found), step):
            yield found[start : start + step]


# Vectors of index benchmarks, mapped into memory: fvecs, bvecs, ivecs, fbin, u8bin, i8bin, ibin.


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
