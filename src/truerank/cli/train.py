"""`truerank train` and `truerank embed`: from images to weights, and from weights to embeddings."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PATH, examples
from truerank.progress import progress_bar

__all__ = ["embed", "train"]


@click.command(
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
    help="Folder of the run; by default runs/ and the configuration's name.",
)
@click.option("--resume", is_flag=True, help="Go on with the run in the folder, if there is one.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Change a field of the configuration, as training.seed=1; may be repeated.",
)
@click.option("--tensorboard", is_flag=True, help="Write TensorBoard events into the folder too.")
def train(
    config: Path, output: Path | None, resume: bool, settings: tuple[str, ...], tensorboard: bool
) -> None:
    """Train an embedding as CONFIG (YAML) says, and score it on the test split.

    The folder keeps the resolved configuration, the environment, logs, checkpoints, the test
    embeddings and their scores. Ctrl-C stops after the current iteration; --resume goes on from
    there to the same weights.
    """
    from truerank import training

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
            click.echo(f"truerank: the run is saved in {folder}; --resume goes on.", err=True)
        raise
    if run.result is not None:
        click.echo(str(run.result))
    click.echo(f"truerank: epoch {run.best_epoch} was the best; see {folder}.", err=True)


@click.command(
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
    help=".npy for the embeddings alone; .npz with ids (paths) and labels (their folders).",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, ...")
@click.option("--batch", default=256, show_default=True, help="Images at a time.")
@click.option("--workers", type=int, help="Threads that decode images.")
def embed(
    checkpoint: Path, images: Path, output: Path, device: str, batch: int, workers: int | None
) -> None:
    """Embed IMAGES (a folder, an image, or a .npy of bytes) with the model of CHECKPOINT.

    Images of a folder come in the order of their sorted paths. Where each lies in a folder of its
    own below, a .npz has that folder's name as its label, for truerank evaluate.
    """
    from truerank import training

    training.check_target(output)
    with progress_bar("embedding") as progress:
        embeddings = training.embed(
            checkpoint, images, device=device, batch=batch, workers=workers, progress=progress
        )
    ids = training.list_images(images) if images.is_dir() else None
    folders = [Path(name).parent.name for name in ids or []]
    columns = {"label": folders} if folders and all(folders) else {}
    training.write_embeddings(output, embeddings, ids=ids, **columns)
    click.echo(f"truerank: {output}: {embeddings.shape[0]} x {embeddings.shape[1]}.", err=True)
