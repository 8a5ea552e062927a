"""Embeddings to measure on: like a trained model's (MAP@R about .5), or without any structure.

Open sets besides: a task of Market-1501's size with cameras and queries that nobody knows, and
classes of uneven quality, as consistency sees them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["make", "market", "uneven"]

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


def market() -> dict[str, npt.NDArray[np.generic]]:
    """3,368 queries with mates and 100 without, 19,732 items, 512 dimensions, six cameras."""
    rng = np.random.default_rng(2026)
    queries, strangers, items, people = 3_368, 100, 19_732, 950
    centres = rng.standard_normal((people, 512), np.float32)
    query_labels = rng.integers(750, size=queries)
    labels = np.concatenate([query_labels, np.arange(strangers) + people])
    gallery_labels = rng.integers(people, size=items)

    def seen(of: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Some pictures are good and some are bad."""
        noise = rng.uniform(0.3, 1.8, size=(len(of), 1)).astype(np.float32)
        return centres[of] + noise * rng.standard_normal((len(of), 512), np.float32)

    unknown = rng.standard_normal((strangers, 512), np.float32)
    return {
        "embeddings": np.concatenate([seen(query_labels), unknown]),
        "labels": labels,
        "gallery": seen(gallery_labels),
        "gallery_labels": gallery_labels,
        "query_groups": rng.integers(6, size=queries + strangers),
        "gallery_groups": rng.integers(6, size=items),
    }


def uneven(
    rows: int, dimensions: int, classes: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Classes that a model knows well and classes that it does not."""
    rng = np.random.default_rng(2026)
    labels = rng.permutation(np.repeat(np.arange(classes), -(-rows // classes))[:rows])
    noise = rng.uniform(0.5, 3.0, size=(classes, 1)).astype(np.float32)[labels]
    centres = rng.standard_normal((classes, dimensions), np.float32)
    spread = rng.standard_normal((rows, dimensions), np.float32)
    return centres[labels] + noise * spread, labels
