"""Embeddings to measure on: like a trained model's (MAP@R about .5), or without any structure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["make"]

NOISE = {128: 1.39, 512: 2.2, 2048: 3.27}
"""Noise around a class centre that gives MAP@R of about .5 with 5 rows a class and 20,000 rows."""


def make(
    rows: int, dimensions: int, mates: int, data: str
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Seeded float32 embeddings and labels, as many rows as `mates` of each label."""
    rng = np.random.default_rng(2026)
    classes = -(-rows // mates)
    labels = np.repeat(np.arange(classes), mates)[:rows]
    embeddings = rng.standard_normal((rows, dimensions), np.float32)
    if data == "trained":
        centres = rng.standard_normal((classes, dimensions), np.float32)
        embeddings *= NOISE.get(dimensions, (dimensions / 512) ** 0.25 * NOISE[512])
        embeddings += centres[labels]
    order = rng.permutation(rows)
    return embeddings[order], labels[order]
