"""Commands that draw and show: truerank plot, report and demo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from truerank._util.errors import InputError
from truerank._util.progress import progress_bar
from truerank.cli.options import (
    PAGE,
    PATH,
    Command,
    examples,
    format_option,
    metrics_option,
    names_option,
    page_choices,
    page_options,
    runs_option,
)

# `truerank plot`: a curve of saved results as a figure.


PLOT_EXAMPLES = examples(
    "plot result.json --curve roc -o roc.pdf",
    "plot a.json b.json --curve det -o det.pdf --names old,new",
    "plot result.json --curve cmc -o cmc.svg --band simultaneous",
    "plot a.json b.json --curve differences -o forest.pdf --names old,new",
    "plot --runs 'a-*.json' --runs 'b-*.json' -m map@r -o runs.pdf",
)
KINDS = (".pdf", ".svg", ".png")
OF_METRICS = ("forest", "differences", "classes", "growth")
"""Figures that --metrics chooses the metrics of."""


@click.command(
    cls=Command, epilog=PLOT_EXAMPLES, short_help="Plot a curve of results, or their scores."
)
@click.argument("results", nargs=-1, type=PATH)
@click.option(
    "--curve",
    metavar="NAME",
    help="Curve to plot: roc, det, pr, cmc, dir, mrep, utility, ...; or forest, classes, or (of "
    "two or more models) differences.",
)
@runs_option
@metrics_option("Plot the scores of the models in this metric, with their intervals and runs.")
@click.option(
    "-o", "--output", type=PATH, required=True, help="File of the figure (.pdf, .svg, .png)."
)
@names_option
@click.option(
    "--band",
    type=click.Choice(("pointwise", "simultaneous", "none")),
    default="pointwise",
    show_default=True,
    help="Confidence band of the curve: for each point, for the whole curve, or none.",
)
@click.option("--marks/--no-marks", default=True, help="Mark the scores that lie on the curve.")
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
    """Plot a curve of RESULTS, JSON files that evaluate -o wrote, or their scores, as one figure.

    Which curves a result has depends on its metrics: roc, det and pr come with verification
    metrics, dir with dir, mrep and others with the GOM metrics; every result has cmc. Scores are
    shown per model: the mean of its runs, its interval, and a dot for each run.
    """
    from truerank import plots
    from truerank.analysis import compare as comparison
    from truerank.cli.inputs import read_runs, split_metrics
    from truerank.cli.outputs import announce, check_targets
    from truerank.plots.display import check_matplotlib, save_figure

    check_matplotlib()
    if output.suffix.lower() not in KINDS:
        raise InputError(f"-o writes {', '.join(KINDS)}. Got {output.name!r}.")
    takes_runs, takes_metrics = curve == "differences", curve in OF_METRICS
    scores = (runs and not takes_runs) or (metrics is not None and not takes_metrics)
    if bool(scores) == (curve is not None):
        raise InputError(
            "pass --curve NAME (such as cmc, forest or differences), or -m METRIC for scores."
        )
    models = read_runs(results, runs)
    files = (path for one in models for path in (one if isinstance(one, list) else [one]))
    check_targets({"-o": output}, tuple(files))
    given = None if names is None else [name.strip() for name in names.split(",")]
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")  # a file needs no window
    asked = None if metrics is None else split_metrics(metrics)
    with progress_bar("plotting"):
        if curve is None or takes_runs:
            compared = comparison.compare(*models, names=given, metrics=asked)
            known = list(dict.fromkeys(row.metric for row in compared.standings))
            if not takes_runs and len(known) > 1:
                raise InputError(
                    f"name the metric to draw; {len(known)} are compared: {', '.join(known)}."
                )
            display = compared.plot(None if takes_runs else known[0])
        else:
            display = plots.plot(
                list(results),
                curve,
                names=given,
                band=None if band == "none" else band,
                marks=marks,
                metric=asked,
            )
        save_figure(display.figure_, output)
        plt.close(display.figure_)
    announce(output)


# `truerank report`: a page about results, and what `evaluate --report` needs of it.


REPORT_EXAMPLES = examples(
    "report result.json -o page.html",
    "report runs/a/result.json runs/b/result.json -o comparison.html",
    "report result.json -o page.html --images photos --title Birds",
    "report result.json -o page.html --sections scores,map",
    "report benchmarks/emoji -o page.html",
)
Pictures = dict[str, Any]


@click.command(
    cls=Command, epilog=REPORT_EXAMPLES, short_help="Write an HTML report page about results."
)
@click.argument("results", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PAGE, required=True, help="File of the page (.html).")
@click.option("--names", metavar="NAME,NAME,...", help="Names of the models, separated by commas.")
@click.option(
    "--images",
    metavar="FOLDER/COLUMN",
    help="Images of the rows: a folder whose files are named by the ids of the rows, or the column "
    "of the result with their paths (such as id).",
)
@page_options
def report(results: tuple[Path, ...], output: Path, names: str | None, images: str | None) -> None:
    """Write one HTML page about RESULTS: JSON files that evaluate -o wrote, or benchmark folders.

    The page is a single file and opens without a network. Several results are compared; they must
    be of one task. Sections that need the embeddings are shown if the result was written together
    with a page, by evaluate -o FILE --report PAGE.
    """
    from truerank import report as pages
    from truerank.cli.outputs import announce, check_targets
    from truerank.io.pictures import ByColumn

    check_targets({"-o": output}, results)
    with progress_bar("writing the page"):
        pages.write(
            results,
            output,
            names=None if names is None else [name.strip() for name in names.split(",")],
            images=images if images is None or Path(images).is_dir() else ByColumn(images),
            **page_choices(),
        )
    announce(output)


def write_report(result: Any, path: Path, embeddings: Path, pictures: Pictures) -> None:
    """Write the page of a result that was just evaluated, under the name of its file."""
    from truerank import report as pages
    from truerank.cli.outputs import announce

    with progress_bar("writing the page") as progress:
        pages.write([result], path, names=[embeddings.stem], progress=progress, **pictures)
    announce(path)


def prepare_report(report: Path | None, images: str | None, options: Mapping[str, Any]) -> Pictures:
    """Refuse a page that could not be made, and find what it shows besides the result: title,
    sections, and pictures in a folder, or by the paths in a column beside the labels of each side.
    """
    chosen = page_choices()
    if report is None:
        for name in [*(["images"] if images is not None else []), *chosen]:
            raise InputError(f"--{name} goes with --report, which writes the page.")
        return {}
    from truerank.report import chosen_sections
    from truerank.report.page import check_templates

    check_templates()
    chosen_sections(chosen.get("sections"))
    if images is None:
        return chosen
    if options["task_file"] is not None:
        raise InputError("the page of a hidden task names no row; leave --images out.")
    if Path(images).is_dir():
        return {**chosen, "images": images}
    found = {**chosen, "images": _column(options["labels"], images, "--labels")}
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
    cls=Command,
    epilog=examples("demo", "demo --report page.html", "demo --format latex"),
    short_help="Compare two models on included data.",
)
@format_option()
@click.option("--report", type=PAGE, help="Also write a report page about both models (.html).")
def demo(form: str, report: Path | None) -> None:
    """Evaluate two models on the included emoji data, compare them, and explain the numbers."""
    from truerank.cli import demonstration
    from truerank.cli.outputs import announce, check_targets, print_form, ruled

    check_targets({"--report": report})
    with progress_bar("comparing two models"):
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
        with progress_bar("writing the page"):
            shown.write_report(report)
        announce(report)
