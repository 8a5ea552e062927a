"""Queries without a fold of the gallery: their blocks, their tie groups, and how means move."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core.folds import FoldAssignment
from truerank.core.groups import LocatedGroups
from truerank.core.jackknife import ChangeSums, Stratum, replicates
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.engine import kernels
from truerank.engine.distance_block import DistanceBlock
from truerank.families.family import Context, Moves
from truerank.space import Distances

__all__ = [
    "LeftBlock",
    "counted",
    "end_of",
    "groups_without",
    "means_without",
    "members_of",
    "sample_of",
]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def sample_of(context: Context, folds: FoldAssignment) -> Integers:
    """Some queries with a mate and some without, the same ones whatever the order of rows."""
    mates = context.with_mate
    count = context.limits.observed_again
    some = [folds.sample(np.flatnonzero(kind), count) for kind in (mates, ~mates)]
    return np.sort(np.concatenate(some))


def members_of(folds: FoldAssignment) -> list[Integers]:
    """The items of each fold."""
    return [np.flatnonzero((folds.items == c).any(axis=1)) for c in range(folds.columns)]


class LeftBlock(DistanceBlock):
    """Some queries of a block without some of its items, whose counts on a grid are known."""

    def __init__(
        self,
        whole: DistanceBlock,
        queries: Integers,
        items: Integers,
        counts: npt.NDArray[np.int32],
        rows: Integers,
    ) -> None:
        super().__init__(rows, whole.distances, whole.compiled)
        self._queries, self._gone, self._counts = queries, items, counts

    @cached_property
    def distances(self) -> Distances:
        """See DistanceBlock; made only if asked for."""
        left = self._distances[self._queries]
        left[:, self._gone] = np.inf
        return left

    def accepted(self, grid: Distances, low: float, width: float) -> npt.NDArray[np.int32]:
        """See DistanceBlock."""
        return self._counts


def groups_without(groups: LocatedGroups, gone: Distances) -> LocatedGroups:
    """Tie groups without irrelevant items at these distances, a row for each query."""
    between: Integers = np.zeros(len(groups.size), np.int64)
    equal = np.zeros_like(between)
    kernels.count_tile(gone, groups.offsets, groups.distance, between, equal)
    nearer: Integers = np.cumsum(between + equal)
    start = np.concatenate([[0], nearer])[groups.offsets[:-1]]
    nearer -= np.repeat(start, np.diff(groups.offsets))
    return LocatedGroups(
        groups.offsets,
        groups.before - (nearer - equal),
        groups.size - equal,
        groups.graded,
        groups.candidates - (gone < np.inf).sum(axis=1),
        groups.distance,
    )


def means_without(
    metric: Metric,
    context: Context,
    folds: FoldAssignment,
    table: Reals | None,
    sample: Integers,
    changes: Reals,
    sums: Integers | None = None,
) -> Moves:
    """A mean over queries without each fold, from its table (3, queries) or from `sums`.

    `changes` has, for each of the sample's queries that count, what the loss of each fold does.
    """
    counts = counted(context, metric)
    rows = np.flatnonzero(counts)
    mine = sample[counts[sample]]
    weight = context.weights(counts)
    moved = ChangeSums(folds.columns)
    moved.add(changes, folds.query[mine], weight[mine])
    values = None if table is None else table[end_of(metric)][rows]
    return replicates(folds, rows, values, [Stratum(rows, moved)], weight, sums)


def counted(context: Context, metric: Metric) -> npt.NDArray[np.bool_]:
    """The queries that a metric counts."""
    return context.with_mate if definition(metric).with_mate else ~context.with_mate


def end_of(metric: Metric) -> int:
    """The row of a table that is the headline: lower, or upper where lower is better."""
    return 0 if definition(metric).higher_is_better else 2
