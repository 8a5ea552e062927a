"""Rank correlations against scipy, and rescaled false rates against an evaluation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr
from studies.gom import Column, correlation, correlation_interval, rescaled_false_rate

import truerank


@pytest.mark.parametrize("seed", range(5))
def test_spearman(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 6, 8).astype(float), rng.normal(size=8)
    assert correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert math.isnan(correlation(np.ones(4), b[:4]))


def test_intervals_cover_what_seeds_and_classes_leave_open() -> None:
    rng = np.random.default_rng(0)
    means = np.linspace(0, 1, 8)[:, None]
    steady = Column(means + 1e-4 * rng.normal(size=(8, 5)), None)
    value, ends = correlation_interval(steady, steady)
    assert value == 1.0
    assert ends == (1.0, 1.0)
    noisy = Column(means + rng.normal(size=(8, 5)), None)
    value, ends = correlation_interval(steady, noisy)
    assert ends is not None
    assert ends[0] < value < ends[1]
    moved = np.repeat(steady.means[:, None], 20, axis=1) + 0.05 * rng.normal(size=(8, 20))
    value, wider = correlation_interval(Column(steady.values, moved), Column(steady.values, -moved))
    assert wider is not None
    assert wider[0] < 1.0


def test_a_rescaled_false_rate_is_that_of_rescaled_distances() -> None:
    rng = np.random.default_rng(1)
    distances = rng.random((40, 30))
    labels, stored = np.arange(40), np.arange(30) // 3
    plain = truerank.evaluate(
        distances, labels, gallery_labels=stored, distance="precomputed", metrics="mfr@b=10"
    )
    for power in (0.5, 2.0):
        low, high = rescaled_false_rate(plain.curve("mfr@b=10"), power)
        again = truerank.evaluate(
            distances**power, labels, gallery_labels=stored, distance="precomputed",
            metrics="mfr@b=10",
        )["mfr@b=10"].value  # fmt: skip
        assert low <= again <= high
        assert high - low < 0.04
