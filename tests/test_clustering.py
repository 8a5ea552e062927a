"""Clustering metrics of an evaluation: chance, seed, intervals, and where there are none."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from truerank.distance.catalogue import build
from truerank.distance.digests import content_order
from truerank.evaluation.clustering import kmeans


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        yield


def test_separated_classes_are_found() -> None:
    x, y = clusters(1, classes=25, size=8, noise=0.05)
    result = truerank.evaluate(x, y, metrics=["nmi", "ami", "pairwise_f1"])
    assert all(score.value == pytest.approx(1) for score in result.values())


def test_chance_is_what_random_embeddings_get() -> None:
    """The same clusters dealt at random against k-means of embeddings without any sense."""
    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(100), 4)
    found = {"nmi": [], "ami": [], "pairwise_f1": []}
    for _ in range(5):
        result = truerank.evaluate(rng.standard_normal((400, 16)), y, metrics=list(found))
        for name, values in found.items():
            values.append((result[name].value, result[name].chance))
    for name, tolerance in (("nmi", 0.02), ("ami", 0.05), ("pairwise_f1", 0.01)):
        value, chance = np.mean(found[name], axis=0)
        assert value == pytest.approx(chance, abs=tolerance), name
    assert np.mean(found["nmi"]) > 0.65


def test_seed_and_place_in_the_result() -> None:
    x, y = clusters(5)
    names = ["map", "nmi", "hit@1", "ami"]
    one, two = (truerank.evaluate(x, y, metrics=names, seed=3) for _ in range(2))
    assert list(one) == names
    assert one["nmi"].value == two["nmi"].value
    assert one["nmi"] == two["nmi"]
    low, high = one["nmi"].interval
    assert low < one["nmi"].value < high
    plain = truerank.evaluate(x, y, metrics=names, confidence=None)["nmi"]
    assert plain.interval is plain.interval_reason is plain.replicates is None
    assert one["nmi"].adjusted == pytest.approx(
        (one["nmi"].value - one["nmi"].chance) / (1 - one["nmi"].chance)
    )


def test_replicates_leave_classes_out_of_one_clustering() -> None:
    """Against the formula of scikit-learn, over the rows that are left."""
    sklearn = pytest.importorskip("sklearn.metrics")
    x, y = clusters(8, classes=30)
    result = truerank.evaluate(x, y, metrics=["nmi", "ami"], seed=0)
    order = content_order(build("cosine", x).query_digests)
    found = np.empty(len(x), int)
    found[order] = kmeans(x[order] / np.linalg.norm(x[order], axis=1, keepdims=True), 30, 0, 1)
    assert len(result["nmi"].replicates.values) == 30
    for k in (0, 11):
        left = y != k
        for name, formula in (
            ("nmi", sklearn.normalized_mutual_info_score),
            ("ami", sklearn.adjusted_mutual_info_score),
        ):
            expected = formula(y[left], found[left])
            assert result[name].replicates.values[k] == pytest.approx(expected, abs=1e-9)


def test_models_are_compared_by_clusters() -> None:
    x, y = clusters(9, classes=40)
    other = x + np.random.default_rng(1).normal(0, 16, x.shape)
    for sides in ({}, {"gallery": x[1::2], "gallery_labels": y[1::2]}):
        step = 2 if sides else 1
        good, bad = (
            truerank.evaluate(rows[::step], y[::step], metrics="ami", **sides)
            for rows in (x, other)
        )
        [row] = truerank.compare(good, bad).differences
        assert 0 < row.interval[0] < row.value < row.interval[1]
        assert row.p < 0.01


def test_few_classes_have_no_interval() -> None:
    x, y = clusters(10, classes=9)
    assert "9 classes" in truerank.evaluate(x, y, metrics="ami")["ami"].interval_reason


def test_where_there_is_nothing_to_cluster() -> None:
    x, y = clusters(6)
    for distance, rows in (("cityblock", x), ("precomputed", x @ x.T)):
        score = truerank.evaluate(rows, y, metrics=["ami"], distance=distance)["ami"]
        assert math.isnan(score.value)
        assert "k-means needs embeddings" in score.reason


def test_the_warning() -> None:
    x, y = clusters(7, classes=60, size=3)
    warnings.simplefilter("always", truerank.TruerankWarning)
    with pytest.warns(truerank.TruerankWarning, match="random embeddings of these labels"):
        truerank.evaluate(x, y, metrics=["nmi"])
