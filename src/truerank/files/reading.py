"""One reader for every format: embeddings and what is known about each row, by name.

.npy (memory-mapped), .npz, .pt/.pth (weights only), .safetensors, .parquet, .csv/.tsv. Nothing in
a file is ever executed: pickles are refused. Whatever is wrong with a file ends in one sentence
that says what it is and what was expected.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError
from truerank.files.tables import read_csv, read_parquet

__all__ = ["Bundle", "read", "read_embeddings", "read_json"]

Array = npt.NDArray[Any]
Columns = dict[str, Any]

NAMES = {
    "embeddings": ("embeddings", "embedding", "features", "feature", "vectors", "vector", "x"),
    "labels": ("labels", "label", "y", "targets", "target", "pids", "pid"),
    "ids": ("ids", "id"),
    "groups": ("groups", "group", "cameras", "camera", "camids", "camid"),
}


@dataclass
class Bundle:
    """What one file holds, as far as it holds it."""

    embeddings: Any = None
    labels: Any = None
    """One column, or a list of columns from coarse to fine."""
    ids: Any = None
    groups: Any = None


def read_embeddings(path: str | os.PathLike[str]) -> Any:
    """The embedding matrix in a file."""
    bundle = read(path)
    if bundle.embeddings is None:
        raise InputError(
            f"{path} holds no embeddings: expected a 2-D array, in a file of several arrays one "
            f"named {' or '.join(NAMES['embeddings'][:3])}."
        )
    return bundle.embeddings


def read(
    path: str | os.PathLike[str],
    *,
    lone: str = "embeddings",
    levels: list[str] | None = None,
) -> Bundle:
    """Everything in a file.

    `lone` says what an array without a name is; `levels` names the label columns from coarse to
    fine (by default level1, level2, ... and then label).
    """
    path = Path(path)
    kind = _kind(path)
    try:
        columns = _READERS[kind](path)
    except (InputError, MemoryError):
        raise
    except ImportError as error:
        extra = {".pt": "torch", ".parquet": "io", ".safetensors": "io"}.get(kind, "io")
        raise InputError(
            f"reading {path} needs {error.name or error}: pip install 'truerank[{extra}]'."
        ) from error
    except Exception as error:  # any parser's complaint about a malformed file
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path} cannot be read as {kind}: {reason}.") from error
    return _bundle(path, columns, lone, levels)


def read_json(path: str | os.PathLike[str]) -> Any:
    """The JSON value in a file."""
    _check_exists(Path(path))
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a JSON file ({error}).") from error


def _check_exists(path: Path) -> None:
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; pass a file.")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty.")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}.") from error


def _kind(path: Path) -> str:
    """The format by suffix, checked against what the file begins with."""
    _check_exists(path)
    suffix = {".pth": ".pt", ".tsv": ".csv", ".txt": ".csv", ".pq": ".parquet"}.get(
        path.suffix.lower(), path.suffix.lower()
    )
    with path.open("rb") as file:
        start = file.read(16)
    found = _describe(start)
    if suffix not in _READERS:
        raise InputError(
            f"{path} is not a format truerank reads ({found}); expected {', '.join(_READERS)}."
        )
    expected = _MAGIC.get(suffix)
    if expected is not None and not start.startswith(expected):
        raise InputError(f"{path} is named {suffix} but is {found}.")
    return suffix


_MAGIC = {".npy": b"\x93NUMPY", ".npz": b"PK", ".parquet": b"PAR1"}


def _describe(start: bytes) -> str:
    for magic, name in (
        (b"\x93NUMPY", "a .npy file"),
        (b"PK", "a zip archive, such as .npz or .pt"),
        (b"PAR1", "a Parquet file"),
        (b"\x89HDF", "an HDF5 file"),
        (b"\x1f\x8b", "a gzip file"),
        (b"\x89PNG", "a PNG picture"),
        (b"\xff\xd8", "a JPEG picture"),
    ):
        if start.startswith(magic):
            return name
    if re.match(rb"\x80[\x02-\x05]", start):
        return "a pickle, which could run code and is never opened"
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 3:
            return "a binary file of unknown kind"
    return "a text file"


def _read_npy(path: Path) -> Columns:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return {"": array}


def _read_npz(path: Path) -> Columns:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _read_torch(path: Path) -> Columns:
    import torch

    value = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(value, Mapping):
        return {str(name): item for name, item in value.items()}
    return {"": value}


def _read_safetensors(path: Path) -> Columns:
    from safetensors import safe_open

    try:  # numpy has no bfloat16; torch, where installed, has
        import torch  # noqa: F401

        framework = "pt"
    except ImportError:
        framework = "numpy"
    with safe_open(path, framework=framework) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


_READERS: dict[str, Callable[[Path], Columns]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".pt": _read_torch,
    ".safetensors": _read_safetensors,
    ".parquet": read_parquet,
    ".csv": read_csv,
}


def _bundle(path: Path, columns: Columns, lone: str, levels: list[str] | None) -> Bundle:
    found = {name.strip().lower(): value for name, value in columns.items()}
    if len(found) == 1:
        (name, value) = next(iter(found.items()))
        known = any(name in names for names in NAMES.values())
        if not known and levels is None and not re.fullmatch(r"level\d+", name):
            return Bundle(**{lone: value})
    bundle = Bundle()
    for field, names in NAMES.items():
        present = [name for name in names if name in found]
        if len(present) > 1:
            raise InputError(f"{path} holds both {present[0]!r} and {present[1]!r}; keep one.")
        if present:
            setattr(bundle, field, found[present[0]])
    if bundle.embeddings is None and lone == "embeddings":
        bundle.embeddings = _only_matrix(found)
    bundle.labels = _label_columns(path, found, bundle.labels, levels)
    if all(value is None for value in vars(bundle).values()):
        raise InputError(
            f"{path} holds {', '.join(repr(name) for name in columns)}, none of which is known; "
            "expected names such as embeddings, label, group, id, level1."
        )
    return bundle


def _only_matrix(found: Columns) -> Any:
    matrices = [value for value in found.values() if getattr(value, "ndim", 0) == 2]
    return matrices[0] if len(matrices) == 1 else None


def _label_columns(path: Path, found: Columns, label: Any, levels: list[str] | None) -> Any:
    if levels is not None:
        missing = [name for name in levels if name.lower() not in found]
        if missing:
            raise InputError(
                f"{path} has no column {missing[0]!r}; it has {', '.join(map(repr, found))}."
            )
        return [found[name.lower()] for name in levels]
    numbered = sorted(
        (int(match[1]), name) for name in found if (match := re.fullmatch(r"level(\d+)", name))
    )
    path_columns = [found[name] for _, name in numbered]
    if not path_columns:
        return label
    return path_columns if label is None else [*path_columns, label]
