"""Embeddings to measure on: like a trained model's (MAP@R about .5), or without any structure.

Open sets besides: a task of Market-1501's size with cameras and queries that nobody knows, and
classes of uneven quality, as consistency sees them. And sets to cluster.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.datasets.emoji import emoji

__all__ = ["KINDS", "clusterings", "make", "market", "uneven"]

Rows = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

KINDS = ("trained", "random", "bits", "bytes", "ternary")
NOISE = {128: 1.39, 512: 2.2, 2048: 3.27}
"""Noise around a class centre that gives MAP@R of about .5 with 5 rows a class and 20,000 rows."""


def make(
    rows: int, dimensions: int, mates: int, data: str
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Seeded float32 embeddings and labels, as many rows as `mates` of each label.

    `data` is one of KINDS.
    """
    rng = np.random.default_rng(2026)
    classes = -(-rows // mates)
    labels = np.repeat(np.arange(classes), mates)[:rows]
    embeddings = rng.standard_normal((rows, dimensions), np.float32)
    if data == "trained":
        centres = rng.standard_normal((classes, dimensions), np.float32)
        embeddings *= NOISE.get(dimensions, (dimensions / 512) ** 0.25 * NOISE[512])
        embeddings += centres[labels]
    elif data != "random":
        embeddings = _small_integers(data, rng, labels, dimensions)
    order = rng.permutation(rows)
    return embeddings[order], labels[order]


def _small_integers(
    data: str, rng: np.random.Generator, labels: Labels, dimensions: int
) -> npt.NDArray[np.float32]:
    """Rows whose cosines are rational: one attribute in a hundred, bytes, or signs and zeros."""
    shape = len(labels), dimensions
    if data == "bits":
        typical = rng.random((labels.max() + 1, dimensions), np.float32) < 0.01
        chance = np.where(typical, np.float32(0.4), np.float32(0.006))
        return (rng.random(shape, np.float32) < chance[labels]).astype(np.float32)
    rows = rng.standard_normal((labels.max() + 1, dimensions), np.float32)[labels]
    rows += np.float32(1.5) * rng.standard_normal(shape, np.float32)
    if data == "ternary":
        return np.sign(rows) * (np.abs(rows) > 1)
    return np.clip(np.rint(30 * rows), -127, 127)


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


def clusterings(seed: int = 0) -> dict[str, tuple[Rows, Labels]]:
    """Twelve data sets to cluster, as rows and labels: some easy for k-means, some not.

    Clouds near and far, in few and many dimensions, classes of even and of uneven sizes, and real
    embeddings of unit length.
    """
    found = {
        "plane, apart": _clouds(seed, 60, 25, 2, 0.03),
        "plane, touching": _clouds(seed + 1, 60, 25, 2, 0.12),
        "8 dimensions, apart": _clouds(seed + 2, 80, 15, 8, 0.15),
        "8 dimensions, touching": _clouds(seed + 3, 80, 15, 8, 0.6),
        "64 dimensions, apart": _clouds(seed + 4, 100, 10, 64, 0.5),
        "64 dimensions, touching": _clouds(seed + 5, 100, 10, 64, 1.3),
        "256 dimensions, many classes": _clouds(seed + 6, 200, 5, 256, 1.5),
        "uneven, plane": _clouds(seed + 7, 40, 40, 2, 0.05, tilt=1.0),
        "uneven, 32 dimensions": _clouds(seed + 8, 60, 20, 32, 0.7, tilt=1.0),
    }
    data = emoji()
    for model, level, size in (
        ("efficientnet", 1, 5_494),
        ("efficientnet", 2, 1_500),
        ("pixels", 0, 3_000),
    ):
        some = np.random.default_rng(seed).permutation(len(data.ids))[:size]
        rows = data.models[model][some].astype(np.float64)
        labels = np.unique(data.levels[some, level], return_inverse=True)[1].astype(np.int64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found[f"emoji, {model}, level {level + 1}"] = (rows, labels)
    return found


def _clouds(
    seed: int, classes: int, size: int, dimensions: int, noise: float, tilt: float = 0.0
) -> tuple[Rows, Labels]:
    """Normal clouds around normal centres; the sizes fall off as 1, 2^-tilt, 3^-tilt, ..."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, classes + 1) ** -tilt
    sizes = np.maximum(2, np.round(classes * size * share / share.sum())).astype(np.int64)
    labels = rng.permutation(np.repeat(np.arange(classes), sizes))
    centres = rng.standard_normal((classes, dimensions))
    return centres[labels] + noise * rng.standard_normal((len(labels), dimensions)), labels
