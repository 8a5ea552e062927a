"""Commands for organisers and metric functions: truerank leaderboard, task and conform."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from truerank._util.errors import InputError
from truerank._util.progress import progress_bar
from truerank._util.text import count
from truerank.cli.options import (
    PATH,
    Command,
    MetricName,
    Written,
    device_option,
    distance_option,
    examples,
    format_option,
    junk_option,
    label_options,
    output_option,
    threads_option,
    unlabelled_option,
    unmated_option,
)

if TYPE_CHECKING:
    from truerank.competition.task import PublicTask, Task


# `truerank leaderboard`: submissions to a hidden task, as a board that gives no label away.


FORMATS = ("table", "json", "markdown")
ENDINGS = {".html": "html", ".md": "markdown", ".json": "json"}
LEADERBOARD_EXAMPLES = examples(
    "leaderboard hidden.task submissions/anna--1.npz submissions/ben.npz -o board.html",
    "leaderboard hidden.task anna=a/embeddings.npz ben=b/embeddings.npz -m map@r",
    "leaderboard hidden.task submissions/anna--1.npz submissions/ben.npz -o final.md --final",
    "leaderboard hidden.task submissions/*.npz --final --choose chosen.csv -o final.html",
)


@click.command(
    cls=Command, epilog=LEADERBOARD_EXAMPLES, short_help="Rank submissions to a hidden task."
)
@click.argument("task", type=PATH)
@click.argument("submissions", nargs=-1, required=True)
@click.option(
    "-m",
    "--metric",
    type=MetricName(),
    metavar="NAME",
    help="Metric of the board. map@r by default.",
)
@click.option(
    "--public-share", type=float, help="Share of the classes in the public part. 0.5 by default."
)
@distance_option(lambda catalogue: catalogue.names(given=False), default=None)
@click.option(
    "--confidence", type=float, help="Confidence level of the intervals. 0.95 by default."
)
@click.option("--final", is_flag=True, help="Score the private part, and close the log.")
@click.option(
    "--choose",
    type=PATH,
    help="With --final: CSV file with the columns participant and entry, the entry that each "
    "participant chose. By default, the entry on the board counts.",
)
@click.option("--log", type=PATH, help="Log of all scored submissions. TASK.log by default.")
@device_option
@threads_option
@format_option(FORMATS)
@click.option(
    "-o", "--output", type=PATH, help="Also write the board to a file: .html, .md or .json."
)
def leaderboard(
    task: Path,
    submissions: tuple[str, ...],
    log: Path | None,
    form: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Score SUBMISSIONS (.npz and other files with embeddings and ids) on a hidden TASK.

    Pass all files, new and old: each is scored once, in the order given, and recorded in the log.
    anna--1.npz and anna--2.npz are entries of anna; NAME=FILE names the participant. The first run
    fixes metric, public share, distance and confidence.
    """
    from truerank import competition
    from truerank._util.files import write_text
    from truerank.cli.outputs import announce, check_targets, print_form, ruled

    kept = Path(f"{task}.log") if log is None else log
    if output is not None and output.suffix.lower() not in ENDINGS:
        raise InputError(f"-o writes .html, .md or .json here. Got {output.name!r}.")
    files = tuple(entry.path for entry in competition.list_entries(submissions))
    check_targets({"-o": output, "--log": kept}, (task, options["choose"], *files))
    earlier = kept.stat().st_size if kept.exists() else 0
    with progress_bar("ranking") as progress:
        board = competition.leaderboard(task, submissions, log=kept, progress=progress, **options)
    if kept.stat().st_size > earlier:  # a log only grows
        announce(kept)
    forms = {
        "table": lambda: board.to_text(rule=ruled()),
        "json": board.to_json,
        "markdown": board.to_markdown,
        "html": board.to_html,
    }
    if output is not None:
        write_text(output, forms[ENDINGS[output.suffix.lower()]]())
        announce(output)
    print_form(form, forms)


# `truerank task`: make a hidden task from a table, check a submission, reveal the labels.


TASK_FILE = Written(".task", ".json")


@click.group(
    epilog=examples(
        "task make labels.csv -o hidden.task --public public.task",
        "task check submission.npz --task public.task",
        "task reveal hidden.task -o revealed.json",
    ),
    short_help="Run a competition with hidden labels.",
)
def task() -> None:
    """Hide the labels of a competition, check submissions, reveal the labels at the end."""


@task.command(
    cls=Command,
    epilog=examples(
        "task make labels.csv -o hidden.task --public public.task",
        "task make query.csv --gallery-labels gallery.csv -o hidden.task",
        "task make old.task -o hidden.task",
    ),
)
@click.argument("labels", type=PATH)
@click.option("--gallery-labels", type=PATH, help="Labels of a separate gallery.")
@label_options
@junk_option
@unmated_option
@unlabelled_option
@click.option(
    "-o",
    "--output",
    type=TASK_FILE,
    required=True,
    help="File of the hidden task, which you keep (.task).",
)
@click.option(
    "--public",
    type=TASK_FILE,
    help="Also write the public task for participants: ids, no labels (.task).",
)
def make(
    labels: Path,
    gallery_labels: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    junk_label: tuple[str, ...],
    unmated: str | None,
    unlabelled: str | None,
    output: Path,
    public: Path | None,
) -> None:
    """Make a hidden task from LABELS, a table with the columns label, id and optionally group.

    The public file holds neither the labels nor the order of the table. The commitment in it binds
    you to the labels. A task that an earlier version saved gets a salt.
    """
    from truerank._util.files import atomic_path
    from truerank.cli.inputs import as_labels, expand, level_names
    from truerank.cli.outputs import announce, check_targets
    from truerank.competition.leaderboards import warn_of_giveaways
    from truerank.competition.task import Task, is_task
    from truerank.io.reading import Bundle, read_labels

    check_targets({"-o": output, "--public": public}, (labels, gallery_labels, taxonomy))
    with progress_bar("making the task"):
        if is_task(labels):
            if gallery_labels or levels or taxonomy or junk_label:
                raise InputError(f"{labels} is a task already, which holds labels and rules.")
            made = Task.load(labels)
        else:
            names = level_names(levels)
            queries = read_labels(labels, names)
            items = Bundle() if gallery_labels is None else read_labels(gallery_labels, names)
            expand(taxonomy, queries, items)
            made = Task(
                queries.labels,
                ids=queries.ids,
                groups=queries.groups,
                gallery_labels=items.labels,
                gallery_ids=items.ids,
                gallery_groups=items.groups,
                junk_labels=as_labels(junk_label, queries.labels, items.labels),
                unmated=unmated or "report",
                unlabelled=unlabelled or "error",
            )
        warn_of_giveaways(made)
    with contextlib.ExitStack() as written:  # both files, or neither
        made.save(written.enter_context(atomic_path(output)))
        if public is not None:
            made.public().save(written.enter_context(atomic_path(public)))
    click.echo(f"{output}: {count(made.queries, 'query')}; keep it, it holds labels and salt.")
    announce(output)
    if public is not None:
        click.echo(f"{public}: for participants.")
        announce(public)
    click.echo(f"Commitment, to be published now: {made.commitment}")


@task.command(
    cls=Command,
    epilog=examples(
        "task check submission.npz --task public.task",
        "task check revealed.json --task public.task",
        "task check hidden.task.log --task public.task",
    ),
)
@click.argument("file", type=PATH)
@click.option("--task", "task_file", type=PATH, required=True, help="File of the public task.")
@distance_option(lambda catalogue: catalogue.names(given=False))
def check(file: Path, task_file: Path, distance: str) -> None:
    """Check FILE against a public task.

    FILE is a submission (its ids, shape and numbers are checked), the labels that `task reveal`
    wrote (they must be those of the commitment), or the log of a leaderboard (no line may have
    changed).
    """
    from truerank.competition.leaderboards import check_log, check_submission
    from truerank.competition.task import check_revealed, is_json
    from truerank.io.reading import read

    public = _public(task_file)
    if is_json(file) and file.suffix.lower() == ".json":
        rows = check_revealed(file, public.commitment)
        click.echo(f"{file}: these {rows:,} rows are what was committed to.")
    elif is_json(file):
        openings, head = check_log(file, public.commitment)
        click.echo(
            f"{file}: the chain of {openings:,} scored submissions is intact; it ends with {head}."
        )
    else:
        bundle = read(file)
        if bundle.embeddings is None:
            raise InputError(f"{file} holds no embeddings: expected a 2-D array called embeddings.")
        click.echo(f"{file}: {check_submission(public, bundle.embeddings, bundle.ids, distance)}")


def _public(path: Path) -> PublicTask:
    """The public task in a file, or that of a hidden one."""
    from truerank.competition.task import PublicTask, Task, is_json

    return PublicTask.load(path) if is_json(path) else Task.load(path).public()


@task.command(cls=Command, epilog=examples("task reveal hidden.task -o revealed.json"))
@click.argument("hidden", type=PATH)
@click.option(
    "-o",
    "--output",
    type=Written(".json"),
    required=True,
    help="File of the labels and the salt (.json).",
)
def reveal(hidden: Path, output: Path) -> None:
    """Publish the labels and the salt of a HIDDEN task when the competition is over.

    With `truerank task check` and the public task, participants check that no label was changed.
    """
    from truerank import competition
    from truerank.cli.outputs import announce, check_targets

    check_targets({"-o": output}, (hidden,))
    found: Task = competition.Task.load(hidden)
    competition.reveal(found, output)
    announce(output)
    click.echo(f"{output}: labels and salt of {hidden}; commitment {found.commitment}")


# `truerank conform`: which conventions a metric function follows.


FORMS = ("table", "json")
CONFORM_EXAMPLES = examples(
    "conform mypackage.metrics:mean_average_precision --like map@r",
    "conform sklearn.metrics:label_ranking_average_precision_score --like map --call scores",
    "conform metrics.py:average_precision --like map@2 --call scores --one-query --with k=2",
    "conform metrics.py:hit_rate --like hit@3 --call lists --allow unmated=zero",
)


@click.command(
    cls=Command,
    epilog=CONFORM_EXAMPLES,
    short_help="Find which conventions a metric function follows.",
)
@click.argument("function")
@click.option(
    "--like",
    type=MetricName(),
    metavar="NAME",
    default="map@r",
    show_default=True,
    help="Metric that the function is meant to compute.",
)
@click.option(
    "--call",
    type=click.Choice(("embeddings", "scores", "lists", "qrels")),
    default="embeddings",
    show_default=True,
    help="Arguments of the function: (embeddings, labels), (scores, relevance), (lists, relevant "
    "ids) or (qrels, run).",
)
@click.option(
    "--arrays",
    type=click.Choice(("numpy", "torch", "lists")),
    default="numpy",
    show_default=True,
    help="Type in which embeddings, labels, scores and relevance are passed.",
)
@click.option(
    "--one-query", is_flag=True, help="Pass the scores or the list of one query at a time."
)
@click.option(
    "--with",
    "more",
    metavar="NAME=VALUE",
    multiple=True,
    help="Further argument of the function; may be repeated.",
)
@click.option(
    "--allow",
    metavar="CONVENTION",
    multiple=True,
    help="Convention that is intended, such as unmated=zero; may be repeated.",
)
@format_option(FORMS)
@output_option(("table", "json"))
def conform(
    function: str,
    like: str,
    call: str,
    arrays: str,
    one_query: bool,
    more: tuple[str, ...],
    allow: tuple[str, ...],
    form: str,
    output: Path | None,
) -> None:
    """Call FUNCTION (package.module:function or file.py:function) with small cases, and
    report which conventions and known bugs explain what it returns.

    The exit status is 0 if the function conforms to truerank's definition, 1 if it does not, and 2
    on bad input.
    """
    from truerank import conformance
    from truerank.cli import outputs

    outputs.check_targets({"-o": output})
    arguments = dict(map(_argument, more))
    with progress_bar("calling the function"):
        found = conformance.check(
            conformance.load(function),
            like,
            call,
            arrays=arrays,
            one_query=one_query,
            arguments=arguments,
            allow=allow,
            name=function,
        )
    forms = {"table": found.to_text, "json": found.to_json}
    if output is not None:
        outputs.write_form(output, form, forms)
    outputs.print_form(form, forms)
    if not found.conforms:
        raise click.exceptions.Exit(1)


def _argument(text: str) -> tuple[str, Any]:
    """'k=2' as ('k', 2); what is no JSON is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"--with takes name=value. Got {text!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
