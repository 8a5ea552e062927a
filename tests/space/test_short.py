"""Short rows against rational arithmetic: which rows are short, and that true cosines tie."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import scores
from truerank._util.kernels import interpreted
from truerank.distance import distance_kernels, grid


def squared_cosine(x: list[int], y: list[int]) -> Fraction:
    """The cosine's square with its sign, as a rational number; 0 for a row without a direction."""
    product = sum(a * b for a, b in zip(x, y, strict=True))
    squares = sum(a * a for a in x) * sum(b * b for b in y)
    return Fraction(product * abs(product), squares or 1)


def found_short(row: Any) -> list[int] | None:
    """The row as the product sees it, by both of its ways, which must agree."""
    rows = np.array([row], np.float64)
    out = np.zeros(rows.shape[1], np.int16)
    square = grid._short_row(rows[0], out)
    found = grid.short_rows(rows)
    assert (found is None) == (square == 0)
    if found is None:
        return None
    assert found.square.tolist() == [square]
    assert found.integers[0].tolist() == out.tolist()
    return out.tolist()


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([0.5, -1.5, 0], [1, -3, 0]),
        ([4096, 8192], [1, 2]),
        ([4095, 90], [4095, 90]),  # |x|^2 is 2^24 - 91
        ([4095, 91], None),
        ([4096, 1], None),
        ([2.0**-1074, -(2.0**-1073)], [1, -2]),
        ([2.0**1000, 2.0**-1000], None),
        ([2.0**1023, 2.0**1020], [8, 1]),
        ([0.1, 0.2], None),
        ([0, 0], None),
    ],
)
def test_which_rows_are_short(row: list[float], wanted: list[int] | None) -> None:
    assert found_short(row) == wanted


@given(
    st.lists(st.integers(-5000, 5000), min_size=1, max_size=6),
    st.integers(-1000, 900),
)
def test_shortness_is_the_rows_own_and_knows_no_power_of_two(row: list[int], power: int) -> None:
    scaled = [value * 2.0**power for value in row]
    assert found_short(scaled) == scores.short_row(scaled)


def test_loops_and_vectors_agree() -> None:
    rng = np.random.default_rng(0)
    products = rng.integers(-3000, 3000, (20, 30)).astype(np.float32)
    left, right = rng.integers(3000, 4000, 20), rng.integers(3000, 4000, 30)
    expected = grid.short_distances(products, left[:, None], right[None, :])
    np.testing.assert_array_equal(grid.short_tile(products, left, right), expected)
    out = np.empty((2, 2))
    few = (products[:2, :2], left[:2].astype(float), right[:2].astype(float))
    interpreted(distance_kernels.short_tile)(*few, grid.HALF_TURN, out)
    np.testing.assert_array_equal(out, expected[:2, :2])


@given(st.data())
def test_the_order_of_distances_is_that_of_rational_cosines(data: Any) -> None:
    """Equal cosines have equal distances, larger ones never larger distances."""
    largest = data.draw(st.sampled_from([1, 3, 20, 1000]))
    row = st.lists(st.integers(-largest, largest), min_size=3, max_size=3)
    x, y, z = (data.draw(row) for _ in range(3))
    factor = data.draw(st.integers(1, 3))
    z = data.draw(st.sampled_from([z, [factor * value for value in y], y[::-1]]))
    near, far = squared_cosine(x, y), squared_cosine(x, z)
    distances = [
        float(
            grid.short_distances(np.float64(np.dot(x, other)), np.dot(x, x), np.dot(other, other))
        )
        for other in (y, z)
    ]
    if near == far:
        assert distances[0] == distances[1]
    elif near > far:
        assert distances[0] <= distances[1]
    else:
        assert distances[0] >= distances[1]


@given(st.lists(st.integers(-4095, 4095), min_size=2, max_size=2), st.integers(-4095, 4095))
def test_a_distance_is_within_a_step_of_the_true_one(row: list[int], other: int) -> None:
    """|D - (2 - 2 cos)| < 2^-50, by squares of rational numbers."""
    x, y = scores.short_row(row), scores.short_row([other, 1])
    if x is None or y is None:
        return
    true = squared_cosine(x, y)
    d = grid.short_distances(np.float64(np.dot(x, y)), np.dot(x, x), np.dot(y, y))
    cosine = 1 - Fraction(float(d)) / 2**51
    for bound, wanted in ((cosine - Fraction(1, 2**51), -1), (cosine + Fraction(1, 2**51), 1)):
        assert (bound * abs(bound) - true) * wanted > 0
