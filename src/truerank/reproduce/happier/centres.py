"""A map of class centres: where the mean of each fine class lies, in the two widest directions.

A model of a rerun and the test half come in; a point and a coarse label for each class go out. The
weights are those that the test half was opened for, so that this is no second look.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.benchmark.sealed import extract
from truerank.benchmark.splits import make_splits
from truerank.datasets.base import Dataset
from truerank.reproduce.trained import Finished

__all__ = ["centre_map", "has_model", "project"]


def has_model(one: Finished, method: str) -> bool:
    """Whether the model of a method's first rerun is still there."""
    return (one.layout.fold(method, one.seeds[0], 0) / "best.pt").is_file()


def centre_map(one: Finished, method: str, data: Dataset) -> dict[str, list[Any]]:
    """Points (classes, 2) and the coarse label of each, of the first rerun's first model."""
    from truerank.training.checkpoint import load_embedder
    from truerank.training.devices import resolve
    from truerank.training.embedding import embed_rows
    from truerank.training.pipeline import open_pipeline

    splits = make_splits(data, one.config.data.split, one.config.protocol.folds)
    test = extract(data, splits.test)
    device = resolve(one.config.shared.training.device)
    model, config = load_embedder(one.layout.fold(method, one.seeds[0], 0) / "best.pt")
    pipeline = open_pipeline(test.images, config.augmentation.build(), device)
    rows = embed_rows(model.to(device), pipeline, np.arange(len(test))).astype(np.float64)
    return project(rows, test.labels)


def project(rows: Any, labels: Any) -> dict[str, list[Any]]:
    """The centres of unit rows by their finest label, by the two widest directions of all."""
    units = rows / np.maximum(np.sqrt((rows**2).sum(axis=1, keepdims=True)), 1e-300)
    _, first, codes = np.unique(labels[:, -1], return_index=True, return_inverse=True)
    centres = np.zeros((len(first), units.shape[1]))
    np.add.at(centres, codes, units)
    centres /= np.bincount(codes)[:, None]
    centred = centres - centres.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    points = centred @ vectors[:, ::-1][:, :2]
    return {"points": np.round(points, 5).tolist(), "coarse": labels[first, 0].tolist()}
