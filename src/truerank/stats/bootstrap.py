"""The class bootstrap for a fixed gallery: whole classes of queries drawn with replacement.

Each class's sum of values, and the number of its queries, come in. A resample weighs classes by how
often they were drawn; its score is the weighted sum over the weighted number (a ratio estimator).
All sums are integers below 2^53, so that a matrix product gives the same bits everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["FEWEST_DRAWN", "RESAMPLES", "ClassSums", "error_of_mean", "standard_errors"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

RESAMPLES = 2000
FEWEST_DRAWN = 30
"""With fewer classes to draw from, intervals were seen to hold the truth too rarely."""
_CHUNK = 1 << 22
GRID = 2.0**30
"""Sums are held in units of 2^-30: up to 2^23 queries their total stays below 2^53."""


@dataclass(frozen=True)
class ClassSums:
    """The sum of values and the number of queries of every class with a query that counts."""

    total: Reals
    count: Reals

    def __len__(self) -> int:
        return len(self.total)

    @property
    def mean(self) -> float:
        """The score of all classes together."""
        return float(self.total.sum() / self.count.sum() / GRID)

    @staticmethod
    def of(
        values: Reals,
        codes: Integers,
        classes: Integers | None = None,
        *,
        among: Flags | None = None,
    ) -> ClassSums:
        """Sums from values of queries, NaN where one does not count; units in the order of codes.

        With `classes`, the class of each query, a class counts once, with the mean of its queries.
        The units of the queries `among` are all there, with 0 if none of theirs counts.
        """
        held = ~np.isnan(values)
        fixed = np.rint(values[held] * GRID).astype(np.int64)
        own, weight = codes[held], np.ones(len(fixed), np.int64)
        if classes is not None:
            both, place = np.unique(np.stack([own, classes[held]]), axis=1, return_inverse=True)
            sums = np.zeros(both.shape[1], np.int64)
            np.add.at(sums, place.ravel(), fixed)
            own, fixed = both[0], np.rint(sums / np.bincount(place.ravel())).astype(np.int64)
            weight = np.ones(len(own), np.int64)
        units = int(codes.max()) + 1
        total, number = np.zeros((2, units), np.int64)
        np.add.at(total, own, fixed)
        np.add.at(number, own, weight)
        alive = np.flatnonzero(number) if among is None else np.unique(codes[among])
        return ClassSums(total[alive].astype(np.float64), number[alive].astype(np.float64))

    def in_order(self) -> ClassSums:
        """The classes in the order of their sums and counts, so that their names cannot show."""
        order = np.lexsort((self.total, self.count))
        return ClassSums(self.total[order], self.count[order])


def standard_errors(sums: list[ClassSums], seed: int) -> list[float]:
    """The standard error of each score; those over as many classes share their resamples."""
    out = [float("nan")] * len(sums)
    for classes in sorted({len(some) for some in sums}):
        which = [place for place, some in enumerate(sums) if len(some) == classes]
        if classes < 2:
            continue
        table = np.column_stack([sums[i].total for i in which] + [sums[i].count for i in which])
        ratios = _resample(table, classes, seed)
        # n - 1 observations are free to vary, while a resample varies as if all n were
        wider = math.sqrt(classes / (classes - 1))
        for place, column in zip(which, ratios.T, strict=True):
            out[place] = wider * _spread(column)
    return out


def error_of_mean(sums: list[ClassSums], seed: int) -> float:
    """The standard error of the mean of scores over the same classes, which are drawn together."""
    classes = len(sums[0])
    table = np.column_stack([some.total for some in sums] + [some.count for some in sums])
    ratios = _resample(table, classes, seed)
    together = ratios[:, 0]
    for column in ratios.T[1:]:
        together = together + column
    return math.sqrt(classes / (classes - 1)) * _spread(together / len(sums))


def _resample(table: Reals, classes: int, seed: int) -> Reals:
    """(resamples, metrics) ratios of the sums in the left half of the table to the right half."""
    metrics = table.shape[1] // 2
    numbers = np.random.Philox(key=seed)
    ratios = np.empty((RESAMPLES, metrics))
    step = max(1, _CHUNK // classes)
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        raw = numbers.random_raw(rows * classes) >> np.uint64(32)
        drawn = (raw * np.uint64(classes) >> np.uint64(32)).astype(np.int64)
        drawn += np.repeat(np.arange(rows) * classes, classes)
        weights = np.bincount(drawn, minlength=rows * classes).reshape(rows, classes)
        sums = weights.astype(np.float64) @ table
        ratios[start : start + rows] = sums[:, :metrics] / sums[:, metrics:] / GRID
    return ratios


def _spread(values: Reals) -> float:
    """The standard deviation of values."""
    centre = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((values - centre) ** 2) / (len(values) - 1))
