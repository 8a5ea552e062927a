"""The grocery store: photographs from a file, and batches that its few classes can fill."""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.runner import Request

from truerank.benchmark.splits import make_splits
from truerank.datasets.base import Dataset
from truerank.training.config import Config
from truerank.training.sampler import make_sampler

Image = pytest.importorskip("PIL.Image")
MIDDLE, FINE = 43, 81
"""Levels of the real data set: 3 coarse classes, 43, and 81."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file laid out like the real one, with six grey photographs of each class."""
    pictures, levels = [], []
    for fine in range(FINE):
        middle = fine * MIDDLE // FINE
        for number in range(6):
            held = io.BytesIO()
            Image.new("RGB", (30, 20), (fine, number, 0)).save(held, "jpeg")
            pictures.append(held.getvalue())
            levels.append([f"coarse {middle * 3 // MIDDLE}", f"middle {middle}", f"fine {fine}"])
    path = tmp_path_factory.mktemp("store") / "grocery.npz"
    offsets = np.cumsum([0, *map(len, pictures)])
    jpeg = np.frombuffer(b"".join(pictures), np.uint8)
    np.savez(path, jpeg=jpeg, offsets=offsets, levels=np.array(levels))
    return path


@pytest.mark.parametrize("study", ["happier", "tcm"])
def test_every_fold_can_fill_its_batches(study: str, store: Path, tmp_path: Path) -> None:
    parts = importlib.import_module(f"studies.{study}").benchmarks(
        Request(tmp_path, files={"grocery": store})
    )
    config, data = parts["grocery"]()
    assert data.labels.shape == (6 * FINE, 3)
    splits = make_splits(data, config["data"]["split"], config["protocol"]["folds"])
    shared = config["shared"]
    half = data.subset(splits.search)
    for held_back in range(len(splits.folds)):
        rows = [fold for number, fold in enumerate(splits.folds) if number != held_back]
        _check(half.subset(np.sort(np.concatenate(rows))), shared)


def _check(train: Dataset, shared: Mapping[str, Any]) -> None:
    settings = {
        "data": {"name": "grocery"}, "model": shared["model"], "sampler": shared["sampler"],
        "augmentation": shared["augmentation"], "loss": {"name": "contrastive"},
    }  # fmt: skip
    batch = make_sampler(Config.of(settings), train).batch()
    sampler = shared["sampler"]
    assert len(batch) == sampler["classes"] * sampler["samples"]
    assert len(np.unique(train.fine_labels[batch])) == sampler["classes"]
