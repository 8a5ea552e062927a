"""Clustering scores of embeddings: k-means with as many clusters as classes, against the labels.

k-means is seeded and gives the same clusters for any number of threads. The best of a few
starts by greedy k-means++ is improved by breathing (Fritzke 2020): centres are added where the
error is largest, equally many are removed where they are missed least, and a better result is
kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from truerank._util import errors
from truerank._util.cluster import Call
from truerank._util.text import either
from truerank._util.threads import single_threaded_blas
from truerank._util.types import Integers, Reals
from truerank.core.jackknife import FEWEST_CLASSES, FoldAssignment
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.distance import catalogue
from truerank.distance.base import Space
from truerank.distance.digests import classes_of_equals
from truerank.intervals.interval import Interval, IntervalRequest, from_replicates, too_few
from truerank.intervals.jackknife_groups import deal_queries
from truerank.metrics.clustering import FORMULAS, Contingency
from truerank.metrics.thresholds.definitions import certain
from truerank.task.task import TaskRules

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
            interval = too_few(len(found.classes), "class", FEWEST_CLASSES)
        elif request is not None and without is not None:
            folds, left = without
            own, paired = folds.replicates(np.array([formula(part) for part in left]))
            limits = definition(metric).range
            interval = from_replicates(value, own, paired, request.confidence, limits)
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
    """Warn where random embeddings score high."""
    high = [s for name, s in scores.items() if name != "ami" and (s.chance or 0) > 0.05]
    if high:
        shown = ", ".join(f"{s.metric} {100 * (s.chance or 0):.1f} %" for s in high)
        errors.warn(
            f"random embeddings of these labels score {shown}: clustering metrics say little about "
            "an embedding space; read ami, or better map@r."
        )


# k-means: rows in, the number of each row's cluster out. Seeded, the same for any threads.
#
# The best of a few starts by greedy k-means++ then breathes (Fritzke 2020): centres are added
# where the error is largest, as many are taken away where they are missed least, and what is
# better is kept. That finds clusterings no worse than ten starts do, in less time.


Part = TypeVar("Part")

STARTS, BREATH = 3, 5
PASSES = 400
"""Distances of all rows to all centres, over everything; few searches need more than half of it."""
SETTLED = 1e-3
"""A search goes on from where a step gains less than this share; only the result settles fully."""
ROUNDS = 16
CHUNK = 2048
"""Rows worked on at a time: fixed, so that threads cannot change a sum."""
WORK = 2e12
"""Multiplications in all; large data sets get fewer passes."""


def kmeans(rows: Reals, count: int, seed: int, threads: int) -> Integers:
    """Clusters of rows by squared distance."""
    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        search = _Search(rows, count, seed, pool)
        best = search.start()
        for _ in range(search.starts - 1):
            best = min(best, search.start(), key=_error)
        best = search.breathe(best)
        return search.settle(best.centres, gain=0.0).nearest


@dataclass(frozen=True)
class _Clusters:
    """Centres, the one nearest to each row, and the squared distance to it."""

    centres: Reals
    nearest: Integers
    distance: Reals


def _error(clusters: _Clusters) -> float:
    return float(clusters.distance.sum())


class _Search:
    """One set of rows, random numbers, and the passes that are left."""

    def __init__(self, rows: Reals, count: int, seed: int, pool: ThreadPoolExecutor) -> None:
        self.rows, self.count, self.pool = rows, count, pool
        self.squares = np.einsum("ij,ij->i", rows, rows)
        self.numbers = np.random.Generator(np.random.Philox(key=seed))
        self.chunks = [slice(*ends) for ends in pairwise([*range(0, len(rows), CHUNK), len(rows)])]
        self.passes = int(max(6, min(PASSES, WORK / (float(rows.size) * count))))
        self.candidates = 2 + int(math.log(count))
        if self.passes < 2 * self.candidates:  # a greedy start costs as much as so many passes
            self.candidates = 1
        self.starts = STARTS if self.passes >= PASSES // 4 else 1

    def start(self) -> _Clusters:
        """Centres spread out, then moved."""
        return self.settle(self._spread(), SETTLED)

    def settle(self, centres: Reals, gain: float) -> _Clusters:
        """Move centres to the means of their rows until a step gains no more than this share.

        With a gain of 0, until no row changes hands.
        """
        found = self._assign(centres)
        while self.passes > 0:
            moved = self._assign(self._means(found))
            settled = np.array_equal(moved.nearest, found.nearest)
            settled |= _error(moved) > (1 - gain) * _error(found) if gain else False
            found = moved
            if settled:
                break
        return found

    def breathe(self, best: _Clusters) -> _Clusters:
        """Centres where they are needed instead of where they are not, while that helps."""
        breath = min(BREATH, self.count // 2, len(self.rows) - self.count)
        while breath > 0 and self.passes > 0 and _error(best) > 0:
            wider = np.concatenate([best.centres, self._companions(best, breath)])
            narrower = self._without(self.settle(wider, SETTLED), breath)
            found = self.settle(narrower, SETTLED)
            if _error(found) < (1 - 1e-6) * _error(best):
                best = found
            else:
                breath -= 1
        return best

    def _spread(self) -> Reals:
        """k-means++: rows drawn by their distance from those drawn, the best of some candidates.

        Where even that is too much, a sixteenth of the centres is drawn at a time.
        """
        self.passes -= self.candidates
        chosen = [int(self.numbers.integers(len(self.rows)))]
        distance = self._nearer(np.array(chosen), np.full(len(self.rows), np.inf))
        while len(chosen) < self.count:
            if self.candidates > 1:
                fresh, distance = self._best_of(self._draw(distance, self.candidates), distance)
            else:
                left, round_of = self.count - len(chosen), max(1, self.count // ROUNDS)
                fresh = self._draw(distance, min(left, round_of))
                distance = self._nearer(fresh, distance)
            chosen += fresh.tolist()
        return self.rows[chosen].copy()

    def _best_of(self, candidates: Integers, distance: Reals) -> tuple[Integers, Reals]:
        """The candidate that leaves the rows nearest to what is chosen, and how near."""
        parts = self._over_chunks(lambda some: self._apart(candidates, some, distance))
        best = np.sum([part.sum(axis=1) for part in parts], axis=0).argmin()
        return candidates[[best]], np.concatenate([part[best] for part in parts])

    def _draw(self, distance: Reals, count: int) -> Integers:
        """Numbers of rows, each as likely as its distance; all alike where there is none."""
        total = np.cumsum(distance)
        if total[-1] <= 0:  # fewer distinct rows than centres
            return self.numbers.integers(len(distance), size=count)
        found = np.searchsorted(total, self.numbers.random(count) * total[-1], side="right")
        drawn: Integers = np.minimum(found, len(distance) - 1).astype(np.int64)
        return drawn

    def _apart(self, chosen: Integers, some: slice, distance: Reals) -> Reals:
        """(chosen, rows of a chunk): distances to each chosen row where that is nearer."""
        products = self.rows[chosen] @ self.rows[some].T
        apart = self.squares[chosen, None] + self.squares[some] - 2 * products
        nearer: Reals = np.minimum(np.maximum(apart, 0.0), distance[some])
        return nearer

    def _nearer(self, chosen: Integers, distance: Reals) -> Reals:
        parts = self._over_chunks(lambda some: self._apart(chosen, some, distance).min(axis=0))
        return np.concatenate(parts)

    def _assign(self, centres: Reals) -> _Clusters:
        self.passes -= 1
        half = np.einsum("ij,ij->i", centres, centres) / 2

        def work(some: slice) -> tuple[Integers, Reals]:
            scores = self.rows[some] @ centres.T - half
            at = scores.argmax(axis=1)
            apart = self.squares[some] - 2 * scores[np.arange(len(at)), at]
            return at, np.maximum(apart, 0.0)

        nearest, distance = zip(*self._over_chunks(work), strict=True)
        return _Clusters(centres, np.concatenate(nearest), np.concatenate(distance))

    def _means(self, found: _Clusters) -> Reals:
        """Means of the clusters; an empty one starts again at a row farthest from its own."""
        size = np.bincount(found.nearest, minlength=len(found.centres))
        order = np.argsort(found.nearest, kind="stable")
        held = np.flatnonzero(size)
        first = np.concatenate([[0], np.cumsum(size[held])[:-1]])
        moved = np.empty_like(found.centres)
        moved[held] = np.add.reduceat(self.rows[order], first, axis=0) / size[held, None]
        empty = np.flatnonzero(size == 0)
        moved[empty] = self.rows[np.argsort(-found.distance, kind="stable")[: len(empty)]]
        return moved

    def _companions(self, found: _Clusters, count: int) -> Reals:
        """A row of each of the clusters with the largest errors, drawn by its distance."""
        error = np.bincount(found.nearest, found.distance, minlength=len(found.centres))
        worst = np.argsort(-error, kind="stable")[:count]
        own = [np.where(found.nearest == one, found.distance, 0.0) for one in worst]
        drawn = np.concatenate([self._draw(distance, 1) for distance in own])
        companions: Reals = self.rows[drawn]
        return companions

    def _without(self, found: _Clusters, count: int) -> Reals:
        """Take away the centres that are missed least; who inherits from one of them stays."""
        self.passes -= 1
        centres = found.centres
        half = np.einsum("ij,ij->i", centres, centres) / 2

        def work(some: slice) -> tuple[Integers, Reals]:
            scores = self.rows[some] @ centres.T - half
            scores[np.arange(len(scores)), found.nearest[some]] = -np.inf
            at = scores.argmax(axis=1)
            return at, self.squares[some] - 2 * scores[np.arange(len(at)), at]

        second, apart = (
            np.concatenate(part) for part in zip(*self._over_chunks(work), strict=True)
        )
        missed = np.bincount(found.nearest, apart - found.distance, minlength=len(centres))
        stays, gone = np.zeros(len(centres), bool), np.zeros(len(centres), bool)
        for one in np.argsort(missed, kind="stable"):
            if gone.sum() < count and not stays[one]:
                gone[one] = True
                stays[second[found.nearest == one]] = True
        for one in np.argsort(missed, kind="stable"):  # too few may go by that rule
            if gone.sum() < count:
                gone[one] = True
        return centres[~gone]

    def _over_chunks(self, work: Callable[[slice], Part]) -> list[Part]:
        return list(self.pool.map(work, self.chunks))
