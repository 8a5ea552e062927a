"""`truerank evaluate`: the options, and what is done in which order; `evaluate_files` does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truerank.cli.kinds import Written
from truerank.cli.options import (
    PATH,
    WORST,
    Labelled,
    adjusted_option,
    average_option,
    by_option,
    confidence_option,
    device_option,
    distance_option,
    examples,
    file_options,
    format_option,
    metrics_option,
    no_intervals_option,
    no_mate_option,
    output_option,
    per_query_option,
    report_option,
    seed_option,
    threads_option,
    units_option,
    worst_option,
)
from truerank.errors import InputError
from truerank.progress import progress_bar

__all__ = ["evaluate"]

EXAMPLES = examples(
    "evaluate embeddings.npy --labels labels.csv",
    "evaluate embeddings.npy --labels labels.csv -m map@r,hit@10 -o result.json",
    "evaluate query.npy --labels query.csv --gallery gallery.npy --gallery-labels gallery.csv",
    "evaluate embeddings.npz --by label --worst 20",
    "evaluate embeddings.npz --gallery-sizes 100,1000 --extrapolate 1000000",
    "evaluate embeddings.npy --labels labels.csv --report page.html --images photos",
    "evaluate embeddings.npy --labels labels.csv --cluster auto",
    "evaluate embeddings.npz --relevance judgements.qrels --format latex -o table.tex",
)
IMAGES = (
    "Pictures for --report: a folder of files named by the rows' ids, or the column of the labels "
    "file that holds their paths."
)


@click.command(cls=Labelled, epilog=EXAMPLES, short_help="Score embeddings against labels.")
@file_options
@click.option(
    "--task", "task_file", type=PATH, help="A saved task; what is shown names no single query."
)
@click.option(
    "--full",
    type=Written(".json"),
    help="With --task: the full result, which gives the labels away, for the organiser (.json).",
)
@distance_option(told=True)
@metrics_option("Such as map@r,hit@10 (divided by spaces or commas), or all; may be repeated.")
@average_option
@no_mate_option
@device_option
@threads_option
@click.option(
    "--cluster",
    help="Have a Ray cluster make the passes: auto for the one that runs here, or an address such "
    "as head:6379.",
)
@confidence_option
@no_intervals_option
@seed_option
@units_option
@click.option(
    "--gallery-sizes",
    metavar="N,N,...",
    help="Show the scores in smaller galleries as well: exact means over all of these sizes.",
)
@click.option(
    "--extrapolate",
    metavar="N,N,...",
    help="Show as well what a fit expects of larger galleries; its stated error is no bound.",
)
@adjusted_option
@by_option
@worst_option
@format_option()
@output_option()
@per_query_option
@report_option
@click.option("--images", help=IMAGES)
@click.option(
    "--checkpoint", type=PATH, help="File for the counts so far; OUTPUT.checkpoint by default."
)
@click.option("--resume", is_flag=True, help="Go on from the checkpoint of an interrupted run.")
def evaluate(
    form: str,
    output: Path | None,
    per_query: Path | None,
    report: Path | None,
    images: str | None,
    full: Path | None,
    no_intervals: bool,
    adjusted: bool,
    by: str | None,
    worst: int | None,
    extrapolate: str | None,
    checkpoint: Path | None,
    resume: bool,
    **options: Any,
) -> None:
    """Score EMBEDDINGS (.npy, .npz, .pt, .safetensors, .parquet, .csv, a manifest) against labels.

    Labels come from a CSV (columns label and optionally group, id, level1, level2, ...), an array
    file, or the embeddings file itself. Without a gallery each row is searched among all others.
    """
    from truerank.cli import outputs, printing
    from truerank.cli.evaluate_files import evaluate_files
    from truerank.cli.inputs import whole_numbers
    from truerank.cli.report import prepare_report, write_report
    from truerank.organise import public_result
    from truerank.parts import Parts

    hidden = options["task_file"] is not None
    if full is not None and not hidden:
        raise InputError("--full goes with --task; the result of labels is full as it is, in -o.")
    if by is not None and hidden and full is None:
        raise InputError("--by shows the classes of a hidden task; pass --full FILE to have that.")
    if per_query is not None and hidden and full is None:
        raise InputError(
            "--per-query shows the classes of a hidden task; pass --full FILE to have that."
        )
    if options["gallery_sizes"] is not None and hidden and full is None:
        raise InputError(
            "--gallery-sizes tells at which ranks the mates of a hidden task are, as a curve does; "
            "pass --full FILE to have that there."
        )
    inputs = tuple(value for value in options.values() if isinstance(value, Path))
    targets = {"-o": output, "--per-query": per_query, "--report": report, "--full": full}
    outputs.check_targets(targets, inputs)
    pictures = prepare_report(report, images, options)
    beyond = whole_numbers("--extrapolate", extrapolate)
    asked = options["gallery_sizes"] = whole_numbers("--gallery-sizes", options["gallery_sizes"])
    if worst is not None and by is None:
        raise InputError("--worst says how many parts to show; say by what with --by.")
    if no_intervals:
        options["confidence"] = None
    with (
        outputs.checkpointed(
            checkpoint, resume, output, (per_query, report, full, *inputs)
        ) as kept,
        progress_bar("ranking", "pairs" if options["cluster"] else None) as progress,
    ):
        result, names = evaluate_files(
            progress=progress,
            checkpoint=kept,
            first_found=per_query is not None,
            fitted=bool(beyond),
            **options,
        )
    foretold = [str(result.extrapolate(size)) for size in beyond]
    parts = None if by is None else Parts.of_result(result, by, worst or WORST)
    if per_query is not None:
        outputs.write_per_query(result, names, per_query)
    if full is not None:
        result.to_json(full)
    shown = public_result(result) if hidden else result
    if report is not None:
        write_report(shown, report, options["embeddings"], pictures)
    printing.deliver(shown, form, output, adjusted, parts, asked)
    for text in foretold if form == "table" else ():
        click.echo(f"\n{text}")
