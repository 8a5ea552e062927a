"""Commands that draw and show: truerank plot, report and demo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from truerank._util.errors import InputError
from truerank._util.progress import progress_bar
from truerank.cli.options import PAGE, PATH, examples, format_option, metrics_option

# `truerank plot`: a curve of saved results as a figure.


PLOT_EXAMPLES = examples(
    "plot result.json --curve roc -o roc.pdf",
    "plot a.json b.json --curve det -o det.pdf --names old,new",
    "plot result.json --curve cmc -o cmc.svg --band simultaneous",
    "plot --runs 'a-*.json' --runs 'b-*.json' -m map@r -o runs.pdf",
)
KINDS = (".pdf", ".svg", ".png")


@click.command(epilog=PLOT_EXAMPLES, short_help="Draw a curve of results, or their scores.")
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
    from truerank import plots
    from truerank.analysis import compare as comparison
    from truerank.cli.inputs import read_runs, split_metrics
    from truerank.cli.outputs import check_targets
    from truerank.plots.display import check_matplotlib, save_figure
    from truerank.plots.runs import plot_runs, size_of

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


# `truerank report`: a page about results, and what `evaluate --report` needs of it.


REPORT_EXAMPLES = examples(
    "report result.json -o page.html",
    "report runs/a/result.json runs/b/result.json -o comparison.html",
    "report result.json -o page.html --images photos",
    "report benchmarks/emoji -o page.html",
)
Pictures = dict[str, Any]


@click.command(epilog=REPORT_EXAMPLES, short_help="Write a page about results.")
@click.argument("results", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PAGE, required=True, help="The page (.html).")
@click.option("--names", help="Names of the models, separated by commas.")
@click.option(
    "--images",
    help="A folder of pictures named by the rows' ids, or the column of the result (such as id) "
    "that holds their paths.",
)
def report(results: tuple[Path, ...], output: Path, names: str | None, images: str | None) -> None:
    """Write one page about RESULTS: JSON files that evaluate -o wrote, or folders of benchmarks.

    The page holds everything it shows and opens without a network. Several results must be of one
    task; they are compared. What needs the embeddings is shown if evaluate --report was asked for
    when the result was written.
    """
    from truerank import report as pages
    from truerank.cli.outputs import check_targets
    from truerank.io.pictures import ByColumn

    check_targets({"-o": output}, results)
    pages.write(
        results,
        output,
        names=None if names is None else [name.strip() for name in names.split(",")],
        images=images if images is None or Path(images).is_dir() else ByColumn(images),
    )


def write_report(result: Any, path: Path, embeddings: Path, pictures: Pictures) -> None:
    """Write the page of a result that was just evaluated, under the name of its file."""
    from truerank import report as pages

    with progress_bar("looking") as progress:
        pages.write([result], path, names=[embeddings.stem], progress=progress, **pictures)


def prepare_report(report: Path | None, images: str | None, options: Mapping[str, Any]) -> Pictures:
    """Refuse a page that could not be made, and find its pictures: in a folder, or by the paths in
    a column beside the labels of each side."""
    if report is None:
        if images is not None:
            raise InputError("--images goes with --report, whose page shows them.")
        return {}
    from truerank.report.page import check_templates

    check_templates()
    if images is None:
        return {}
    if options["task_file"] is not None:
        raise InputError("the page of a hidden task names no row; leave --images out.")
    if Path(images).is_dir():
        return {"images": images}
    found = {"images": _column(options["labels"], images, "--labels")}
    if options["gallery"] is not None:
        found["gallery_images"] = _column(options["gallery_labels"], images, "--gallery-labels")
    return found


def _column(path: Path | None, name: str, option: str) -> list[Path | None]:
    """The paths in a column of a CSV file; relative ones are meant from where the file is."""
    from truerank.io.tables import read_csv

    if path is None or path.suffix.lower() not in (".csv", ".tsv"):
        raise InputError(f"{name} is no folder, and no column either without {option} FILE.csv.")
    columns = read_csv(path)
    if name not in columns:
        known = ", ".join(column for column in columns if column) or "none"
        raise InputError(f"{name} is neither a folder nor a column of {path}, which has {known}.")
    return [None if cell is None else path.parent / str(cell) for cell in columns[name]]


# `truerank demo`: the demonstration, printed.


@click.command(
    epilog=examples("demo", "demo --report page.html", "demo --format latex"),
    short_help="Compare two models on embedded data.",
)
@format_option()
@click.option("--report", type=PAGE, help="Write a page about both models as well (.html).")
def demo(form: str, report: Path | None) -> None:
    """Evaluate two models on the embedded emoji data, compare them, and explain the numbers."""
    from truerank.cli import demonstration
    from truerank.cli.outputs import check_targets, print_form, ruled

    check_targets({"--report": report})
    shown = demonstration.run()
    compared = shown.comparison
    print_form(
        form,
        {
            "table": lambda: shown.to_text(rule=ruled()),
            "json": compared.to_json,
            "csv": compared.to_csv,
            "markdown": compared.to_markdown,
            "latex": compared.to_latex,
        },
    )
    if report is not None:
        shown.write_report(report)
        click.echo(f"\nThe report page, for a browser: {report}", err=form != "table")
