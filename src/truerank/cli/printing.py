"""A result on stdout: a table on a terminal or in a pipe, or text for another program."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from truerank import tables
from truerank.result import Result

__all__ = ["print_result"]


def print_result(result: Result, form: str, adjusted: bool = False) -> None:
    """Print a result in one of the formats; `adjusted` adds a column where there are columns."""
    text: dict[str, Callable[[], str]] = {
        "json": lambda: result.to_json(per_query=False),
        "csv": result.to_csv,
        "markdown": lambda: result.to_markdown(adjusted),
        "latex": lambda: result.to_latex(adjusted),
    }
    if form != "table":
        click.echo(tables.printable(text[form]()), nl=False)
        return
    # A pipe has no width to which a table could be cut.
    if sys.stdout.isatty() and _print_for_terminal(result, adjusted):
        return
    click.echo(tables.as_text(result, adjusted))


def _print_for_terminal(result: Result, adjusted: bool) -> bool:
    """Print a table with rules, unless the terminal is so narrow that digits would be lost."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    header, rows = tables.cells(result, adjusted)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(tables.printable, row))
    console = Console(soft_wrap=False, highlight=False)
    unlimited = console.options.update_width(1 << 20)
    if console.measure(table, options=unlimited).maximum > console.width:
        return False
    console.print(table)
    for line in tables.summary(result):
        console.print(tables.printable(line), markup=False)
    return True
