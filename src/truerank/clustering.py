"""Clustering scores: k-means with as many clusters as classes, compared with the labels."""

from __future__ import annotations

import warnings
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cluster import Call
from truerank.core.folds import FEWEST_CLASSES, FoldAssignment
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.errors import TruerankWarning
from truerank.families.thresholds import certain
from truerank.kmeans import kmeans
from truerank.metrics.clustering import FORMULAS, Contingency
from truerank.space import Space, catalogue
from truerank.space.digests import classes_of_equals
from truerank.stats import intervals
from truerank.stats.folds import deal_queries
from truerank.stats.intervals import Interval, IntervalRequest
from truerank.task import TaskRules
from truerank.wording import either

__all__ = ["cluster", "cluster_there", "score", "warn"]

Integers = npt.NDArray[np.int64]
PERMUTATIONS = 20
MOST_COLUMNS = 200
"""Most folds that are left out of a clustering, where there are more than so many classes."""


def score(
    task: TaskRules,
    space: Space,
    metrics: list[Metric],
    seed: int,
    threads: int,
    request: IntervalRequest | None,
) -> dict[str, Score]:
    """Every clustering metric's score; all are of one clustering of the queries.

    Intervals come from leaving folds of the classes out of the same clustering.
    """
    reason = None
    if task.levels is None:
        reason = "not defined: there are no labels to compare clusters with"
    elif catalogue.find(space.facts.distance).points is None:
        needed = either(catalogue.names(points=True))
        reason = f"not defined: k-means needs embeddings and the {needed} distance"
    if reason is not None:
        nan = float("nan")
        return {str(m): Score(str(m), nan, nan, nan, nan, reason=reason) for m in metrics}
    labels = np.unique(task.query_codes, return_inverse=True)[1]
    clusters = _clusters(space, int(labels.max()) + 1, seed, threads)
    found = Contingency.of(labels, clusters)
    shuffled = _shuffled(found, seed)
    without = None if request is None else _without(task, space, labels, clusters)
    out = {}
    for metric in metrics:
        formula = FORMULAS[metric.name]
        value = formula(found)
        chance = sum(map(formula, shuffled)) / len(shuffled)
        interval = Interval()
        if request is not None and without is None:
            interval = intervals.too_few(len(found.classes), "class", FEWEST_CLASSES)
        elif request is not None and without is not None:
            folds, left = without
            own, paired = folds.replicates(np.array([formula(part) for part in left]))
            limits = definition(metric).range
            interval = intervals.from_replicates(value, own, paired, request.confidence, limits)
        out[str(metric)] = interval.put_on(certain(metric, value, len(labels), chance=chance))
    return out


def _clusters(space: Space, count: int, seed: int, threads: int) -> Integers:
    """The cluster of each row. Rows that a cluster of machines holds are clustered by one of its
    workers, whose memory they must fit."""
    if space.cluster is None or not space.refers:
        return _cluster_vectors(space, count, seed, threads)
    held = (space.cluster.put(space),)
    call = Call(None, f"{__name__}:cluster_there", held, (count, seed))
    with closing(space.cluster.gather([call])) as answers:
        found: list[Integers] = [answer for _, answer in answers]
    return found[0]


def cluster_there(held: list[Any], count: int, seed: int) -> Integers:
    """A task: the clusters of the rows of a space, which are had from all over the cluster."""
    return _cluster_vectors(held[0], count, seed, 1)


def _cluster_vectors(space: Space, count: int, seed: int, threads: int) -> Integers:
    rows = space.vectors()
    assert rows is not None
    return cluster(space, rows, count, seed, threads)


def cluster(
    space: Space, rows: npt.NDArray[np.float64], count: int, seed: int, threads: int
) -> Integers:
    """The cluster of each row, whatever the order of the rows.

    They are taken in the order of their digests; equal rows go where the first of them goes, for a
    product of matrices may end in other last bits a few lines further down.
    """
    number, times = classes_of_equals(space.query_digests)
    order = np.argsort(number, kind="stable")
    first = np.cumsum(times) - times
    found: Integers = kmeans(rows[order], count, seed, threads)[first][number]
    return found


def _without(
    task: TaskRules, space: Space, labels: Integers, clusters: Integers
) -> tuple[FoldAssignment, list[Contingency]] | None:
    """The folds, and what is left without each; None if there are too few classes."""
    everybody = np.ones(len(labels), bool)
    folds = deal_queries(space.fingerprints(), labels, everybody, task.id_names)
    if folds is None:
        return None
    folds = folds.coarser(MOST_COLUMNS)
    found = []
    for column in range(folds.columns):
        left = (folds.query != column).all(axis=1)
        rest = np.unique(labels[left], return_inverse=True)[1]
        found.append(Contingency.of(rest, clusters[left]))
    return folds, found


def _shuffled(found: Contingency, seed: int) -> list[Contingency]:
    """Scores of clusters of these sizes dealt at random: what senseless embeddings would get."""
    numbers = np.random.Generator(np.random.Philox(key=seed + 1))
    labels, clusters = (
        np.repeat(np.arange(len(sizes)), sizes) for sizes in (found.classes, found.clusters)
    )
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
