"""The linear lane: features of a frozen trunk once for all, of one half of the data at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.methods import seed_of
from truerank.benchmark.worker import Half
from truerank.datasets.base import Dataset
from truerank.files import atomic_path

__all__ = ["TITLE", "ComputeFeatures", "base_of", "features_in_memory", "with_features"]

TITLE = "linear head, frozen features"


def base_of(config: BenchmarkConfig) -> dict[str, Any] | None:
    """What computes the features of the linear lane; None where the trunk is trained."""
    shared = config.shared
    if shared.model.trunk != "frozen":
        return None
    return {
        "trunk": shared.model.base,
        "pretrained": shared.model.pretrained,
        "augmentation": shared.augmentation.model_dump(mode="json"),
        "copies": shared.model.copies,
        "seed": seed_of(config.protocol.seed, "features"),
        "device": shared.training.device,
    }


@dataclass(frozen=True)
class ComputeFeatures:
    """Write the features of the half that a worker holds: the evaluation's crop, and copies."""

    base: Mapping[str, Any]
    path: Path

    def run(self, half: Half) -> dict[str, Any]:
        """The seconds that it took."""
        from truerank.training.devices import resolve

        started = time.monotonic()
        found = _compute(half.data, self.base, resolve(self.base["device"]), self.base["copies"])
        with atomic_path(self.path) as partial, partial.open("wb") as file:
            np.save(file, found)
        return {"seconds": round(time.monotonic() - started, 3)}


def with_features(data: Dataset, path: Path) -> Dataset:
    """A data set with the features of a file in place of its images."""
    from truerank.training.features import FeatureArray

    return replace(data, images=FeatureArray(path))


def features_in_memory(data: Dataset, base: Mapping[str, Any], device: Any) -> Dataset:
    """A data set with features in place of its images, which no file holds afterwards."""
    import tempfile

    found = _compute(data, base, device, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        np.save(path, found)
        made = with_features(data, path)
        made.images.on(device)  # type: ignore[attr-defined]
    return made


def _compute(data: Dataset, base: Mapping[str, Any], device: Any, copies: int) -> Any:
    from truerank.training import randomness, trunks
    from truerank.training.config import AugmentationConfig
    from truerank.training.features import compute_features

    augmentation = AugmentationConfig(**base["augmentation"]).build()
    with randomness.borrowed(int(base["seed"]), device):
        trunk = trunks.get(base["trunk"], pretrained=base["pretrained"], size=augmentation.crop)
    return compute_features(
        trunk, data.images, augmentation, device, copies=copies, seed=int(base["seed"])
    )
