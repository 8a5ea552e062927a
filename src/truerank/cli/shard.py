"""`truerank shard`: large embeddings become shards with a manifest, or a manifest is checked."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PATH, examples
from truerank.errors import InputError

__all__ = ["shard"]

STREAMED = ("npy", "fbin", "u8bin", "i8bin", "fvecs", "bvecs")
EXAMPLES = examples(
    "shard embeddings.npy --labels labels.csv -o shards",
    "shard part-0.parquet part-1.parquet --in-place -o manifest.json",
    "shard shards/manifest.json --check",
)


@click.command(epilog=EXAMPLES, short_help="Write large embeddings as shards, with a manifest.")
@click.argument("inputs", type=click.Path(path_type=Path, allow_dash=True), nargs=-1, required=True)
@click.option("-o", "--output", type=PATH, help="Folder of the shards; with --in-place a .json.")
@click.option("--labels", type=PATH, help="File of labels, ids and groups for the rows.")
@click.option("--levels", help="Columns of labels from coarse to fine, divided by commas.")
@click.option("--rows", type=click.IntRange(1), help="Rows of a shard; 64 MB of them by default.")
@click.option("--base", help="Where workers will find the shards, such as s3://bucket/folder.")
@click.option(
    "--format", "kind", type=click.Choice(STREAMED), help="Of rows that come from a pipe (-)."
)
@click.option("--in-place", is_flag=True, help="List .npy and .parquet files as they are.")
@click.option("--check", is_flag=True, help="Compare the shards of a manifest with it.")
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

    The manifest stands for the file wherever `evaluate` takes one. It holds rows, dimensions and
    checksums of all shards, and their labels, which come from --labels or from the file itself.
    """
    import sys

    from truerank import sharding
    from truerank.cli.inputs import level_names
    from truerank.files.streams import read_stream
    from truerank.wording import count

    if check:
        if len(inputs) > 1 or output is not None:
            raise InputError("--check takes one manifest, and writes nothing.")
        found = sharding.check(inputs[0])
        click.echo(
            f"{inputs[0]}: {count(found['rows'], 'row')} of {found['dimensions']} {found['dtype']} "
            f"in {count(found['shards'], 'shard')}, all as they were written."
        )
        return
    if output is None:
        raise InputError("say where the shards go: -o FOLDER.")
    if in_place:
        if labels is not None or rows is not None:
            raise InputError("--in-place lists files as they are; leave --labels and --rows out.")
        target = sharding.list_shards(inputs, output, levels=level_names(levels), base=base)
    else:
        if len(inputs) > 1:
            raise InputError("one file becomes shards; --in-place lists several as they are.")
        piped = str(inputs[0]) == "-"
        if piped != (kind is not None):
            raise InputError("--format goes with rows from a pipe: truerank shard - --format fbin.")
        target = sharding.shard(
            read_stream(sys.stdin.buffer, kind) if kind is not None else inputs[0],
            output,
            labels=labels,
            levels=level_names(levels),
            rows=rows,
            base=base,
        )
    click.echo(f"{target}: {_summary(target)}.")


def _summary(target: Path) -> str:
    from truerank.files import read_json
    from truerank.files.manifest import parse_manifest
    from truerank.wording import count

    found = parse_manifest(target, read_json(target))
    known = f", with {', '.join(found.columns)}" if found.columns else ""
    return (
        f"{count(found.rows, 'row')} of {found.dimensions} {found.dtype} in "
        f"{count(len(found.parts), 'shard')}{known}"
    )
