"""HDF5 files, as ann-benchmarks writes them: arrays by name (train, test, neighbors, distances)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from truerank.errors import InputError, shortened
from truerank.files.paths import as_path
from truerank.storage import check_fits

__all__ = ["ENDINGS", "batches", "chosen_distance", "divided", "read_hdf5"]

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
            said = _said(path) if path.suffix.lower() in ENDINGS and path.is_file() else None
            if said is not None:
                found.setdefault(said, str(path))
    if len(found) > 1:
        both = " and ".join(f"{path} says {said}" for said, path in found.items())
        raise InputError(f"{both}; pass the distance that is meant.")
    return next(iter(found), "cosine")


def _said(path: Path) -> str | None:
    """The distance that a file says it is for, by its name here."""
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
