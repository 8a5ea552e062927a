"""`truerank verify`: a list of trials, by their scores or by embeddings."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PATH, format_option, metrics_option, output_option
from truerank.errors import InputError

__all__ = ["verify"]


@click.command()
@click.argument("scores_or_embeddings", required=False, type=PATH)
@click.option("--pairs", required=True, type=PATH, help="The trials.")
@click.option(
    "--layout",
    default="auto",
    show_default=True,
    help="Of the trials: auto, lfw, voxceleb, ijb or csv (columns left, right, same, score).",
)
@click.option("--ids", type=PATH, help="File with a column id.")
@click.option("--distance", help="cosine, ...; for scores similarity (default) or precomputed.")
@metrics_option("Such as eer,tar@far=0.001, or all.")
@format_option()
@output_option("Write the result as JSON.")
def verify(
    scores_or_embeddings: Path | None,
    pairs: Path,
    layout: str,
    ids: Path | None,
    distance: str | None,
    metrics: str | None,
    form: str,
    output: Path | None,
) -> None:
    """Score a list of trials by SCORES_OR_EMBEDDINGS (nothing if the list has scores).

    A one-dimensional array or a text file with a number a line holds scores, one for each trial; a
    matrix holds embeddings, whose ids are in the same file or in --ids.
    """
    from truerank import files, verification
    from truerank.cli import inputs, outputs
    from truerank.cli.printing import print_result
    from truerank.files.trials import read_trials

    outputs.check_targets(output, None, (scores_or_embeddings, pairs, ids))
    trials = read_trials(pairs, layout)
    values, names = None, None
    if scores_or_embeddings is not None:
        values = inputs.read_scores(scores_or_embeddings)
        if values is None:
            bundle = files.read(scores_or_embeddings)
            values, names = inputs.require_embeddings(bundle, scores_or_embeddings), bundle.ids
    if ids is not None:
        names = files.read(ids, lone="labels").ids
        if names is None:
            raise InputError(f"{ids} holds no ids: expected a column or array called id.")
    chosen = inputs.chosen_metrics(metrics)
    result = verification.verify(values, trials, chosen, ids=names, distance=distance)
    if output is not None:
        result.to_json(output)
    print_result(result, form)
