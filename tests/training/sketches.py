"""A small data set of real drawings, a trunk that trains in milliseconds, and a configuration."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from truerank.datasets.base import Dataset

EACH = 20
TRAINED = 32
"""Classes in the training split; the other 16 are for the test."""


@cache
def sketches() -> Dataset:
    with np.load(Path(__file__).with_name("sketches.npz")) as arrays:
        images, names = arrays["images"], arrays["names"]
    rows = np.arange(len(names) * EACH)
    return Dataset(
        "sketches",
        images.reshape(-1, 28, 28),
        np.repeat(names, EACH),
        ("thing",),
        ids=np.array([f"{names[row // EACH]}/{row % EACH}" for row in rows]),
        splits={"train": rows < TRAINED * EACH, "test": rows >= TRAINED * EACH},
    )


def tiny() -> nn.Module:
    """Means over squares and one layer; with dropout, which draws random numbers while training."""
    return nn.Sequential(
        nn.AvgPool2d(4), nn.Flatten(), nn.Linear(3 * 49, 32), nn.ReLU(), nn.Dropout(0.2)
    )


def settings(**sections: dict[str, Any]) -> dict[str, Any]:
    """A configuration for the sketches, with fields of some sections replaced."""
    config: dict[str, dict[str, Any]] = {
        "data": {"name": "sketches"},
        "model": {"trunk": "convnet", "dimensions": 16},
        "augmentation": {"resize": 28, "crop": 28, "scale": [0.5, 1.0]},
        "sampler": {"classes": 8, "samples": 2},
        "loss": {"name": "normalized_softmax"},
        "optimiser": {"name": "adam", "lr": 3e-3},
        "training": {"epochs": 3, "iterations": 5, "patience": None, "device": "cpu"},
    }
    for name, fields in sections.items():
        config[name] = config.get(name, {}) | fields
    return config
