"""A copy of the query comes before everything that merely resembles it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import truerank
from tests.oracles import scores

QUERIES, NEAR, WIDTH = 12, 3_000, 8
GAPS = [1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9]


def evaluate(queries: np.ndarray, gallery: np.ndarray, distance: str) -> truerank.Result:
    """The copy of query i is row i of the gallery and its only mate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return truerank.evaluate(
            queries,
            np.arange(QUERIES),
            gallery=gallery,
            gallery_labels=np.concatenate(
                [np.arange(QUERIES), np.full(len(gallery) - QUERIES, -1)]
            ),
            query_ids=[f"query {i}" for i in range(QUERIES)],
            gallery_ids=[f"item {i}" for i in range(len(gallery))],
            distance=distance,
            metrics=["mrr", "hit@1"],
        )


def crowd(gap: float, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Queries, and thousands of rows at about the relative distance ``gap`` from one of them."""
    rng = np.random.default_rng(7)
    queries = rng.standard_normal((QUERIES, WIDTH)).astype(dtype)
    centres = queries[rng.integers(QUERIES, size=NEAR)].astype("float64")
    length = np.linalg.norm(centres, axis=1, keepdims=True)
    near = centres + gap * length * rng.standard_normal((NEAR, WIDTH)) / np.sqrt(WIDTH)
    return queries, near.astype(dtype)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gap", GAPS)
def test_nothing_precedes_the_copy(distance: str, dtype: str, gap: float) -> None:
    """Only rows that the grid merges with the query may share its place; the bounds count them."""
    queries, near = crowd(gap, dtype)
    score = evaluate(queries, np.concatenate([queries, near]), distance)["mrr"]

    grid = {"cosine": scores.cosine_grid, "euclidean": scores.own_scale_grid}[distance]
    near_on_grid = [grid(row) for row in near.tolist()]
    merged = [near_on_grid.count(grid(row)) for row in queries.tolist()]
    np.testing.assert_array_equal(score.per_query.upper, 1.0)
    np.testing.assert_array_equal(score.per_query.lower, [1 / (1 + count) for count in merged])
    if gap >= 1e-5:
        assert not any(merged)


@pytest.mark.parametrize("factor", [0.25, 3.0, 1024.0])
@pytest.mark.parametrize("gap", [1e-4, 1e-6])
def test_cosine_sees_through_the_length_of_the_copy(gap: float, factor: float) -> None:
    queries, near = crowd(gap, "float32")
    copies = queries.astype("float64") * factor
    score = evaluate(queries, np.concatenate([copies, near]), "cosine")["mrr"]
    np.testing.assert_array_equal(score.per_query.lower, 1.0)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_the_nearer_of_two_near_duplicates_comes_first(distance: str) -> None:
    """At gaps well above the grid the order is the true one, whatever the rows' lengths."""
    queries, near = crowd(1e-3, "float64")
    nearer = queries + (near[:QUERIES] - near[:QUERIES].mean()) * 1e-6
    score = evaluate(queries, np.concatenate([nearer, near]), distance)["hit@1"]
    np.testing.assert_array_equal(score.per_query.lower, 1.0)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_an_outlier_does_not_blur_the_rest(distance: str) -> None:
    """One gallery row of enormous length costs the others no resolution."""
    queries, near = crowd(1e-5, "float32")
    alone = evaluate(queries, np.concatenate([queries, near]), distance)["mrr"]
    outlier = np.full((1, WIDTH), 1e9, dtype="float32")
    crowded = evaluate(queries, np.concatenate([queries, near, outlier]), distance)["mrr"]
    np.testing.assert_array_equal(alone.per_query.lower, 1.0)
    np.testing.assert_array_equal(crowded.per_query.lower, 1.0)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_leave_one_out_finds_the_copy_and_not_the_query(distance: str) -> None:
    """The query is removed by its index: the copy stays, though nothing tells the two apart."""
    queries, near = crowd(1e-5, "float32")
    embeddings = np.concatenate([queries, near, queries])
    labels = np.concatenate([np.arange(QUERIES + NEAR), np.arange(QUERIES)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        result = truerank.evaluate(embeddings, labels, distance=distance, metrics=["hit@1", "map"])
    twins = np.flatnonzero(labels < QUERIES)
    for metric in ("hit@1", "map"):
        np.testing.assert_array_equal(result[metric].per_query.lower[twins], 1.0)
