"""`truerank audit`: what could make a score of a file of embeddings lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truerank.cli.options import (
    PATH,
    distance_option,
    examples,
    format_option,
    label_options,
    output_option,
    threads_option,
)
from truerank.errors import InputError
from truerank.progress import progress_bar

__all__ = ["audit"]

FORMS = ("table", "json")
EXAMPLES = examples(
    "audit embeddings.npy --labels labels.csv",
    "audit embeddings.npy --labels labels.csv --train train.npy -o audit.json",
)


@click.command(epilog=EXAMPLES, short_help="Look for what could make a score lie.")
@click.argument("embeddings", type=PATH)
@click.argument("labels", required=False, type=PATH)
@click.option("--labels", "named", type=PATH, help="LABELS, by name.")
@label_options
@click.option("--train", type=PATH, help="Embeddings of the training rows.")
@distance_option(lambda catalogue: catalogue.names(points=True))
@threads_option
@click.option("--seed", type=int, default=0, show_default=True, help="Of what is sampled.")
@format_option(FORMS)
@output_option(FORMS)
def audit(
    embeddings: Path,
    labels: Path | None,
    named: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    train: Path | None,
    form: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Look for what could make a score of EMBEDDINGS lie: duplicates, leaks, collapse, ties.

    LABELS is a file as for evaluate; without it the embeddings file may hold them. Classes are
    those of the finest level.
    """
    from truerank import auditing, files
    from truerank.cli import inputs, outputs, printing

    if labels is not None and named is not None:
        raise InputError("labels are given twice: as an argument and by --labels.")
    labels = labels or named
    outputs.check_targets({"-o": output}, (embeddings, labels))
    with progress_bar("looking") as progress:
        side = inputs.read_side(embeddings, labels, inputs.level_names(levels))
        if taxonomy is not None and side.labels is None:
            raise InputError(f"{embeddings} holds no labels for --taxonomy; pass LABELS.")
        inputs.expand(taxonomy, side)
        known = None if train is None else files.require_embeddings(files.read(train), train)
        found = auditing.audit(
            side.embeddings, side.labels, train=known, progress=progress, **options
        )
    forms = {"table": lambda: str(found), "json": found.to_json}
    if output is not None:
        printing.write_form(output, form, forms)
    printing.print_form(form, forms)
