"""Embeddings in tables, a column for each dimension: e0, e1, ..., or numbers without a header.

Columns with other names (label, id, group, ...) come along; numbers of a text file become float64.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from truerank.errors import InputError, shortened
from truerank.files.tables import NAMES

__all__ = ["dimensions", "read_wide_csv"]

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
