"""Clustering metrics: k-means with as many clusters as classes, compared with the labels.

Offered because papers report them. They depend on a clustering and its seed, and NMI and F1 are
high for random embeddings if classes are many and small: chance stands beside each score.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.errors import TruerankWarning
from truerank.kmeans import kmeans
from truerank.metrics.registry import Definition, Metric, definition, register
from truerank.metrics.thresholds import certain
from truerank.result import Score
from truerank.space import Space
from truerank.stats import intervals
from truerank.stats.intervals import Interval, Request
from truerank.stats.jackknife import Replicates
from truerank.stats.shares import FEWEST_CLASSES, deal_queries
from truerank.task import Task

__all__ = ["Contingency", "score", "warn"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
PERMUTATIONS = 20
FAMILY = "clustering"


@dataclass(frozen=True)
class Contingency:
    """How classes and clusters overlap."""

    both: Integers
    """Rows in each class and cluster that have any in common,"""
    classes: Integers
    """in each class,"""
    clusters: Integers
    """and in each cluster."""

    @staticmethod
    def of(labels: Integers, clusters: Integers) -> Contingency:
        """From the numbers of each row's class and cluster."""
        pairs = labels * (int(clusters.max()) + 1) + clusters
        sizes = [np.unique(codes, return_counts=True)[1] for codes in (pairs, labels, clusters)]
        return Contingency(*sizes)

    @property
    def total(self) -> int:
        """All rows."""
        return int(self.classes.sum())

    def information(self) -> float:
        """Mutual information, H(class) + H(cluster) - H(both)."""
        return max(0.0, sum(map(_entropy, (self.classes, self.clusters))) - _entropy(self.both))

    def mean_entropy(self) -> float:
        """Of classes and clusters (the arithmetic normalisation)."""
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
    """Over all ways to deal rows to clusters of these sizes (Vinh, Epps & Bailey 2010).

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
    """Of the pairs in one cluster, taken as predictions of the pairs in one class."""
    together, classes, clusters = (
        int((sizes * (sizes - 1) // 2).sum())
        for sizes in (found.both, found.classes, found.clusters)
    )
    return 1.0 if classes + clusters == 0 else 2 * together / (classes + clusters)


_FORMULAS: dict[str, Callable[[Contingency], float]] = {
    "nmi": _nmi,
    "ami": _ami,
    "pairwise_f1": _pairwise_f1,
}


def score(
    task: Task,
    space: Space,
    metrics: list[Metric],
    seed: int,
    threads: int,
    request: Request | None,
) -> dict[str, Score]:
    """Every clustering metric's score; all are of one clustering of the queries.

    Intervals come from leaving shares of the classes out of the same clustering.
    """
    rows = space.vectors()
    reason = None
    if task.levels is None:
        reason = "not defined: there are no labels to compare clusters with"
    elif rows is None:
        reason = "not defined: k-means needs embeddings and the cosine or euclidean distance"
    if reason is not None or rows is None:
        nan = float("nan")
        return {str(m): Score(str(m), nan, nan, nan, nan, reason=reason) for m in metrics}
    labels = np.unique(task.query_codes, return_inverse=True)[1]
    clusters = kmeans(rows, int(labels.max()) + 1, seed, threads)
    found = Contingency.of(labels, clusters)
    shuffled = _shuffled(labels, clusters, seed)
    without = None if request is None else _without(space, labels, clusters, request.seed)
    out = {}
    for metric in metrics:
        formula = _FORMULAS[metric.name]
        value = formula(found)
        chance = sum(map(formula, shuffled)) / len(shuffled)
        interval = Interval()
        if request is not None and without is None:
            interval = intervals.too_few(len(found.classes), "class", FEWEST_CLASSES)
        elif request is not None and without is not None:
            own, paired = (Replicates(tuple(map(formula, part))) for part in without)
            limits = definition(metric).range
            interval = intervals.from_replicates(value, own, paired, request.confidence, limits)
        out[str(metric)] = interval.put_on(certain(metric, value, len(labels), chance=chance))
    return out


def _without(
    space: Space, labels: Integers, clusters: Integers, seed: int
) -> tuple[list[Contingency], list[Contingency]] | None:
    """Without each of the own and of the paired shares of the classes; None if they are too few."""
    everybody = np.ones(len(labels), bool)
    dealing = deal_queries(space.fingerprints(), labels, everybody, seed)
    if dealing is None:
        return None
    found = []
    for column in range(2 * dealing.shares):
        left = (dealing.query != column).all(axis=1)
        rest = np.unique(labels[left], return_inverse=True)[1]
        found.append(Contingency.of(rest, clusters[left]))
    return found[: dealing.shares], found[dealing.shares :]


def _shuffled(labels: Integers, clusters: Integers, seed: int) -> list[Contingency]:
    """The same clusters dealt at random: what embeddings without any sense would get."""
    numbers = np.random.Generator(np.random.Philox(key=seed + 1))
    return [Contingency.of(labels, numbers.permutation(clusters)) for _ in range(PERMUTATIONS)]


def warn(scores: dict[str, Score]) -> None:
    """Say what random embeddings get, where that is much."""
    high = [s for name, s in scores.items() if name != "ami" and (s.chance or 0) > 0.05]
    if high:
        shown = ", ".join(f"{s.metric} {100 * (s.chance or 0):.1f} %" for s in high)
        warnings.warn(
            f"random embeddings of these labels score {shown}: clustering metrics say little about "
            "an embedding space; read ami, or better map@r.",
            TruerankWarning,
            stacklevel=4,
        )


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
            family=FAMILY,
            examples=(_name,),
        )
    )
