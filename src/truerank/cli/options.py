"""Options that several commands share (--format, --metrics, ...), their values and completion."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from truerank._util.errors import InputError
from truerank._util.text import either

# Options that several commands have.


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
FORMATS = ("table", "json", "csv", "markdown", "latex")
ENDINGS = {".json": "json", ".csv": "csv", ".md": "markdown", ".tex": "latex", ".txt": "table"}
"""The format of a file, by its ending."""
PATH = click.Path(path_type=Path)


# Kinds of values that options take: distances and metrics, by names that the shell completes.


class Written(click.Path):
    """The path of a file to write, with one of some endings or none; refused before any work."""

    def __init__(self, *endings: str) -> None:
        super().__init__(path_type=Path)
        self._endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, if it has no other ending."""
        path = super().convert(value, param, ctx)
        if isinstance(path, Path) and path.suffix and path.suffix.lower() not in self._endings:
            option = param.opts[0] if param is not None else "it"
            raise InputError(f"{option} writes {either(self._endings)} here. Got {path.name!r}.")
        return path


PAGE = Written(".html", ".htm")

confidence_option = click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Confidence level of the intervals.",
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
    help="What scores are averaged over.",
)
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the intervals."
)
units_option = click.option(
    "--units",
    type=click.Choice(("metric", "finer", "finest")),
    default="metric",
    show_default=True,
    help="Sampling units of intervals: classes of the level that a metric uses; or, where "
    "these are too few, those of a finer level, or by the finest label.",
)
no_intervals_option = click.option("--no-intervals", is_flag=True, help="Compute no intervals.")
adjusted_option = click.option(
    "--adjusted", is_flag=True, help="Show (score - chance)/(best - chance) as well."
)
per_query_option = click.option(
    "--per-query", type=PATH, help="Write .csv or .parquet with one row per query."
)
junk_option = click.option(
    "--junk-label", multiple=True, help="Exclude gallery items of this label."
)
unmated_option = click.option(
    "--unmated",
    type=click.Choice(("report", "zero", "error")),
    help="Unmated queries are left out and counted (report, the default), count as 0, or are "
    "refused.",
)
unlabelled_option = click.option(
    "--unlabelled",
    type=click.Choice(("error", "distractor")),
    help="Whether gallery rows without a label are refused (the default) or relevant to no query.",
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
    "--report", type=PAGE, help="Write a report page (.html); -o then holds its data."
)
relevance_option = click.option(
    "--relevance",
    type=PATH,
    help="Relevant items of each query, instead of labels: TREC qrels, which go by the ids of "
    "the rows, or a (queries, gallery) matrix in .npy.",
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
    """--resume, --jobs and --time-limit of runs that train; `resumed` names what is resumed."""
    resume = click.option("--resume", is_flag=True, help=f"Resume {resumed}.")
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Number of trainings at a time, each in a separate process.",
    )
    time_limit = click.option(
        "--time-limit",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Stop after this number of seconds; --resume continues.",
    )
    return lambda command: resume(jobs(time_limit(command)))


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
        help="Form of the printed output.",
    )


def output_option(forms: Sequence[str] = FORMATS) -> Decorator:
    """--output, a file beside what is printed."""
    endings = [ending for ending, form in ENDINGS.items() if form in forms]
    help = (
        f"Write the result to a file as well: {either(endings)} by the ending; without one in the "
        "form of --format, JSON for a table."
    )
    return click.option("-o", "--output", type=Written(*endings), help=help)


def _joined(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> str | None:
    return " ".join(values) if values else None


if TYPE_CHECKING:  # generic in click's newest releases only
    Kind = click.ParamType[str]
else:
    Kind = click.ParamType


class DistanceName(Kind):
    """A choice among the distances that are registered when it is made."""

    name = "choice"

    def __init__(self, listing: Callable[[Any], Sequence[str]]) -> None:
        self._listing = listing

    def names(self) -> Sequence[str]:
        """The distances to choose from."""
        from truerank.distance import catalogue

        return self._listing(catalogue)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """NAME: the help lists what there is."""
        return "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if there is such a distance."""
        if value not in self.names():
            listed = ", ".join(repr(name) for name in self.names())
            self.fail(f"{value!r} is not one of {listed}.", param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin so."""
        return [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]


class DistanceOption(click.Option):
    """An option for a distance, whose help lists those that are registered when it is shown."""

    def __init__(
        self, names: Sequence[str], kind: DistanceName, told: bool, **options: Any
    ) -> None:
        super().__init__(names, type=kind, **options)
        self._kind, self._told = kind, told

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:
        """The default, unless an HDF5 file among the values before says another distance.

        What was given on the command line is looked at before what was not.
        """
        default = super().get_default(ctx, call)
        paths = [value for value in ctx.params.values() if isinstance(value, Path)]
        if default is None or not paths:
            return default
        from truerank.io.vectors import chosen_distance

        return chosen_distance(None, *paths)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The list, each with what it is where that is asked for."""
        from truerank.distance import catalogue

        names = self._kind.names()
        if self._told:
            names = [f"{name} ({catalogue.find(name).help})" for name in names]
        self.help = f"{either(names)}."
        return super().get_help_record(ctx)


class MetricName(Kind):
    """A metric string, or several; the shell completes the last one's name."""

    name = "metric"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """METRICS, or NAME where a single one is meant."""
        return "NAME" if isinstance(param, click.Argument) else "METRICS"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Metrics that begin so, behind those that are already there."""
        from truerank.core import metric as definitions
        from truerank.core import registry

        before, comma, last = incomplete.rpartition(",")
        known = [*registry.DEFAULT, *definitions.names()]
        if "@" in last:
            known += definitions.examples()
        found = dict.fromkeys(name for name in known if name.startswith(last))
        return [CompletionItem(before + comma + name) for name in found]
