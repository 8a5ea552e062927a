"""k-means against what is known of it."""

from __future__ import annotations

import numpy as np
import pytest
from bench.data import clusterings

from tests.builders import clusters
from truerank.evaluation.clustering import kmeans


def against_ten_starts(data_seed: int, seed: int, largest: float) -> tuple[float, float]:
    """AMI of ours and of ten starts of scikit-learn's, in the mean over up to twelve data sets."""
    cluster = pytest.importorskip("sklearn.cluster")
    metrics = pytest.importorskip("sklearn.metrics")
    found = []
    for rows, labels in clusterings(data_seed).values():
        count = len(np.unique(labels))
        if rows.size * count > largest:
            continue
        theirs = cluster.KMeans(count, n_init=10, random_state=seed).fit(rows).labels_
        both = (kmeans(rows, count, seed, 1), theirs)
        found.append([metrics.adjusted_mutual_info_score(labels, one) for one in both])
    ours, theirs = np.mean(found, axis=0)
    return float(ours), float(theirs)


def test_kmeans_is_as_good_as_ten_starts_of_scikit_learns() -> None:
    ours, theirs = against_ten_starts(0, 0, largest=1e7)
    assert ours > theirs - 0.005


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kmeans_is_as_good_as_ten_starts_on_all_data(seed: int) -> None:
    ours, theirs = against_ten_starts(100 * seed, seed, largest=np.inf)
    assert ours > theirs - 0.005


@pytest.mark.parametrize("work", [1, 1e7, 5e8])
def test_kmeans_with_few_passes(monkeypatch: pytest.MonkeyPatch, work: float) -> None:
    """Where the data set is too large for many: every row has a cluster, and the error is low."""
    monkeypatch.setattr("truerank.evaluation.clustering.WORK", work)
    x, y = clusters(3, classes=20, size=15, noise=0.3)
    found = kmeans(x, 20, 0, 1)
    assert found.shape == y.shape
    assert set(found.tolist()) <= set(range(20))
    within = sum(x[found == c].var(axis=0).sum() * (found == c).sum() for c in np.unique(found))
    assert within < 0.5 * x.var(axis=0).sum() * len(x)


@pytest.mark.parametrize("count", [1, 2, 3, 11, 12])
def test_kmeans_of_any_number(count: int) -> None:
    """One cluster, as many as rows, and what is between."""
    rows = np.random.default_rng(count).standard_normal((12, 3))
    assert len(np.unique(kmeans(rows, count, 0, 1))) == count


def test_kmeans_of_two_pairs() -> None:
    rows = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1]])
    found = kmeans(rows, 2, 0, 1)
    assert found[0] == found[1] != found[2] == found[3]


def test_more_centres_than_rows_differ() -> None:
    rows = np.repeat(np.eye(3), 4, axis=0)
    found = kmeans(rows, 6, 0, 1)
    assert len(set(zip(found.tolist(), rows.argmax(axis=1).tolist(), strict=True))) == 3


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truerank.evaluation.clustering.CHUNK", 17)
    x, _ = clusters(4, classes=12, size=10)
    assert np.array_equal(kmeans(x, 12, 5, 1), kmeans(x, 12, 5, 3))
