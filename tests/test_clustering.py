"""Clustering metrics: formulas against scikit-learn, k-means against what is known of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import truerank
from tests.test_intervals import clusters
from truerank.kmeans import kmeans
from truerank.metrics.clustering import Contingency, _ami, _nmi, _pairwise_f1


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        yield


@pytest.mark.parametrize("seed", range(8))
def test_formulas_against_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    labels, found = rng.integers(1 + 5 * seed, size=200), rng.integers(3 + 9 * seed, size=200)
    found[: 20 * seed] = labels[: 20 * seed]
    both = Contingency.of(labels, found)
    assert _nmi(both) == pytest.approx(
        metrics.normalized_mutual_info_score(labels, found), abs=1e-12
    )
    assert _ami(both) == pytest.approx(metrics.adjusted_mutual_info_score(labels, found), abs=1e-10)
    pairs = metrics.pair_confusion_matrix(labels, found)
    f1 = 2 * pairs[1, 1] / (2 * pairs[1, 1] + pairs[0, 1] + pairs[1, 0])
    assert _pairwise_f1(both) == pytest.approx(f1)


def test_pairwise_f1_by_hand() -> None:
    """Classes aab bc, clusters 0 0 0 1 1: one pair of 2 in a class is among the 4 in a cluster."""
    found = Contingency.of(np.array([0, 0, 1, 1, 2]), np.array([0, 0, 0, 1, 1]))
    assert _pairwise_f1(found) == pytest.approx(2 * 1 / (2 + 4))


def test_the_papers_random_clusters() -> None:
    """Each cluster of S rows holds S classes: NMI is 1 - log S/log C, 84.9 % at 10,000 x 4."""
    classes, size = 10_000, 4
    labels = np.tile(np.arange(classes), size)
    found = Contingency.of(labels, np.arange(classes * size) // size)
    assert _nmi(found) == pytest.approx(1 - math.log(4) / math.log(10_000))
    assert _nmi(found) == pytest.approx(0.849485, abs=1e-6)
    assert abs(_ami(found)) < 0.01
    assert _pairwise_f1(found) == 0


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


def test_kmeans_is_no_worse_than_scikit_learns() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    x, _ = clusters(3, classes=20, size=15, noise=0.9)

    def spread(labels: np.ndarray) -> float:
        return sum(
            ((x[labels == c] - x[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels)
        )

    theirs = cluster.KMeans(20, n_init=5, random_state=0).fit(x).labels_
    assert spread(kmeans(x, 20, 0, 1)) < 1.05 * spread(theirs)


def test_kmeans_of_two_pairs() -> None:
    rows = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1]])
    found = kmeans(rows, 2, 0, 1)
    assert found[0] == found[1] != found[2] == found[3]


def test_more_centres_than_rows_differ() -> None:
    rows = np.repeat(np.eye(3), 4, axis=0)
    found = kmeans(rows, 6, 0, 1)
    assert len(set(zip(found.tolist(), rows.argmax(axis=1).tolist(), strict=True))) == 3


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truerank.kmeans.CHUNK", 17)
    x, _ = clusters(4, classes=12, size=10)
    assert np.array_equal(kmeans(x, 12, 5, 1), kmeans(x, 12, 5, 3))


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
    found = kmeans(x / np.linalg.norm(x, axis=1, keepdims=True), 30, 0, 1)
    names, size = np.unique(y, return_counts=True)
    order, numbers = np.lexsort((names, size)), np.random.Philox(key=0).random_raw(70)
    share = np.empty(30, int)
    for start in (0, 20):
        some = order[start : start + 20]
        share[some] = np.argsort(numbers[start : start + 20], kind="stable")[: len(some)]
    for k in (0, 11):
        left = share[y] != k
        for name, formula in (
            ("nmi", sklearn.normalized_mutual_info_score),
            ("ami", sklearn.adjusted_mutual_info_score),
        ):
            expected = formula(y[left], found[left])
            assert result[name].replicates.values[k] == pytest.approx(expected, abs=1e-9)


def test_models_are_compared_by_clusters() -> None:
    x, y = clusters(9, classes=40)
    other = x + np.random.default_rng(1).normal(0, 12, x.shape)
    for sides in ({}, {"gallery": x[1::2], "gallery_labels": y[1::2]}):
        step = 2 if sides else 1
        good, bad = (
            truerank.evaluate(rows[::step], y[::step], metrics="ami", **sides)
            for rows in (x, other)
        )
        [row] = truerank.compare(good, bad).differences
        assert row.interval[0] < row.value < row.interval[1]
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
