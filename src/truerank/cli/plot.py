"""`truerank plot`: a curve of saved results as a figure."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PATH, examples
from truerank.errors import InputError

__all__ = ["plot"]

EXAMPLES = examples(
    "plot result.json --curve roc -o roc.pdf",
    "plot a.json b.json --curve det -o det.pdf --names old,new",
    "plot result.json --curve cmc -o cmc.svg --band simultaneous",
)
KINDS = (".pdf", ".svg", ".png")


@click.command(epilog=EXAMPLES, short_help="Draw a curve of results.")
@click.argument("results", nargs=-1, required=True, type=PATH)
@click.option("--curve", required=True, help="Which: roc, det, pr, cmc, dir, mrep, utility, ...")
@click.option("-o", "--output", type=PATH, required=True, help="The figure (.pdf, .svg, .png).")
@click.option("--names", help="Names of the models, separated by commas.")
@click.option(
    "--band",
    type=click.Choice(("pointwise", "simultaneous", "none")),
    default="pointwise",
    show_default=True,
    help="The confidence band: of each point, of the whole curve, or none.",
)
@click.option("--marks/--no-marks", default=True, help="Mark where scores were taken.")
def plot(
    results: tuple[Path, ...],
    curve: str,
    output: Path,
    names: str | None,
    band: str,
    marks: bool,
) -> None:
    """Draw a curve of RESULTS, JSON files that evaluate -o wrote, into one figure.

    Their curves come with the metrics that were asked for: roc, det and pr with those of
    verification, dir with dir, mrep and others with GOM's; cmc comes always.
    """
    from truerank import plots
    from truerank.cli.outputs import check_targets
    from truerank.plots.saving import save_figure
    from truerank.plots.style import check_matplotlib

    check_matplotlib()
    if output.suffix.lower() not in KINDS:
        raise InputError(f"-o writes {', '.join(KINDS)}. Got {output.name!r}.")
    check_targets({"-o": output}, results)
    from matplotlib.figure import Figure

    axes = Figure(figsize=plots.SIZE, layout="constrained").subplots()
    display = plots.plot(
        list(results),
        curve,
        names=None if names is None else [name.strip() for name in names.split(",")],
        ax=axes,
        band=None if band == "none" else band,
        marks=marks,
    )
    save_figure(display.figure_, output)
