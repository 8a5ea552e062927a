"""`truerank verify`: a list of trials, by their scores or by embeddings."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.kinds import DistanceName
from truerank.cli.options import (
    PATH,
    confidence_option,
    examples,
    format_option,
    metrics_option,
    output_option,
)

__all__ = ["verify"]

EXAMPLES = examples(
    "verify scores.txt --pairs trials.csv",
    "verify embeddings.npz --pairs pairs.txt --layout lfw -m eer,tar@far=0.001",
    "verify --pairs trials-with-scores.csv --format csv -o result.csv",
)


@click.command(epilog=EXAMPLES, short_help="Score a list of trials.")
@click.argument("scores_or_embeddings", required=False, type=PATH)
@click.option("--pairs", required=True, type=PATH, help="The trials.")
@click.option(
    "--layout",
    type=click.Choice(("auto", "lfw", "voxceleb", "ijb", "csv")),
    default="auto",
    show_default=True,
    help="Of the trials; csv has the columns left, right, same and maybe score.",
)
@click.option("--ids", type=PATH, help="File with a column id.")
@click.option(
    "--distance",
    type=DistanceName(lambda catalogue: catalogue.names()),
    help="As in evaluate; for scores similarity (default) or precomputed.",
)
@metrics_option("Such as eer,tar@far=0.001, or all.")
@confidence_option
@format_option()
@output_option()
def verify(
    scores_or_embeddings: Path | None,
    pairs: Path,
    layout: str,
    ids: Path | None,
    distance: str | None,
    metrics: str | None,
    confidence: float,
    form: str,
    output: Path | None,
) -> None:
    """Score a list of trials by SCORES_OR_EMBEDDINGS (nothing if the list has scores).

    A one-dimensional array or a text file with a number a line holds scores, one for each trial; a
    matrix holds embeddings, whose ids are in the same file or in --ids. An id that is a path is
    also found by its file's name, so that what truerank embed makes of LFW's folders fits its
    pairs.txt:

    \b
        truerank embed best.pt lfw -o lfw.npz
        truerank verify lfw.npz --pairs pairs.txt
    """
    from truerank import verification
    from truerank.cli import inputs, outputs, printing
    from truerank.files.trials import read_trials

    outputs.check_targets({"-o": output}, (scores_or_embeddings, pairs, ids))
    trials = read_trials(pairs, layout)
    values, names = None, None
    if scores_or_embeddings is not None:
        values = inputs.read_scores(scores_or_embeddings)
        values = scores_or_embeddings if values is None else values
    if ids is not None:
        names = inputs.read_ids(ids)
    chosen = inputs.chosen_metrics(metrics)
    result = verification.verify(
        values, trials, chosen, ids=names, distance=distance, confidence=confidence
    )
    printing.deliver(result, form, output)
