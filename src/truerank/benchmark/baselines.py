"""The rows that nothing was trained for: features of the untrained trunk, and their PCA.

The PCA is fitted on the search half, before the test half is opened. `separated` is a fold's own
trunk in the model's dimensions, `concatenated` that of all folds in as many as all models have.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.benchmark.fold import checkpoint_hash
from truerank.benchmark.worker import Half
from truerank.datasets.base import Dataset
from truerank.files import atomic_path

__all__ = ["FitBaselines", "Projection", "fit_pca", "project", "read_projections", "trunk_features"]

Floats = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Projection:
    """A PCA: what is taken off a row, and the directions it is then seen from."""

    mean: Floats
    directions: Floats


@dataclass(frozen=True)
class FitBaselines:
    """Fit the PCAs of the untrained trunks on the search half, and keep them in a file."""

    configs: Sequence[Mapping[str, Any]]
    """A training's configuration for each fold, whose seed gives the trunk its weights."""
    path: Path

    def run(self, half: Half) -> dict[str, Any]:
        """The hash of the trunks' weights, and the seconds that it took."""
        started = time.monotonic()
        features, hashes = [], []
        for config in self.configs:
            rows, weights = trunk_features(config, half.data)
            features.append(rows)
            hashes.append(weights)
        dimensions = int(self.configs[0]["model"]["dimensions"])
        fitted = [fit_pca(rows, dimensions) for rows in features]
        fitted.append(fit_pca(np.hstack(features), dimensions * len(features)))
        arrays: Any = {}
        for number, one in enumerate(fitted):
            arrays |= {f"mean{number}": one.mean, f"directions{number}": one.directions}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(self.path) as partial, partial.open("wb") as file:
            np.savez(file, **arrays, hash=np.array(sha256("".join(hashes).encode()).hexdigest()))
        return {"seconds": round(time.monotonic() - started, 3)}


def trunk_features(config: Mapping[str, Any], data: Dataset) -> tuple[Features, str]:
    """The features of a training's trunk before its first iteration, and its weights' hash."""
    import torch

    from truerank.training import devices, randomness, trunks
    from truerank.training.config import Config
    from truerank.training.features import compute_features, feature_rows

    chosen = Config.of(config)
    device = devices.resolve(chosen.training.device)
    if chosen.model.trunk == "frozen":
        array, rows = feature_rows(data.images)
        features: Features = array.on(device)[0].cpu().numpy()[rows]
        return features, sha256(b"frozen").hexdigest()
    with randomness.borrowed(chosen.training.seed, device), torch.no_grad():
        trunk = trunks.get(
            chosen.model.trunk, pretrained=chosen.model.pretrained, size=chosen.augmentation.crop
        )
        found = compute_features(
            trunk, data.images, chosen.augmentation.build(), device, copies=0, seed=0
        )
    return found[0], checkpoint_hash(trunk.network.state_dict())


def fit_pca(rows: Features, dimensions: int) -> Projection:
    """The directions in which unit rows vary most, at most as many as they have numbers."""
    units = _units(rows)
    mean = units.mean(axis=0)
    centred = units - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return Projection(mean, np.ascontiguousarray(vectors[:, ::-1][:, :dimensions]))


def project(projection: Projection, rows: Features) -> Floats:
    """Rows in the directions of a PCA."""
    seen: Floats = (_units(rows) - projection.mean) @ projection.directions
    return seen


def read_projections(path: Path) -> tuple[list[Projection], str]:
    """The PCAs of the folds and, last, of all together; and the hash of the trunks' weights."""
    with np.load(path) as arrays:
        count = sum(name.startswith("mean") for name in arrays.files)
        fitted = [
            Projection(arrays[f"mean{number}"], arrays[f"directions{number}"])
            for number in range(count)
        ]
        return fitted, str(arrays["hash"])


def _units(rows: Features) -> Floats:
    wide = rows.astype(np.float64)
    length = np.sqrt((wide**2).sum(axis=1, keepdims=True))
    return wide / np.where(length > 0, length, 1.0)
