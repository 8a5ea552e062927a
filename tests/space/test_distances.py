"""Exact distances against Fractions, and what is said about rows that the grid changes."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import truerank
from tests.oracles import scores
from tests.space.exact import TINIEST, VECTORS, exact, make, mixed_rows, neighbors, pairs, tile
from truerank.distance.digests import as_keys


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[1.0, 0], [0.5, 0.5], [0.25, 0.75]]),
        neighbors(np.array([[1.0, 0], [0.5, 0.5]])),
        neighbors(np.array([[2.0**-300, 0], [0, 2.0**-301]])),
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
