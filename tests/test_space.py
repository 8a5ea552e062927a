"""Exact vectors and exact distances, against integers and Fractions.

The rounding is a definition, so every case that floating point cannot decide is built on purpose:
components exactly halfway between two grid points, lengths exactly at a power of two, and their
neighbours one unit in the last place to either side.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import truerank
from tests.oracles import scores
from truerank import engine
from truerank.space import build, grid, probe
from truerank.space.base import Space
from truerank.space.digests import as_keys
from truerank.space.elementwise import Cityblock
from truerank.space.inner import SquaredDistance

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


def neighbours(rows: np.ndarray, column: int = 0) -> np.ndarray:
    """The rows, and the rows with one component a unit in the last place larger and smaller."""
    above, below = rows.copy(), rows.copy()
    above[:, column] = np.nextafter(rows[:, column], np.inf)
    below[:, column] = np.nextafter(rows[:, column], -np.inf)
    return np.concatenate([rows, above, below])


# --- unit vectors ---------------------------------------------------------------------------------


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
    rows = np.concatenate([neighbours(exact), exact * factor, -exact, exact * 2.0**power])
    assert_unit_grid(rows)
    halfway = grid.unit_grid(exact)[0][0, 0]
    assert halfway in (number, number + 1)
    assert halfway % 2 == 0


def test_short_rows_with_rational_and_irrational_lengths() -> None:
    row = np.array([[2.0**26 - 1, math.sqrt(2.0**27 - 1)]])  # a length of nearly 2^26
    assert_unit_grid(np.concatenate([neighbours(row, 0), neighbours(row, 1)]))
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
    assert_unit_grid(neighbours(rows, 0)[:16])


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
    rows = np.concatenate([neighbours(unit, 0), -neighbours(unit, 0)]) * 2.0**power
    assert_scaled_grid(rows)
    exponent = grid.scaled_grid(neighbours(unit[:1]) * 2.0**power)[1]
    assert exponent.tolist() == [power + 1, power + 1, power]


@pytest.mark.thorough
@given(st.integers(1, 2**25), st.integers(-200, 200))
def test_integer_rows_of_length_two_to_the_26(number: int, power: int) -> None:
    row = unit_halfway(number)
    rows = neighbours(np.array([row], np.float64), len(row) - 1)
    assert_scaled_grid(np.concatenate([rows, neighbours(rows[:1], 0)]) * 2.0**power)


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
    assert_scaled_grid(np.concatenate([neighbours(rows, 1), -rows]))
    assert grid.scaled_grid(rows[:4])[0][:, 1].tolist() == [0, 2, 2, 4]


def test_subnormals_beside_a_length() -> None:
    assert_scaled_grid(np.array([[1.0, TINIEST], [2.0**-480, TINIEST], [2.0**480, 1e-310]]))


# --- cityblock ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[1.0, 0], [0.5, 0.5], [0.25, 0.75]]),
        neighbours(np.array([[1.0, 0], [0.5, 0.5]])),
        neighbours(np.array([[2.0**-300, 0], [0, 2.0**-301]])),
        np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [1e-20, 1, 1e-17]]),
        np.array([[1e100, 1e84], [1e83, 1e84]]),
        np.zeros((3, 2)),
        np.array([[1.0, TINIEST], [0, 0]]),
    ],
)
def test_cityblock_is_rounded_as_defined(rows: np.ndarray) -> None:
    space = make("cityblock", rows)
    assert exact(space) == scores.distances("cityblock", rows.tolist(), None)
    np.testing.assert_array_equal(pairs(space), tile(space))


# --- distances ------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("distance", VECTORS)
def test_distances_against_fractions(distance: str) -> None:
    rows, gallery = mixed_rows(), mixed_rows(2)[3:]
    for other in (None, gallery):
        space = make(distance, rows, other)
        expected = scores.distances(
            distance, rows.tolist(), None if other is None else other.tolist()
        )
        assert exact(space) == expected
        np.testing.assert_array_equal(pairs(space), tile(space))


@pytest.mark.parametrize("distance", VECTORS)
@pytest.mark.parametrize("rows", [mixed_rows(), np.zeros((3, 4)), -np.zeros((3, 4)), -np.eye(4)])
def test_distances_are_symmetric_and_have_no_negative_zero(distance: str, rows: np.ndarray) -> None:
    space = make(distance, rows)
    matrix = tile(space)
    np.testing.assert_array_equal(matrix, matrix.T)
    for values in (matrix, pairs(space), space.in_unit(matrix)):
        assert not (np.signbit(values) & (values == 0)).any()
    if distance != "dot":
        assert (space.in_unit(matrix) >= 0).all()


@pytest.mark.parametrize("distance", ["precomputed", "similarity"])
def test_given_matrices_have_no_negative_zero(distance: str) -> None:
    space = make(distance, np.array([[0.0, -0.0], [-1.0, 1.0]]))
    for values in (tile(space), pairs(space)):
        np.testing.assert_array_equal(np.abs(values), [[0, 0], [1, 1]])
        assert not np.signbit(values[0]).any()


def test_only_equal_rows_are_at_distance_zero() -> None:
    rows = np.random.default_rng(4).standard_normal((60, 6)).astype(np.float32)
    rows[30:] = rows[:30] + np.float32(1e-6) * (np.arange(30)[:, None] % 3)
    for distance in ("cosine", "euclidean", "cityblock"):
        space = make(distance, rows)
        same = np.equal.outer(as_keys(space.query_digests), as_keys(space.gallery_digests))
        np.testing.assert_array_equal(space.in_unit(tile(space)) == 0, same)


@pytest.mark.parametrize("distance", VECTORS)
def test_zero_rows(distance: str) -> None:
    rows = np.array([[0.0, 0, 0], [-0.0, 0, 0], [3, 4, 0], [0, 0, 2]])
    space = make(distance, rows)
    expected = {
        "cosine": [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]],
        "euclidean": [
            [0, 0, 5, 2],
            [0, 0, 5, 2],
            [5, 5, 0, math.sqrt(29)],
            [2, 2, math.sqrt(29), 0],
        ],
        "dot": [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, -25, 0], [0, 0, 0, -4]],
        "cityblock": [[0, 0, 7, 2], [0, 0, 7, 2], [7, 7, 0, 9], [2, 2, 9, 0]],
    }[distance]
    np.testing.assert_allclose(space.in_unit(tile(space)), expected, rtol=1e-15, atol=2e-8)
    np.testing.assert_array_equal(pairs(space), tile(space))
    assert space.facts.zero_rows == 2


@pytest.mark.parametrize("distance", [*VECTORS, "precomputed", "similarity"])
def test_units_against_floating_point(distance: str) -> None:
    rng = np.random.default_rng(5)
    rows, items = rng.standard_normal((2, 20, 20)).astype(np.float32).astype(np.float64)
    difference = rows[:, None] - items[None]
    cosine = rows @ items.T
    cosine /= np.linalg.norm(rows, axis=1)[:, None] * np.linalg.norm(items, axis=1)[None]
    expected = {
        "cosine": 1 - cosine,
        "euclidean": np.linalg.norm(difference, axis=2),
        "dot": -rows @ items.T,
        "cityblock": np.abs(difference).sum(axis=2),
        "precomputed": rows,
        "similarity": rows,
    }[distance]
    space = make(distance, rows, None if "pre" in distance or "sim" in distance else items)
    tolerance = {"dot": 2e-6, "cityblock": 1e-13, "precomputed": 0, "similarity": 0}.get(
        distance, 3e-7
    )
    np.testing.assert_allclose(space.in_unit(tile(space)), expected, rtol=0, atol=tolerance)
    if distance == "similarity":  # larger is nearer
        np.testing.assert_array_equal(np.argsort(tile(space)[0]), np.argsort(-rows[0]))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64])
def test_hamming_counts_unequal_components(dtype: type) -> None:
    rng = np.random.default_rng(6)
    bits = rng.integers(0, 2 if dtype is bool else 5, (2, 12, 30)).astype(dtype)
    for rows, items in (bits, (bits[0] > 0, bits[1] > 0), (bits[0] > 0, bits[1])):
        space = make("hamming", rows, items)
        unequal = (rows[:, None].astype(int) != items[None].astype(int)).sum(axis=2)
        np.testing.assert_array_equal(space.in_unit(tile(space)), unequal)
        np.testing.assert_array_equal(pairs(space), unequal)


def test_an_outlier_does_not_change_other_euclidean_distances() -> None:
    rows = mixed_rows()
    with_outlier = np.concatenate([rows, rows[:1] * 1e7])
    for distance in ("euclidean", "dot", "cosine"):
        space, other = make(distance, rows), make(distance, with_outlier)
        np.testing.assert_array_equal(tile(other)[:-1, :-1], tile(space))


@pytest.mark.parametrize("distance", ["euclidean", "dot", "cityblock"])
def test_lengths_beyond_the_range_are_refused(distance: str) -> None:
    for edge in (2.0**480, 2.0**-480):
        rows = np.array([[1.0, 2], [edge, 0], [3, 4]])
        space = make(distance, rows)
        np.testing.assert_array_equal(tile(space), pairs(space))
        assert np.isfinite(tile(space)).all()
        rows[1, 0] = np.nextafter(edge, np.inf if edge > 1 else 0)
        with pytest.raises(truerank.InputError) as caught:
            make(distance, rows)
        for words in ("embeddings row 1 of 3", "2^480", "rescale the embeddings"):
            assert words in str(caught.value)
    assert np.isfinite(tile(make("cosine", np.array([[1e300, 1], [1e-300, 1e-300]])))).all()


@pytest.mark.parametrize("distance", ["euclidean", "dot"])
def test_the_extremes_of_the_range_are_exact(distance: str) -> None:
    rows = np.array([[2.0**480, 3.0], [-(2.0**480), 2.0**470], [2.0**-480, 0], [0, 0], [1, 1]])
    assert exact(make(distance, rows)) == scores.distances(distance, rows.tolist(), None)


def test_junk_columns_leave_the_space() -> None:
    rows, columns = mixed_rows(), np.array([0, 3, 4, 11])
    for distance in (*VECTORS, "precomputed", "similarity"):
        matrix = rows if distance in VECTORS else tile(make("euclidean", rows))
        whole, part = make(distance, matrix), make(distance, matrix, None, columns)
        assert (part.queries, part.gallery) == (14, 4)
        if distance == "cityblock":
            np.testing.assert_array_equal(
                part.in_unit(tile(part)), whole.in_unit(tile(whole))[:, columns]
            )
        else:
            np.testing.assert_array_equal(tile(part), tile(whole)[:, columns])
        np.testing.assert_array_equal(tile(part), pairs(part))


# --- what the result says -------------------------------------------------------------------------


def test_merged_rows_are_counted() -> None:
    base = np.array([1.0, 2, 3], np.float32)
    far = np.array([3.0, 2, 1], np.float32)
    near = np.nextafter(base, np.float32(0))
    assert make("cosine", np.stack([base, far])).facts.merged_rows == 0
    assert (
        make("cosine", np.stack([base, far, base])).facts.merged_rows == 0
    )  # equal from the start
    assert make("cosine", np.stack([base, far, 2 * base])).facts.merged_rows == 1
    assert make("euclidean", np.stack([base, far, 2 * base])).facts.merged_rows == 0
    tiny = base.astype(np.float64) * [[1], [1 + 2.0**-50]]
    assert make("cosine", tiny).facts.merged_rows == 1
    assert make("euclidean", tiny).facts.merged_rows == 1
    assert make("cosine", base[None], np.stack([3 * base, far])).facts.merged_rows == 1
    assert make("cosine", np.stack([base, near])).facts.merged_rows == 0
    assert make("cosine", np.array([[0.0, 1], [-0.0, 1]])).facts.merged_rows == 0


@pytest.mark.parametrize("distance", ["euclidean", "dot", "cityblock"])
def test_float64_that_does_not_fit_the_grid_is_announced(distance: str) -> None:
    rows = np.random.default_rng(7).standard_normal((6, 40))
    rows[0] *= 1e6  # cityblock holds 52 bits below the largest norm: the small rows lose some
    labels = [0, 0, 1, 1, 2, 2]
    with pytest.warns(truerank.TruerankWarning, match="more significant bits") as caught:
        result = truerank.evaluate(rows, labels, distance=distance)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    notes = result.provenance["distance"]["notes"]
    assert len(notes) == 1
    assert distance in notes[0]


@pytest.mark.parametrize("distance", VECTORS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_what_float32_holds_is_not_announced(distance: str, dtype: str) -> None:
    rows = np.random.default_rng(8).standard_normal((6, 5)).astype(np.float32)
    rows = np.rint(rows * 1000).astype(dtype) if dtype == "int64" else rows.astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = truerank.evaluate(rows, [0, 0, 1, 1, 2, 2], distance=distance)
    assert result.provenance["distance"]["notes"] == []


def test_cosine_is_silent_about_float64() -> None:
    """Its grid is finer than what a direction in float32 carries, and merged rows are reported."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = truerank.evaluate(np.random.default_rng(9).random((4, 3)), [0, 0, 1, 1])
    assert result.provenance["distance"]["notes"] == []


# --- trust nothing --------------------------------------------------------------------------------

ROWS = np.random.default_rng(10).standard_normal((40, 6)).astype(np.float32)
LABELS = np.arange(40) % 8


def off_by_one_unit(
    block: Callable[..., Any], where: Callable[[np.ndarray, int, int], Any]
) -> Callable[..., Any]:
    """A Space's block whose tiles are off by the smallest amount at one place."""

    def wrong(self: Space, rows: np.ndarray) -> Any:
        right = block(self, rows)

        def give(start: int, stop: int) -> np.ndarray:
            distances = right(start, stop)
            at = where(rows, start, stop)
            distances[at] = np.nextafter(distances[at], np.inf)
            return distances

        return give

    return wrong


@pytest.mark.parametrize("distance", [*VECTORS, "hamming"])
def test_a_product_that_is_off_by_one_unit_is_refused(
    distance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ROWS > 0 if distance == "hamming" else ROWS
    kind = type(make(distance, rows))
    probe(make(distance, rows))
    monkeypatch.setattr(kind, "block", off_by_one_unit(kind.block, lambda *_: (-1, -1)))
    with pytest.raises(truerank.ExactnessError, match=r"not exact: 1 of \d+ checked .* given rows"):
        probe(make(distance, rows))
    with pytest.raises(truerank.ExactnessError, match="integer arithmetic"):
        truerank.evaluate(rows, LABELS, distance=distance)


@pytest.mark.parametrize("bits", [24, 40, 48, 50])
def test_sums_in_lower_precision_show_on_rows_made_for_it(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own rows may be so simple that even a poor product gets them right."""

    def poor(self: SquaredDistance, rows: np.ndarray) -> Any:
        def give(start: int, stop: int) -> np.ndarray:
            right = self._right.integers[start:stop].astype(np.float64)
            mantissa, exponent = np.frexp(self._left.integers[rows] @ (-2 * right.T))
            product = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
            return product + self._left_square[rows, None] + self._right_square[start:stop]

        return give

    simple = make("hamming", np.eye(40, dtype=bool))
    monkeypatch.setattr(SquaredDistance, "block", poor)
    np.testing.assert_array_equal(tile(simple), 2 - 2 * np.eye(40))
    with pytest.raises(truerank.ExactnessError, match=r"all-positive rows|outlier dimension"):
        probe(simple)


WAYS = {"counted": 1.0, "sorted": 0.0}
"""Tiles are counted against few relevant items; with many, whole rows are sorted."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("distance", VECTORS)
def test_the_engine_finds_a_tile_that_is_off(
    distance: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mate that is not met at its own exact distance, wherever the probe looks."""
    view, space = truerank.Task(LABELS).view, make(distance, ROWS)

    def last_mate(block: np.ndarray, start: int, stop: int) -> Any:
        mates = np.equal.outer(LABELS[block], LABELS[start:stop])
        mates &= block[:, None] != np.arange(start, stop)
        found = np.argwhere(mates)
        return tuple(found[-1]) if len(found) else ([], [])

    with engine.settings(sort_share=WAYS[way]):
        assert len(list(engine.tie_groups(view, space, device="cpu"))) == 1
    kind = type(space)
    monkeypatch.setattr(kind, "block", off_by_one_unit(kind.block, last_mate))
    with engine.settings(sort_share=WAYS[way]), pytest.raises(truerank.ExactnessError):
        list(engine.tie_groups(view, space, device="cpu"))


def test_the_engine_finds_an_excluded_pair_that_is_off() -> None:
    """The query itself, counted in one place and taken out in another."""

    class Off(type(make("cosine", ROWS))):  # type: ignore[misc]
        def pairs(self, query: np.ndarray, item: np.ndarray) -> np.ndarray:
            distances = super().pairs(query, item)
            distances[query == item] = 2.0**51
            return distances

    space = make("cosine", ROWS)
    space.__class__ = Off
    labels = np.zeros(40, int)
    with engine.settings(sort_share=1.0), pytest.raises(truerank.ExactnessError):
        list(engine.tie_groups(truerank.Task(labels).view, space, device="cpu"))
