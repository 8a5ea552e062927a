"""The command line: parse, call, print. Results on stdout, everything else on stderr."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from truerank.datasets.commands import data
from truerank.errors import ExactnessError, InputError, TruerankWarning
from truerank.progress import progress_bar
from truerank.training.commands import embed, train
from truerank.version import __version__
from truerank.wording import either

__all__ = ["main", "progress_bar"]

FORMATS = ("table", "json", "csv", "markdown", "latex")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 2 bad input, 1 a bug, 130 interrupted."""
    for name in ("stdout", "stderr"):  # closed by the caller: Python then has no such stream
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # names may be in letters that it cannot print
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", TruerankWarning)
    with contextlib.suppress(ValueError):  # only the main thread may set handlers
        signal.signal(signal.SIGTERM, _terminate)
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    _notes.clear()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Not commands.main, which has its own ways with interrupts and closed pipes.
        with commands.make_context("truerank", given) as context:
            commands.invoke(context)
        for note in _notes:
            click.echo(f"truerank: note: {note}", err=True)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except InputError as error:
        return _complain(str(error), 2)
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except (click.Abort, KeyboardInterrupt) as stop:
        return _complain(f"interrupted; {str(stop) or 'nothing was left half-written'}.", 130)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _complain(f"cannot write the result: {error.strerror or error}.", 1)
    except ExactnessError as error:
        return _complain(str(error), 1)
    except MemoryError:
        return _complain("out of memory; evaluate fewer rows, or fewer threads at once.", 1)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:300]
        return _complain(
            f"this is a bug in truerank {__version__}: {type(error).__name__}: {text} "
            f"({Path(where.filename).name}:{where.lineno}); set TRUERANK_TRACEBACK=1 for details.",
            1,
        )
    return 0


_notes: list[str] = []
"""Warnings of a run, shown when it has succeeded; a refusal is a single line."""


def _complain(sentence: str, status: int) -> int:
    if os.environ.get("TRUERANK_TRACEBACK") and status == 1:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        click.echo(f"truerank: {' '.join(sentence.split())}", err=True)
    return status


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    _notes.append(" ".join(str(message).split()))


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _joined(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> str | None:
    """One text of metrics, however often the option was given."""
    return " ".join(values) if values else None


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


def _label_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options of every command that reads files of labels."""
    for option in (
        click.option(
            "--taxonomy",
            type=click.Path(path_type=Path),
            help="CSV file with the columns child and parent.",
        ),
        click.option("--levels", help="Label columns from coarse to fine, separated by commas."),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(__version__, prog_name="truerank")
@click.pass_context
def commands(context: click.Context) -> None:
    """Exact, tie-proof scores for embedding models."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


commands.add_command(data)
commands.add_command(train)
commands.add_command(embed)


@commands.command()
@click.argument("embeddings", type=click.Path(path_type=Path))
@click.option("--labels", type=click.Path(path_type=Path), help="Labels of the rows.")
@click.option("--gallery", type=click.Path(path_type=Path), help="Embeddings to search in.")
@click.option("--gallery-labels", type=click.Path(path_type=Path), help="Labels of the gallery.")
@_label_options
@click.option("--task", "task_file", type=click.Path(path_type=Path), help="A saved task.")
@click.option("--junk-label", multiple=True, help="Exclude gallery items of this label.")
@click.option(
    "--distance",
    cls=_Listed,
    default="cosine",
    show_default=True,
    listing=lambda catalogue: [
        f"{name} ({catalogue.find(name).help})" for name in catalogue.names()
    ],
)
@click.option(
    "-m",
    "--metrics",
    multiple=True,
    callback=_joined,
    help="Such as map@r,hit@10 (divided by spaces or commas), or all; may be repeated.",
)
@click.option("--average", default="query", show_default=True, help="Mean over query or class.")
@click.option("--no-mate", help="report (default), zero or error.")
@click.option("--unlabelled", help="error (default) or distractor.")
@click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda or reference (numpy)."
)
@click.option("--threads", type=int, help="Number of threads; all cores by default.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--no-intervals", is_flag=True, help="Compute no intervals.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the intervals.")
@click.option("--adjusted", is_flag=True, help="Show (score - chance)/(best - chance) as well.")
@click.option("--format", "form", default="table", type=click.Choice(FORMATS), show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the result as JSON.")
@click.option("--per-query", type=click.Path(path_type=Path), help="Write .csv or .parquet.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="File for the counts so far; OUTPUT.checkpoint by default.",
)
@click.option("--resume", is_flag=True, help="Go on from the checkpoint of an interrupted run.")
def evaluate(
    form: str,
    output: Path | None,
    per_query: Path | None,
    no_intervals: bool,
    adjusted: bool,
    checkpoint: Path | None,
    resume: bool,
    **options: Any,
) -> None:
    """Score EMBEDDINGS (.npy, .npz, .pt, .safetensors, .parquet) against labels.

    Labels come from a CSV (columns label and optionally group, id, level1, level2, ...), an array
    file, or the embeddings file itself. Without a gallery each row is searched among all others.
    """
    from truerank import commandline

    inputs = tuple(
        options[name] for name in ("embeddings", "labels", "gallery", "gallery_labels", "task_file")
    )
    commandline.check_targets(output, per_query, inputs)
    if no_intervals:
        options["confidence"] = None
    with (
        commandline.checkpointed(checkpoint, resume, output, (per_query, *inputs)) as kept,
        progress_bar("ranking") as progress,
    ):
        result, names = commandline.evaluate_files(progress=progress, checkpoint=kept, **options)
    if output is not None:
        result.to_json(output)
    if per_query is not None:
        commandline.write_per_query(result, names, per_query)
    _print_result(result, form, adjusted)


@commands.command()
@click.argument("results", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--runs",
    multiple=True,
    help="A model by several runs that differ in their seed: FILE,FILE,... (repeat per model).",
)
@click.option("--names", help="Names of the models, separated by commas: RESULTS, then --runs.")
@click.option(
    "-m",
    "--metrics",
    multiple=True,
    callback=_joined,
    help="Such as map@r,hit@10; all that the results share if left out.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@click.option(
    "--format",
    "form",
    default="table",
    type=click.Choice(("table", "json", "markdown", "latex")),
    show_default=True,
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the JSON as well.")
def compare(form: str, output: Path | None, **options: Any) -> None:
    """Compare models by their RESULTS, the JSON files that evaluate -o wrote for one task."""
    from truerank import commandline, tables

    comparison = commandline.compare_files(output=output, **options)
    if output is not None:
        comparison.to_json(output)
    text = {
        "table": lambda: f"{comparison}\n",
        "json": comparison.to_json,
        "markdown": comparison.to_markdown,
        "latex": comparison.to_latex,
    }
    click.echo(tables.printable(text[form]()), nl=False)


@commands.command()
@click.argument("embeddings", type=click.Path(path_type=Path))
@click.argument("labels", required=False, type=click.Path(path_type=Path))
@click.option("--labels", "named", type=click.Path(path_type=Path), help="LABELS, by name.")
@_label_options
@click.option("--train", type=click.Path(path_type=Path), help="Embeddings of the training rows.")
@click.option(
    "--distance",
    cls=_Listed,
    default="cosine",
    show_default=True,
    listing=lambda catalogue: catalogue.names(points=True),
)
@click.option("--threads", type=int, help="Number of threads; all cores by default.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of what is sampled.")
@click.option("--format", "form", default="table", type=click.Choice(("table", "json")))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the JSON as well.")
def audit(
    form: str, output: Path | None, labels: Path | None, named: Path | None, **options: Any
) -> None:
    """Look for what could make a score of EMBEDDINGS lie: duplicates, leaks, collapse, ties.

    LABELS is a file as for evaluate; without it the embeddings file may hold them. Classes are
    those of the finest level.
    """
    from truerank import commandline

    if labels is not None and named is not None:
        raise InputError("labels are given twice: as an argument and by --labels.")
    labels = labels or named
    commandline.check_targets(output, None, (options["embeddings"], labels))
    with progress_bar("looking") as progress:
        found = commandline.audit_files(progress=progress, labels=labels, **options)
    if output is not None:
        found.to_json(output)
    click.echo(found.to_json() if form == "json" else f"{found}\n", nl=False)


@commands.command()
@click.argument("scores_or_embeddings", required=False, type=click.Path(path_type=Path))
@click.option("--pairs", required=True, type=click.Path(path_type=Path), help="The trials.")
@click.option(
    "--layout",
    default="auto",
    show_default=True,
    help="Of the trials: auto, lfw, voxceleb, ijb or csv (columns left, right, same, score).",
)
@click.option("--ids", type=click.Path(path_type=Path), help="File with a column id.")
@click.option("--distance", help="cosine, ...; for scores similarity (default) or precomputed.")
@click.option(
    "-m", "--metrics", multiple=True, callback=_joined, help="Such as eer,tar@far=0.001, or all."
)
@click.option("--format", "form", default="table", type=click.Choice(FORMATS), show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the result as JSON.")
def verify(form: str, output: Path | None, **options: Any) -> None:
    """Score a list of trials by SCORES_OR_EMBEDDINGS (nothing if the list has scores).

    A one-dimensional array or a text file with a number a line holds scores, one for each trial; a
    matrix holds embeddings, whose ids are in the same file or in --ids.
    """
    from truerank import commandline

    inputs = tuple(options[name] for name in ("scores_or_embeddings", "pairs", "ids"))
    commandline.check_targets(output, None, inputs)
    result = commandline.verify_files(**options)
    if output is not None:
        result.to_json(output)
    _print_result(result, form)


@commands.command()
@click.argument("calibration", type=click.Path(path_type=Path))
@click.option("--labels", type=click.Path(path_type=Path), help="Labels of the calibration set.")
@_label_options
@click.option("--far", required=True, help="Share of pairs of two classes that may be accepted.")
@click.option("--apply", "apply_to", type=click.Path(path_type=Path), help="Judge it on this set.")
@click.option("--apply-labels", type=click.Path(path_type=Path), help="Labels of that set.")
@click.option("--by-class", is_flag=True, help="Show what one threshold costs class by class.")
@click.option("--distance", default="cosine", show_default=True, help="As in evaluate.")
@click.option("--format", "form", default="table", type=click.Choice(("table", "json")))
def threshold(form: str, by_class: bool, **options: Any) -> None:
    """Choose one threshold on CALIBRATION for a FAR target, and say what it leads to.

    Labels are files as for evaluate; of several levels only the finest counts.
    """
    from truerank import commandline

    point = commandline.choose_from_files(**options)
    if form == "json":
        click.echo(json.dumps(point.to_dict(), indent=1))
        return
    click.echo(str(point))
    if by_class:
        click.echo(commandline.class_table(point))


@commands.command()
@click.argument("name", required=False)
def metrics(name: str | None) -> None:
    """List the metrics, or say everything about the one called NAME."""
    from truerank.metrics import describe

    click.echo(describe(name))


@commands.command()
@click.option("--format", "form", default="table", type=click.Choice(FORMATS), show_default=True)
def demo(form: str) -> None:
    """Evaluate two models on the embedded emoji data and explain the numbers."""
    from truerank import demonstration

    for title, result, remarks in demonstration.run():
        if form == "table":
            click.echo(f"\n{title}\n")
        _print_result(result, form)
        if form == "table":
            click.echo("\n".join(remarks))


def _print_result(result: Any, form: str, adjusted: bool = False) -> None:
    from truerank import tables

    text = {
        "json": lambda: result.to_json(per_query=False),
        "csv": result.to_csv,
        "markdown": lambda: result.to_markdown(adjusted),
        "latex": lambda: result.to_latex(adjusted),
    }
    if form != "table":
        click.echo(tables.printable(text[form]()), nl=False)
        return
    if not sys.stdout.isatty():  # a pipe has no width to which a table could be cut
        click.echo(tables.as_text(result, adjusted))
        return
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
    if console.measure(table, options=unlimited).maximum > console.width:  # digits would be lost
        click.echo(tables.as_text(result, adjusted))
        return
    console.print(table)
    for line in tables.summary(result):
        console.print(tables.printable(line), markup=False)
