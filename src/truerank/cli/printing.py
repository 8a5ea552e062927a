"""What a command found, on stdout and in a file: a table for people, or text for a program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import click

from truerank import typesetting
from truerank.cli.options import ENDINGS
from truerank.files import write_text
from truerank.parts import Parts
from truerank.result import Result

__all__ = ["deliver", "print_form", "ruled", "write_form", "written_form"]

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
        "table": lambda: result.to_text(adjusted, rule=ruled()),
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


def print_form(form: str, forms: Forms) -> None:
    """Print what is asked for."""
    click.echo(typesetting.printable(forms[form]()).rstrip("\n"))


def write_form(path: Path, form: str, forms: Forms) -> None:
    """Write what the file's ending names, otherwise what is printed, with JSON for a table."""
    text = forms[written_form(path, form)]()
    write_text(path, text if text.endswith("\n") else f"{text}\n")


def written_form(path: Path | None, form: str) -> str:
    """The format of a file, by its ending; that which is printed where there is no file."""
    if path is None:
        return form
    return ENDINGS.get(path.suffix.lower(), "json" if form == "table" else form)
