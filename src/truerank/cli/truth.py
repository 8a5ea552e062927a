"""`truerank truth`: the exact nearest neighbours, in the files that index benchmarks read."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PATH, distance_option, examples, threads_option
from truerank.progress import progress_bar

__all__ = ["truth"]

EXAMPLES = examples(
    "truth queries.fbin gallery.fbin -k 100 -o truth.ibin --distance euclidean",
    "truth queries.npy gallery.npy -k 10 -o truth.ivecs --device cuda",
    "truth queries.u8bin gallery.u8bin -o truth.ibin --distance euclidean --cluster auto",
)


@click.command(epilog=EXAMPLES, short_help="Write exact neighbours, with their ties.")
@click.argument("queries", type=PATH)
@click.argument("gallery", type=PATH)
@click.option("-k", type=int, default=100, show_default=True, help="Neighbours of each query.")
@click.option(
    "-o",
    "--output",
    type=PATH,
    required=True,
    help="The lists: .ibin, with distances behind them, or .ivecs. Ties go to OUTPUT.ties.npz.",
)
@distance_option(lambda catalogue: catalogue.names(given=False))
@click.option(
    "--device",
    type=click.Choice(("auto", "cpu", "cuda")),
    default="auto",
    show_default=True,
    help="Where to search; auto takes GPUs for large tasks.",
)
@threads_option
@click.option(
    "--cluster", help="Have a Ray cluster search: auto for the one that runs here, or an address."
)
def truth(
    queries: Path,
    gallery: Path,
    k: int,
    output: Path,
    distance: str,
    device: str,
    threads: int | None,
    cluster: str | None,
) -> None:
    """Find the exact k nearest rows of GALLERY for each of QUERIES.

    Rows at one distance are listed by their numbers; the second file says which places tie, and how
    many rows beyond the list tie with its last place.
    """
    from truerank import exact_neighbours
    from truerank.cli import outputs
    from truerank.wording import count

    outputs.check_targets({"-o": output}, (queries, gallery))
    exact_neighbours.check_ending(output)
    with progress_bar("searching", "pairs") as progress:
        found = exact_neighbours.truth(
            queries,
            gallery,
            k,
            distance=distance,
            device=device,
            threads=threads,
            progress=progress,
            cluster=cluster,
        )
    beside = found.save(output)
    rows = len(found.item)
    click.echo(f"{output}: the {k} nearest of {count(rows, 'query')}; ties in {beside.name}.")
    if found.ambiguous:
        click.echo(
            f"{count(found.ambiguous, 'query')} could have other items in the last places: further "
            "ones are exactly as near."
        )
