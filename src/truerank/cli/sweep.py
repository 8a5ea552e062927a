"""`truerank sweep`: how small a copy of embeddings may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truerank.cli.options import (
    Labelled,
    average_option,
    confidence_option,
    device_option,
    distance_option,
    examples,
    file_options,
    format_option,
    metrics_option,
    no_mate_option,
    output_option,
    seed_option,
    threads_option,
    units_option,
)
from truerank.errors import InputError
from truerank.progress import progress_bar

__all__ = ["sweep"]

EXAMPLES = examples(
    "sweep embeddings.npy --labels labels.csv --dims 64,128,256",
    "sweep embeddings.npz --dims 128 --dtypes int8,binary --margin 0.01 -m map@r,hit@1",
    "sweep query.npy --labels query.csv --gallery gallery.npy --gallery-labels gallery.csv "
    "-o sweep.csv",
)

OF_SCORES = ("distance", "average", "device", "threads", "confidence", "units", "seed")
"""Options that say how copies are scored; the others make the task."""


@click.command(
    cls=Labelled, epilog=EXAMPLES, short_help="Find the smallest copy that is not worse."
)
@file_options
@click.option("--dims", help="Prefixes to try beside all dimensions, such as 64,128,256.")
@click.option(
    "--dtypes",
    default="float16,int8,binary",
    show_default=True,
    help="What components become; prefixes are tried as they are stored, too.",
)
@click.option(
    "--margin",
    type=float,
    default=0.005,
    show_default=True,
    help="How much a copy may lose: half a point by default.",
)
@distance_option(lambda catalogue: [n for n in catalogue.names(points=True) if n != "hamming"])
@metrics_option("Such as map@r,hit@1; map@r if left out. A copy must not be worse in any.")
@average_option
@no_mate_option
@device_option
@threads_option
@confidence_option
@units_option
@seed_option
@format_option()
@output_option()
def sweep(
    form: str,
    output: Path | None,
    dims: str | None,
    dtypes: str,
    margin: float,
    metrics: str | None,
    **given: Any,
) -> None:
    """Evaluate smaller copies of EMBEDDINGS, and name the smallest that is not worse.

    Copies are the first dimensions, with components as they are, in float16, in int8 (one scale a
    dimension) or as signs (hamming distance). A copy is not worse if the interval of its paired
    difference from the original stays above minus the margin.
    """
    from truerank.cli import inputs, outputs, printing
    from truerank.cli.evaluate_files import read_task
    from truerank.compression import sweep_task

    files = tuple(value for value in given.values() if isinstance(value, Path))
    outputs.check_targets({"-o": output}, files)
    prefixes = None if dims is None else [_number(part) for part in dims.split(",")]
    options = {name: given.pop(name) for name in OF_SCORES}
    with progress_bar("sweeping") as progress:
        task, rows, items, _ = read_task(**given, distance=options["distance"])
        found = sweep_task(
            task,
            rows,
            items,
            dims=prefixes,
            dtypes=[part.strip() for part in dtypes.split(",")],
            margin=margin,
            metrics=inputs.chosen_metrics(metrics),
            progress=progress,
            **options,
        )
    forms = {
        "table": lambda: found.to_text(rule=printing.ruled()),
        "json": found.to_json,
        "csv": found.to_csv,
        "markdown": found.to_markdown,
        "latex": found.to_latex,
    }
    if output is not None:
        printing.write_form(output, form, forms)
    printing.print_form(form, forms)


def _number(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 9:
        raise InputError(f"--dims takes whole numbers, such as 64,128,256. Got {text.strip()!r}.")
    return int(text)
