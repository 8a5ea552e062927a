"""Clustering metrics with their definitions: NMI, AMI and pairwise F1 of clusters and classes.

They depend on a clustering and its seed, and NMI and F1 are high for random embeddings if
classes are many and small: chance stands beside each score. k-means is in
evaluation/clustering.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truerank._util.types import Integers
from truerank.core.metric import Definition, register

# Clustering metrics: how well clusters agree with classes.


@dataclass(frozen=True)
class Contingency:
    """How classes and clusters overlap; sizes ascend, so that no name or number shows in a sum."""

    both: Integers
    """Rows that each class and each cluster have in common, where there are any."""
    classes: Integers
    """Rows in each class."""
    clusters: Integers
    """Rows in each cluster."""

    @staticmethod
    def of(labels: Integers, clusters: Integers) -> Contingency:
        """The overlap of each row's class with its cluster, both given by number."""
        pairs = labels * (int(clusters.max()) + 1) + clusters
        sizes = [np.unique(codes, return_counts=True)[1] for codes in (pairs, labels, clusters)]
        return Contingency(*map(np.sort, sizes))

    @property
    def total(self) -> int:
        """Number of all rows."""
        return int(self.classes.sum())

    def information(self) -> float:
        """Mutual information, H(class) + H(cluster) - H(both)."""
        return max(0.0, sum(map(_entropy, (self.classes, self.clusters))) - _entropy(self.both))

    def mean_entropy(self) -> float:
        """The mean entropy of classes and clusters (the arithmetic normalisation)."""
        return (_entropy(self.classes) + _entropy(self.clusters)) / 2


def _entropy(sizes: Integers) -> float:
    share = sizes / sizes.sum()
    return float(-(share * np.log(share)).sum())


def _nmi(found: Contingency) -> float:
    mean = found.mean_entropy()
    return 1.0 if mean == 0 else min(1.0, found.information() / mean)


def _ami(found: Contingency) -> float:
    expected = _expected_information(found)
    mean = found.mean_entropy()
    if mean == expected:
        return 1.0
    return (found.information() - expected) / (mean - expected)


def _expected_information(found: Contingency) -> float:
    """Expected information over all clusters of these sizes (Vinh, Epps & Bailey 2010).

    Classes of one size share their terms, as do clusters.
    """
    total = found.total
    logs = np.log(np.arange(1, total + 1))
    factorial = np.concatenate([[0.0], np.cumsum(logs)])
    expected = 0.0
    for a, classes in zip(*np.unique(found.classes, return_counts=True), strict=True):
        for b, clusters in zip(*np.unique(found.clusters, return_counts=True), strict=True):
            n = np.arange(max(1, a + b - total), min(a, b) + 1)
            log_chance = (
                factorial[a]
                + factorial[b]
                + factorial[total - a]
                + factorial[total - b]
                - factorial[total]
                - factorial[n]
                - factorial[a - n]
                - factorial[b - n]
                - factorial[total - a - b + n]
            )
            terms = n / total * (logs[total - 1] + logs[n - 1] - logs[a - 1] - logs[b - 1])
            expected += float(classes * clusters * (terms * np.exp(log_chance)).sum())
    return expected


def _pairwise_f1(found: Contingency) -> float:
    """F1 of the pairs in one cluster, taken as predictions of the pairs in one class."""
    together, classes, clusters = (
        int((sizes * (sizes - 1) // 2).sum())
        for sizes in (found.both, found.classes, found.clusters)
    )
    return 1.0 if classes + clusters == 0 else 2 * together / (classes + clusters)


FORMULAS: dict[str, Callable[[Contingency], float]] = {
    "nmi": _nmi,
    "ami": _ami,
    "pairwise_f1": _pairwise_f1,
}


# The definitions of clustering metrics.


_REALITY = "Musgrave, Belongie & Lim, A Metric Learning Reality Check, ECCV 2020"

for _name, _title, _text, _source in (
    (
        "nmi",
        "normalised mutual information",
        "information that k-means clusters and classes share, over the mean of their entropies",
        f"Vinh, Epps & Bailey, JMLR 2010; why not to trust it: {_REALITY}",
    ),
    (
        "ami",
        "adjusted mutual information",
        "the same, less what random clusters of the same sizes share: 0 for luck, 1 at best",
        "Vinh, Epps & Bailey, Information Theoretic Measures for Clusterings Comparison, JMLR 2010",
    ),
    (
        "pairwise_f1",
        "pairwise F1 of clusters",
        "harmonic mean of precision and recall of the pairs in one cluster as pairs of one class",
        "Manning, Raghavan & Schuetze, Introduction to Information Retrieval, 2008, chapter 16",
    ),
):
    register(
        Definition(
            _name,
            _title,
            _text,
            _source,
            range=(-1.0, 1.0) if _name == "ami" else (0.0, 1.0),
            counted="row",
            ties="none: rows are clustered, not ranked",
            family="clustering",
            examples=(_name,),
        )
    )
