"""Chance against a Monte-Carlo over random embeddings, for every metric that has one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import truerank
from truerank.metrics import registry

METRICS = [text for text in registry.examples() if registry.entry(text.partition("@")[0]).per_query]


@pytest.mark.parametrize("separate", [False, True])
def test_random_embeddings_score_chance(separate: bool) -> None:
    """Over 60 draws, within four and a half standard errors of the mean."""
    rng = np.random.default_rng(1)
    fine = np.repeat(np.arange(16), np.tile([2, 3, 5, 8], 4))
    paths = np.column_stack([fine % 2, fine % 8, fine])
    sums: dict[str, list[float]] = {text: [] for text in METRICS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        for _ in range(60):
            x = rng.standard_normal((len(fine), 24))
            sides = {}
            if separate:
                sides = {"gallery": rng.standard_normal(x.shape), "gallery_labels": paths}
            result = truerank.evaluate(x, paths, metrics=METRICS, confidence=None, **sides)
            for text in METRICS:
                sums[text].append(result[text].expected)
    for text, values in sums.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - result[text].chance) <= 4.5 * error + 1e-12, text
