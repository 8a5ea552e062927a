"""Means over queries and over classes, against sums of exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import truerank
from tests.rounding import nearest
from truerank.core.average import class_mean, exact_sum, mean

finite = st.floats(allow_nan=False, allow_infinity=False)


def true_mean(values: list[float]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0)) / len(values)


@pytest.mark.thorough
@given(
    st.one_of(
        st.lists(st.floats(0, 1), min_size=1, max_size=50),
        st.lists(finite, min_size=1, max_size=20),
    )
)
def test_the_mean_is_correctly_rounded(values: list[float]) -> None:
    assert mean(np.array(values)) == nearest(true_mean(values))
    assert mean(np.array(values)[::-1]) == mean(np.array(values))


@pytest.mark.thorough
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4)), min_size=1, max_size=40))
def test_the_class_mean_is_correctly_rounded(pairs: list[tuple[float, int]]) -> None:
    values, classes = np.array([v for v, _ in pairs]), np.array([c for _, c in pairs])
    means = [true_mean(values[classes == c].tolist()) for c in np.unique(classes)]
    assert class_mean(values, classes) == nearest(sum(means, Fraction(0)) / len(means))
    assert class_mean(values, -7 * classes) == class_mean(values, classes)


@pytest.mark.parametrize(
    "values",
    [
        [5e-324],
        [5e-324, 0.0],
        [5e-324, 5e-324, 0.0],
        [1e308, 1e308, -1e308],
        [1.7976931348623157e308] * 3,
        [1e308, 1e-308, -1e308],
        [1.0, 1e-16, 1e-16],
        [1.0, 2.0**-53],
        [0.1] * 10,
        [1 / 3] * 7,
        [-0.0, 0.0],
    ],
)
def test_means_of_extreme_values(values: list[float]) -> None:
    assert mean(np.array(values)) == nearest(true_mean(values))


def test_means_of_many_equal_values_are_that_value() -> None:
    """Naive sums drift away from it."""
    for value in (1.0, 0.1, 1 / 3, 0.7):
        many = np.full(1_000_003, value)
        assert mean(many) == value
        assert class_mean(many, np.arange(1_000_003) % 7) == value


def test_means_of_nothing() -> None:
    assert math.isnan(mean(np.empty(0)))
    assert math.isnan(class_mean(np.empty(0), np.empty(0, np.int64)))


def test_the_class_mean_gives_every_class_one_vote() -> None:
    labels = np.array([0] * 8 + [1] * 2)
    rows = np.concatenate([np.tile([1.0, 0], (8, 1)), [[0.0, 1], [1, 1e-3]]])
    by_class = truerank.evaluate(rows, labels, metrics=["hit@1"], average="class")["hit@1"]
    by_query = truerank.evaluate(rows, labels, metrics=["hit@1"])["hit@1"]
    values = by_query.per_query.lower
    assert by_query.value == nearest(true_mean(values.tolist()))
    assert by_class.value == nearest(
        (true_mean(values[:8].tolist()) + true_mean(values[8:].tolist())) / 2
    )
    assert by_class.value != by_query.value


@pytest.mark.parametrize("kind", ["shares", "every exponent", "subnormal", "zero"])
def test_sums_of_more_than_a_few_values_are_exact(kind: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.random(300)
    if kind == "every exponent":
        values = (values - 0.5) * np.ldexp(1.0, rng.integers(-1074, 1000, 300))
    elif kind == "subnormal":
        values[::2] = 0
        values[1], values[3], values[5] = 5e-324, -5e-324, -(2.0**-1030)
    elif kind == "zero":
        values[:] = 0
    assert exact_sum(values) == sum(map(Fraction, values.tolist()), Fraction(0))
    assert exact_sum(values[::3]) == sum(map(Fraction, values[::3].tolist()), Fraction(0))
