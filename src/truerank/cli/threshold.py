"""`truerank threshold`: one threshold for a rate of errors, and what it costs class by class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from truerank.cli.kinds import Written
from truerank.cli.options import (
    PATH,
    Labelled,
    device_option,
    distance_option,
    examples,
    format_option,
    id_options,
    output_option,
    task_options,
    threads_option,
)
from truerank.errors import InputError

if TYPE_CHECKING:
    from truerank.threshold import OperatingPoint
    from truerank.threshold.judged import Trials

__all__ = ["threshold"]

FORMS = ("table", "json", "csv")
EXAMPLES = examples(
    "threshold calib.npz --far 0.001 --apply test.npz",
    "threshold calib.npy --labels calib.csv --frr 0.05 --by-class -o classes.csv",
    "threshold probes.npz --gallery gallery.npz --far 0.01 --junk-label=-1",
    "threshold matrix.npy --labels probes.npz --gallery-labels gallery.npz --distance precomputed "
    "--far 0.01",
    "threshold scores.npy --pairs trials.txt --far 0.001 --apply other.npy --apply-pairs other.txt",
    "threshold calib.npz --far 0.01,0.001 --card card.html --further other.npz",
)
OF_A_SET = ("embeddings", "labels", "ids", "groups")
OF_A_GALLERY = ("gallery", "gallery_labels", "gallery_ids", "gallery_groups")
"""Files of the queries and of the gallery of a set."""
RULES = ("levels", "taxonomy", "relevance", "junk_label", "unlabelled", "distance")


@click.command(cls=Labelled, epilog=EXAMPLES, short_help="Choose a threshold for a rate of errors.")
@click.argument("embeddings", metavar="CALIBRATION", type=PATH)
@task_options
@click.option(
    "--far",
    metavar="RATE",
    help="Share of negative pairs that may be accepted; with --gallery, of unmated queries that "
    "may accept any item.",
)
@click.option(
    "--frr",
    metavar="RATE",
    help="Instead, share of positive pairs that may be rejected; with --gallery, of mated queries "
    "that may not find and accept a relevant item.",
)
@click.option("--apply", "apply_embeddings", type=PATH, help="Judge it on this set.")
@click.option("--apply-labels", type=PATH, help="Labels of that set.")
@click.option("--apply-gallery", type=PATH, help="What that set searches in, if another gallery.")
@click.option("--apply-gallery-labels", type=PATH, help="Labels of that gallery.")
@id_options("rows", "--apply-")
@click.option(
    "--pairs",
    type=PATH,
    help="A list of trials, as for verify: the only pairs, of which CALIBRATION holds scores or "
    "embeddings.",
)
@click.option("--apply-pairs", type=PATH, help="Judge it on this list of trials.")
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
    far: str | None,
    frr: str | None,
    card: Path | None,
    further: tuple[Path, ...],
    gallery_sizes: str | None,
    by_class: bool,
    form: str,
    output: Path | None,
    pairs: Path | None,
    apply_pairs: Path | None,
    **options: Any,
) -> None:
    """Choose one threshold on CALIBRATION for a rate of errors, and say what it leads to.

    Files and rules are those of evaluate: pairs of rows that share an id and junk (cameras, junk
    labels) count in no rate. Of several levels of labels only the finest counts. A precomputed
    matrix with --gallery-labels is a search. CSV holds the rates of every class.
    """
    from truerank.cli import outputs
    from truerank.threshold import choose, target_of

    if far is None and frr is None:
        raise InputError("the target is missing: pass --far or --frr.")
    if card is not None:
        if output is not None or frr is not None or options["apply_gallery"] is not None:
            raise InputError(
                "--card goes with --far alone: leave -o, --frr and --apply-gallery out."
            )
    elif further or gallery_sizes is not None:
        raise InputError("--further and --gallery-sizes go with --card.")
    if by_class and options["relevance"] is not None:
        raise InputError("--by-class needs labels; --relevance names no classes.")
    inputs = tuple(value for value in options.values() if isinstance(value, Path))
    inputs += tuple(path for path in (pairs, apply_pairs) if path is not None)
    outputs.check_targets({"-o": output, "--card": card}, (*inputs, *further))
    if pairs is not None or apply_pairs is not None:
        csv = "csv" in (form, "" if output is None else output.suffix.lower()[1:])
        if card is not None or by_class or csv:
            raise InputError(
                "a list of trials has no classes: leave --card, --by-class and CSV out."
            )
        _deliver(_on_lists(pairs, apply_pairs, options, far=far, frr=frr), False, form, output)
        return
    given = {name: options[name] for name in (*OF_A_SET, *OF_A_GALLERY)}
    applied = {name: options[f"apply_{name}"] for name in given}
    chosen_on, judged_on = _read(given, options), None
    if applied["embeddings"] is not None:
        if all(applied[name] is None for name in OF_A_GALLERY):
            applied |= {name: given[name] for name in OF_A_GALLERY}
        judged_on = _read(applied, options, start="--apply-", needed="--apply-labels")
    for name, path in applied.items() if judged_on is None else ():
        if path is not None:
            raise InputError(f"--apply-{name.replace('_', '-')} came without --apply.")
    if card is not None:
        title = f"Thresholds for {given['embeddings'].stem}"
        inside = "a column label or an array labels in"
        others = {}
        for path in further:
            one = given | dict.fromkeys(OF_A_SET) | {"embeddings": path}
            others[path.stem] = _read(one, options, needed=inside)
        _write_card(card, chosen_on, judged_on, others, str(far), gallery_sizes, title)
        return
    point = choose(chosen_on, *target_of(far, frr), judged_on)
    _deliver(point, by_class, form, output)


def _deliver(point: OperatingPoint, by_class: bool, form: str, output: Path | None) -> None:
    """Write a point to a file, if one is asked for, and print it."""
    from truerank.cli import printing

    forms = {
        "table": lambda: point.to_text(by_class=by_class, rule=printing.ruled()),
        "json": point.to_json,
        "csv": point.to_csv,
    }
    if output is not None:
        printing.write_form(output, form, forms)
    printing.print_form(form, forms)


def _on_lists(
    pairs: Path | None, apply_pairs: Path | None, options: dict[str, Any], **target: Any
) -> OperatingPoint:
    """Choose a threshold on a list of trials, by the options that lists have."""
    from truerank.cli.inputs import read_ids
    from truerank.threshold import choose_threshold

    known = {"embeddings", "labels", "ids", "apply_embeddings", "apply_labels", "distance"}
    usual = (None, (), False, "auto")
    for name, value in options.items():
        if name not in known and value not in usual:
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{option} is of a set in which all pairs are compared; with --pairs pass --ids, "
                "--labels and --distance alone."
            )
    asked = click.get_current_context().get_parameter_source("distance")
    said = asked is click.core.ParameterSource.COMMANDLINE  # else by what the file holds
    return choose_threshold(
        options["embeddings"],
        options["labels"],
        query_ids=None if options["ids"] is None else read_ids(options["ids"]),
        apply=options["apply_embeddings"],
        apply_labels=options["apply_labels"],
        pairs=pairs,
        apply_pairs=apply_pairs,
        distance=options["distance"] if said else None,
        **target,
    )


def _read(
    files: dict[str, Any],
    options: dict[str, Any],
    *,
    start: str = "--",
    needed: str = "--labels",
) -> Trials:
    """Read the trials of one set of files, under the rules of all of them."""
    from truerank.cli.evaluate_files import read_task
    from truerank.threshold import trials_of

    rules = {name: options[name] for name in RULES}
    try:
        found = read_task(**files, **rules, start=start, needed=needed)
        computing = {name: options[name] for name in ("distance", "device", "threads")}
        return trials_of(found.task, found.rows, found.items, computing)
    except InputError as error:
        if files["embeddings"] == options["embeddings"]:
            raise
        raise InputError(f"{files['embeddings']}: {error}") from error


def _write_card(
    path: Path,
    chosen_on: Trials,
    judged_on: Trials | None,
    further: dict[str, Trials],
    fars: str,
    gallery_sizes: str | None,
    title: str,
) -> None:
    """Write a card, and print it."""
    from truerank.cards import card_of
    from truerank.cli.inputs import whole_numbers

    found = card_of(
        chosen_on,
        judged_on,
        further,
        targets=fars.split(","),
        gallery_sizes=whole_numbers("--gallery-sizes", gallery_sizes) or None,
        title=title,
    )
    found.write(path)
    click.echo(found.to_text().rstrip("\n"))
