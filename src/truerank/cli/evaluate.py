"""`truerank evaluate`: the options, and what is done in which order; `evaluate_files` does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truerank.cli.options import (
    PATH,
    confidence_option,
    distance_option,
    format_option,
    label_options,
    metrics_option,
    output_option,
    threads_option,
)
from truerank.progress import progress_bar

__all__ = ["evaluate"]


@click.command()
@click.argument("embeddings", type=PATH)
@click.option("--labels", type=PATH, help="Labels of the rows.")
@click.option("--gallery", type=PATH, help="Embeddings to search in.")
@click.option("--gallery-labels", type=PATH, help="Labels of the gallery.")
@label_options
@click.option("--task", "task_file", type=PATH, help="A saved task.")
@click.option("--junk-label", multiple=True, help="Exclude gallery items of this label.")
@distance_option(
    lambda catalogue: [f"{name} ({catalogue.find(name).help})" for name in catalogue.names()]
)
@metrics_option("Such as map@r,hit@10 (divided by spaces or commas), or all; may be repeated.")
@click.option("--average", default="query", show_default=True, help="Mean over query or class.")
@click.option("--no-mate", help="report (default), zero or error.")
@click.option("--unlabelled", help="error (default) or distractor.")
@click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda or reference (numpy)."
)
@threads_option
@confidence_option
@click.option("--no-intervals", is_flag=True, help="Compute no intervals.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the intervals.")
@click.option("--adjusted", is_flag=True, help="Show (score - chance)/(best - chance) as well.")
@format_option()
@output_option("Write the result as JSON.")
@click.option("--per-query", type=PATH, help="Write .csv or .parquet.")
@click.option(
    "--checkpoint", type=PATH, help="File for the counts so far; OUTPUT.checkpoint by default."
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
    from truerank.cli import outputs
    from truerank.cli.evaluate_files import evaluate_files
    from truerank.cli.printing import print_result

    inputs = tuple(
        options[name] for name in ("embeddings", "labels", "gallery", "gallery_labels", "task_file")
    )
    outputs.check_targets(output, per_query, inputs)
    if no_intervals:
        options["confidence"] = None
    with (
        outputs.checkpointed(checkpoint, resume, output, (per_query, *inputs)) as kept,
        progress_bar("ranking") as progress,
    ):
        result, names = evaluate_files(progress=progress, checkpoint=kept, **options)
    if output is not None:
        result.to_json(output)
    if per_query is not None:
        outputs.write_per_query(result, names, per_query)
    print_result(result, form, adjusted)
