"""Chance and the attainable maximum of every query, exactly, from labels only.

A scorer that ignores its input ties everything, so chance is each metric's expected value with one
tie group per query. Queries with as many mates of each grade among as many candidates share it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.core.groups import TieGroups
from truerank.core.metric import Metric
from truerank.core.registry import definition, ranking
from truerank.core.scale import Scale

__all__ = ["attainable_per_query", "chance_per_query"]

Integers = npt.NDArray[np.int64]

MOST_STEPS = 2e8
"""Steps of about ten seconds; a metric whose chance takes longer has none."""


def chance_per_query(
    metric: Metric, scale: Scale, totals: Integers, candidates: Integers
) -> npt.NDArray[np.float64] | None:
    """Expected value of every query under random order; all of them must have a mate."""
    if not len(totals):
        return np.empty(0)
    distinct, number = _distinct_rows(np.column_stack([totals, candidates]))
    graded = np.ascontiguousarray(distinct[:, :-1])
    size = np.ascontiguousarray(distinct[:, -1])
    entry = ranking(metric)
    if entry.effort is not None and entry.effort(graded, size) > MOST_STEPS:
        return None
    expected = entry.per_query(TieGroups.single(graded, size), metric, scale)[1]
    return np.asarray(expected[number], np.float64)


def attainable_per_query(metric: Metric, scale: Scale, totals: Integers) -> npt.NDArray[np.float64]:
    """Value of every query if all its mates come first: precision@10 of 4 mates is 0.4 at best."""
    if totals.shape[1] > 1:  # graded metrics are divided by their own maximum
        return np.full(len(totals), definition(metric).range[1])
    if not len(totals):
        return np.empty(0)
    distinct, number = np.unique(totals[:, 0], return_inverse=True)
    best = ranking(metric).per_query(TieGroups.single(distinct[:, None], distinct), metric, scale)[
        0
    ]
    return np.asarray(best[number.ravel()], np.float64)


def _distinct_rows(table: Integers) -> tuple[Integers, Integers]:
    """The distinct rows, and the number of each row among them; a sort for each column."""
    number = np.zeros(len(table), np.int64)
    first = np.zeros(1, np.int64)
    for column in table.T:
        joined = number * (int(column.max()) + 1) + column
        _, first, number = np.unique(joined, return_index=True, return_inverse=True)
    return table[first], number
