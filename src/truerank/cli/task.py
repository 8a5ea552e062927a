"""`truerank task`: make a hidden task from a table, check a submission, reveal the labels."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from truerank.cli.kinds import Written
from truerank.cli.options import (
    PATH,
    distance_option,
    examples,
    junk_option,
    label_options,
    no_mate_option,
    unlabelled_option,
)
from truerank.errors import InputError
from truerank.wording import count

if TYPE_CHECKING:
    from truerank.organise import PublicTask, Task

__all__ = ["task"]

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
    epilog=examples(
        "task make labels.csv -o hidden.task --public public.task",
        "task make query.csv --gallery-labels gallery.csv -o hidden.task",
        "task make old.task -o hidden.task",
    )
)
@click.argument("labels", type=PATH)
@click.option("--gallery-labels", type=PATH, help="Labels of a gallery of its own.")
@label_options
@junk_option
@no_mate_option
@unlabelled_option
@click.option(
    "-o", "--output", type=TASK_FILE, required=True, help="The hidden task, which you keep (.task)."
)
@click.option("--public", type=TASK_FILE, help="Write what participants may have: ids, no label.")
def make(
    labels: Path,
    gallery_labels: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    junk_label: tuple[str, ...],
    no_mate: str | None,
    unlabelled: str | None,
    output: Path,
    public: Path | None,
) -> None:
    """Make a hidden task from LABELS, a table with the columns label, id and optionally group.

    A task that an earlier version saved gets a salt. The table's order and the labels stay out of
    the public file; the commitment in it binds you to the labels.
    """
    from truerank.cli.evaluate_files import as_labels
    from truerank.cli.inputs import expand, level_names
    from truerank.cli.outputs import check_targets
    from truerank.files import Bundle, atomic_path, read_labels
    from truerank.organise import Task, is_task, warn_of_giveaways

    check_targets({"-o": output, "--public": public}, (labels, gallery_labels, taxonomy))
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
            junk_labels=as_labels(junk_label, queries.labels),
            no_mate=no_mate or "report",
            unlabelled=unlabelled or "error",
        )
    warn_of_giveaways(made)
    with contextlib.ExitStack() as written:  # both files, or neither
        made.save(written.enter_context(atomic_path(output)))
        if public is not None:
            made.public().save(written.enter_context(atomic_path(public)))
    click.echo(f"{output}: {count(made.queries, 'query')}; keep it, it holds labels and salt.")
    if public is not None:
        click.echo(f"{public}: for participants.")
    click.echo(f"Commitment, to be published now: {made.commitment}")


@task.command(
    epilog=examples(
        "task check submission.npz --task public.task",
        "task check revealed.json --task public.task",
        "task check hidden.task.log --task public.task",
    )
)
@click.argument("file", type=PATH)
@click.option("--task", "task_file", type=PATH, required=True, help="The public task.")
@distance_option(lambda catalogue: catalogue.names(given=False))
def check(file: Path, task_file: Path, distance: str) -> None:
    """Check FILE against a public task, as the organiser will.

    FILE is a submission (ids, shape, numbers), what `task reveal` wrote (are these the labels that
    were committed to?), or the log of a leaderboard (was a line changed?).
    """
    from truerank.files import read
    from truerank.organise import check_log, check_revealed, check_submission
    from truerank.organise.public import is_json

    public = _public(task_file)
    if is_json(file) and file.suffix.lower() == ".json":
        rows = check_revealed(file, public.commitment)
        click.echo(f"{file}: these {rows:,} rows are what was committed to.")
    elif is_json(file):
        openings, head = check_log(file, public.commitment)
        click.echo(f"{file}: the chain of {openings:,} openings holds; it ends with {head}.")
    else:
        bundle = read(file)
        if bundle.embeddings is None:
            raise InputError(f"{file} holds no embeddings: expected a 2-D array called embeddings.")
        click.echo(f"{file}: {check_submission(public, bundle.embeddings, bundle.ids, distance)}")


def _public(path: Path) -> PublicTask:
    """The public task in a file, or that of a hidden one."""
    from truerank.organise import PublicTask, Task
    from truerank.organise.public import is_json

    return PublicTask.load(path) if is_json(path) else Task.load(path).public()


@task.command(epilog=examples("task reveal hidden.task -o revealed.json"))
@click.argument("hidden", type=PATH)
@click.option(
    "-o", "--output", type=Written(".json"), required=True, help="Labels and salt, for all (.json)."
)
def reveal(hidden: Path, output: Path) -> None:
    """Publish labels and salt of a HIDDEN task, once the competition is over.

    Whoever has the public task checks with `truerank task check` that no label was changed.
    """
    from truerank import organise
    from truerank.cli.outputs import check_targets

    check_targets({"-o": output}, (hidden,))
    found: Task = organise.Task.load(hidden)
    organise.reveal(found, output)
    click.echo(f"{output}: labels and salt of {hidden}; commitment {found.commitment}")
