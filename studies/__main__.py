"""Command line of the studies: python -m studies."""

from __future__ import annotations

from pathlib import Path

import click

from studies.runner import run, summarise
from truerank._util.errors import InputError
from truerank.cli.options import PATH, long_run_options

PAPERS = ("ties", "gom", "happier", "tcm", "reality-check")
SUMMARY = "summary"
EXAMPLES = """\b
Examples:
  python -m studies ties --quick --data phocnet=phocnet.npz
  python -m studies ties --data phocnet=phocnet.npz -o runs/ties --pages pages
  python -m studies gom -o runs/gom --jobs 8 --time-limit 3600 --resume
  python -m studies reality-check --data benchmark=runs/losses -o runs/check
  python -m studies summary --pages pages
"""


@click.command(epilog=EXAMPLES, short_help="Re-run the papers behind the metrics.")
@click.argument("paper", type=click.Choice((*PAPERS, SUMMARY)))
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="Folder of the run; by default reproduce/ and the paper's name.",
)
@click.option("--quick", is_flag=True, help="A small run that shows that everything works.")
@long_run_options("the run in the folder")
@click.option(
    "--data",
    multiple=True,
    metavar="NAME=FILE",
    help="A file by name: phocnet, grocery, another file of quickdraw or emoji; or a folder: "
    "benchmark, a finished one; curves, those that the authors of GOM released.",
)
@click.option("--pages", type=PATH, help="Write the page, its JSON and its figures there as well.")
def reproduce(
    paper: str,
    output: Path | None,
    quick: bool,
    resume: bool,
    jobs: int,
    time_limit: float | None,
    data: tuple[str, ...],
    pages: Path | None,
) -> None:
    """Re-run PAPER: its claims, each judged by a rule on its page.

    The folder keeps what is needed to resume (--resume), the page (Markdown and JSON) and its
    figures. Data sets come from `truerank data get`; what has no package is given as a file.
    `summary` puts the pages in --pages together.
    """
    from truerank.cli.outputs import ruled

    if paper == SUMMARY:
        if pages is None:
            raise click.UsageError("the summary is made of pages: --pages FOLDER.")
        click.echo(f"truerank: {summarise(pages)} is written.", err=True)
        return

    folder = output if output is not None else Path("reproduce") / paper
    try:
        page = run(
            paper, folder, quick=quick, resume=resume, jobs=jobs, time_limit=time_limit,
            data=_files(data), quiet=False,
        )  # fmt: skip
    except KeyboardInterrupt:
        kept = f"finished work is kept in {folder}; pass --resume to continue."
        click.echo(f"truerank: {kept}", err=True)
        raise
    if page is None:
        reached = "the time limit is reached"
        click.echo(f"truerank: {reached}; {folder} is kept, pass --resume to continue.", err=True)
        return
    if pages is not None:
        page.write(pages)
    click.echo(page.to_text(rule=ruled()))
    click.echo(f"truerank: the page and its figures are in {folder}.", err=True)


def _files(given: tuple[str, ...]) -> dict[str, Path]:
    """NAME=FILE as a mapping."""
    found = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise click.BadParameter(f"{text!r} is no NAME=FILE.", param_hint="'--data'")
        found[name.strip()] = Path(path)
    return found


if __name__ == "__main__":
    try:
        reproduce(prog_name="python -m studies")
    except InputError as error:
        click.echo(f"studies: {error}", err=True)
        raise SystemExit(2) from None
