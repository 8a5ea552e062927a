"""The delete-group jackknife: scores without each fold of the classes, as queries and as gallery.

Without a fold, a score loses the fold's queries, and the others move because the fold is gone
from the gallery. The first is known of every query; the second is measured on a sample of queries
(all of them, where that is cheap), whose own noise is taken out of the variance. Sums are taken in
integers, so that they do not depend on the order of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank.core.replicates import Replicates
from truerank.jit import kernel

if TYPE_CHECKING:
    from truerank.core.folds import FoldAssignment

__all__ = ["Stratum", "replicates"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
ONE = 2.0**40
"""Values are summed in units of 2^-40, their squares in units of the square of 2^-20."""
COARSE = 2.0**20


@dataclass(frozen=True)
class Stratum:
    """Queries of one kind, and how some of them move without each fold (NaN: no mate left)."""

    rows: Integers
    sample: Integers
    change: Reals


def replicates(
    folds: FoldAssignment, rows: Integers, values: Reals, strata: list[Stratum], by_class: bool
) -> tuple[Replicates, Replicates]:
    """Replicates over the own and over the paired folds, from the queries that count."""
    count = folds.count
    weight = np.ones(len(folds.query_codes))
    if by_class:
        size = np.bincount(folds.query_codes[rows], minlength=1)
        weight[rows] = 1.0 / size[folds.query_codes[rows]]
    own = folds.query
    left = _left(_fixed(weight[rows]), own[rows], 2 * count)
    base = _left(_fixed(weight[rows] * values), own[rows], 2 * count) / left
    moved = np.zeros(2 * count)
    noise = np.zeros(2 * count)
    for stratum in strata:
        share = _left(_fixed(weight[stratum.rows]), own[stratum.rows], 2 * count) / left
        away = len(stratum.rows) - np.bincount(own[stratum.rows].ravel(), minlength=2 * count)
        centre, variance = _sampled(stratum, own, weight, away)
        moved += share * centre
        noise += share * share * variance
    values_without = base + moved
    return tuple(  # type: ignore[return-value]
        Replicates(
            tuple(values_without[part].tolist()),
            math.fsum(noise[part]) * (count - 1) / count,
        )
        for part in (slice(0, count), slice(count, None))
    )


def _fixed(values: Reals, unit: float = ONE) -> Integers:
    return np.rint(values * unit).astype(np.int64)


def _left(values: Integers, own: Integers, columns: int) -> Reals:
    """Sums over the queries that stay when each fold leaves."""
    gone = np.zeros(columns, np.int64)
    _sum_of_folds(values, own, gone)
    return np.asarray((values.sum() - gone) / ONE, np.float64)


def _sampled(
    stratum: Stratum, own: Integers, weight: Reals, population: Integers
) -> tuple[Reals, Reals]:
    """Weighted mean change without each fold, and its variance as the mean of a sample."""
    change, mine, weights = stratum.change, own[stratum.sample], weight[stratum.sample]
    columns = change.shape[1]
    count, whole, moved, squares = np.zeros((4, columns), np.int64)
    _sum(change, mine, weights, count, whole, moved)
    total = whole / ONE
    total[total == 0.0] = 1.0
    centre = moved / ONE / total
    _sum_squares(change, mine, weights, centre, squares)
    unseen = np.clip(1.0 - count / np.maximum(population, 1), 0.0, 1.0)
    variance = unseen * count / np.maximum(count - 1, 1) * (squares / COARSE**2) / total**2
    return centre, variance


@kernel
def _sum_of_folds(values: Any, own: Any, out: Any) -> None:
    for query in range(own.shape[0]):
        for way in range(own.shape[1]):
            out[own[query, way]] += values[query]


@kernel
def _stays(change: Any, mine: Any, query: int, column: int) -> bool:
    """Whether a query counts without a fold: it does not leave with it, and keeps a mate."""
    stays = not np.isnan(change[query, column])
    for way in range(mine.shape[1]):
        stays = stays and mine[query, way] != column
    return stays


@kernel
def _sum(change: Any, mine: Any, weights: Any, count: Any, whole: Any, moved: Any) -> None:
    """Number, weight and weighted change of the queries that stay, in integers."""
    for query in range(change.shape[0]):
        unit = int(np.rint(weights[query] * ONE))
        for column in range(change.shape[1]):
            if _stays(change, mine, query, column):
                count[column] += 1
                whole[column] += unit
                moved[column] += int(np.rint(weights[query] * change[query, column] * ONE))


@kernel
def _sum_squares(change: Any, mine: Any, weights: Any, centre: Any, squares: Any) -> None:
    for query in range(change.shape[0]):
        for column in range(change.shape[1]):
            if _stays(change, mine, query, column):
                away = weights[query] * (change[query, column] - centre[column])
                steps = int(np.rint(away * COARSE))
                squares[column] += steps * steps
