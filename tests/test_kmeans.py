"""k-means against what is known of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builders import clusters
from truerank.kmeans import kmeans


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
