"""k-means: rows in, the number of each row's cluster out. Seeded, the same for any threads.

Centres start spread out (k-means++, drawn a sixteenth at a time where there are many), move to the
mean of their rows until none changes hands, and the best of several starts is kept.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

__all__ = ["kmeans"]

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

STARTS, STEPS = 5, 50
ROUNDS = 16
CHUNK = 2048
"""Rows worked on at a time: fixed, so that threads cannot change a sum."""
WORK = 2e12
"""Multiplications that all starts may take; large data sets get fewer starts and steps."""


def kmeans(rows: Reals, count: int, seed: int, threads: int) -> Integers:
    """Clusters of rows by squared distance."""
    step_cost = float(rows.shape[0]) * count * rows.shape[1]
    steps = int(max(5, min(STEPS, WORK / step_cost / STARTS)))
    starts = int(max(1, min(STARTS, WORK / (step_cost * steps))))
    best, least = np.zeros(len(rows), np.int64), np.inf
    numbers = np.random.Generator(np.random.Philox(key=seed))
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        for _ in range(starts):
            centres = _spread(rows, count, numbers, pool)
            nearest, distance = _assign(rows, centres, pool)
            for _ in range(steps):
                centres = _means(rows, nearest, distance, centres)
                moved, distance = _assign(rows, centres, pool)
                settled = np.array_equal(moved, nearest)
                nearest = moved
                if settled:
                    break
            if distance.sum() < least:
                best, least = nearest, float(distance.sum())
    return best


def _spread(
    rows: Reals, count: int, numbers: np.random.Generator, pool: ThreadPoolExecutor
) -> Reals:
    chosen = [int(numbers.integers(len(rows)))]
    distance = _assign(rows, rows[chosen], pool)[1]
    while len(chosen) < count:
        total = np.cumsum(distance)
        draws = min(count - len(chosen), max(1, count // ROUNDS))
        if total[-1] <= 0:  # fewer distinct rows than centres
            fresh = numbers.integers(len(rows), size=draws)
        else:
            fresh = np.searchsorted(total, numbers.random(draws) * total[-1], side="right")
            fresh = np.minimum(fresh, len(rows) - 1)
        chosen += fresh.tolist()
        distance = np.minimum(distance, _assign(rows, rows[fresh], pool)[1])
    return rows[chosen].copy()


def _assign(rows: Reals, centres: Reals, pool: ThreadPoolExecutor) -> tuple[Integers, Reals]:
    """The nearest centre of each row, and its squared distance."""
    half = (centres * centres).sum(axis=1) / 2

    def work(bounds: tuple[int, int]) -> tuple[Integers, Reals]:
        some = rows[slice(*bounds)]
        scores = some @ centres.T - half
        at = scores.argmax(axis=1)
        apart = (some * some).sum(axis=1) - 2 * scores[np.arange(len(some)), at]
        return at, np.maximum(apart, 0.0)

    parts = list(pool.map(work, pairwise([*range(0, len(rows), CHUNK), len(rows)])))
    return np.concatenate([at for at, _ in parts]), np.concatenate([d for _, d in parts])


def _means(rows: Reals, nearest: Integers, distance: Reals, centres: Reals) -> Reals:
    """Means of the clusters; an empty one starts again at one of the rows farthest from theirs."""
    size = np.bincount(nearest, minlength=len(centres))
    order = np.argsort(nearest, kind="stable")
    held = np.flatnonzero(size)
    first = np.concatenate([[0], np.cumsum(size[held])[:-1]])
    moved = np.empty_like(centres)
    moved[held] = np.add.reduceat(rows[order], first, axis=0) / size[held, None]
    empty = np.flatnonzero(size == 0)
    moved[empty] = rows[np.argsort(-distance, kind="stable")[: len(empty)]]
    return moved
