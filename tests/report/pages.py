"""Small evaluations of every shape a page may show."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["HOSTILE", "hierarchy", "leave_one_out", "open_set"]

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
"""A label that would run, were it ever taken for markup."""


def leave_one_out(seed: int = 0, noise: float = 1.0) -> dict[str, Any]:
    """24 classes of 2 to 6 rows of small integers, full of ties, with a singleton and cameras."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(24), rng.integers(2, 7, 24))
    labels = np.append(labels, 99)
    centres = rng.integers(-3, 4, (100, 6))
    rows = centres[labels] + np.rint(noise * rng.normal(size=(len(labels), 6)))
    names = np.array([HOSTILE if label == 3 else f"class {label}" for label in labels])
    return {"embeddings": rows, "labels": names}


def open_set(seed: int = 0) -> dict[str, Any]:
    """Queries with and without a mate in a gallery, seen by two cameras."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(30, 8))
    own, other = rng.integers(0, 30, 90), rng.integers(0, 20, 160)
    return {
        "embeddings": centres[own] + 0.5 * rng.normal(size=(90, 8)),
        "labels": [f"person {label}" for label in own],
        "gallery": centres[other] + 0.5 * rng.normal(size=(160, 8)),
        "gallery_labels": [f"person {label}" for label in other],
        "query_ids": [f"q{number}" for number in range(90)],
        "gallery_ids": [f"g{number}" for number in range(160)],
        "query_groups": [f"camera {HOSTILE if n % 2 else 'left'}" for n in range(90)],
        "gallery_groups": [f"camera {n % 3}" for n in range(160)],
    }


def hierarchy(seed: int = 0, noise: float = 1.0) -> dict[str, Any]:
    """Three levels of labels, 36 classes of 5 rows."""
    rng = np.random.default_rng(seed)
    fine = np.repeat(np.arange(36), 5)
    parts = [rng.normal(size=(36 // 4**level + 1, 12))[fine // 4**level] for level in range(3)]
    rows = 3 * parts[2] + 2 * parts[1] + parts[0] + noise * rng.normal(size=(180, 12))
    labels = [[f"order {n // 16}", f"family {n // 4}", f"species {n}"] for n in fine]
    return {"embeddings": rows, "labels": np.array(labels)}
