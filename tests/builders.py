"""Embeddings to score: small, and of a known make."""

from __future__ import annotations

import numpy as np


def clusters(
    seed: int, classes: int = 30, size: int = 6, noise: float = 1.2, dimensions: int = 12
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), size)
    centres = rng.standard_normal((classes, dimensions))
    return centres[labels] + noise * rng.standard_normal((len(labels), dimensions)), labels


def uneven_clusters(seed: int, rows: int = 400, classes: int = 25) -> tuple[np.ndarray, np.ndarray]:
    """Classes of unequal size and spread, and five rows that are alone."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=rows)
    noise = rng.uniform(0.5, 1.5, size=classes)[labels, None]
    data = rng.normal(size=(classes, 10))[labels] + noise * rng.normal(size=(rows, 10))
    labels[:5] = 1000 + np.arange(5)
    return data, labels
