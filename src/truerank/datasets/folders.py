"""Readers of any folder or table of images, and helpers of all readers.

In a folder, the folders around an image are its labels from coarse to fine: root/dog/1.jpg has
the label dog, root/animal/dog/1.jpg has two levels. Where all folders at the top are called
train, val, test, query or gallery, they are the splits. A CSV, TSV or Parquet table has the
columns path and label, and optionally level1, level2, ... (coarser labels), group or camera, id
and split; paths are relative to the table's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import name_rows
from truerank._util.errors import InputError, shortened
from truerank._util.files import check_readable
from truerank._util.installed import install
from truerank.datasets.base import Dataset, ImageFiles
from truerank.io.tables import NAMES, known_columns, read_csv, read_parquet

# Helpers of all readers: find the folder, read its lists, say what was expected where.


Rows = npt.NDArray[np.int64]

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})


def find_root(
    name: str, root: str | os.PathLike[str], expected: Sequence[str], inside: Sequence[str] = ()
) -> Path:
    """The folder that holds all of `expected`: the root, or one of the folders `inside` it."""
    root = Path(root)
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise InputError(f"{name} is read from a folder; {root} {what}.")
    for folder in (root, *(root / inner for inner in inside)):
        if all((folder / item).exists() for item in expected):
            return folder
    missing = [item for item in expected if not (root / item).exists()]
    elsewhere = f" (or in {' or '.join(inside)} inside it)" if inside else ""
    raise InputError(
        f"{name} expects {_listed(expected)} in {root}{elsewhere}; {_listed(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} not there."
    )


def _listed(items: Sequence[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that hold something."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text.") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        raise InputError(f"{path} is empty.")
    return lines


def read_rows(path: Path, columns: str, *, skip: int = 0) -> list[list[str]]:
    """The cells of each line; `columns` names them, and only the last may hold spaces."""
    width = len(columns.split())
    rows = []
    for number, line in enumerate(read_lines(path)[skip:], skip + 1):
        cells = line.split(maxsplit=width - 1)
        if len(cells) != width:
            raise InputError(f"line {number} of {path} must be '{columns}'. Got {line!r}.")
        rows.append(cells)
    return rows


def whole_number(cell: str, path: Path) -> int:
    """The integer in a cell of a list."""
    try:
        return int(cell)
    except ValueError:
        raise InputError(f"{path} must hold a whole number where {cell!r} is.") from None


def find_images(folder: Path) -> Iterator[str]:
    """Paths of all images below a folder, relative to it, sorted; hidden files are left out."""
    seen = {os.path.realpath(folder)}
    found = []
    for here, folders, files in os.walk(folder, followlinks=True):
        kept = []
        for inner in folders:
            real = os.path.realpath(os.path.join(here, inner))
            if not inner.startswith(".") and real not in seen:  # a link may lead back up
                seen.add(real)
                kept.append(inner)
        folders[:] = kept
        below = os.path.relpath(here, folder)
        for file in files:
            if not file.startswith(".") and os.path.splitext(file)[1].lower() in SUFFIXES:
                found.append(file if below == "." else f"{below}/{file}".replace(os.sep, "/"))
    yield from sorted(found)


def check_images(name: str, root: Path, paths: Sequence[str]) -> None:
    """Refuse lists whose images are not there; the first and the last stand for all."""
    if not len(paths):
        raise InputError(f"{name} lists no images in {root}.")
    for path in (paths[0], paths[-1]):
        if not (root / path).is_file():
            raise InputError(
                f"{name} lists {path}, which is not in {root}: unpack the images there."
            )


def split_rows(names: Iterable[Any]) -> dict[str, Rows]:
    """Row numbers by the name of each row's split, in order of first appearance."""
    column = np.array([str(name) for name in names])
    return {name: np.flatnonzero(column == name) for name in dict.fromkeys(column.tolist())}


# Any folder of images: the folders around an image are its labels, from coarse to fine.


SPLIT_FOLDERS = ("train", "val", "test", "query", "gallery")


def read_folder(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Images by folder. A fine label is its whole path, so that animal/other is not plant/other."""
    folder = find_root(name, root, ())
    paths = list(find_images(folder))
    if not paths:
        raise InputError(f"{name} expects images in folders named by their label in {root}.")
    parts = [path.split("/")[:-1] for path in paths]
    tops = {part[0] if part else "" for part in parts}
    has_splits = tops <= set(SPLIT_FOLDERS) and any(len(part) > 1 for part in parts)
    if has_splits:
        splits = split_rows(part[0] for part in parts)
        parts = [part[1:] for part in parts]
    depths = {len(part): path for part, path in zip(parts, paths, strict=True)}
    if len(depths) > 1 or 0 in depths:
        shown = " and ".join(depths[depth] for depth in sorted(depths)[:2])
        raise InputError(
            f"every image of {Path(root)} must lie in equally many folders, at least one, which "
            f"are its labels. Got {shown}."
        )
    (levels,) = depths
    labels = np.array([["/".join(part[: i + 1]) for i in range(levels)] for part in parts])
    return Dataset(
        name,
        ImageFiles(paths, folder),
        labels if levels > 1 else labels[:, 0],
        (*(f"level{number}" for number in range(1, levels)), "label"),
        ids=np.array(paths),
        splits=splits if has_splits else {},
    )


# Any CSV, TSV or Parquet table with the columns path and label, and optionally more.


PATHS = ("path", "paths", "image", "images", "file", "filename")
SPLIT_WORDS = ("split", "splits")


def read_table(name: str, root: str | os.PathLike[str]) -> Dataset:
    """A data set from one table."""
    file = Path(root)
    if file.is_dir():
        raise InputError(f"{name} is read from a .csv, .tsv or .parquet file; {file} is a folder.")
    check_readable(file)
    given = _columns(file)
    columns = {key.strip().lower(): value for key, value in given.items()}
    if len(columns) < len(given):
        raise InputError(f"{file} names a column twice: {', '.join(map(shortened, given))}.")
    paths = [str(path) for path in _full(file, columns, PATHS, "path")]
    levels = sorted((key for key in columns if re.fullmatch(r"level\d+", key)), key=_number)
    label = _found(file, columns, tuple(n for n in known_columns("labels", columns) if len(n) > 1))
    if label is None and not levels:
        raise InputError(f"{file} has no column 'label'; it has {', '.join(columns)}.")
    names = (*levels, "label") if label else tuple(levels)
    labels = [
        _array(_full(file, columns, (key,), key)) for key in (*levels, *filter(None, [label]))
    ]
    folder = file.parent
    check_images(name, folder, paths)
    group = _found(file, columns, NAMES["groups"])
    identity = _found(file, columns, NAMES["ids"])
    split = _found(file, columns, SPLIT_WORDS)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        labels[0] if len(labels) == 1 else np.stack(labels, axis=1),
        names,
        ids=_array(_full(file, columns, (identity,), identity) if identity else paths),
        groups=_array(_full(file, columns, (group,), group)) if group else None,
        splits=split_rows(map(_split_name, _full(file, columns, (split,), split))) if split else {},
    )


def _columns(file: Path) -> dict[str, Any]:
    if file.suffix.lower() in (".csv", ".tsv", ".txt"):
        return read_csv(file, frozenset({*PATHS, "label"}))
    if file.suffix.lower() in (".parquet", ".pq"):
        try:
            return read_parquet(file)
        except ImportError as error:
            raise InputError(f"reading {file} needs {error.name}: {install('io')}.") from error
        except InputError:
            raise
        except Exception as error:  # whatever the parser says of a damaged file
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise InputError(f"{file} cannot be read as Parquet: {reason}.") from error
    raise InputError(f"{file} is not a table that is read here; expected .csv, .tsv or .parquet.")


def _found(file: Path, columns: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """The one column that goes by one of the names."""
    present = [name for name in names if name in columns]
    if len(present) > 1:
        raise InputError(f"{file} holds both {present[0]!r} and {present[1]!r}; keep one.")
    return present[0] if present else None


def _full(file: Path, columns: dict[str, Any], names: tuple[str, ...], what: str) -> list[Any]:
    """A column without empty cells."""
    key = _found(file, columns, names)
    if key is None:
        raise InputError(f"{file} has no column {what!r}; it has {', '.join(columns)}.")
    cells = list(columns[key])
    empty = np.flatnonzero([cell is None or cell != cell for cell in cells])  # NaN is not itself
    if empty.size:
        raise InputError(f"column {key!r} of {file} is empty in {name_rows(empty)}.")
    return cells


def _array(cells: list[Any]) -> npt.NDArray[Any]:
    """Cells as an array: integers stay integers, all else is text."""
    if all(isinstance(cell, int) for cell in cells):
        return np.array(cells, np.int64)
    return np.array([str(cell) for cell in cells])


def _split_name(cell: Any) -> str:
    return str(cell).strip().lower()


def _number(key: str) -> int:
    return int(key.removeprefix("level"))
