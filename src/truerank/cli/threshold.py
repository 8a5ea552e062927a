"""`truerank threshold`: one threshold for a FAR target, and what it costs class by class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from truerank.cli.options import PATH, format_option, label_options
from truerank.errors import InputError

if TYPE_CHECKING:
    from truerank.threshold import OperatingPoint

__all__ = ["threshold"]


@click.command()
@click.argument("calibration", type=PATH)
@click.option("--labels", type=PATH, help="Labels of the calibration set.")
@label_options
@click.option("--far", required=True, help="Share of pairs of two classes that may be accepted.")
@click.option("--apply", "apply_to", type=PATH, help="Judge it on this set.")
@click.option("--apply-labels", type=PATH, help="Labels of that set.")
@click.option("--by-class", is_flag=True, help="Show what one threshold costs class by class.")
@click.option("--distance", default="cosine", show_default=True, help="As in evaluate.")
@format_option(("table", "json"), show_default=False)
def threshold(
    calibration: Path,
    labels: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    far: str,
    apply_to: Path | None,
    apply_labels: Path | None,
    by_class: bool,
    distance: str,
    form: str,
) -> None:
    """Choose one threshold on CALIBRATION for a FAR target, and say what it leads to.

    Labels are files as for evaluate; of several levels only the finest counts.
    """
    from truerank.cli.inputs import expand, level_names, read_side
    from truerank.files import Bundle
    from truerank.threshold import choose_threshold

    names = level_names(levels)
    first, second = read_side(calibration, labels, names, "--labels"), Bundle()
    if apply_to is not None:
        second = read_side(apply_to, apply_labels, names, "--apply-labels")
    elif apply_labels is not None:
        raise InputError("--apply-labels came without --apply.")
    expand(taxonomy, first, second)
    point = choose_threshold(
        first.embeddings,
        first.labels,
        far=far,
        apply=second.embeddings,
        apply_labels=second.labels,
        distance=distance,
    )
    if form == "json":
        click.echo(json.dumps(point.to_dict(), indent=1))
        return
    click.echo(str(point))
    if by_class:
        click.echo(_class_table(point))


def _class_table(point: OperatingPoint) -> str:
    """The spread over classes, and every class, worst first."""
    lines = ["", "One threshold for all classes:"]
    for name, levels in point.spread().items():
        text = ", ".join(f"{level} {100 * rate:.4g} %" for level, rate in levels.items())
        lines.append(f"  {name.upper()}: {text}")
    above = sum(one.far > point.target for one in point.classes)
    lines.append(
        f"  {above:,} of {len(point.classes):,} classes have a FAR above the target of "
        f"{100 * point.target:g} %"
    )
    width = max(len("class"), *(len(str(one.label)) for one in point.classes))
    lines += ["", f"{'class':<{width}}  {'FRR %':>9}  {'FAR %':>9}"]
    lines += [
        f"{one.label!s:<{width}}  {100 * one.frr:9.4f}  {100 * one.far:9.4f}"
        for one in point.classes
    ]
    return "\n".join(lines)
