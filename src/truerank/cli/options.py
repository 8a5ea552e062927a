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


# How the help of a command shows its options: under headings where there are many.


HEADINGS = {
    "Input": "labels named gallery gallery_labels levels taxonomy relevance ids groups gallery_ids "
    "gallery_groups pairs layout train apply_embeddings apply_labels apply_gallery "
    "apply_gallery_labels apply_ids apply_groups apply_gallery_ids apply_gallery_groups "
    "apply_pairs further scores ignore_scores named_by gallery_size embeddings stored "
    "stored_queries exact_neighbors runs data settings only join",
    "Task": "theirs task_file distance stored_distance junk_label unlabelled unmated queries "
    "every k far frr dims dtypes margin public_share final choose",
    "Metrics": "metrics metric average by worst by_class adjusted settle gallery_sizes extrapolate "
    "confidence no_intervals units seed",
    "Output": "form verbose output per_query report title sections images card full log names "
    "cells list_tables dry_run",
    "Compute": "device threads jobs cluster gpu_share checkpoint resume time_limit",
}
"""The options under each heading, by the names of their parameters."""
MANY = 10
"""From this number of options on, a help text has headings."""
METAVARS = {"path": "FILE", "integer": "N", "float": "X"}
"""What stands for a value in a help text, by the first word of its type."""


class Command(click.Command):
    """A command that names values alike and shows many options under headings."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for one in self.params:
            if isinstance(one, click.Option) and one.metavar is None:
                one.metavar = METAVARS.get(one.type.name.split()[0])

    def options_by_heading(self) -> dict[str, list[click.Option]]:
        """Return the options under each heading; a few options are all under Options."""
        options = [one for one in self.params if isinstance(one, click.Option)]
        if len(options) < MANY:
            return {"Options": options}
        heading_of = {name: heading for heading in HEADINGS for name in HEADINGS[heading].split()}
        found: dict[str, list[click.Option]] = {heading: [] for heading in (*HEADINGS, "Options")}
        for one in options:
            found[heading_of.get(one.name or "", "Options")].append(one)
        return {heading: below for heading, below in found.items() if below}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings, and --help below the last of them."""
        found = self.options_by_heading()
        help_option = self.get_help_option(ctx)
        if help_option is not None:
            found[list(found)[-1]].append(help_option)
        for heading, options in found.items():
            records = [one.get_help_record(ctx) for one in options]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])


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
VERBOSE = "verbose"
"""Under which click keeps --verbose for what prints."""

confidence_option = click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Confidence level of the intervals.",
)
threads_option = click.option(
    "--threads", type=int, help="Number of threads. All cores by default."
)
device_option = click.option(
    "--device",
    type=click.Choice(("auto", "cpu", "cuda", "reference")),
    default="auto",
    show_default=True,
    help="Device to compute on; reference is a plain numpy implementation.",
)
average_option = click.option(
    "--average",
    type=click.Choice(("query", "class")),
    default="query",
    show_default=True,
    help="Average scores over queries, or over classes (the mean of the queries of each class).",
)
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Random seed of the intervals."
)
units_option = click.option(
    "--units",
    type=click.Choice(("metric", "finer", "finest")),
    default="metric",
    show_default=True,
    help="Sampling units of the intervals: the classes of the level that a metric uses (metric) "
    "or, where these are too few, the classes of a finer level (finer) or of the finest level "
    "(finest).",
)
no_intervals_option = click.option(
    "--no-intervals", is_flag=True, help="Compute no confidence intervals."
)
adjusted_option = click.option(
    "--adjusted",
    is_flag=True,
    help="Also show chance-adjusted scores: (score - chance)/(best - chance).",
)
verbose_option = click.option(
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, value: context.meta.update({VERBOSE: value}),
    help="Show every column of the table and all notes.",
)
per_query_option = click.option(
    "--per-query", type=PATH, help="Write per-query scores, one row per query (.csv or .parquet)."
)
junk_option = click.option(
    "--junk-label",
    metavar="LABEL",
    multiple=True,
    help="Exclude gallery items with this label; may be repeated.",
)
unmated_option = click.option(
    "--unmated",
    type=click.Choice(("report", "zero", "error")),
    help="Leave unmated queries out and report their number (report, the default), score them as 0 "
    "(zero), or refuse them (error).",
)
unlabelled_option = click.option(
    "--unlabelled",
    type=click.Choice(("error", "distractor")),
    help="Refuse gallery rows without a label (error, the default), or treat them as relevant to "
    "no query (distractor).",
)
WORST = 20
"""Number of parts that --by shows by default."""
by_option = click.option(
    "--by",
    metavar="COLUMN",
    help="Also break scores down by label, group (camera) or a level, worst first.",
)
worst_option = click.option(
    "--worst", type=click.IntRange(1), help=f"Number of parts that --by shows. {WORST} by default."
)
report_option = click.option(
    "--report", type=PAGE, help="Write a report page (.html); the file of -o then holds its data."
)
levels_option = click.option(
    "--levels",
    metavar="NAME,NAME,...",
    help="Columns of the labels from coarse to fine, separated by commas.",
)
runs_option = click.option(
    "--runs",
    metavar="FILE,FILE,...",
    multiple=True,
    help="Runs of one model with different seeds: files separated by commas, or a quoted pattern "
    "such as 'a-*.json'; may be repeated, once per model.",
)
names_option = click.option(
    "--names",
    metavar="NAME,NAME,...",
    help="Names of the models, separated by commas: first of RESULTS, then of --runs.",
)


def _keep(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Keep a choice about a page where page_choices finds it."""
    if value is not None and option.name is not None:
        context.meta.setdefault(PAGE_CHOICES, {})[option.name] = value


PAGE_CHOICES = "choices of the page"
_OF_PAGE = {
    "--title": "Title of the report page. The names of the models by default.",
    "--sections": "Sections of the report page, separated by commas: comparison, head-to-head, "
    "scores, curves, queries, threshold, classes, confusions, severity, map, checks, reproduce. "
    "All by default.",
}


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --title and --sections to a command that writes a report page."""
    for name, text in reversed(_OF_PAGE.items()):
        command = click.option(name, help=text, expose_value=False, callback=_keep)(command)
    return command


def page_choices() -> dict[str, Any]:
    """The title and the sections that the running command was given for its page."""
    found = dict(click.get_current_context().meta.get(PAGE_CHOICES, {}))
    if "sections" in found:
        found["sections"] = [name.strip() for name in found["sections"].split(",")]
    return found


relevance_option = click.option(
    "--relevance",
    type=PATH,
    help="Relevant items of each query, instead of labels: TREC qrels, which name rows by their "
    "ids, or a (queries, gallery) matrix in .npy.",
)


class Labelled(Command):
    """A command that takes labels by --labels alone, and refuses a second file with that advice."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and name --labels where an unexpected argument is a file."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            extra = re.search(r"unexpected extra argument \((.*)\)", str(error))
            if extra is None or not Path(extra[1]).is_file():
                raise
            raise click.UsageError(f"labels go by name: pass --labels {extra[1]}.", ctx) from error


def examples(*commands: str) -> str:
    """Return the end of a help text: commands to type, no line wider than 80 columns."""
    lines = ["\b", "Examples:"]
    for command in commands:
        glued = re.sub(
            r"( -\S+) (?=[^-])", "\\1\0", command
        )  # an option and its value stay together
        parts = textwrap.wrap(
            f"truerank {glued}", 72, break_long_words=False, break_on_hyphens=False
        )
        lines += " \\\n      ".join(parts).replace("\0", " ").split("\n")
    return "\n".join(line if line in lines[:2] else f"  {line}" for line in lines)


def label_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that reads files of labels."""
    taxonomy = click.option(
        "--taxonomy",
        type=PATH,
        help="Taxonomy of the labels: a CSV file with the columns child and parent.",
    )
    return levels_option(taxonomy(command))


def id_options(of: str, start: str = "--") -> Decorator:
    """Define --ids and --groups of what `of` names, --gallery-ids and --gallery-groups."""
    where = "" if start == "--" else f" of {start[:-1]}"

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for side, whose in (("gallery-", "gallery"), ("", of)):
            for name, column in (("groups", "group (or camera)"), ("ids", "id")):
                help = f"File with a column {column} for the {whose}{where}."
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
        click.option("--gallery", type=PATH, help="Embeddings of a separate gallery to search in."),
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
        help="Number of trainings that run at the same time, each in a separate process.",
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
    """Define --distance, one of those that `listing` takes from the catalogue of distances.

    Its help lists them, with a description of each if `told`.
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
    """Define --metrics, which may be repeated and becomes a single text."""
    return click.option(
        "-m", "--metrics", type=MetricName(), multiple=True, callback=_joined, help=help
    )


def format_option(forms: Sequence[str] = FORMATS) -> Decorator:
    """Define --format, a table by default."""
    return click.option(
        "--format",
        "form",
        default="table",
        type=click.Choice(forms),
        show_default=True,
        help="Format of the printed output.",
    )


def output_option(forms: Sequence[str] = FORMATS) -> Decorator:
    """Define --output, a file that is written in addition to what is printed."""
    endings = [ending for ending, form in ENDINGS.items() if form in forms]
    help = (
        f"Also write the result to a file, in the format of its ending: {either(endings)}. Without "
        "an ending, in the format of --format, and JSON for a table."
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
        self.help = f"Distance: {either(names)}."
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
