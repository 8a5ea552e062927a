"""`truerank plot`: a curve of saved results as a figure."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PATH, examples, metrics_option
from truerank.errors import InputError

__all__ = ["plot"]

EXAMPLES = examples(
    "plot result.json --curve roc -o roc.pdf",
    "plot a.json b.json --curve det -o det.pdf --names old,new",
    "plot result.json --curve cmc -o cmc.svg --band simultaneous",
    "plot --runs 'a-*.json' --runs 'b-*.json' -m map@r -o runs.pdf",
)
KINDS = (".pdf", ".svg", ".png")


@click.command(epilog=EXAMPLES, short_help="Draw a curve of results, or their scores.")
@click.argument("results", nargs=-1, type=PATH)
@click.option("--curve", help="Which: roc, det, pr, cmc, dir, mrep, utility, ...")
@click.option(
    "--runs",
    multiple=True,
    help="A model by several runs that differ in their seed: FILE,FILE,... or a pattern in quotes, "
    "'a-*.json' (repeat per model).",
)
@metrics_option("Draw the models' scores in this metric, with their intervals and runs.")
@click.option("-o", "--output", type=PATH, required=True, help="The figure (.pdf, .svg, .png).")
@click.option("--names", help="Names of the models, separated by commas: RESULTS, then --runs.")
@click.option(
    "--band",
    type=click.Choice(("pointwise", "simultaneous", "none")),
    default="pointwise",
    show_default=True,
    help="The confidence band of a curve: of each point, of the whole curve, or none.",
)
@click.option("--marks/--no-marks", default=True, help="Mark where scores were taken on a curve.")
def plot(
    results: tuple[Path, ...],
    curve: str | None,
    runs: tuple[str, ...],
    metrics: str | None,
    output: Path,
    names: str | None,
    band: str,
    marks: bool,
) -> None:
    """Draw a curve of RESULTS, JSON files that evaluate -o wrote, or their scores, as one figure.

    Their curves come with the metrics that were asked for: roc, det and pr with those of
    verification, dir with dir, mrep and others with GOM's; cmc comes always. Scores are drawn per
    model: the mean of its runs, its interval, and a dot for each run.
    """
    from truerank import comparison, plots
    from truerank.cli.inputs import read_runs, split_metrics
    from truerank.cli.outputs import check_targets
    from truerank.plots.runs import plot_runs, size_of
    from truerank.plots.saving import save_figure
    from truerank.plots.style import check_matplotlib

    check_matplotlib()
    if output.suffix.lower() not in KINDS:
        raise InputError(f"-o writes {', '.join(KINDS)}. Got {output.name!r}.")
    if (curve is None) == (metrics is None and not runs):
        raise InputError("pass --curve NAME for a curve, or -m METRIC for scores (with --runs).")
    models = read_runs(results, runs)
    files = (path for one in models for path in (one if isinstance(one, list) else [one]))
    check_targets({"-o": output}, tuple(files))
    given = None if names is None else [name.strip() for name in names.split(",")]
    from matplotlib.figure import Figure

    if curve is None:
        asked = None if metrics is None else split_metrics(metrics)
        compared = comparison.compare(*models, names=given, metrics=asked)
        figure = Figure(figsize=size_of(len(models)), layout="constrained")
        plot_runs(compared, ax=figure.subplots())
        save_figure(figure, output)
        return
    axes = Figure(figsize=plots.SIZE, layout="constrained").subplots()
    display = plots.plot(
        list(results), curve, names=given, ax=axes, band=None if band == "none" else band,
        marks=marks,
    )  # fmt: skip
    save_figure(display.figure_, output)
