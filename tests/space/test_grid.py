"""Rows on their grid, against integers and Fractions.

The rounding is a definition, so every case that floating point cannot decide is built on purpose:
components exactly halfway between two grid points, lengths exactly at a power of two, and their
neighbours one unit in the last place to either side.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import scores
from tests.space.exact import TINIEST, make, neighbors, pairs, tile
from truerank.distance import grid


def assert_unit_grid(rows: np.ndarray) -> None:
    integers, zero = grid.unit_grid(np.asarray(rows, np.float64))
    assert integers.dtype == np.int32
    assert [tuple(row) for row in integers.tolist()] == [
        scores.cosine_grid(row) for row in rows.tolist()
    ]
    np.testing.assert_array_equal(zero, ~np.asarray(rows).any(axis=1))


def unit_halfway(numerator: int) -> list[int]:
    """A row of length 2^26, so that numerator / length is numerator / 2^26."""
    row, left = [numerator], 2**52 - numerator**2
    while left:
        row.append(math.isqrt(left))
        left -= row[-1] ** 2
    return row


@pytest.mark.thorough
@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=4
    )
)
def test_unit_vectors_are_rounded_as_defined(rows: list[list[float]]) -> None:
    assert_unit_grid(np.array(rows))


@pytest.mark.thorough
@given(st.integers(0, 2**24), st.integers(-60, 60), st.sampled_from([1, 3, 7, 641]))
def test_components_exactly_halfway(number: int, power: int, factor: int) -> None:
    """x_i/|x| an odd multiple of 2^-26: the even neighbour, whatever the scale; then the ulps."""
    exact = np.array([unit_halfway(2 * number + 1)], np.float64)
    rows = np.concatenate([neighbors(exact), exact * factor, -exact, exact * 2.0**power])
    assert_unit_grid(rows)
    halfway = grid.unit_grid(exact)[0][0, 0]
    assert halfway in (number, number + 1)
    assert halfway % 2 == 0


def test_short_rows_with_rational_and_irrational_lengths() -> None:
    row = np.array([[2.0**26 - 1, math.sqrt(2.0**27 - 1)]])  # a length of nearly 2^26
    assert_unit_grid(np.concatenate([neighbors(row, 0), neighbors(row, 1)]))
    assert_unit_grid(np.array([[3.0, 4.0], [20, 21], [-5, 12], [0, -7], [1, 1]]))


@pytest.mark.parametrize("width", [40, 1000])
def test_halfway_among_many_dimensions(width: int) -> None:
    rng = np.random.default_rng(3)
    rows = np.zeros((6, width))
    for row, number in zip(rows, rng.integers(0, 2**24, 6), strict=True):
        values = unit_halfway(2 * int(number) + 1)
        row[rng.choice(width, len(values), replace=False)] = values
    assert_unit_grid(rows)
    order = rng.permutation(width)
    np.testing.assert_array_equal(
        grid.unit_grid(rows)[0][:, order], grid.unit_grid(rows[:, order])[0]
    )


@pytest.mark.parametrize("scale", [1e300, 1e-300, 2.0**1000, 2.0**-1040, TINIEST])
def test_unit_vectors_of_any_magnitude(scale: float) -> None:
    rows = np.array([[3.0, 4, 0], [1, -1, 1], [7, 0, 2]]) * scale
    assert np.isfinite(rows).all()
    assert_unit_grid(rows)
    space = make("cosine", rows)
    np.testing.assert_array_equal(tile(space), pairs(space))


def test_subnormals_and_mixed_magnitudes() -> None:
    rows = np.array(
        [
            [TINIEST, 0.0],
            [3 * TINIEST, -4 * TINIEST],
            [1e308, 1e308],
            [1.7e308, TINIEST],
            [1.0, 2.0**-26],
            [1.0, np.nextafter(2.0**-26, 1)],
            [1e-320, 1e-310],
            [-0.0, 1.0],
        ]
    )
    assert_unit_grid(rows)
    assert_unit_grid(neighbors(rows, 0)[:16])


# --- rows with a length ---------------------------------------------------------------------------


def assert_scaled_grid(rows: np.ndarray) -> None:
    integers, exponent, inexact = grid.scaled_grid(np.asarray(rows, np.float64))
    expected = [scores.own_scale_grid(row) for row in rows.tolist()]
    actual = [
        tuple(Fraction(value) * Fraction(2) ** (int(e) - 26) for value in row)
        for row, e in zip(integers.tolist(), exponent.tolist(), strict=True)
    ]
    assert actual == expected
    given_ = [tuple(Fraction(value) for value in row) for row in rows.tolist()]
    assert inexact == (expected != given_)
    for row, e in zip(given_, exponent.tolist(), strict=True):
        square = sum(value * value for value in row)
        if square:
            assert Fraction(4) ** (e - 1) <= square < Fraction(4) ** e


@pytest.mark.thorough
@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=4),
    st.integers(-400, 400),
)
def test_lengths_are_rounded_as_defined(rows: list[list[float]], power: int) -> None:
    array = np.array(rows)
    array[np.abs(array) < 1e-60] = 0.0
    assert_scaled_grid(array * 2.0**power)


@pytest.mark.parametrize("power", [0, 1, -1, 7, -30, 300, -300])
def test_lengths_exactly_at_a_power_of_two(power: int) -> None:
    """|x| = 2^p belongs to the exponent above; one unit in the last place less does not."""
    unit = np.array(
        [
            [1.0, 0, 0, 0],
            [0.5, 0.5, 0.5, 0.5],
            [0.5, -0.5, 0.5, -0.5],
            [2.0**-27, 0, 0, 0],
        ]
    )
    rows = np.concatenate([neighbors(unit, 0), -neighbors(unit, 0)]) * 2.0**power
    assert_scaled_grid(rows)
    exponent = grid.scaled_grid(neighbors(unit[:1]) * 2.0**power)[1]
    assert exponent.tolist() == [power + 1, power + 1, power]


@pytest.mark.thorough
@given(st.integers(1, 2**25), st.integers(-200, 200))
def test_integer_rows_of_length_two_to_the_26(number: int, power: int) -> None:
    row = unit_halfway(number)
    rows = neighbors(np.array([row], np.float64), len(row) - 1)
    assert_scaled_grid(np.concatenate([rows, neighbors(rows[:1], 0)]) * 2.0**power)


@pytest.mark.parametrize("dimension", [3, 64, 4096, 5000])
def test_normalised_rows_sit_on_the_boundary(dimension: int) -> None:
    """Rows divided by their float length have length 1 give or take an ulp: integers decide."""
    rng = np.random.default_rng(dimension)
    rows = rng.standard_normal((8 if dimension < 100 else 2, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert_scaled_grid(rows)
    signs = rng.choice([-1.0, 1.0], (2, dimension))
    assert_scaled_grid(signs)
    assert_scaled_grid(signs * 2.0**-6)


def test_rows_with_a_length_halfway_between_grid_points() -> None:
    """Lengths in [1/2, 1) have the grid 2^-26; its midpoints are odd multiples of 2^-27."""
    rows = np.array([[0.75, (2 * m + 1) * 2.0**-27] for m in (0, 1, 2, 3, 1000, 1001, 2**24)])
    assert_scaled_grid(np.concatenate([neighbors(rows, 1), -rows]))
    assert grid.scaled_grid(rows[:4])[0][:, 1].tolist() == [0, 2, 2, 4]


def test_subnormals_beside_a_length() -> None:
    assert_scaled_grid(np.array([[1.0, TINIEST], [2.0**-480, TINIEST], [2.0**480, 1e-310]]))
