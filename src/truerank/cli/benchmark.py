"""`truerank benchmark`: losses compared by the fair protocol."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PATH, examples, long_run_options

__all__ = ["benchmark"]


EXAMPLES = examples(
    "benchmark config.yaml --dry-run",
    "benchmark config.yaml -o runs/losses --jobs 8",
    "benchmark config.yaml -o runs/losses --resume --until 3600",
    "benchmark config.yaml -o /shared/losses --cluster auto --gpu-share 0.25",
)


@click.command(epilog=EXAMPLES, short_help="Compare losses by the fair protocol.")
@click.argument("config", type=PATH)
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="Folder of the benchmark; by default benchmarks/ and the configuration's name.",
)
@long_run_options("the benchmark in the folder, if there is one")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Train and score on a Ray cluster: auto for the one that runs here, or an address.",
)
@click.option(
    "--gpu-share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Part of a GPU that each training takes on a cluster.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="METHOD",
    help="Search and rerun this method alone, several times for several; the test half stays "
    "sealed until all are done.",
)
@click.option(
    "--join",
    multiple=True,
    type=PATH,
    metavar="FOLDER",
    help="First take over what another machine has done of this benchmark, several times for "
    "several.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say what would be done, and give every loss a batch of noise; nothing is written.",
)
def benchmark(
    config: Path,
    output: Path | None,
    resume: bool,
    jobs: int,
    until: float | None,
    cluster: str | None,
    gpu_share: float,
    only: tuple[str, ...],
    join: tuple[Path, ...],
    dry_run: bool,
) -> None:
    """Compare losses as CONFIG (YAML) says: all under the same conditions, each searched.

    The first half of the classes is searched on by class-disjoint folds; the best configuration of
    each method is trained again; the second half is opened at the end, once. The folder keeps
    searches, models, the log of openings, tables and figures. Ctrl-C stops; --resume goes on.
    """
    from truerank import benchmark as protocol

    if dry_run:
        click.echo(protocol.describe_plan(config))
        return
    folder = output if output is not None else Path("benchmarks") / config.stem
    if join:
        for name, (done, place) in protocol.join(folder, join, config=config).items():
            click.echo(f"truerank: {name}: {done:,} trainings, from {place}.", err=True)
    try:
        table = protocol.run(
            config,
            folder,
            resume=resume or bool(join),
            jobs=jobs,
            until=until,
            display=protocol.Display(),
            cluster=cluster,
            gpu_share=gpu_share,
            only=only or None,
        )
    except KeyboardInterrupt:
        click.echo(f"truerank: what is done is kept in {folder}; --resume goes on.", err=True)
        raise
    if table is None:
        ended = "the time is over" if not only else "these methods are done, or the time is over"
        click.echo(f"truerank: {ended}; {folder} is kept, --resume goes on.", err=True)
        return
    click.echo(str(table))
    click.echo(f"truerank: tables and figures are in {folder}.", err=True)
