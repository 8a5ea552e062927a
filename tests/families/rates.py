"""Thresholds and rates to ask for, what a case accepts there, and rows with strangers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import settings

from tests.oracles import openset
from tests.random_tasks import Case

EXAMPLES = 800 if settings().max_examples >= 10_000 else 25
TAUS = ["0", "0.1", "0.25", "0.5", "1", "1.5"]
RATES = ["0", "0.05", "0.29", "0.5", "0.75", "1"]


def assert_resolves(reason: str, impostors: int) -> None:
    """The FAR that is named can be asked for, and hardly a smaller one."""
    named = Fraction(reason.partition("the smallest that they can is ")[2])
    assert 1 <= named * impostors < Fraction("1.01")


def accepts(case: Case, distance: Fraction, tau: Fraction) -> bool:
    """Whether a threshold in the user's unit accepts a distance of the oracle."""
    kind = case.options["distance"]
    if kind == "cosine":  # the oracle's D is twice 1 - s
        return distance <= 2 * tau
    if kind == "euclidean":  # squared
        return distance <= tau * tau
    if kind == "similarity":
        return -distance >= Fraction(float(tau))
    if kind == "precomputed":
        return distance <= Fraction(float(tau))
    return distance <= tau


def see(case: Case) -> list[openset.Query]:
    distances = case.distances()
    return [
        openset.Query([row[g] for g in query.items], query.relevant)
        for row, query in zip(distances, case.queries(), strict=True)
    ]


def close(actual: float, exact: Fraction) -> bool:
    return abs(actual - float(exact)) <= 4 * math.ulp(float(exact))


def spread(seed: int, queries: int = 120, classes: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Clusters without ties, and some rows whose class is their own."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=queries)
    rows = rng.normal(size=(classes, 10))[labels] + rng.normal(size=(queries, 10))
    labels[: queries // 8] = 1000 + np.arange(queries // 8)
    return rows, labels
