"""How values in smaller galleries move without each fold of the gallery.

The share of the others that is there stays, so that without a fold a mate has as many of them less
before it as the fold holds; in the whole gallery this is what the metrics' own kernels count. The
query's mates must not leave with another fold than the query itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core.groups import SplitGroups, TieGroups
from truerank.core.left_out import LeftOut
from truerank.growth import group_kernels
from truerank.growth.kin import Kin

__all__ = ["Moving"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Moving:
    """Some kin, and what they lose with each fold of the gallery."""

    queries: Integers
    """The places of the queries."""
    kin: Kin
    lost: Counts
    """(groups, folds): others before the last place in each group that leave with each fold."""

    @staticmethod
    def all(split: SplitGroups, grade: int, larger: Integers, ways: int) -> Iterator[Moving]:
        """The queries of groups split by fold in so many ways, with grades from `grade` on
        relevant. `larger` has, for each fold of the split groups, the folds in which it is left
        out, one in each way."""
        alive, groups, lost = _lost(split, LeftOut.of(split, grade), larger, ways)
        for queries, kin in Kin.all(groups):
            yield Moving(alive[queries], kin, lost[kin.numbers])

    @staticmethod
    def joined(some: list[Moving]) -> Moving:
        """Those of kin with as many mates and others, one after the other."""
        if len(some) == 1:
            return some[0]
        queries, lost = (
            np.concatenate([getattr(one, name) for one in some]) for name in ("queries", "lost")
        )
        return Moving(queries, Kin.joined([one.kin for one in some]), lost)


def _lost(
    split: SplitGroups, left: LeftOut, larger: Integers, ways: int
) -> tuple[Integers, TieGroups, Counts]:
    """The places of queries that have a mate, their groups that hold one, and how many of the
    others before the last place in each leave with each of the larger folds."""
    leaving = np.zeros((len(left.size), int(larger.max()) + 1), np.int32)
    counts, groups = (left.between, left.equal, left.gone), (left.before, left.size, left.relevant)
    group_kernels.leaving(*counts, larger, ways, left.offsets, *groups, leaving)
    kept = np.flatnonzero(left.relevant)
    owner = np.repeat(np.arange(len(left.offsets) - 1), np.diff(left.offsets))
    count = np.bincount(owner[kept], minlength=len(left.offsets) - 1)
    alive = np.flatnonzero(count)
    kept_groups = TieGroups(
        np.concatenate([[0], np.cumsum(count[alive])]),
        left.before[kept],
        left.size[kept],
        left.relevant[kept].astype(np.int32)[:, None],
        split.groups.candidates[alive],
    )
    return alive, kept_groups, leaving[kept]
