"""Neighbor lists on disk: one list per query as a search returned it, with or without scores.

Formats: .npy, .npz, .parquet, .ivecs, .ibin, HDF5 of ann-benchmarks, and runs, which name
queries and items by id: TREC's (sorted by score), MS MARCO's (sorted by rank) and {query:
{item: score}}.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from truerank._util.errors import InputError, shortened
from truerank._util.files import as_path, check_readable, first_line, read_archive, read_text
from truerank._util.installed import install
from truerank.io.reading import read_npy
from truerank.io.vectors import read_hdf5, read_ibin, read_ivecs

NEIGHBOURS = ("neighbours", "neighbors", "items", "retrieved", "results", "i")
SCORES = ("scores", "score", "distances", "distance", "similarities", "d")
QUERIES = ("query_id", "query", "id")
RUNS = (".run", ".trec", ".txt", ".res", ".tsv")


@dataclass(frozen=True)
class ListFile:
    """Lists as they are in a file, or as a user passed them."""

    neighbors: Any
    scores: Any = None
    queries: list[str] | None = None
    """Whose list each one is; None where they are in the order of the queries."""
    by_id: bool = False
    """Whether items are named by id for certain."""


def read_lists(path: str | os.PathLike[str]) -> ListFile:
    """The lists in a file, by its ending; any other one may be that of a run."""
    path = as_path(path)
    check_readable(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None and not _looks_like_run(path):
        raise InputError(
            f"{path} is not a format of lists that truerank reads; expected {', '.join(_READERS)}, "
            "or a run: lines 'query Q0 item rank score tag', with any ending."
        )
    if reader is None:
        return read_run(path)
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


def _looks_like_run(path: Path) -> bool:
    """Whether a file of an unknown ending, maybe packed by gzip, begins as a run does."""
    try:
        start = first_line(path).split()
    except (OSError, ValueError, EOFError):
        return False
    return len(start) == 6 or (len(start) == 3 and start[2].isdecimal())


def read_run(path: Path) -> ListFile:
    """A run: of TREC, lines 'query Q0 item rank score tag', each query's sorted by score (the rank
    is not looked at, as TREC does), or of MS MARCO, lines 'query item rank', sorted by rank.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    columns = 0
    for number, line in enumerate(read_text(path).splitlines(), 1):
        cells = line.split()
        if not cells:
            continue
        columns = columns or (3 if len(cells) == 3 else 6)
        if len(cells) != columns:
            expected = "'query item rank'" if columns == 3 else "'query Q0 item rank score tag'"
            if not found and columns == 6:
                expected += ", or 'query item rank' as in MS MARCO's runs"
            raise InputError(f"{path} line {number} must be {expected}. Got {shortened(line)}.")
        item, text = (cells[1], cells[2]) if columns == 3 else (cells[2], cells[4])
        score = _finite(text)
        if score is None:
            what = "rank" if columns == 3 else "score"
            raise InputError(
                f"{path} line {number} has the {what} {shortened(text)}; expected a finite number."
            )
        found.setdefault(cells[0], []).append((score, item))
    if not found:
        raise InputError(f"{path} holds no list.")
    return _sorted(found, rising=columns == 3)


def run_of_mapping(run: Mapping[Any, Any]) -> ListFile:
    """{query: {item: score}}, each query's items sorted by score; ids are compared as text."""
    found: dict[str, list[tuple[float, str]]] = {}
    for query, items in run.items():
        if not isinstance(items, Mapping):
            raise InputError(
                "neighbors must map each query to {item: score}. "
                f"Got {shortened(items)} for query {shortened(query)}."
            )
        if str(query) in found:
            raise InputError(f"neighbors name query {shortened(str(query))} twice, as text.")
        row = found[str(query)] = []
        for item, value in items.items():
            score = _finite(value)
            if score is None:
                raise InputError(
                    f"neighbors[{query!r}][{item!r}] is {shortened(value)}; expected a finite "
                    "number, the item's score."
                )
            row.append((score, str(item)))
    if not found:
        raise InputError("neighbors hold no list.")
    return _sorted(found, rising=False)


def _finite(value: Any) -> float | None:
    """A score as a finite number; None if it is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _sorted(found: dict[str, list[tuple[float, str]]], *, rising: bool) -> ListFile:
    sign = 1.0 if rising else -1.0
    ranked = [sorted(row, key=lambda one: sign * one[0]) for row in found.values()]
    return ListFile(
        [[item for _, item in row] for row in ranked],
        [[score for score, _ in row] for row in ranked],
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
            f"expected {', '.join(NEIGHBOURS[:2])} or I."
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
