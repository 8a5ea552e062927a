"""Options that several commands have."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from truerank.cli.kinds import DistanceName, DistanceOption, MetricName
from truerank.wording import either

__all__ = [
    "ENDINGS",
    "FORMATS",
    "PATH",
    "Labelled",
    "confidence_option",
    "device_option",
    "distance_option",
    "examples",
    "format_option",
    "label_options",
    "metrics_option",
    "output_option",
    "threads_option",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
FORMATS = ("table", "json", "csv", "markdown", "latex")
ENDINGS = {".json": "json", ".csv": "csv", ".md": "markdown", ".tex": "latex", ".txt": "table"}
"""The format of a file, by its ending."""
PATH = click.Path(path_type=Path)

confidence_option = click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Of the intervals."
)
threads_option = click.option(
    "--threads", type=int, help="Number of threads; all cores by default."
)
device_option = click.option(
    "--device",
    type=click.Choice(("auto", "cpu", "cuda", "reference")),
    default="auto",
    show_default=True,
    help="Where to compute; reference is plain numpy.",
)


class Labelled(click.Command):
    """A command whose labels go by name: a second file without one is answered by --labels."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and say where the file belongs that nobody asked for."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            extra = re.search(r"unexpected extra argument \((.*)\)", str(error))
            if extra is None or not Path(extra[1]).is_file():
                raise
            raise click.UsageError(f"labels go by name: pass --labels {extra[1]}.", ctx) from error


def examples(*commands: str) -> str:
    """The end of a help text: commands as one would type them, no line wider than 80 columns."""
    lines = ["\b", "Examples:"]
    for command in commands:
        parts = textwrap.wrap(
            f"truerank {command}", 72, break_long_words=False, break_on_hyphens=False
        )
        lines += " \\\n      ".join(parts).split("\n")
    return "\n".join(line if line in lines[:2] else f"  {line}" for line in lines)


def label_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that reads files of labels."""
    levels = click.option(
        "--levels", help="Label columns from coarse to fine, separated by commas."
    )
    taxonomy = click.option(
        "--taxonomy", type=PATH, help="CSV file with the columns child and parent."
    )
    return levels(taxonomy(command))


def distance_option(
    listing: Callable[[Any], Sequence[str]] = lambda catalogue: catalogue.names(),
    *,
    told: bool = False,
    default: str | None = "cosine",
) -> Decorator:
    """--distance, one of those that `listing` takes from the catalogue of distances.

    Its help lists them, with what each is if that is to be told.
    """
    return click.option(
        "--distance",
        cls=DistanceOption,
        kind=DistanceName(listing),
        told=told,
        default=default,
        show_default=True,
    )


def metrics_option(help: str) -> Decorator:
    """--metrics, which becomes a single text however often it is given."""
    return click.option(
        "-m", "--metrics", type=MetricName(), multiple=True, callback=_joined, help=help
    )


def format_option(forms: Sequence[str] = FORMATS) -> Decorator:
    """--format, a table unless another of `forms` is asked for."""
    return click.option(
        "--format",
        "form",
        default="table",
        type=click.Choice(forms),
        show_default=True,
        help="What is printed.",
    )


def output_option(forms: Sequence[str] = FORMATS) -> Decorator:
    """--output, a file beside what is printed."""
    endings = [ending for ending, form in ENDINGS.items() if form in forms]
    help = (
        f"Write the result as well: {either(endings)} by the ending, otherwise as --format says, "
        "with JSON for a table."
    )
    return click.option("-o", "--output", type=PATH, help=help)


def _joined(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> str | None:
    return " ".join(values) if values else None
