"""Tables as columns by name: CSV, TSV and Parquet, also with one column per dimension.

Cells of a CSV stay strings ("0001"). In a wide table the columns e0, e1, ..., or numbers
without a header, are the embeddings; other columns (label, id, group, ...) are kept beside
them.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import allocate, check_fits, is_list, list_rows, refuse_lengths
from truerank._util.errors import InputError, shortened

Dimensions = Callable[[Iterable[str]], list[str]]
"""Which of the columns of numbers are the dimensions of embeddings."""
NAMES = {
    "embeddings": (
        *("embeddings", "embedding", "features", "feature", "vectors", "vector", "x", "distmat"),
    ),
    "labels": ("labels", "label", "y", "targets", "target", "pids", "pid", "class", "classes"),
    "ids": ("ids", "id"),
    "groups": ("groups", "group", "cameras", "camera", "camids", "camid", "cams", "cam"),
}
_IF_ALONE = {"class", "classes"}
"""Names of labels where nothing else is called so: a class beside a label may be a coarser one."""
HEADER = frozenset(
    {name for names in NAMES.values() for name in names if len(name) > 1} | {"level1"}
)
"""What marks a first line as a header; one letter may as well be the first label."""


def known_columns(field: str, names: Collection[str]) -> list[str]:
    """The names that stand for embeddings, labels, ids or groups; there should be one or none."""
    present = [name for name in NAMES[field] if name in names]
    plain = [name for name in present if name not in _IF_ALONE]
    return plain or present


def only_matrix(found: dict[str, Any]) -> Any:
    """The matrix among columns, if there is one and no other."""
    matrices = [value for value in found.values() if getattr(value, "ndim", 0) == 2]
    return matrices[0] if len(matrices) == 1 else None


def read_csv(path: Path, header: frozenset[str] = HEADER) -> dict[str, Any]:
    """Columns of a CSV or TSV file; without a header, a single column is the labels.

    An empty cell is a missing value (None).
    """
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            once: dict[str, str] = {}  # a label is kept once, however often and long it is
            rows = [
                [once.setdefault(cell, cell) for cell in row]
                for row in csv.reader(file, delimiter=delimiter, strict=True)
                if row
            ]
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; save it as UTF-8 CSV.") from error
    except csv.Error as error:
        raise InputError(f"{path} is not a well-formed CSV file: {error}.") from error
    if not rows:
        raise InputError(f"{path} holds no rows.")
    names = [cell.strip() for cell in rows[0]]
    if header.isdisjoint(name.lower() for name in names):
        _refuse_other_delimiter(path, rows[0], header, delimiter)
        if len(names) > 1:
            chosen = header - HEADER if header > HEADER else header & {"label", "child", "parent"}
            wanted = " or ".join(sorted(chosen))
            shown = ", ".join(map(shortened, rows[0][:5])) + (", ..." if len(rows[0]) > 5 else "")
            raise InputError(
                f"{path} has {len(rows[0])} columns ({shown}) and none is called {wanted}; "
                "name the columns in the first line"
                f"{', or choose columns by --levels' if header == HEADER else ''}."
            )
        return {"": _column([row[0] for row in _same_length(path, rows, 1, 0)])}
    if len(set(names)) < len(names):
        raise InputError(f"{path} names a column twice: {', '.join(map(shortened, rows[0]))}.")
    body = _same_length(path, rows[1:], len(names), 1)
    if not body:
        raise InputError(f"{path} has a header and no rows.")
    return {
        name: _column(list(cells))
        for name, cells in zip(names, zip(*body, strict=True), strict=True)
    }


def _refuse_other_delimiter(
    path: Path, first: list[str], header: frozenset[str], delimiter: str
) -> None:
    for other in (";", "\t", ","):
        if len(first) == 1 and header.intersection(first[0].lower().split(other)):
            raise InputError(
                f"{path} begins with {first[0]!r}: its cells are not divided by "
                f"{'tabs' if delimiter != ',' else 'commas'}; save it as CSV, or as .tsv."
            )


def _same_length(path: Path, rows: list[list[str]], width: int, offset: int) -> list[list[str]]:
    for number, row in enumerate(rows, offset + 1):
        if len(row) != width:
            raise InputError(
                f"{path} row {number} has {len(row)} cells where {width} were expected."
            )
    return rows


def _column(cells: list[str]) -> list[str | None]:
    return [cell if cell != "" else None for cell in cells]


def read_parquet(
    path: Path, dimensions: Dimensions | None = None, source: Any = None
) -> dict[str, Any]:
    """Columns of a Parquet file; a list column becomes a matrix, read a batch at a time.

    `dimensions` says which columns of numbers are the dimensions of embeddings, unless there is
    a list column. `source` is the open file, where it is not read from its path.
    """
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path if source is None else source, buffer_size=1 << 20) as file:
        lists, wide, others = _layout(path, file, dimensions)
        columns: dict[str, Any] = {}
        if wide:
            columns["embeddings"] = _wide(path, wide, file)
        for name in others:
            if name in lists:
                columns[name] = _matrix(path, name, file)
            else:
                size = _POINTER * file.metadata.num_rows
                check_fits(f"column {name!r} of {path}", size, "divide the file into parts")
                columns[name] = file.read(columns=[name]).column(0).to_pylist()
    return columns


def parquet_batches(path: Path, dimensions: Dimensions) -> Iterator[dict[str, Any]]:
    """The columns of a Parquet file, some rows at a time."""
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path, buffer_size=1 << 20) as file:
        lists, wide, others = _layout(path, file, dimensions)
        for batch in _batches(file):
            columns: dict[str, Any] = {}
            if wide:
                columns["embeddings"] = np.empty((len(batch), len(wide)), _common(file, wide))
                _fill(path, wide, batch, columns["embeddings"])
            for name in others:
                column = batch.column(name)
                columns[name] = (
                    list_rows(column, f"column {name!r} of {path}")
                    if name in lists
                    else column.to_pylist()
                )
            yield columns


def _layout(
    path: Path, file: Any, dimensions: Dimensions | None
) -> tuple[set[str], list[str], list[str]]:
    """The list columns, the columns that are dimensions, and all but these."""
    fields = list(file.schema_arrow)
    lists = {field.name for field in fields if is_list(field.type)}
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise InputError(f"{path} names a column twice: {', '.join(map(shortened, names))}.")
    if not file.metadata.num_rows:
        raise InputError(f"{path} holds no rows.")
    wide = []
    if dimensions is not None and not lists:
        wide = dimensions(field.name for field in fields if _is_number(field.type))
    return lists, wide, [name for name in names if name not in set(wide)]


_POINTER = 8
"""Bytes of a list for each of its items, at the least."""


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind))


def _wide(path: Path, names: list[str], file: Any) -> npt.NDArray[Any]:
    """Columns of numbers as a matrix, in a temporary file where it does not fit into memory."""
    out = allocate((file.metadata.num_rows, len(names)), _common(file, names))
    start = 0
    for batch in file.iter_batches(_BATCH, columns=names, use_threads=False):
        _fill(path, names, batch, out[start : start + len(batch)])
        start += len(batch)
    return out


def _common(file: Any, names: list[str]) -> np.dtype[Any]:
    """The dtype that holds all of these columns."""
    kinds = [file.schema_arrow.field(name).type.to_pandas_dtype() for name in names]
    return np.result_type(*kinds)


def _fill(path: Path, names: list[str], batch: Any, out: npt.NDArray[Any]) -> None:
    """Put columns of numbers side by side."""
    for place, name in enumerate(names):
        column = batch.column(name)
        if column.null_count:
            raise InputError(
                f"column {name!r} of {path} holds missing values; fill or drop those rows."
            )
        out[:, place] = column.to_numpy(zero_copy_only=False)


_BATCH = 1 << 12
"""Rows of embeddings read at once."""


def _matrix(path: Path, name: str, file: Any) -> npt.NDArray[Any]:
    """A list column as a matrix, in a temporary file where it does not fit into memory."""
    called = f"column {name!r} of {path}"
    out: npt.NDArray[Any] = np.empty((0, 0))
    start = 0
    for batch in _batches(file, [name]):
        rows = list_rows(batch.column(0), called)
        if start == 0:
            out = allocate((file.metadata.num_rows, rows.shape[1]), rows.dtype)
        elif rows.shape[1] != out.shape[1]:
            refuse_lengths(called, {out.shape[1], rows.shape[1]})
        out[start : start + len(rows)] = rows
        start += len(rows)
    return out


def _batches(file: Any, names: list[str] | None = None) -> Iterator[Any]:
    """One row group after the other: left to itself, pyarrow decodes several at once."""
    for group in range(file.num_row_groups):
        yield from file.iter_batches(_BATCH, [group], names, use_threads=False)


# Embeddings in tables, a column for each dimension: e0, e1, ..., or numbers without a header.
#
# Columns with other names (label, id, group, ...) come along; numbers of a text file become
# float64.


_KNOWN = {name for names in NAMES.values() for name in names}
_FEWEST = 2
"""A single numbered column may be anything."""


def dimensions(path: Path, names: Iterable[str], besides: Sequence[str] = ()) -> list[str]:
    """The columns that are an embedding's dimensions, in their order; none if none are numbered.

    They share a name and count from 0 or 1; `besides` are columns that are something else.
    """
    other = _KNOWN | {name.lower() for name in besides}
    kinds: dict[str, dict[int, str]] = {}
    for name in names:
        match = re.fullmatch(r"(.*?)[\W_]*(\d+)", name.strip().lower())
        if match and match[1] != "level" and match[0] not in other:
            kinds.setdefault(match[1], {})[int(match[2])] = name
    found = [kind for kind in kinds.values() if len(kind) >= _FEWEST]
    if len(found) > 1:
        first, second = (next(iter(kind.values())) for kind in found[:2])
        raise InputError(
            f"{path} has numbered columns of two kinds ({first!r}, {second!r}); keep those of the "
            "embeddings."
        )
    if not found:
        return []
    numbers = sorted(found[0])
    start = min(numbers[0], 1)
    missing = sorted(set(range(start, numbers[-1] + 1)) - set(numbers))
    if missing:
        raise InputError(
            f"{path} has no column {missing[0]} between {found[0][numbers[0]]!r} and "
            f"{found[0][numbers[-1]]!r}; an embedding needs a column for each dimension."
        )
    return [found[0][number] for number in numbers]


def read_wide_csv(path: Path, levels: Sequence[str] = ()) -> dict[str, Any]:
    """Columns of a CSV or TSV file of embeddings; the matrix of numbers is called embeddings."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(path, _rows(path, file), levels)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; save it as UTF-8 CSV.") from error
    except csv.Error as error:
        raise InputError(f"{path} is not a well-formed CSV file: {error}.") from error


def _rows(path: Path, file: Iterable[str]) -> Iterator[list[str]]:
    """Rows of cells, divided by commas, by tabs, or, if they are numbers, by white space."""
    lines = iter(file)
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise InputError(f"{path} holds no rows.")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    if delimiter not in first and len(first.split()) > 1 and _are_numbers(first.split()):
        yield first.split()
        yield from (cells for line in lines if (cells := line.split()))
        return

    def again() -> Iterator[str]:
        yield first
        yield from lines

    yield from (row for row in csv.reader(again(), delimiter=delimiter, strict=True) if row)


def _read(path: Path, rows: Iterator[list[str]], levels: Sequence[str]) -> dict[str, Any]:
    first = next(rows)
    names = [cell.strip() for cell in first]
    counted = [str(number) for number in range(len(names))]
    bare = _are_numbers(names) and not (len(names) > _FEWEST and names == counted)
    if bare:
        names = counted
    if len({name.lower() for name in names}) < len(names):
        raise InputError(f"{path} names a column twice: {', '.join(map(shortened, first))}.")
    columns = names if bare else dimensions(path, names, levels)
    if bare and len(names) < _FEWEST:
        columns = []
    if not columns:
        _refuse(path, first, bare)
    places = [names.index(name) for name in columns]
    others: dict[str, list[str | None]] = {name: [] for name in names if name not in set(columns)}
    once: dict[str, str] = {}  # a label is kept once, however often and long it is
    numbers = array("d")
    for row, cells in enumerate(_all(first if bare else None, rows), start=1 if bare else 2):
        if len(cells) != len(names):
            raise InputError(
                f"{path} row {row} has {len(cells)} cells where {len(names)} were expected."
            )
        try:
            numbers.extend([float(cells[place]) for place in places])
        except ValueError:
            wrong = next(place for place in places if not _are_numbers([cells[place]]))
            raise InputError(
                f"{path} row {row}, column {shortened(names[wrong])}: expected a number of an "
                f"embedding. Got {shortened(cells[wrong])}."
            ) from None
        for name, cell in zip(names, cells, strict=True):
            if name in others:
                others[name].append(once.setdefault(cell, cell) or None)
    if not numbers:
        raise InputError(f"{path} has a header and no rows.")
    matrix = np.frombuffer(numbers, np.float64).reshape(-1, len(columns))
    return {"embeddings": matrix, **others}


def _all(first: list[str] | None, rest: Iterator[list[str]]) -> Iterator[list[str]]:
    if first is not None:
        yield first
    yield from rest


def _are_numbers(cells: Sequence[str]) -> bool:
    try:
        for cell in cells:
            float(cell)
    except ValueError:
        return False
    return True


def _refuse(path: Path, first: list[str], bare: bool) -> None:
    """Say why a table holds no embeddings."""
    shown = ", ".join(map(shortened, first[:5])) + (", ..." if len(first) > 5 else "")
    what = "one number a row" if bare else f"the columns {shown}"
    packed = [cell for cell in first if cell.strip().lower() in NAMES["embeddings"]]
    how = (
        f"write the numbers of {packed[0]!r} into columns of their own (e0, e1, ...), or as .npy"
        if packed
        else "expected a column for each dimension (e0, e1, ...), or numbers without a header"
    )
    raise InputError(f"{path} holds no embeddings but {what}; {how}.")
