"""Options that several commands have."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from truerank.cli.kinds import DistanceName, DistanceOption, MetricName, Written
from truerank.wording import either

__all__ = [
    "ENDINGS",
    "FORMATS",
    "PAGE",
    "PATH",
    "WORST",
    "Labelled",
    "adjusted_option",
    "average_option",
    "by_option",
    "confidence_option",
    "device_option",
    "distance_option",
    "examples",
    "file_options",
    "format_option",
    "id_options",
    "junk_option",
    "label_options",
    "long_run_options",
    "metrics_option",
    "no_intervals_option",
    "no_mate_option",
    "output_option",
    "per_query_option",
    "relevance_option",
    "report_option",
    "seed_option",
    "task_options",
    "threads_option",
    "units_option",
    "unlabelled_option",
    "worst_option",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
FORMATS = ("table", "json", "csv", "markdown", "latex")
ENDINGS = {".json": "json", ".csv": "csv", ".md": "markdown", ".tex": "latex", ".txt": "table"}
"""The format of a file, by its ending."""
PATH = click.Path(path_type=Path)
PAGE = Written(".html", ".htm")

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
average_option = click.option(
    "--average",
    type=click.Choice(("query", "class")),
    default="query",
    show_default=True,
    help="What the mean is over.",
)
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Of the intervals."
)
units_option = click.option(
    "--units",
    type=click.Choice(("metric", "finer", "finest")),
    default="metric",
    show_default=True,
    help="What intervals leave out or draw: classes of the level that a metric uses; or, where "
    "these are too few, those of a finer level, or by the finest label.",
)
no_intervals_option = click.option("--no-intervals", is_flag=True, help="Compute no intervals.")
adjusted_option = click.option(
    "--adjusted", is_flag=True, help="Show (score - chance)/(best - chance) as well."
)
per_query_option = click.option(
    "--per-query", type=PATH, help="Write .csv or .parquet: a row a query."
)
junk_option = click.option(
    "--junk-label", multiple=True, help="Exclude gallery items of this label."
)
no_mate_option = click.option(
    "--no-mate",
    type=click.Choice(("report", "zero", "error")),
    help="Queries with nothing to find are left out and counted (report, the default), count as "
    "0, or are refused.",
)
unlabelled_option = click.option(
    "--unlabelled",
    type=click.Choice(("error", "distractor")),
    help="Whether gallery rows without a label are refused (the default) or relevant to nobody.",
)
WORST = 20
"""Parts that --by shows unless more are asked for."""
by_option = click.option(
    "--by", help="Show parts as well, the worst first: by label, group (camera) or a level."
)
worst_option = click.option(
    "--worst", type=click.IntRange(1), help=f"How many parts --by shows; {WORST} by default."
)
report_option = click.option(
    "--report", type=PAGE, help="Write a page to look at (.html); -o then holds its data."
)
relevance_option = click.option(
    "--relevance",
    type=PATH,
    help="Who is relevant to whom, instead of labels: TREC qrels, which go by the ids of the rows, "
    "or a (queries, gallery) matrix in .npy.",
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


def id_options(of: str, start: str = "--") -> Decorator:
    """Define --ids and --groups of what `of` names, --gallery-ids and --gallery-groups."""
    where = "" if start == "--" else f" of {start[:-1]}"

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for side, whose in (("gallery-", "gallery"), ("", of)):
            for name, column in (("groups", "group (or camera)"), ("ids", "id")):
                help = f"File with a column {column}, for the {whose}{where}."
                command = click.option(f"{start}{side}{name}", type=PATH, help=help)(command)
        return command

    return add


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Define EMBEDDINGS and the options of a task."""
    return click.argument("embeddings", type=PATH)(task_options(command))


def task_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Define the options that name the files and rules of a task."""
    for part in (
        unlabelled_option,
        junk_option,
        id_options("rows"),
        relevance_option,
        label_options,
        click.option("--gallery-labels", type=PATH, help="Labels of the gallery."),
        click.option("--gallery", type=PATH, help="Embeddings to search in."),
        click.option("--labels", type=PATH, help="Labels of the rows."),
    ):
        command = part(command)
    return command


def long_run_options(resumed: str) -> Decorator:
    """--resume, --jobs and --until of runs that train; `resumed` is what --resume goes on with."""
    resume = click.option("--resume", is_flag=True, help=f"Go on with {resumed}.")
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Trainings at a time, each in a process of its own.",
    )
    until = click.option(
        "--until",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Stop after so many seconds, with everything kept.",
    )
    return lambda command: resume(jobs(until(command)))


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
        f"Write the result as well: {either(endings)} by the ending; without one as --format "
        "says, with JSON for a table."
    )
    return click.option("-o", "--output", type=Written(*endings), help=help)


def _joined(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> str | None:
    return " ".join(values) if values else None
