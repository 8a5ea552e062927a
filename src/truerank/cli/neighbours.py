"""`truerank neighbours`: what single queries find, and where their mates are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truerank.cli.kinds import MetricName
from truerank.cli.options import (
    Labelled,
    distance_option,
    examples,
    file_options,
    format_option,
    output_option,
    threads_option,
)
from truerank.errors import InputError
from truerank.progress import progress_bar

__all__ = ["neighbours"]

FORMS = ("table", "json", "csv")
EXAMPLES = examples(
    "neighbours embeddings.npy --labels labels.csv --query 17 --query 42",
    "neighbours embeddings.npy --labels labels.csv --worst 20 -k 5",
    "neighbours query.npz --gallery gallery.npz --query img-0017 -o neighbours.csv",
)


@click.command(cls=Labelled, epilog=EXAMPLES, short_help="Look at what single queries find.")
@file_options
@click.option(
    "--query",
    "queries",
    metavar="ID",
    multiple=True,
    help="A query by its id, or where there are no ids by its row number from 0; may be repeated.",
)
@click.option(
    "--worst", type=click.IntRange(1), help="Instead, so many of the queries served worst."
)
@click.option(
    "-m",
    "--metric",
    type=MetricName(),
    metavar="NAME",
    default="map@r",
    show_default=True,
    help="By which --worst chooses.",
)
@click.option("-k", type=click.IntRange(1), default=10, show_default=True, help="Items to list.")
@distance_option()
@threads_option
@format_option(FORMS)
@output_option(FORMS)
def neighbours(
    queries: tuple[str, ...],
    worst: int | None,
    metric: str,
    k: int,
    threads: int | None,
    form: str,
    output: Path | None,
    **files: Any,
) -> None:
    """List the nearest items of single queries of EMBEDDINGS, and the ranks of all their mates.

    Files are those of evaluate, and so is the ranking: what is listed is what was scored. An item
    is right, wrong, or with labels of several levels a near miss that shares a coarser label. CSV
    holds the nearest items of each query and then its mates beyond them.
    """
    from truerank import neighbourhood
    from truerank.cli import outputs, printing
    from truerank.cli.evaluate_files import read_task

    if bool(queries) == (worst is not None):
        raise InputError("say which queries to look at: pass --query ID or --worst NUMBER.")
    paths = tuple(value for value in files.values() if isinstance(value, Path))
    outputs.check_targets({"-o": output}, paths)
    with progress_bar("ranking") as progress:
        found = read_task(**files)
        asked = None if worst is not None else [_row(text, found.ids) for text in queries]
        shown = neighbourhood.look(
            found.task,
            found.rows,
            found.items,
            ids=found.ids,
            queries=asked,
            worst=worst,
            metric=metric,
            k=k,
            distance=files["distance"],
            threads=threads,
            progress=progress,
        )
    forms = {
        "table": lambda: shown.to_text(rule=printing.ruled()),
        "json": shown.to_json,
        "csv": shown.to_csv,
    }
    if output is not None:
        printing.write_form(output, form, forms)
    printing.print_form(form, forms)


def _row(text: str, ids: list[Any] | None) -> int | str:
    """An id as it is; a row number where there are no ids."""
    if ids is not None:
        return text
    if not text.isdecimal():
        raise InputError(
            f"the rows have no ids by which {text!r} could be found; pass --ids FILE, or --query "
            "with a row number."
        )
    return int(text)
