"""Any CSV, TSV or Parquet table with the columns path and label, and optionally more.

level1, level2, ... are coarser labels; group or camera, id and split are what they say. Paths are
relative to the table's folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import name_rows
from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import check_images, split_rows
from truerank.errors import InputError, shortened
from truerank.extras import install
from truerank.files import check_readable
from truerank.files.tables import NAMES, known_columns, read_csv, read_parquet

__all__ = ["read_table"]

PATHS = ("path", "paths", "image", "images", "file", "filename")
SPLITS = ("split", "splits")


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
    split = _found(file, columns, SPLITS)
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
