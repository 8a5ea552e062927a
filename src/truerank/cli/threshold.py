"""`truerank threshold`: one threshold for a rate of errors, and what it costs class by class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truerank.cli.options import (
    PATH,
    Labelled,
    device_option,
    distance_option,
    examples,
    format_option,
    label_options,
    output_option,
    threads_option,
)
from truerank.errors import InputError

__all__ = ["threshold"]

FORMS = ("table", "json", "csv")
EXAMPLES = examples(
    "threshold calib.npz --far 0.001 --apply test.npz",
    "threshold calib.npy --labels calib.csv --frr 0.05 --by-class -o classes.csv",
    "threshold probes.npz --gallery gallery.npz --far 0.01",
)


@click.command(cls=Labelled, epilog=EXAMPLES, short_help="Choose a threshold for a rate of errors.")
@click.argument("calibration", type=PATH)
@click.option("--labels", type=PATH, help="Labels of the calibration set.")
@click.option("--gallery", type=PATH, help="Embeddings that the set searches in (1:N).")
@click.option("--gallery-labels", type=PATH, help="Labels of the gallery.")
@label_options
@click.option(
    "--far",
    metavar="RATE",
    help="Share of pairs of two classes that may be accepted; with --gallery, of queries without "
    "a mate that may accept any item.",
)
@click.option(
    "--frr",
    metavar="RATE",
    help="Instead, share of pairs of one class that may be rejected; with --gallery, of queries "
    "whose mate may be missed.",
)
@click.option("--apply", "apply_to", type=PATH, help="Judge it on this set.")
@click.option("--apply-labels", type=PATH, help="Labels of that set.")
@click.option("--apply-gallery", type=PATH, help="What that set searches in, if another gallery.")
@click.option("--apply-gallery-labels", type=PATH, help="Labels of that gallery.")
@click.option("--by-class", is_flag=True, help="Show what one threshold costs class by class.")
@distance_option()
@device_option
@threads_option
@format_option(FORMS)
@output_option(FORMS)
def threshold(
    calibration: Path,
    labels: Path | None,
    gallery: Path | None,
    gallery_labels: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    apply_to: Path | None,
    apply_labels: Path | None,
    apply_gallery: Path | None,
    apply_gallery_labels: Path | None,
    by_class: bool,
    form: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Choose one threshold on CALIBRATION for a rate of errors, and say what it leads to.

    Labels are files as for evaluate; of several levels only the finest counts. CSV holds the rates
    of every class.
    """
    from truerank.cli import outputs, printing
    from truerank.cli.inputs import expand, level_names, read_side
    from truerank.files import Bundle
    from truerank.threshold import choose_threshold

    if options["far"] is None and options["frr"] is None:
        raise InputError("the target is missing: pass --far or --frr.")
    files = {
        "": (calibration, labels),
        "gallery": (gallery, gallery_labels),
        "apply": (apply_to, apply_labels),
        "apply-gallery": (apply_gallery, apply_gallery_labels),
    }
    outputs.check_targets({"-o": output}, tuple(path for pair in files.values() for path in pair))
    printing.check_form(output, form, FORMS)
    names = level_names(levels)
    sides: dict[str, Bundle] = {}
    for name, (path, its_labels) in files.items():
        option = f"--{name}-labels" if name else "--labels"
        if path is None and its_labels is not None:
            raise InputError(f"{option} came without --{name}.")
        sides[name] = Bundle() if path is None else read_side(path, its_labels, names, option)
    expand(taxonomy, *sides.values())
    point = choose_threshold(
        sides[""].embeddings,
        sides[""].labels,
        gallery=sides["gallery"].embeddings,
        gallery_labels=sides["gallery"].labels,
        apply=sides["apply"].embeddings,
        apply_labels=sides["apply"].labels,
        apply_gallery=sides["apply-gallery"].embeddings,
        apply_gallery_labels=sides["apply-gallery"].labels,
        **options,
    )
    forms = {
        "table": lambda: point.to_text(by_class=by_class, rule=printing.ruled()),
        "json": point.to_json,
        "csv": point.to_csv,
    }
    if output is not None:
        printing.write_form(output, form, forms)
    printing.print_form(form, forms)
