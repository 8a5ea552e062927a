"""Embeddings of images by a trained model, features of a frozen trunk, and saved models.

Evaluation crops in, unit vectors out, in order. Features are computed once, an array (1 +
copies, N, F): the evaluation's crop first, then augmented copies for training. `last.pt` holds
all that is needed to resume, `best.pt` the model of the best epoch; both name their trunk, are
written in one step and are read without running code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from truerank._util.errors import InputError
from truerank._util.files import atomic_path, check_writable
from truerank.datasets.base import Dataset, ImageFiles, ImageRows, Images, as_images
from truerank.datasets.folders import find_images
from truerank.training import trunks
from truerank.training.config import Config
from truerank.training.devices import resolve
from truerank.training.pipeline import Augmentation, Pipeline, draw, open_pipeline
from truerank.training.trunks import Embedder, Trunk

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
    """Check that embeddings can be written to a path."""
    if Path(path).suffix.lower() not in (".npy", ".npz"):
        raise InputError(f"embeddings are written as .npy or .npz. Got {os.fspath(path)!r}.")
    check_writable(path)


def write_embeddings(
    path: str | os.PathLike[str], embeddings: Embeddings, *, ids: Any = None, **columns: Any
) -> None:
    """Write embeddings for `truerank evaluate`; a .npz also has ids and other columns."""
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
    """Return the image files below a folder, as sorted relative paths."""
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


# Features of a frozen trunk: computed once, in several augmented copies, and kept on the device.
#
# Images come in, an array (1 + copies, N, F) goes out: the evaluation's crop first, then the
# copies from which training draws. A model on top of it is a head alone.


Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]


class FeatureArray(Images):
    """Features in a .npy file, in place of images; each device holds them once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._shape = np.load(self.path, mmap_mode="r").shape
        self._tensors: dict[str, torch.Tensor] = {}

    def __len__(self) -> int:
        return int(self._shape[1])

    @property
    def features(self) -> int:
        """How many numbers there are for each image."""
        return int(self._shape[2])

    def on(self, device: torch.device) -> torch.Tensor:
        """All copies as one tensor on the device."""
        if str(device) not in self._tensors:
            self._tensors[str(device)] = torch.from_numpy(np.load(self.path)).to(device)
        return self._tensors[str(device)]

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureArray, (self.path,)


def feature_rows(images: Sequence[Any]) -> tuple[FeatureArray, Rows]:
    """The features behind some images, and which rows of them; images themselves are refused."""
    base = images.images if isinstance(images, ImageRows) else images
    if not isinstance(base, FeatureArray):
        raise InputError("the trunk 'frozen' trains on features; a benchmark computes them first.")
    rows = images.rows if isinstance(images, ImageRows) else np.arange(len(base))
    return base, rows


class FeaturePipeline(Pipeline):
    """Features by row number; in training each image draws one of its augmented copies."""

    def __init__(self, images: Sequence[Any], device: torch.device) -> None:
        array, rows = feature_rows(images)
        self.features = array.on(device)
        self.rows = torch.from_numpy(rows).to(device)
        self.device = device

    def batches(
        self, chunks: Sequence[Rows], draws: Floats | None = None
    ) -> Generator[torch.Tensor, None, None]:
        """See Pipeline; float tensors (B, F)."""
        if not chunks:
            return
        places = self.rows[torch.from_numpy(np.concatenate(chunks)).to(self.device)]
        copies = torch.zeros_like(places)
        if draws is not None and len(self.features) > 1:
            drawn = 1 + np.floor(draws[:, 0] * (len(self.features) - 1)).astype(np.int64)
            copies = torch.from_numpy(drawn).to(self.device)
        start = 0
        for chunk in chunks:
            part = slice(start, start + len(chunk))
            yield self.features[copies[part], places[part]]
            start = part.stop


def compute_features(
    trunk: Trunk,
    images: Sequence[Any],
    augmentation: Augmentation,
    device: torch.device,
    *,
    copies: int,
    seed: int,
    batch: int = 256,
) -> Features:
    """(1 + copies, N, F): the trunk's features of the evaluation's crop, then of random ones."""
    network = trunk.network.to(device).eval()
    mean = 255 * torch.tensor(trunk.mean, device=device).reshape(3, 1, 1)
    std = 255 * torch.tensor(trunk.std, device=device).reshape(3, 1, 1)
    pipeline = open_pipeline(images, augmentation, device)
    rows = np.arange(len(images))
    chunks = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    found = np.empty((1 + copies, len(rows), trunk.features), np.float32)
    for copy in range(1 + copies):
        draws = draw(seed, copy, len(rows)) if copy else None
        with torch.inference_mode(), closing(pipeline.batches(chunks, draws)) as batches:
            for chunk, crops in zip(chunks, batches, strict=True):
                found[copy, chunk] = network((crops - mean) / std).float().cpu().numpy()
    return found


# Checkpoints: written in one step, read without running any code that they might contain.
#
# `last.pt` of a run holds all that it takes to go on as if nothing had happened, also if
# `best.pt`, the model of the best epoch, is lost. Both name their trunk: `load_embedder` needs
# nothing else.


FORMAT = 1


def copy_weights(model: nn.Module) -> dict[str, Any]:
    """A model's weights as they are now, on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a state of tensors and plain values; the file is the old or the new one, never half."""
    with atomic_path(path) as partial, partial.open("wb") as file:
        try:
            torch.save({"format": FORMAT, **state}, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # a full disk, in torch's words
                raise error.__context__ from None
            raise
        file.flush()
        os.fsync(file.fileno())


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint onto the CPU; anything else ends in a sentence."""
    try:
        with open(path, "rb") as file:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    except MemoryError:
        raise
    except Exception as error:  # torch has many ways to say that a file is not its own
        raise InputError(f"{path} is no checkpoint of truerank, or it is damaged.") from error
    if not isinstance(state, dict) or not {"format", "config", "model"} <= set(state):
        raise InputError(f"{path} is no checkpoint of truerank.")
    if state["format"] != FORMAT:
        raise InputError(
            f"{path} was written by another version of truerank (format {state['format']}, "
            f"this version reads {FORMAT})."
        )
    return state


def load_embedder(
    path: str | os.PathLike[str], *, trunk: Callable[[], nn.Module] | None = None
) -> tuple[Embedder, Config]:
    """Load a trained model and its configuration.

    Parameters
    ----------
    path : path
        `best.pt` or `last.pt` of a run.
    trunk : callable, optional
        What made the trunk, if it was no trunk with a name.
    """
    state = load(path)
    config = Config.of(state["config"], f"the configuration in {os.fspath(path)}")
    if trunk is None and state["custom_trunk"]:
        raise InputError(f"{path} was trained with a trunk of your own; pass trunk= to load it.")
    if config.model.trunk == "frozen":
        built = trunks.of_features(state["model"]["linear.weight"].shape[1])
    else:
        built = trunks.get(
            config.model.trunk if trunk is None else trunk,
            pretrained=False,
            size=config.augmentation.crop,
        )
    model = Embedder(built, config.model.dimensions, head=config.model.head)
    try:
        model.load_state_dict(state["model"])
    except RuntimeError as error:
        raise InputError(f"the weights in {path} do not fit the trunk that was given.") from error
    return model.eval(), config
