"""What commands write beside stdout; what cannot be written is refused before it is computed."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.files import atomic_path, check_writable
from truerank.result import Result
from truerank.typesetting import escape_csv

__all__ = ["check_targets", "checkpointed", "write_per_query"]

TABLES = (".csv", ".parquet")


def check_targets(targets: Mapping[str, Path | None], inputs: tuple[Path | None, ...] = ()) -> None:
    """Refuse what could not be written, by option, before anything is computed."""
    per_query = targets.get("--per-query")
    if per_query is not None and per_query.suffix.lower() not in TABLES:
        raise InputError(f"--per-query writes {' or '.join(TABLES)}. Got {per_query.name!r}.")
    named = {option: path for option, path in targets.items() if path is not None}
    for path in named.values():
        check_writable(path)
        for other in inputs:
            if other is not None and _is_same(path, other):
                raise InputError(f"{path} would be written over the input {other}.")
    for (first, path), (second, other) in combinations(named.items(), 2):
        if os.path.realpath(path) == os.path.realpath(other):
            raise InputError(f"{first} and {second} both name {path}; give each a file of its own.")


def _is_same(path: Path, other: Path) -> bool:
    """Whether both are one file, which is there; what has no file's name is none."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False


@contextmanager
def checkpointed(
    checkpoint: Path | None, resume: bool, output: Path | None, others: tuple[Path | None, ...]
) -> Iterator[Path | None]:
    """Where the counts so far go; an interrupt says how to continue from there."""
    path = checkpoint
    if path is None and output is not None:
        path = output.with_name(f"{output.name}.checkpoint")
    if path is None and resume:
        raise InputError("--resume needs -o or --checkpoint, to know which run to continue.")
    if path is not None:
        check_writable(path)
        for other in (output, *others):
            if other is not None and os.path.realpath(path) == os.path.realpath(other):
                raise InputError(f"--checkpoint would be written over {other}.")
        if path.exists() and not resume:
            raise InputError(
                f"{path} holds an interrupted evaluation: pass --resume to continue it, or delete "
                "it to start anew."
            )
    try:
        yield path
    except KeyboardInterrupt as stop:
        if path is None or not path.exists():
            raise
        raise KeyboardInterrupt(f"pass --resume to continue from {path}") from stop


def write_per_query(result: Result, names: list[Any] | None, path: Path) -> None:
    """One row per query: who it is, what it found first, and the bounds of every metric."""
    columns: dict[str, list[Any]] = {}
    for metric, score in result.items():
        if score.per_query is None:
            continue
        for end in ("lower", "expected", "upper"):
            values = getattr(score.per_query, end).tolist()
            columns[f"{metric}:{end}"] = [None if value != value else value for value in values]
    count = result.provenance["queries"]
    head: dict[str, list[Any]] = {"query": list(range(count))}
    if names is not None:
        head["id"] = names
    columns = head | result.queries() | columns
    if path.suffix.lower() == ".csv":
        with atomic_path(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            for row in (columns, *zip(*columns.values(), strict=True)):
                writer.writerow(map(escape_csv, row))
        return
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("writing .parquet needs pyarrow: pip install pyarrow.") from error
    whole = {_whole(name): list(map(_whole, values)) for name, values in columns.items()}
    with atomic_path(path) as partial:
        parquet.write_table(pyarrow.table(whole), partial)


def _whole(cell: Any) -> Any:
    """Text in which halves of letters, which no file can hold, are written out."""
    return cell.encode(errors="backslashreplace").decode() if isinstance(cell, str) else cell
