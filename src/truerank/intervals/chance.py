"""Chance and the attainable maximum of each metric per query, exactly, from labels only.

A scorer that ignores its input ties everything, so chance is each metric's expected value with
one tie group per query. Queries with equal numbers of relevant items per grade among equally
many candidates share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from truerank._util.arrays import numbered
from truerank._util.cached import cached_property
from truerank._util.types import Integers, Reals
from truerank.core.metric import Metric, Scale
from truerank.core.registry import definition, ranking
from truerank.core.tie_groups import TieGroups

Measured = Callable[[TieGroups, Metric, Scale], Reals]
Frozen = tuple[bytes, str, tuple[int, ...]]
"""The bytes of an array, its dtype and its shape."""

MOST_STEPS = 2e8
"""Steps of about ten seconds; a metric whose chance takes longer has none."""
FEW_KINDS = 64
"""Up to so many kinds of queries have their chance remembered."""


@dataclass(frozen=True)
class Kinds:
    """Queries with a mate, by how many they have of each grade and among how many candidates."""

    totals: Integers
    """(kinds, grades): the mates of each grade."""
    candidates: Integers
    number: Integers
    """The kind of each query."""

    @staticmethod
    def of(totals: Integers, candidates: Integers) -> Kinds:
        """The kinds of queries with so many mates of each grade among so many candidates."""
        distinct, number = _distinct_rows(np.column_stack([totals, candidates]))
        return Kinds(
            np.ascontiguousarray(distinct[:, :-1]), np.ascontiguousarray(distinct[:, -1]), number
        )

    @cached_property
    def times(self) -> Integers:
        """Queries of each kind."""
        return np.bincount(self.number, minlength=len(self.candidates))


def chance_of(metric: Metric, scale: Scale, kinds: Kinds) -> Reals | None:
    """Expected value of each kind of query under random order; None if it would take too long."""
    if not len(kinds.candidates):
        return np.empty(0)
    entry = ranking(metric)
    if entry.effort is not None and entry.effort(kinds.totals, kinds.candidates) > MOST_STEPS:
        return None
    arrays = (scale.values, kinds.totals, kinds.candidates)
    if len(kinds.candidates) > FEW_KINDS:
        return _chance(entry.per_query, metric, scale, *arrays[1:])
    frozen = [(array.tobytes(), array.dtype.str, array.shape) for array in arrays]
    return _remembered(entry.per_query, metric, scale.judged, *frozen).copy()


@lru_cache(maxsize=256)
def _remembered(per_query: Measured, metric: Metric, judged: bool, *frozen: Frozen) -> Reals:
    """Of few kinds: a model in training is scored again and again by the same labels."""
    values, totals, candidates = (
        np.frombuffer(data, dtype).reshape(shape) for data, dtype, shape in frozen
    )
    return _chance(per_query, metric, Scale(values, judged), totals, candidates)


def _chance(
    per_query: Measured, metric: Metric, scale: Scale, totals: Integers, candidates: Integers
) -> Reals:
    groups = TieGroups.single(totals, candidates)
    return np.asarray(per_query(groups, metric, scale)[1], np.float64)


def attainable_of(metric: Metric, scale: Scale, kinds: Kinds) -> Reals:
    """Value of each kind if all mates come first: precision@10 of 4 mates is 0.4 at best."""
    totals = kinds.totals
    if totals.shape[1] > 1 or not len(totals):  # graded ones are divided by their own maximum
        return np.full(len(totals), definition(metric).range[1])
    groups = TieGroups.single(totals, totals[:, 0])
    return np.asarray(ranking(metric).per_query(groups, metric, scale)[0], np.float64)


def _distinct_rows(table: Integers) -> tuple[Integers, Integers]:
    """The distinct rows, and the number of each row among them."""
    number = np.zeros(len(table), np.int64)
    first = np.zeros(1, np.int64)
    for column in table.T:
        if len(column) and (column == column[0]).all():  # as mostly: it tells no rows apart
            continue
        found, number = numbered(number * (int(column.max(initial=0)) + 1) + column)
        first = np.empty(len(found), np.int64)
        first[number] = np.arange(len(number))
    return table[first], number
