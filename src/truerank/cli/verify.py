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
    report_option,
)
from truerank.errors import InputError

__all__ = ["verify"]

EXAMPLES = examples(
    "verify scores.txt --pairs trials.csv",
    "verify embeddings.npz --pairs pairs.txt --layout lfw -m eer,tar@far=0.001",
    "verify --pairs trials-with-scores.csv --format csv -o result.csv",
    "verify system.scores --pairs trials.kaldi --labels utt2spk.csv -o result.json",
    "verify wespeaker.score --report page.html",
)


@click.command(epilog=EXAMPLES, short_help="Score a list of trials.")
@click.argument("scores_or_embeddings", required=False, type=PATH)
@click.option(
    "--pairs",
    type=PATH,
    help="The trials; not needed where the file of scores says which are true.",
)
@click.option(
    "--layout",
    type=click.Choice(("auto", "lfw", "voxceleb", "ijb", "kaldi", "wespeaker", "csv")),
    default="auto",
    show_default=True,
    help="Of the trials; csv has the columns left, right, same, and maybe score, left_label and "
    "right_label.",
)
@click.option("--ids", type=PATH, help="File with a column id.")
@click.option(
    "--labels",
    type=PATH,
    help="File with the columns id and label: the person of each id, for the intervals.",
)
@click.option(
    "--distance",
    type=DistanceName(lambda catalogue: catalogue.names()),
    help="As in evaluate; for scores similarity (default) or precomputed.",
)
@metrics_option("Such as eer,tar@far=0.001, or all.")
@confidence_option
@format_option()
@output_option()
@report_option
def verify(
    scores_or_embeddings: Path | None,
    pairs: Path | None,
    layout: str,
    ids: Path | None,
    labels: Path | None,
    distance: str | None,
    metrics: str | None,
    confidence: float,
    form: str,
    output: Path | None,
    report: Path | None,
) -> None:
    """Score a list of trials by SCORES_OR_EMBEDDINGS (nothing if the list has scores).

    A one-dimensional array or a text file with a number a line holds scores, one for each trial in
    its order; a text file with lines "enrol test score" is joined to the trials by the pair, and
    one with "enrol test score target" needs no --pairs. A matrix holds embeddings, whose ids are in
    the same file or in --ids. An id that is a path is also found by its file's name, so that what
    truerank embed makes of LFW's folders fits its pairs.txt:

    \b
        truerank embed best.pt lfw -o lfw.npz
        truerank verify lfw.npz --pairs pairs.txt
    """
    from truerank import verification
    from truerank.cli import inputs, outputs, printing
    from truerank.cli.report import prepare_report, write_report

    values = scores_or_embeddings
    named = values or pairs
    if named is None:
        raise InputError("the trials are missing: pass --pairs FILE.")
    outputs.check_targets({"-o": output, "--report": report}, (values, pairs, ids, labels))
    pictures = prepare_report(report, None, {})
    result = verification.verify(
        values,
        pairs,
        inputs.chosen_metrics(metrics),
        ids=None if ids is None else inputs.read_ids(ids),
        labels=labels,
        layout=layout,
        distance=distance,
        confidence=confidence,
    )
    if report is not None:
        write_report(result, report, named, pictures)
    printing.deliver(result, form, output)
