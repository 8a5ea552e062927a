"""`truerank report`: a page about results, and what `evaluate --report` needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from truerank.cli.options import PAGE, PATH, examples
from truerank.errors import InputError
from truerank.progress import progress_bar

__all__ = ["prepare_report", "report", "write_report"]

EXAMPLES = examples(
    "report result.json -o page.html",
    "report runs/a/result.json runs/b/result.json -o comparison.html",
    "report result.json -o page.html --images photos",
    "report benchmarks/emoji -o page.html",
)
Pictures = dict[str, Any]


@click.command(epilog=EXAMPLES, short_help="Write a page about results.")
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
    from truerank.report.thumbnails import ByColumn

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
    from truerank.files.tables import read_csv

    if path is None or path.suffix.lower() not in (".csv", ".tsv"):
        raise InputError(f"{name} is no folder, and no column either without {option} FILE.csv.")
    columns = read_csv(path)
    if name not in columns:
        known = ", ".join(column for column in columns if column) or "none"
        raise InputError(f"{name} is neither a folder nor a column of {path}, which has {known}.")
    return [None if cell is None else path.parent / str(cell) for cell in columns[name]]
