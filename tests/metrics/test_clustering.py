"""The formulas of clustering metrics against scikit-learn and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from truerank.metrics.clustering import Contingency, _ami, _nmi, _pairwise_f1


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
