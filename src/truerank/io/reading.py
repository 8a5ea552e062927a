"""Read embeddings, and the columns that describe their rows, from a file of any format.

Formats: .npy (memory-mapped), .npz, .mat, .pt/.pth (weights only), .safetensors, .parquet,
.csv/.tsv; .fvecs, .bvecs, .fbin, .u8bin, .i8bin (memory-mapped) and .hdf5 of index benchmarks;
.json, a manifest of shards. Nothing in a file is executed: pickles are refused. Here one side of an
evaluation is read from arrays or files, and the rows of two files are matched by id.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from truerank._util.arrays import as_array, check_fits
from truerank._util.errors import InputError, TruerankWarning, shortened
from truerank._util.files import _MAPPED, as_path, check_readable, read_archive
from truerank._util.installed import install
from truerank._util.types import Array
from truerank.io import vectors
from truerank.io.shards import Shards, parse_manifest, read_columns
from truerank.io.tables import (
    HEADER,
    NAMES,
    dimensions,
    known_columns,
    only_matrix,
    read_csv,
    read_parquet,
    read_wide_csv,
)


def as_matrix(value: Any, name: str, *, lazily: bool = False) -> Array:
    """A non-empty (rows, dimensions) array of real numbers that float64 can hold.

    With `lazily`, shards stay where they are: what stands for the array reads rows when asked.
    """
    if isinstance(value, (str, os.PathLike)):
        value = read_embeddings(value)
    if lazily and hasattr(value, "manifest"):
        shards: Array = value
        return shards
    array = as_array(value, name)
    if array.ndim != 2:
        hint = "; for one number a row pass reshape(-1, 1)" if array.ndim == 1 else ""
        raise InputError(
            f"{name} must have shape (rows, dimensions). Got shape {array.shape} instead{hint}."
        )
    if 0 in array.shape:
        raise InputError(
            f"{name} is empty. Got shape {array.shape}; at least one row of one number is needed."
        )
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise InputError(
            f"{name} must hold real numbers of at most 64 bits. "
            f"Got dtype {array.dtype} instead; convert with {name}.astype(numpy.float64)."
        )
    if array.dtype.itemsize == 8 and array.dtype.kind in "iu":
        limit = 2**53
        if int(array.max()) > limit or int(array.min()) < -limit:
            raise InputError(
                f"{name} holds integers beyond 2^53, which float64 cannot distinguish; "
                "subtract an offset or divide by a power of two first."
            )
    return array


# One reader for every format: embeddings and what is known about each row, by name.
#
# .npy (memory-mapped), .npz, .mat, .pt/.pth (weights only), .safetensors, .parquet, .csv/.tsv, and
# those of index benchmarks: .fvecs, .bvecs, .fbin, .u8bin, .i8bin (memory-mapped) and .hdf5; and
# .json, a manifest of shards. Nothing in a file is ever executed: pickles are refused. Whatever
# is wrong with a file ends in one sentence that says what it is and what was expected.


Columns = dict[str, Any]


@dataclass
class Bundle:
    """What one file holds, as far as it holds it."""

    embeddings: Any = None
    labels: Any = None
    """One column, or columns by name from coarse to fine."""
    ids: Any = None
    groups: Any = None
    gallery: Bundle | None = None
    """What the file holds of the items that the queries are compared with."""
    source: str | None = None
    """Of such items: the file and the names of its arrays, in words."""


def read_embeddings(path: str | os.PathLike[str]) -> Any:
    """The embedding matrix in a file."""
    return require_embeddings(read(path), path)


def require_embeddings(bundle: Bundle, path: str | os.PathLike[str]) -> Any:
    """The embeddings that were read from a file, which must hold some."""
    if bundle.embeddings is None:
        _refuse_sides(bundle.gallery)
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
    path, part = vectors.divided(as_path(path))
    kind = _kind(path)
    if kind == ".json":
        return _sharded(path, levels)
    try:
        if part is not None:
            (array,) = vectors.read_hdf5(path, (part.lower(),)).values()
            return Bundle(**{lone: array})
        reader = _READERS_OF_EMBEDDINGS.get(kind) if lone == "embeddings" else None
        columns = (reader or _READERS[kind])(path, levels or [])
    except (InputError, MemoryError):
        raise
    except ImportError as error:
        missing = str(error.name or error).partition(".")[0]
        extra = {"torch": "torch", "h5py": "hdf5"}.get(missing, "io")
        how = "pip install scipy" if missing == "scipy" else install(extra)
        raise InputError(f"reading {path} needs {missing}: {how}.") from error
    except Exception as error:  # any parser's complaint about a malformed file
        raise InputError(f"{path} cannot be read as {kind}: {_reason(error)}.") from error
    return _bundle(path, columns, lone, levels)


def _sharded(path: Path, levels: list[str] | None) -> Bundle:
    """The rows of a manifest, which are read later, and what it knows about each."""
    manifest = parse_manifest(path, read_json(path))
    manifest.check()
    bundle = Bundle(Shards(manifest), **read_columns(manifest))
    if levels is not None:
        labels = bundle.labels if isinstance(bundle.labels, dict) else {"label": bundle.labels}
        bundle.labels = _named_levels(path, labels, levels)
    return bundle


def bundled(path: Path, columns: Columns, levels: list[str] | None) -> Bundle:
    """What columns of a file of embeddings are, by their names."""
    return _bundle(path, columns, "embeddings", levels)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


def read_json(path: str | os.PathLike[str]) -> Any:
    """The JSON value in a file."""
    check_readable(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a JSON file ({_reason(error)}).") from error


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"it holds {text[:40]}, which is no finite number")


def _kind(path: Path) -> str:
    """The format by suffix, checked against what the file begins with."""
    check_readable(path)
    suffix = _ALIASES.get(path.suffix.lower(), path.suffix.lower())
    with path.open("rb") as file:
        start = file.read(16)
    found = _describe(start)
    if suffix not in _READERS:
        raise InputError(
            f"{path} is not a format truerank reads ({found}); expected {', '.join(_READERS)}."
        )
    if not re.match(_START.get(suffix, b""), start, re.DOTALL):
        raise InputError(f"{path} is named {suffix} but is {found}.")
    return suffix


_ALIASES = {
    ".pth": ".pt",
    ".tsv": ".csv",
    ".txt": ".csv",
    ".pq": ".parquet",
    ".h5": ".hdf5",
}
_START = {
    ".npy": rb"\x93NUMPY",
    ".npz": rb"PK",
    ".pt": rb"PK|\x80\x02\x8a\x0al\xfc\x9cF\xf9",  # a zip, or torch's number from before 1.6
    ".safetensors": rb".{8}\{",
    ".parquet": rb"PAR1",
    ".hdf5": rb"\x89HDF",
    ".mat": rb"MATLAB",
}


def _describe(start: bytes) -> str:
    for magic, name in (
        (b"\x93NUMPY", "a .npy file"),
        (b"PK", "a zip archive, such as .npz or .pt"),
        (b"PAR1", "a Parquet file"),
        (b"\x89HDF", "an HDF5 file"),
        (b"MATLAB", "a MATLAB file"),
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


def read_npy(path: str | os.PathLike[str]) -> Array:
    """The array of an .npy file, mapped into memory."""
    path = as_path(path)
    check_readable(path)
    with path.open("rb") as file:
        start = file.read(16)
    if not re.match(_START[".npy"], start):
        raise InputError(f"{path} is named .npy but is {_describe(start)}.")
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:
        if "Python objects" in str(error):
            raise InputError(
                f"{path} is an array of Python objects (dtype object), which could run code and is "
                "never opened; save numbers with .astype(numpy.float32), text with .astype(str)."
            ) from error
        # else whatever a malformed header makes numpy or its parser say
        raise InputError(f"{path} cannot be read as .npy: {_reason(error)}.") from error
    return array


def _read_torch(path: Path) -> Columns:
    import torch

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        check_fits(f"what {path} holds", size, _MAPPED)
    try:
        with warnings.catch_warnings():  # about the pickle protocol, of no use to a reader
            warnings.simplefilter("ignore")
            value = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"Unsupported (?:global|class): ?(?:GLOBAL )?([\w.]+)", str(error))
        what = found[1] if found else "something"
        raise InputError(
            f"{path} holds {what}, a pickle that could run code and is never opened; save the "
            "tensor itself, or a dictionary of tensors."
        ) from error
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


def _named_levels(path: Path, found: Columns, levels: list[str]) -> Columns:
    for name in levels:
        if name.lower() not in found:
            known = ", ".join(map(shortened, found))
            raise InputError(f"{path} has no column {name!r}; it has {known}.")
    return {name: found[name.lower()] for name in levels}


_READERS: dict[str, Callable[[Path, list[str]], Columns]] = {
    ".npy": lambda path, _: {"": read_npy(path)},
    ".npz": lambda path, _: dict(read_archive(path)),
    ".mat": lambda path, _: vectors.read_matlab(path),
    ".pt": lambda path, _: _read_torch(path),
    ".safetensors": lambda path, _: _read_safetensors(path),
    ".parquet": lambda path, _: read_parquet(path),
    ".csv": lambda path, levels: read_csv(path, HEADER | {name.lower() for name in levels}),
    ".hdf5": lambda path, _: vectors.read_hdf5(path),
    **dict.fromkeys((".fvecs", ".bvecs"), lambda path, _: {"": vectors.read_rows(path)}),
    **dict.fromkeys((".fbin", ".u8bin", ".i8bin"), lambda path, _: {"": vectors.read_matrix(path)}),
    ".json": lambda path, _: vars(_sharded(path, None)),
}
_READERS_OF_EMBEDDINGS: dict[str, Callable[[Path, list[str]], Columns]] = {
    ".parquet": lambda path, levels: read_parquet(
        path, lambda names: dimensions(path, names, levels)
    ),
    ".csv": read_wide_csv,
}
"""Tables in which each dimension may have a column."""

_LEVEL = re.compile(r"level([0-9]{1,9})")


def _bundle(path: Path, columns: Columns, lone: str, levels: list[str] | None) -> Bundle:
    found = {name.strip().lower(): value for name, value in columns.items()}
    if len(found) < len(columns):
        raise InputError(f"{path} names an array twice: {', '.join(map(shortened, columns))}.")
    found = _without_prefix(found)
    queries, items = _sides(found)
    if items:
        bundle = _bundle(path, queries, lone, levels)
        bundle.gallery = _bundle(path, items, lone, levels)
        bundle.gallery.source = f"{path} holds {', '.join(map(repr, columns))}"
        _warn_of_unused(path, found, bundle, levels)
        return bundle
    if len(found) == 1:
        (name, value) = next(iter(found.items()))
        known = any(name in names for names in NAMES.values())
        if not known and levels is None and not _LEVEL.fullmatch(name):
            if isinstance(value, Mapping):
                raise InputError(
                    f"{path} holds {name!r}, a dictionary; save its tensors by name instead."
                )
            return Bundle(**{lone: value})
    bundle = Bundle()
    for field in NAMES:
        present = known_columns(field, found)
        if len(present) > 1:
            raise InputError(f"{path} holds both {present[0]!r} and {present[1]!r}; keep one.")
        if present:
            setattr(bundle, field, _as_list(found[present[0]], bundle.embeddings))
    if bundle.embeddings is None and lone == "embeddings":
        bundle.embeddings = only_matrix(found)
    if levels is not None:
        bundle.labels = _named_levels(path, found, levels)
    else:
        bundle.labels = _numbered_levels(found, bundle.labels)
    if all(value is None for value in vars(bundle).values()):
        raise InputError(
            f"{path} holds {', '.join(repr(name) for name in columns)}, none of which is known; "
            "expected names such as embeddings, label, group, id, level1."
        )
    return bundle


def _as_list(column: Any, embeddings: Any) -> Any:
    """A list that MATLAB has as a matrix of one row; anything else as it is."""
    rows = tuple(getattr(embeddings, "shape", ()))[:1]
    is_row = tuple(getattr(column, "shape", ())) == (1, *rows) and rows != (1,)
    return column.ravel() if is_row else column


def _without_prefix(found: Columns) -> Columns:
    """Columns such as phocnet_features and phocnet_labels by the names behind what they share."""
    start = next(iter(found), "").partition("_")[0] + "_"
    shared = all(name.startswith(start) for name in found)
    if len(found) < 2 or not shared or any(known_columns(field, found) for field in NAMES):
        return found
    return {name.removeprefix(start): value for name, value in found.items()}


def _sides(found: Columns) -> tuple[Columns, Columns]:
    """Columns of queries and of gallery items; none of the latter where one side is all there is.

    Both have labels of their own, such as query_label and gallery_label. A matrix of distances
    (distmat) is the queries'. query_f and gallery_f are features.
    """
    sides: dict[str, Columns] = {"query": {}, "gallery": {}}
    for name, value in found.items():
        side, column = _side_of(name)
        sides[side][column] = value
    if known_columns("labels", sides["gallery"]) and known_columns("labels", sides["query"]):
        return sides["query"], sides["gallery"]
    return found, {}


def _side_of(name: str) -> tuple[str, str]:
    """Whose column an array of such a file is, and what that is called where it has one side."""
    side, _, column = name.partition("_")
    if side not in ("query", "gallery"):
        return "query", name
    return side, {"": "embeddings", "f": "features"}.get(column, column)


def _warn_of_unused(path: Path, found: Columns, bundle: Bundle, levels: list[str] | None) -> None:
    """Name the arrays of a file of both sides that are none of the columns known by name."""
    known = {name for names in NAMES.values() for name in names}
    known |= {name.lower() for name in levels or ()}
    unused = [
        name
        for name, value in found.items()
        if not ((column := _side_of(name)[1]) in known or _LEVEL.fullmatch(column))
        and all(value is not side.embeddings for side in (bundle, bundle.gallery) if side)
    ]
    if unused:
        warnings.warn(
            f"arrays of {path} that are not used: {', '.join(map(shortened, unused))}; expected "
            "names such as query_label, query_cam, query_id, query_f.",
            TruerankWarning,
            stacklevel=2,
        )


def _refuse_sides(gallery: Bundle | None) -> None:
    """Refuse a file of both sides without distances and without the items' features."""
    if gallery is not None and gallery.embeddings is None and gallery.source is not None:
        raise InputError(
            f"{gallery.source}; expected distmat, or query_f and gallery_f: rename its arrays, or "
            "pass the distance 'precomputed' if its only matrix holds distances."
        )


def _numbered_levels(found: Columns, label: Any) -> Any:
    numbered = sorted((int(match[1]), name) for name in found if (match := _LEVEL.fullmatch(name)))
    if not numbered:
        return label
    columns = {name: found[name] for _, name in numbered}
    return columns if label is None else columns | {"label": label}


# One side of an evaluation, of arrays or of files: embeddings, labels, ids and groups.
#
# A file brings along what it holds besides: a CSV of labels its ids and groups, an .npz its
# labels.


def gallery_of(queries: Bundle, items: Bundle, *, precomputed: bool) -> Bundle:
    """The items' side, or what the queries' file holds of it where no file of items was passed.

    Without a `precomputed` matrix there must be embeddings of the items.
    """
    held = queries.gallery
    if held is None or items.embeddings is not None:
        return items
    if not precomputed:
        _refuse_sides(held)
    given = {name: value for name, value in vars(items).items() if value is not None}
    return replace(held, **given)


def is_path(value: Any) -> bool:
    """Whether a value names a file."""
    return isinstance(value, (str, os.PathLike))


def read_side(embeddings: Any, labels: Any = None, levels: list[str] | None = None) -> Bundle:
    """What is known about each row; paths are read, anything else is taken as it is.

    What the labels' file says goes before what the embeddings' file says. Rows of two files are
    matched by their ids, where both have ids.
    """
    rows = Bundle(embeddings)
    if is_path(embeddings):
        rows = read(embeddings, levels=levels if labels is None else None)
        require_embeddings(rows, embeddings)
    if is_path(labels):
        more = read_labels(labels, levels)
        if is_path(embeddings):
            more = aligned(more, Path(labels), rows, Path(embeddings))
        rows.labels = more.labels
        rows.ids = more.ids if more.ids is not None else rows.ids
        rows.groups = more.groups if more.groups is not None else rows.groups
    elif labels is not None:
        rows.labels = labels
    return rows


def read_labels(path: str | os.PathLike[str], levels: list[str] | None = None) -> Bundle:
    """A file of labels, which must hold some."""
    bundle = read(path, lone="labels", levels=levels)
    if bundle.labels is None:
        raise InputError(f"{path} holds no labels: expected a column or array called label.")
    return bundle


# Rows of two files matched by id: embeddings in one, what is known about them in the other.


def aligned(more: Bundle, path: Path, rows: Bundle, rows_path: Path) -> Bundle:
    """`more` in the order of `rows`, where both have ids; as it is where one has none."""
    if more.ids is None or rows.ids is None:
        return more
    theirs, ours = _texts(more.ids), _texts(rows.ids)
    if theirs == ours:
        return more
    place = {name: number for number, name in enumerate(theirs)}
    way_out = "leave the ids out of one of the two files to match their rows by position"
    if len(place) < len(theirs):
        twice = next(name for number, name in enumerate(theirs) if place[name] != number)
        raise InputError(
            f"{path} has the id {twice!r} twice, so its rows cannot be put in the order of "
            f"{rows_path}; {way_out}."
        )
    missing = [name for name in ours if name not in place]
    if missing:
        raise InputError(f"{path} has no row for the id {missing[0]!r} of {rows_path}; {way_out}.")
    order = [place[name] for name in ours]
    labels = more.labels
    if isinstance(labels, dict):
        labels = {name: _taken(column, order) for name, column in labels.items()}
    else:
        labels = _taken(labels, order)
    groups = None if more.groups is None else _taken(more.groups, order)
    return replace(more, labels=labels, groups=groups, ids=_taken(more.ids, order))


def _texts(ids: Any) -> list[str]:
    return [str(name) for name in (ids.tolist() if hasattr(ids, "tolist") else ids)]


def _taken(column: Any, order: list[int]) -> Any:
    if isinstance(column, list):
        return [column[place] for place in order]
    return column[np.array(order, np.int64)]
