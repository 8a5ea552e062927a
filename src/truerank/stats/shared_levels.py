"""The severity of errors without each fold: what first items share once others have left.

Of the queries with a mate by the finest label, each bar is the share whose first item shares just
so many levels. A fold's queries leave, which is known of all; and with it go items that stood
before others, so that further queries find something else first: that is seen on a sample (all of
them, where that is cheap). A mate by the finest label leaves with its query alone.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.core.curve_moves import BandMoves, CurveMoves
from truerank.core.folds import FoldAssignment
from truerank.core.groups import Block
from truerank.core.jackknife import ChangeSums, Stratum, replicates
from truerank.relevance import View
from truerank.space import Space
from truerank.stats.fold_sets import most_counted

__all__ = ["levels_without", "moved_severity"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NONE_LEFT = -1
AT_LIMIT = "every share is 0 % or 100 %, which says nothing about the spread"


def levels_without(
    view: View, space: Space, folds: FoldAssignment, may_move: Integers, device: str, threads: int
) -> tuple[Integers, Integers]:
    """Some of the queries that may move, and the levels that each shares with its first item
    without each fold: (queries, columns), -1 where no mate is left.

    They are as many as a pass counts by fold for precision@1: they change by a whole hit, too.
    """
    sample = folds.sample(may_move, most_counted(view.mates[may_move], folds.columns))
    wanted = np.zeros(view.queries, bool)
    wanted[sample] = True
    place = np.cumsum(wanted) - 1
    levels = np.full((len(sample), folds.columns), NONE_LEFT)

    def leave(column: int, block: Block) -> None:
        kept, left = block.split.without(column)
        if len(kept):
            levels[place[block.rows[kept]], column] = left.nearest_level()

    blocks = engine.tie_groups(
        view, space, device=device, threads=threads, folds=folds.gallery(wanted), only=sample
    )
    with closing(blocks), ThreadPoolExecutor(threads) as pool:
        for block in blocks:
            for _ in pool.map(partial(leave, block=block), range(folds.columns)):
                pass
    return sample, levels


def moved_severity(
    folds: FoldAssignment,
    nearest: Integers,
    findable: Flags,
    depth: int,
    may_move: Integers,
    seen: tuple[Integers, Integers] | None,
) -> BandMoves:
    """The bars without each fold, of first items that share 0 to depth - 1 levels.

    `seen` are the queries that were looked at for all that may move, and their levels without each
    fold; None where the gallery stays as it is.
    """
    rows, weight = np.flatnonzero(findable), np.ones(len(nearest))
    counts = np.bincount(nearest[rows], minlength=depth)[:depth]
    if np.isin(counts, (0, len(rows))).all():
        return AT_LIMIT
    found = []
    for level in range(depth):
        is_here = (nearest == level).astype(np.float64)
        strata = []
        if seen is not None:
            sample, levels = seen
            change = np.where(
                levels == NONE_LEFT, np.nan, (levels == level) - is_here[sample][:, None]
            )
            sums = ChangeSums(folds.columns)
            sums.add(change, folds.query[sample], weight[sample])
            strata.append(Stratum(may_move, sums))
        found.append(replicates(folds, rows, is_here[rows], strata, weight)[0])
    values = np.array([bar.values for bar in found]).T
    return CurveMoves("value", None, values, np.array([bar.noise for bar in found]))
