"""`truerank reproduce`: the papers, re-run."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PATH, examples, long_run_options

__all__ = ["reproduce"]

PAPERS = ("ties", "gom", "happier", "tcm", "reality-check")
SUMMARY = "summary"
EXAMPLES = examples(
    "reproduce ties --quick --data phocnet=phocnet.npz",
    "reproduce ties --data phocnet=phocnet.npz -o runs/ties --pages pages",
    "reproduce gom -o runs/gom --jobs 8 --until 3600 --resume",
    "reproduce reality-check --data benchmark=runs/losses -o runs/check --pages pages",
    "reproduce summary --pages pages",
)


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
    help="A file by name: phocnet, grocery, another file of quickdraw or emoji; or benchmark, the "
    "folder of a finished one.",
)
@click.option("--pages", type=PATH, help="Write the page, its JSON and its figures there as well.")
def reproduce(
    paper: str,
    output: Path | None,
    quick: bool,
    resume: bool,
    jobs: int,
    until: float | None,
    data: tuple[str, ...],
    pages: Path | None,
) -> None:
    """Re-run PAPER: its claims, each judged by a rule that stands on its page.

    The folder keeps what is needed to go on (--resume), the page (Markdown and JSON) and its
    figures. Data sets come from `truerank data get`; what has no package is given as a file.
    `summary` puts the pages in --pages together.
    """
    from truerank import reproduce as papers
    from truerank.cli.printing import ruled

    if paper == SUMMARY:
        if pages is None:
            raise click.UsageError("the summary is made of pages: --pages FOLDER.")
        click.echo(f"truerank: {papers.summarise(pages)} is written.", err=True)
        return

    folder = output if output is not None else Path("reproduce") / paper
    try:
        page = papers.run(
            paper, folder, quick=quick, resume=resume, jobs=jobs, until=until,
            data=_files(data), quiet=False,
        )  # fmt: skip
    except KeyboardInterrupt:
        click.echo(f"truerank: what is done is kept in {folder}; --resume goes on.", err=True)
        raise
    if page is None:
        click.echo(f"truerank: the time is over; {folder} is kept, --resume goes on.", err=True)
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
