"""`truerank plan`: what an evaluation on a cluster of GPUs would cost."""

from __future__ import annotations

import json

import click

from truerank.cli.options import examples

__all__ = ["plan"]

EXAMPLES = examples(
    "plan --queries 1e8 --gallery 1e8 --dim 512 --gpus 64",
    "plan --queries 1e8 --gallery 1e8 --dim 512 --gpus 64 --sharded",
    "plan --queries 1e6 --dim 512 --gpus 1 --format json",
)


@click.command(epilog=EXAMPLES, short_help="Estimate what a large evaluation costs.")
@click.option("--queries", type=float, required=True, help="Rows that search, such as 1e8.")
@click.option("--gallery", type=float, help="Rows searched in; the queries by default.")
@click.option("--dim", "dimensions", type=int, required=True, help="Dimensions of the rows.")
@click.option("--gpus", type=int, required=True, help="GPUs in all.")
@click.option("--mates", type=int, default=4, show_default=True, help="Mates of each query.")
@click.option(
    "--path",
    type=click.Choice(("filter", "float64")),
    default="filter",
    show_default=True,
    help="How pairs are counted.",
)
@click.option("--sharded", is_flag=True, help="Workers read the rows, from shards.")
@click.option(
    "--gpus-per-machine", type=int, default=8, show_default=True, help="That share main memory."
)
@click.option(
    "--network", type=float, default=12.5, show_default=True, help="GB/s between machines."
)
@click.option("--disk", type=float, default=2.0, show_default=True, help="GB/s from the files.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="What is printed.",
)
def plan(form: str, **options: float) -> None:
    """Print time, memory and traffic of an evaluation, from figures of one GPU (H200).

    Each line says whether it was measured, is assumed or is extrapolated.
    """
    from truerank import planning

    found = planning.plan(**options)  # type: ignore[arg-type]
    if form == "json":
        click.echo(json.dumps(found.to_dict(), indent=2))
        return
    lines = [(line.what, line.value, line.known) for line in found.lines()]
    first, second = (max(len(line[column]) for line in lines) for column in (0, 1))
    for what, value, known in lines:
        click.echo(f"{what:<{first}}  {value:>{second}}  {known}".rstrip())
