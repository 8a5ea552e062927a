"""Spaces that some metrics tell apart and others do not, and what metrics say of random rows.

After the paper's Figures 1 and 2.
"""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.evaluation import evaluate

__all__ = [
    "CLASSES",
    "EACH",
    "RANDOM_METRICS",
    "SPACES",
    "TOY_METRICS",
    "Disc",
    "random_scores",
    "space",
    "toy_scores",
]

Disc = tuple[float, float, float]
"""Centre and radius."""
SPACES: dict[str, list[Disc]] = {
    "touching": [(x, y, 1.0) for x in (-1.0, 1.0) for y in (-1.0, 1.0)],
    "a little apart": [(x, y, 1.0) for x in (-1.3, 1.3) for y in (-1.3, 1.3)],
    "well apart": [(x, y, 1.0) for x in (-3.0, 3.0) for y in (-3.0, 3.0)],
}
TOY_METRICS = {
    "hit@1": "Recall@1", "nmi": "NMI", "pairwise_f1": "F1", "r_precision": "R-precision",
    "map@r": "MAP@R",
}  # fmt: skip
RANDOM_METRICS = ("nmi", "pairwise_f1", "ami", "precision@1", "map@r")
CLASSES = (10, 30, 100, 300, 1000, 2500, 5000)
EACH = 40


def space(discs: list[Disc]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Points scattered evenly over each disc, on a grid of 1/64, and their classes."""
    dice = random.Random(2020)
    points = []
    for x, y, radius in discs:
        inside = 0
        while inside < EACH:
            across, up = dice.uniform(-1, 1), dice.uniform(-1, 1)
            if math.hypot(across, up) <= 1:
                points.append((round(64 * (x + radius * across)), round(64 * (y + radius * up))))
                inside += 1
    return np.array(points) / 64, np.repeat(np.arange(len(discs)), EACH)


def _scores(rows: Any, labels: Any, metrics: list[str], distance: str) -> dict[str, float]:
    with warnings.catch_warnings():  # that clustering metrics say little is what is shown here
        warnings.simplefilter("ignore")
        found = evaluate(rows, labels, metrics=metrics, distance=distance, confidence=None)
    return {metric: float(found[metric].value) for metric in metrics}


def toy_scores(name: str) -> dict[str, float]:
    """What each metric says of a space, by Euclidean distance."""
    return _scores(*space(SPACES[name]), list(TOY_METRICS), "euclidean")


def random_scores(rows: int, classes: int) -> dict[str, float]:
    """What each metric says of random rows of 64 dimensions with random labels."""
    rng = np.random.default_rng([2020, rows, classes])
    labels = rng.permutation(np.arange(rows) % classes)
    return _scores(rng.standard_normal((rows, 64)), labels, list(RANDOM_METRICS), "cosine")
