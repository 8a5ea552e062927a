"""Embeddings of images by a trained model: evaluation crops in, unit vectors out, in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles, as_images
from truerank.datasets.readers.disk import find_images
from truerank.errors import InputError
from truerank.files import atomic_path, check_writable
from truerank.training.checkpoint import load_embedder
from truerank.training.devices import resolve
from truerank.training.embedder import Embedder
from truerank.training.pipeline import Pipeline, open_pipeline

__all__ = ["check_target", "embed", "embed_rows", "list_images", "write_embeddings"]

Embeddings = npt.NDArray[np.float32]


def embed(
    checkpoint: str | os.PathLike[str],
    images: Any,
    *,
    device: str = "auto",
    batch: int = 256,
    workers: int | None = None,
    trunk: Callable[[], nn.Module] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Embeddings:
    """Embed images with a trained model.

    Parameters
    ----------
    checkpoint : path
        `best.pt` or `last.pt` of a run.
    images : Dataset, array, sequence or path
        A uint8 array (N, H, W) or (N, H, W, 3), a sequence of images or of paths to images, an
        image file, or a folder, whose images are taken in the order of their sorted paths.
    device : str
        "auto", "cpu", "cuda" or another device of torch.
    batch : int
        Images at a time; it costs memory, and changes nothing but last bits.
    workers : int, optional
        Threads that decode images.
    trunk : callable, optional
        What made the trunk, if it was no trunk with a name.
    progress : callable, optional
        Called as progress(images done, images in all).

    Returns
    -------
    (N, dimensions) float32 array
    """
    for name, value in (("batch", batch), ("workers", 1 if workers is None else workers)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(
                f"The {name!r} parameter of embed must be an int >= 1. Got {value!r} instead."
            )
    chosen = resolve(device)
    model, config = load_embedder(checkpoint, trunk=trunk)
    source = _images(images)
    if not len(source):
        raise InputError("there are no images to embed.")
    pipeline = open_pipeline(source, config.augmentation.build(), chosen, workers=workers)
    return embed_rows(
        model.to(chosen), pipeline, np.arange(len(source)), batch=batch, progress=progress
    )


def embed_rows(
    model: Embedder,
    pipeline: Pipeline,
    rows: npt.NDArray[np.int64],
    *,
    batch: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> Embeddings:
    """Embeddings of some rows of a pipeline; the model is left in evaluation mode."""
    model.eval()
    chunks = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    parts = []
    done = 0
    with torch.inference_mode(), closing(pipeline.batches(chunks)) as batches:
        for chunk, crops in zip(chunks, batches, strict=True):
            parts.append(model(crops).cpu())
            done += len(chunk)
            if progress is not None:
                progress(done, len(rows))
    embeddings: Embeddings = torch.cat(parts).numpy()
    return embeddings


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which embeddings could not be written, before the work is done."""
    if Path(path).suffix.lower() not in (".npy", ".npz"):
        raise InputError(f"embeddings are written as .npy or .npz. Got {os.fspath(path)!r}.")
    check_writable(path)


def write_embeddings(
    path: str | os.PathLike[str], embeddings: Embeddings, *, ids: Any = None, **columns: Any
) -> None:
    """Write what `truerank evaluate` reads: a .npz has ids and further columns, a .npy has not."""
    check_target(path)
    arrays: Any = {"embeddings": embeddings, **columns}
    if ids is not None:
        arrays["id"] = np.asarray(ids)
    with atomic_path(path) as partial, partial.open("wb") as file:
        if Path(path).suffix.lower() == ".npy":
            np.save(file, embeddings)
        else:
            np.savez(file, **arrays)


def list_images(folder: str | os.PathLike[str]) -> list[str]:
    """The image files below a folder, as sorted paths relative to it."""
    found = list(find_images(Path(folder)))
    if not found:
        raise InputError(f"{folder} holds no image.")
    return found


def _images(images: Any) -> Sequence[Any]:
    if isinstance(images, Dataset):
        return images.images
    if isinstance(images, (str, os.PathLike)):
        path = Path(images)
        if path.is_dir():
            return ImageFiles(list_images(path), path)
        if path.suffix.lower() == ".npy":
            return as_images(_read_array(path))
        return ImageFiles([path])
    if isinstance(images, Sequence) and images and isinstance(images[0], (str, os.PathLike)):
        return ImageFiles(images)
    return as_images(images)


def _read_array(path: Path) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no array of numbers"
        raise InputError(f"cannot read {path}: {reason}.") from error
    return array
