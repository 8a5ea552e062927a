"""Spaces looked at whole: every distance by tiles, by pairs and as a Fraction."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np

import truerank
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.distance.elementwise import Cityblock

VECTORS = ("cosine", "euclidean", "dot", "cityblock")
TINIEST = 5e-324


def make(distance: str, *arguments: Any, **options: Any) -> Space:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return build(distance, *arguments, **options)


def tile(space: Space) -> np.ndarray:
    return space.block(np.arange(space.queries))(0, space.gallery)


def pairs(space: Space) -> np.ndarray:
    query, item = np.meshgrid(np.arange(space.queries), np.arange(space.gallery), indexing="ij")
    return space.pairs(query.ravel(), item.ravel()).reshape(query.shape)


def exact(space: Space) -> list[list[Fraction]]:
    """The tile in the unit of the oracle: cosine is held in 2^-50, cityblock less a constant."""
    unit = Fraction(1, 2**50) if space.facts.distance == "cosine" else Fraction(1)
    centre = Fraction(space.centre) if isinstance(space, Cityblock) else Fraction(0)
    return [[(Fraction(value) + centre) * unit for value in row] for row in tile(space).tolist()]


def neighbors(rows: np.ndarray, column: int = 0) -> np.ndarray:
    """The rows, and the rows with one component a unit in the last place larger and smaller."""
    above, below = rows.copy(), rows.copy()
    above[:, column] = np.nextafter(rows[:, column], np.inf)
    below[:, column] = np.nextafter(rows[:, column], -np.inf)
    return np.concatenate([rows, above, below])


def mixed_rows(seed: int = 1) -> np.ndarray:
    """Float32 values: duplicates, multiples, opposites, zeros, a sparse row, several lengths."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((14, 5)).astype(np.float32).astype(np.float64)
    rows[1], rows[2], rows[3] = rows[0], 2 * rows[0], -rows[0]
    rows[4] = rows[5] = 0.0
    rows[6, 1:] = 0.0
    rows[7] *= 2.0**20
    rows[8] *= 2.0**-20
    rows[9] = -0.0
    return rows
