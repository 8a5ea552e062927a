"""`truerank threshold`: one threshold for a rate of errors, and what it costs class by class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truerank.cli.kinds import Written
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
    "threshold calib.npz --far 0.01,0.001 --card card.html --further other.npz",
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
@click.option(
    "--card",
    type=Written(".html", ".md", ".txt", ".json"),
    help="Write one page about it (.html, .md, .txt, .json): a threshold for each of several "
    "FARs of --far (0.1,0.01), its FAR as the gallery grows, the worst classes.",
)
@click.option(
    "--further",
    type=PATH,
    multiple=True,
    help="With --card: a further set, labels inside, to judge the thresholds on; may be repeated.",
)
@click.option(
    "--gallery-sizes", metavar="N,N,...", help="With --card: sizes at which FAR and DIR are told."
)
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
    card: Path | None,
    further: tuple[Path, ...],
    gallery_sizes: str | None,
    by_class: bool,
    form: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Choose one threshold on CALIBRATION for a rate of errors, and say what it leads to.

    Labels are files as for evaluate; of several levels only the finest counts. CSV holds the rates
    of every class.
    """
    from truerank.cards import check_ending
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
    if card is not None:
        check_ending(card)
        if output is not None or options["frr"] is not None or apply_gallery is not None:
            raise InputError(
                "--card goes with --far alone: leave -o, --frr and --apply-gallery out."
            )
    outputs.check_targets(
        {"-o": output, "--card": card}, tuple(path for pair in files.values() for path in pair)
    )
    names = level_names(levels)
    sides: dict[str, Bundle] = {}
    for name, (path, its_labels) in files.items():
        option = f"--{name}-labels" if name else "--labels"
        if path is None and its_labels is not None:
            raise InputError(f"{option} came without --{name}.")
        sides[name] = Bundle() if path is None else read_side(path, its_labels, names, option)
    expand(taxonomy, *sides.values())
    if card is not None:
        _write_card(card, sides, further, gallery_sizes, options, calibration)
        return
    if further or gallery_sizes is not None:
        raise InputError("--further and --gallery-sizes go with --card.")
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


def _write_card(
    path: Path,
    sides: dict[str, Any],
    further: tuple[Path, ...],
    gallery_sizes: str | None,
    options: dict[str, Any],
    calibration: Path,
) -> None:
    """Write a card, and print it."""
    from truerank.cards import threshold_card
    from truerank.cli.inputs import read_side, whole_numbers

    others = {}
    for one in further:
        side = read_side(one, None, None, "a column label or an array labels in")
        others[one.stem] = (side.embeddings, side.labels)
    found = threshold_card(
        sides[""].embeddings,
        sides[""].labels,
        fars=str(options["far"]).split(","),
        gallery=sides["gallery"].embeddings,
        gallery_labels=sides["gallery"].labels,
        apply=sides["apply"].embeddings,
        apply_labels=sides["apply"].labels,
        further=others,
        gallery_sizes=whole_numbers("--gallery-sizes", gallery_sizes) or None,
        distance=options["distance"],
        device=options["device"],
        threads=options["threads"],
        title=f"Thresholds for {calibration.stem}",
    )
    found.write(path)
    click.echo(found.to_text().rstrip("\n"))
