"""Lists of neighbours on disk: what a search returned, one list for each query, maybe with scores.

.npy, .npz, .parquet, .ivecs, .ibin, HDF5 as ann-benchmarks writes it, and TREC run files, which
name queries and items by id and are sorted by score.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from truerank.errors import InputError, shortened
from truerank.extras import install
from truerank.files.hdf5 import read_hdf5
from truerank.files.paths import as_path
from truerank.files.reading import check_readable, read_archive, read_npy, read_text
from truerank.files.vectors import read_ibin, read_ivecs

__all__ = ["ListFile", "read_lists", "read_run"]

NEIGHBOURS = ("neighbours", "neighbors", "items", "retrieved", "results")
SCORES = ("scores", "score", "distances", "distance", "similarities")
QUERIES = ("query_id", "query", "id")
RUNS = (".run", ".trec", ".txt", ".res")


@dataclass(frozen=True)
class ListFile:
    """Lists as they are in a file, or as a user passed them."""

    neighbours: Any
    scores: Any = None
    queries: list[str] | None = None
    """Whose list each one is; None where they are in the order of the queries."""
    by_id: bool = False
    """Whether items are named by id for certain."""


def read_lists(path: str | os.PathLike[str]) -> ListFile:
    """The lists in a file, by its ending."""
    path = as_path(path)
    check_readable(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"{path} is not a format of lists that truerank reads; expected {', '.join(_READERS)}."
        )
    try:
        return reader(path)
    except (InputError, MemoryError):
        raise
    except ImportError as error:
        extra = "io" if path.suffix.lower() == ".parquet" else "hdf5"
        raise InputError(
            f"reading {path} needs {error.name or error}: {install(extra)}."
        ) from error
    except Exception as error:  # any parser's complaint about a malformed file
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise InputError(f"{path} cannot be read as {path.suffix}: {reason}.") from error


def read_run(path: Path) -> ListFile:
    """A TREC run: lines 'query Q0 item rank score tag', each query's sorted by score.

    As TREC does, the score decides and the rank is not looked at.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        cells = line.split()
        if not cells:
            continue
        if len(cells) != 6:
            raise InputError(
                f"{path} line {number} must be 'query Q0 item rank score tag'. "
                f"Got {shortened(line)}."
            )
        try:
            score = float(cells[4])
        except ValueError:
            score = float("nan")
        if score != score:
            raise InputError(f"{path} line {number} has the score {shortened(cells[4])}.")
        found.setdefault(cells[0], []).append((score, cells[2]))
    if not found:
        raise InputError(f"{path} holds no list.")
    ranked = [sorted(lines, key=lambda one: -one[0]) for lines in found.values()]
    return ListFile(
        [[item for _, item in lines] for lines in ranked],
        [[score for score, _ in lines] for lines in ranked],
        list(found),
        by_id=True,
    )


def _from_columns(path: Path, columns: dict[str, Any]) -> ListFile:
    """Lists by the names of columns or arrays; a single one needs no name."""
    found = {name.strip().lower(): value for name, value in columns.items()}

    def known(names: tuple[str, ...]) -> Any:
        present = [name for name in names if name in found]
        if len(present) > 1:
            raise InputError(f"{path} holds both {present[0]!r} and {present[1]!r}; keep one.")
        return found[present[0]] if present else None

    lists = next(iter(found.values())) if len(found) == 1 else known(NEIGHBOURS)
    if lists is None:
        raise InputError(
            f"{path} holds {', '.join(map(repr, columns))}, none of which is known to be lists; "
            f"expected {' or '.join(NEIGHBOURS[:2])}."
        )
    queries = known(QUERIES)
    names = None if queries is None else [str(name) for name in np.asarray(queries).tolist()]
    return ListFile(lists, known(SCORES) if len(found) > 1 else None, names)


def _read_parquet(path: Path) -> ListFile:
    from pyarrow import parquet, types

    table = parquet.read_table(path)
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name)
        if not _is_list(types, column.type):
            columns[name] = column.to_pylist()
            continue
        lists: list[Any] = []
        for chunk in column.chunks:
            values = chunk.flatten()
            flat = values.to_pylist() if types.is_string(values.type) else values.to_numpy(False)
            if values.null_count:
                flat = values.to_pylist()
            lengths = chunk.value_lengths().fill_null(0).to_numpy(False)
            ends = np.cumsum(lengths).tolist()
            lists += [
                flat[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)
            ]
        columns[name] = lists
    return _from_columns(path, columns)


def _is_list(types: Any, kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _read_ibin(path: Path) -> ListFile:
    return ListFile(*read_ibin(path))


_READERS: dict[str, Callable[[Path], ListFile]] = {
    ".npy": lambda path: ListFile(read_npy(path)),
    ".npz": lambda path: _from_columns(path, dict(read_archive(path))),
    ".parquet": _read_parquet,
    ".ivecs": lambda path: ListFile(read_ivecs(path)),
    ".ibin": _read_ibin,
    ".hdf5": lambda path: _from_columns(path, read_hdf5(path, (*NEIGHBOURS, *SCORES))),
    ".h5": lambda path: _from_columns(path, read_hdf5(path, (*NEIGHBOURS, *SCORES))),
    **dict.fromkeys(RUNS, read_run),
}
