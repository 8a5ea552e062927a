"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from truerank.wording import either

__all__ = [
    "FORMATS",
    "PATH",
    "confidence_option",
    "distance_option",
    "format_option",
    "label_options",
    "metrics_option",
    "output_option",
    "threads_option",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
FORMATS = ("table", "json", "csv", "markdown", "latex")
PATH = click.Path(path_type=Path)

confidence_option = click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Of the intervals."
)
threads_option = click.option(
    "--threads", type=int, help="Number of threads; all cores by default."
)


def label_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that reads files of labels."""
    levels = click.option(
        "--levels", help="Label columns from coarse to fine, separated by commas."
    )
    taxonomy = click.option(
        "--taxonomy", type=PATH, help="CSV file with the columns child and parent."
    )
    return levels(taxonomy(command))


def distance_option(listing: Callable[[Any], Sequence[str]]) -> Decorator:
    """--distance, whose help is what `listing` takes from the catalogue of distances."""
    return click.option(
        "--distance", cls=_Listed, default="cosine", show_default=True, listing=listing
    )


def metrics_option(help: str) -> Decorator:
    """--metrics, which becomes a single text however often it is given."""
    return click.option("-m", "--metrics", multiple=True, callback=_joined, help=help)


def format_option(forms: Sequence[str] = FORMATS, show_default: bool = True) -> Decorator:
    """--format, a table unless another of `forms` is asked for."""
    return click.option(
        "--format", "form", default="table", type=click.Choice(forms), show_default=show_default
    )


def output_option(help: str) -> Decorator:
    """--output, a file beside what is printed."""
    return click.option("-o", "--output", type=PATH, help=help)


class _Listed(click.Option):
    """An option for a distance, whose help lists those that are registered once it is shown."""

    def __init__(
        self, *arguments: Any, listing: Callable[[Any], Sequence[str]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._listing = listing

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from truerank.space import catalogue

        self.help = f"{either(self._listing(catalogue))}."
        return super().get_help_record(ctx)


def _joined(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> str | None:
    return " ".join(values) if values else None
