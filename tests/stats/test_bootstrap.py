"""The bootstrap: standard errors from classes drawn with replacement."""

from __future__ import annotations

import math

import numpy as np
import pytest

import truerank
from truerank.core.student import quantile
from truerank.intervals.interval import ClassSums, standard_errors


def test_the_bootstrap_has_the_error_of_a_ratio() -> None:
    """Against the linearised error of a ratio estimator, sqrt(n/(n-1) sum (s - r c)^2) / sum c."""
    rng = np.random.default_rng(11)
    codes = rng.integers(60, size=900)
    values = rng.random(900) * (1 + codes / 60) / 2
    sums = ClassSums.of(values, codes)
    total, count = (np.bincount(codes, values), np.bincount(codes))
    ratio = total.sum() / count.sum()
    rest = total - ratio * count
    linear = math.sqrt(60 / 59 * (rest**2).sum()) / count.sum()
    assert standard_errors([sums], 0)[0] == pytest.approx(linear, rel=0.05)


def test_few_classes_have_the_error_of_their_sample() -> None:
    """Of six classes, n - 1 and not n is what their squares are divided by: 10 % more."""
    codes = np.arange(300) % 6
    values = np.linspace(0, 1, 6)[codes]
    error = np.linspace(0, 1, 6).std(ddof=1) / math.sqrt(6)
    assert standard_errors([ClassSums.of(values, codes)], 0)[0] == pytest.approx(error, rel=0.04)


def test_classes_in_any_order_give_the_same_bits() -> None:
    rng = np.random.default_rng(12)
    codes, values = rng.integers(40, size=300), rng.random(300)
    renamed = rng.permutation(40)[codes]
    order = rng.permutation(300)
    again = values[order], renamed[order]
    for by_class in (False, True):
        one = ClassSums.of(values, codes, codes if by_class else None).in_order()
        two = ClassSums.of(*again, again[1] if by_class else None).in_order()
        assert standard_errors([one], 3) == standard_errors([two], 3)


def test_judgements_resample_queries() -> None:
    rng = np.random.default_rng(13)
    scores, relevant = rng.random((40, 60)), rng.random((40, 60)) < 0.2
    result = truerank.evaluate(scores, relevance=relevant, distance="similarity", metrics="map")
    low, high = result["map"].interval
    values = result["map"].per_query.lower
    expected = quantile(0.95, 39) * values.std(ddof=1) / math.sqrt(40)
    assert high - low == pytest.approx(2 * expected, rel=0.1)
    assert result.provenance["intervals"]["truth"] == "conditional on this gallery"
    assert result.provenance["intervals"]["method"].startswith("query bootstrap")
