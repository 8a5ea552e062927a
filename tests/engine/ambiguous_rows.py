"""Rows built to be ambiguous, and the bits of what is scored from them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tests import registered
from tests.quiet import evaluate


def random_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    return rng.standard_normal((rows, dimension)).astype(np.float32)


def positive_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """All distances close together, all terms of one sign: sums round the same way."""
    return (1 + rng.random((rows, dimension)) / 64).astype(np.float32)


def outlier_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """One dimension outweighs all others, which then hardly move a float32 sum."""
    data = rng.standard_normal((rows, dimension)).astype(np.float32)
    data[:, dimension // 3] = 1e3
    return data


def lattice_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """Signs: distances take few values, each of them many times."""
    return rng.choice([-1.0, 1.0], size=(rows, dimension)).astype(np.float32)


def duplicate_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    return rng.standard_normal((5, dimension)).astype(np.float32)[rng.integers(5, size=rows)]


def near_tie_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """Around a few points, a hair's breadth from each other: most of it within the bound."""
    centres = rng.standard_normal((4, dimension))
    noise = rng.standard_normal((rows, dimension)) * 10.0 ** rng.integers(-7, -2, (rows, 1))
    return centres[rng.integers(4, size=rows)] + noise


def rows_with_zeros(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    data = lattice_rows(rng, rows, dimension)
    data[rng.choice(rows, rows // 4, replace=False)] = 0
    return data


def sparse_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """Weights of few components each: many pairs are orthogonal."""
    held = rng.random((rows, dimension)) < 2 / dimension
    return np.abs(rng.standard_normal((rows, dimension))) * held


def partly_short_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """Rows of small integers, of which pairs have their true cosine, among others."""
    counts = rng.poisson(0.5, (rows, dimension)).astype(np.float64)
    others = sparse_rows(rng, rows, dimension)
    return np.where(rng.random((rows, 1)) < 0.5, counts, others)


KINDS = [
    random_rows,
    positive_rows,
    outlier_rows,
    lattice_rows,
    duplicate_rows,
    near_tie_rows,
    rows_with_zeros,
    sparse_rows,
    partly_short_rows,
]

METRICS = [*registered.ranking(), "precision@5", "hit@2"]


def fingerprint(data: np.ndarray, labels: Any, **options: Any) -> str:
    """Every number of every score, and how many queries ties leave open."""
    found = evaluate(data, labels, metrics=METRICS, **options).to_dict()
    return json.dumps([found["scores"], found["provenance"]["ties"]])
