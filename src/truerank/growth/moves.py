"""How values in smaller galleries move without each fold of the gallery.

The share of the others that is there stays, so that without a fold a mate has as many of them less
before it as the fold holds; in the whole gallery this is what the metrics' own kernels count. The
query's mates must not leave with another fold than the query itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from truerank.core.groups import SplitGroups, TieGroups
from truerank.core.left_out import LeftOut
from truerank.core.metric import Metric
from truerank.growth import group_kernels
from truerank.growth.values import Growth, Kin, divisor_of, drawn_of

__all__ = ["moves"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]


def moves(
    growth: Growth, split: SplitGroups, grade: int, metrics: list[Metric], larger: Integers
) -> Iterator[tuple[int, int, Integers, Reals]]:
    """How far the lower values of queries move at each size: its place, that of the metric, the
    places of queries, and (queries, folds).

    Grades from `grade` on are relevant. `larger` has, for each fold of the split groups, the folds
    in which it is left out, one in each way.
    """
    alive, groups, lost = _lost(split, LeftOut.of(split, grade), larger)
    with growth.workshop() as shop:
        for queries, kin in Kin.all(groups):
            taken = lost[kin.numbers]
            for place, size in enumerate(growth.sizes):
                drawn = drawn_of(kin.others, size, growth.gallery)
                found = growth.call(kin, drawn, metrics, shop).moves(kin, taken)
                for at, metric in enumerate(metrics):
                    change = found[at] / divisor_of(metric, kin, drawn)
                    yield place, at, alive[queries], change


def _lost(
    split: SplitGroups, left: LeftOut, larger: Integers
) -> tuple[Integers, TieGroups, Counts]:
    """The places of queries that have a mate, their groups that hold one, and how many of the
    others before the last place in each leave with each of the larger folds."""
    leaving = np.zeros((len(left.size), int(larger.max()) + 1), np.int32)
    group_kernels.leaving(left.between, left.equal, left.gone, larger, left.offsets, leaving)
    kept = np.flatnonzero(left.relevant)
    owner = np.repeat(np.arange(len(left.offsets) - 1), np.diff(left.offsets))
    count = np.bincount(owner[kept], minlength=len(left.offsets) - 1)
    alive = np.flatnonzero(count)
    groups = TieGroups(
        np.concatenate([[0], np.cumsum(count[alive])]),
        left.before[kept],
        left.size[kept],
        left.relevant[kept].astype(np.int32)[:, None],
        split.groups.candidates[alive],
    )
    return alive, groups, leaving[kept]
