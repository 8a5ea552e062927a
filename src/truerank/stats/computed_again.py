"""Values computed again: some queries ranked anew without each fold, one fold after the other.

In come the columns and a sample of queries; out comes each column's value of every sampled query
without every fold. So it is done where a pass does not count by fold.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.core import registry
from truerank.core.column import Column
from truerank.core.folds import FoldAssignment
from truerank.core.groups import Block
from truerank.core.metric import Metric
from truerank.relevance import View
from truerank.space import Space
from truerank.stats.first_ranks import FirstMateMoves

__all__ = ["Sampled", "headline"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
WORK = 1e6
FEWEST_SAMPLED, MOST_SAMPLED = 32, 512
"""The size of a sample follows from the tie groups to walk, within limits."""


def headline(metric: Metric, values: Reals) -> Reals:
    """The end of (lower, expected, upper) that is the score."""
    chosen: Reals = values[0 if registry.definition(metric).higher_is_better else 2]
    return chosen


@dataclass(frozen=True)
class Sampled:
    """Queries to be ranked again, and the folds of the gallery that leave."""

    view: View
    space: Space
    folds: FoldAssignment
    sample: Integers

    @staticmethod
    def of(view: View, space: Space, folds: FoldAssignment, rows: Integers) -> Sampled:
        """A sample of these queries, as large as is worth the time."""
        steps = folds.columns * max(1.0, float(view.mates[rows].mean()))
        count = min(max(int(WORK / steps), FEWEST_SAMPLED), MOST_SAMPLED)
        return Sampled(view, space, folds, folds.sample(rows, count))

    def without(
        self,
        columns: list[Column],
        moving: FirstMateMoves | None,
        each: Callable[[Block], None],
        device: str,
        threads: int,
    ) -> tuple[dict[Metric, Reals], Integers | None]:
        """(queries, folds) of each column, NaN if no mate is left; and the same of first ranks.

        `each` is shown every block as well; `moving` knows the first ranks, where they are wanted.
        """
        sample, folds = self.sample, self.folds
        wanted = np.zeros(len(self.view.mates), bool)
        wanted[sample] = True
        place = np.cumsum(wanted) - 1
        values: dict[Metric, Reals] = {
            c.metric: np.full((len(sample), folds.columns), np.nan) for c in columns
        }
        ranks = None if moving is None else moving.nothing_left(len(sample))

        def leave(fold: int, block: Block) -> None:
            kept, left = block.split.without(fold)
            if moving is not None and ranks is not None:
                moving.leave(ranks, place[block.rows[kept]], fold, left)
            parts = {0: (kept, left)}
            for column in columns:
                if column.grade not in parts:
                    chosen, some = left.at_least(column.grade)
                    parts[column.grade] = (kept[chosen], some)
                some_kept, some = parts[column.grade]
                if len(some_kept):
                    per_query = registry.ranking(column.metric).per_query
                    found = per_query(some, column.metric, column.scale)
                    at = place[block.rows[some_kept]]
                    values[column.metric][at, fold] = headline(column.metric, found)

        blocks = engine.tie_groups(
            self.view,
            self.space,
            device=device,
            threads=threads,
            folds=folds.gallery(wanted),
            only=sample,
        )
        with closing(blocks), ThreadPoolExecutor(threads) as pool:
            for block in blocks:
                for _ in pool.map(partial(leave, block=block), range(folds.columns)):
                    pass
                each(block)
        return values, ranks
