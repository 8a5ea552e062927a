"""Features of a frozen trunk: computed once, in several augmented copies, and kept on the device.

Images come in, an array (1 + copies, N, F) goes out: the evaluation's crop first, then the copies
from which training draws. A model on top of it is a head alone.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank.datasets.images import ImageRows, Images
from truerank.errors import InputError
from truerank.training.augmentation import Augmentation, draw
from truerank.training.pipeline import Pipeline, open_pipeline
from truerank.training.trunks import Trunk

__all__ = ["FeatureArray", "FeaturePipeline", "compute_features", "feature_rows"]

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
