"""`truerank leaderboard`: submissions to a hidden task, as a board that gives no label away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truerank.cli.kinds import MetricName
from truerank.cli.options import (
    PATH,
    device_option,
    distance_option,
    examples,
    format_option,
    threads_option,
)
from truerank.errors import InputError
from truerank.progress import progress_bar

__all__ = ["leaderboard"]

FORMATS = ("table", "json", "markdown")
ENDINGS = {".html": "html", ".md": "markdown", ".json": "json"}
EXAMPLES = examples(
    "leaderboard hidden.task submissions/anna--1.npz submissions/ben.npz -o board.html",
    "leaderboard hidden.task anna=a/embeddings.npz ben=b/embeddings.npz -m map@r",
    "leaderboard hidden.task submissions/anna--1.npz submissions/ben.npz -o final.md --final",
    "leaderboard hidden.task submissions/*.npz --final --choose chosen.csv -o final.html",
)


@click.command(epilog=EXAMPLES, short_help="Rank submissions to a hidden task.")
@click.argument("task", type=PATH)
@click.argument("submissions", nargs=-1, required=True)
@click.option("-m", "--metric", type=MetricName(), help="What the board goes by; map@r by default.")
@click.option(
    "--public-share", type=float, help="Of the classes, in the public part; 0.5 by default."
)
@distance_option(lambda catalogue: catalogue.names(given=False), default=None)
@click.option("--confidence", type=float, help="Of the intervals; 0.95 by default.")
@click.option("--final", is_flag=True, help="Score the private part exactly, and close the log.")
@click.option(
    "--choose",
    type=PATH,
    help="With --final, the entry that each participant chose: a CSV with the columns participant "
    "and entry. Without it, and for who is not named, it is the entry that the board shows.",
)
@click.option("--log", type=PATH, help="All openings; TASK.log by default.")
@device_option
@threads_option
@format_option(FORMATS)
@click.option("-o", "--output", type=PATH, help="Write the board as well: .html, .md or .json.")
def leaderboard(
    task: Path,
    submissions: tuple[str, ...],
    log: Path | None,
    form: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Open SUBMISSIONS (.npz and other files with embeddings and ids) to a hidden TASK.

    Give all files, new and old: each is opened once, in the order given, and the log remembers it.
    anna--1.npz and anna--2.npz are entries of anna; NAME=FILE says whose a file is. Metric, share,
    distance and confidence are fixed by the first run.
    """
    from truerank import organise
    from truerank.cli.outputs import check_targets
    from truerank.cli.printing import print_form, ruled
    from truerank.files import write_text

    kept = Path(f"{task}.log") if log is None else log
    if output is not None and output.suffix.lower() not in ENDINGS:
        raise InputError(f"-o writes .html, .md or .json here. Got {output.name!r}.")
    files = tuple(entry.path for entry in organise.list_entries(submissions))
    check_targets({"-o": output, "--log": kept}, (task, options["choose"], *files))
    with progress_bar("ranking") as progress:
        board = organise.leaderboard(task, submissions, log=kept, progress=progress, **options)
    forms = {
        "table": lambda: board.to_text(rule=ruled()),
        "json": board.to_json,
        "markdown": board.to_markdown,
        "html": board.to_html,
    }
    if output is not None:
        write_text(output, forms[ENDINGS[output.suffix.lower()]]())
    print_form(form, forms)
