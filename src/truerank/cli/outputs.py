"""Output of commands on stdout and in files; targets are checked before computing."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import click

from truerank._util import text
from truerank._util.errors import InputError
from truerank._util.files import atomic_path, check_writable, write_text
from truerank._util.text import escape_csv
from truerank.cli.options import ENDINGS, VERBOSE
from truerank.result.result import Result
from truerank.result.tables import Parts

# What commands write beside stdout; what cannot be written is refused before it is computed.


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
            raise InputError(f"{first} and {second} both name {path}; give each a separate file.")


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


def announce(path: Path) -> None:
    """Name a file or folder that was written, with its size, on stderr when the command ends.

    What is printed on stdout stays a result and nothing else.
    """
    context = click.get_current_context()
    written: list[Path] = context.meta.setdefault("files written", [])
    if not written:
        context.call_on_close(lambda: _name_written(written))
    written.append(path)


def _name_written(paths: list[Path]) -> None:
    """Print a line per path, such as 'Wrote page.html (1.8 MB)'."""
    for path in paths:
        with suppress(OSError):
            files = [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]
            held = f"{text.count(len(files), 'file')}, " if path.is_dir() else ""
            size = _in_units(sum(one.stat().st_size for one in files))
            click.echo(f"Wrote {text.visible(str(path))} ({held}{size})", err=True)


def _in_units(size: float) -> str:
    """A number of bytes as people read it, such as '1.8 MB'."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit != "MB" else f"{size:.1f} MB"
        size /= 1000
    return f"{size:.1f} GB"


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
        announce(path)
        return
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("writing .parquet needs pyarrow: pip install pyarrow.") from error
    whole = {_whole(name): list(map(_whole, values)) for name, values in columns.items()}
    with atomic_path(path) as partial:
        parquet.write_table(pyarrow.table(whole), partial)
    announce(path)


def _whole(cell: Any) -> Any:
    """Text in which halves of letters, which no file can hold, are written out."""
    return cell.encode(errors="backslashreplace").decode() if isinstance(cell, str) else cell


# What a command found, on stdout and in a file: a table for people, or text for a program.


Forms = Mapping[str, Callable[[], str]]
"""The text in each format."""


def deliver(
    result: Result,
    form: str,
    output: Path | None = None,
    adjusted: bool = False,
    parts: Parts | None = None,
    sizes: Collection[int] = (),
) -> None:
    """Write a result to a file, if one is asked for, and print it; `adjusted` adds a column.

    Parts stand below the table; in other formats they are printed in its place. Scores at the
    gallery `sizes` that were asked for stand below it, too; of the other formats JSON alone has
    them, with those that a fit has added.
    """
    forms: dict[str, Callable[[], str]] = {
        "table": lambda: result.to_text(adjusted, rule=ruled(), verbose=is_verbose()),
        "json": lambda: result.to_json(per_query=False, curves=False),
        "csv": result.to_csv,
        "markdown": lambda: result.to_markdown(adjusted),
        "latex": lambda: result.to_latex(adjusted),
    }
    if output is not None:
        write_form(output, form, forms | {"json": result.to_json})
    if parts is not None:
        forms |= parts.forms()
        whole = forms["table"]
        forms["table"] = lambda: f"{whole()}\n\n{parts.to_text(rule=ruled())}"
    if sizes and result.gallery_sizes:
        above = forms["table"]
        forms["table"] = lambda: f"{above()}\n\n{result.growth_text(sizes, rule=ruled())}"
    print_form(form, forms)


def ruled() -> bool:
    """Whether tables have a rule under their header: on a terminal that can show one."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower()
    return sys.stdout.isatty() and encoding.startswith("utf")


def is_verbose() -> bool:
    """Whether the command was given --verbose."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(VERBOSE))


def print_form(form: str, forms: Forms) -> None:
    """Print what is asked for."""
    click.echo(text.printable(forms[form]()).rstrip("\n"))


def write_form(path: Path, form: str, forms: Forms) -> None:
    """Write what the file's ending names, otherwise what is printed, with JSON for a table."""
    content = forms[written_form(path, form)]()
    write_text(path, content if content.endswith("\n") else f"{content}\n")
    announce(path)


def written_form(path: Path | None, form: str) -> str:
    """The format of a file, by its ending; that which is printed where there is no file."""
    if path is None:
        return form
    return ENDINGS.get(path.suffix.lower(), "json" if form == "table" else form)
