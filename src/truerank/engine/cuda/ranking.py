"""Rankings without ties that stay on the GPU: queries with many relevant items.

A row holds the grades of a query's items from the nearest to the farthest, 0 for irrelevant
ones. Sums over its relevant items are taken on the GPU, by the operations of the metrics'
kernels in the same order; a metric's definition turns them into values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from truerank._util.cached import cached_property
from truerank._util.types import Integers, Reals
from truerank.core.metric import Metric, RankingDefinition, Scale
from truerank.core.tie_groups import TieGroups
from truerank.engine.cuda import ranking_kernels
from truerank.engine.cuda.transfer import sent

_NUMBERS = 1 << 28


class Ranked:
    """Queries whose relevant items tie with nothing; items of grade `lowest` up are relevant.

    `chosen` are the rows of `grades` that take part; walks go down all of them.
    """

    def __init__(
        self,
        grades: Any,
        candidates: Integers,
        count: int,
        *,
        lowest: int = 1,
        chosen: Integers | None = None,
        survey: Integers | None = None,
    ) -> None:
        self._grades, self.candidates = grades, candidates
        if survey is None:
            survey = ranking_kernels.survey(grades, count).cpu().numpy().astype(np.int64)
        self._survey: Integers = survey
        self._count, self._lowest, self._binary = count, lowest, chosen is not None
        self._chosen = np.arange(len(grades)) if chosen is None else chosen

    def __len__(self) -> int:
        return len(self._chosen)

    @cached_property
    def totals(self) -> Integers:
        """Relevant items of each query by grade."""
        totals: Integers = self._survey[self._chosen, self._lowest - 1 :, 0]
        return totals.sum(axis=1, keepdims=True) if self._binary else totals

    @cached_property
    def mates(self) -> Integers:
        """R of each query."""
        total: Integers = self.totals.sum(axis=1)
        return total

    def at_least(self, grade: int) -> tuple[Integers, Ranked]:
        """Queries that keep a mate with only this grade and above relevant, and their rankings."""
        if grade == 1 and self._count == 1:
            return np.arange(len(self)), self
        queries = np.flatnonzero(self.totals[:, grade - 1 :].sum(axis=1))
        return queries, Ranked(
            self._grades,
            self.candidates[queries],
            self._count,
            lowest=grade,
            chosen=queries,
            survey=self._survey,
        )

    @property
    def mixed(self) -> Integers:
        """See TieGroups: nothing ties."""
        return np.zeros(len(self), np.int64)

    def first(self) -> Integers:
        """See TieGroups."""
        ones = np.ones(len(self), np.int64)
        return np.stack([self.ends[0], ones, ones])

    def nearest_level(self) -> Integers:
        """See TieGroups: the grade of each query's first item."""
        return self._home(self._grades[:, 0].to(torch.int64))

    def values(self, metric: Metric, scale: Scale, definition: RankingDefinition) -> Reals:
        """(3, queries): lower, expected and upper, which are one without ties."""
        # The sums of a metric over all grades are by grade, and a single level has no grades.
        whole = definition.graded and definition.parameter("level") is None
        if definition.ranked is None or (whole and self._binary):
            return definition.per_query(self.tie_groups(), metric, scale)
        with torch.cuda.device_of(self._grades):  # of several GPUs, the one that has the rows
            return np.broadcast_to(definition.ranked(self, metric, scale), (3, len(self)))

    def tie_groups(self) -> TieGroups:
        """The rankings as tie groups in main memory: a group for each relevant item."""
        rows = self._grades[self._send(self._chosen)]
        query, rank = torch.nonzero(rows >= self._lowest, as_tuple=True)
        grade = rows[query, rank].to(torch.int64)
        grades = 1 if self._binary else self._count
        column = torch.zeros_like(grade) if self._binary else grade - 1
        graded = torch.zeros((len(rank), grades), dtype=torch.int32, device=rank.device)
        graded[torch.arange(len(rank), device=rank.device), column] = 1
        return TieGroups(
            np.concatenate([[0], np.cumsum(self.mates)]),
            rank.cpu().numpy(),
            np.ones(len(rank), np.int64),
            graded.cpu().numpy(),
            self.candidates,
        )

    # -- RankedSums -------------------------------------------------------------------------------

    @property
    def items(self) -> int:
        """See RankedSums."""
        return int(self._grades.shape[1])

    def found(self, cut: Integers) -> Integers:
        """See RankedSums."""
        longest = int(cut.max())
        rank = torch.arange(longest, device=self._grades.device)
        stop = self._spread(cut)[:, None]
        step = max(1, _NUMBERS // longest)  # what is made on the way is as large as the rows
        parts = [
            ((grades[:, :longest] >= self._lowest) & (rank < end)).sum(1)
            for grades, end in zip(self._grades.split(step), stop.split(step), strict=True)
        ]
        return self._home(torch.cat(parts))

    @cached_property
    def ends(self) -> tuple[Integers, Integers]:
        """See RankedSums."""
        ranks = self._survey[self._chosen, self._lowest - 1 :]
        return ranks[:, :, 1].min(axis=1), ranks[:, :, 2].max(axis=1)

    def _home(self, result: Any) -> npt.NDArray[Any]:
        """From one entry for each row on the device to one for each query that takes part."""
        rows: npt.NDArray[Any] = result.cpu().numpy()
        return rows[self._chosen]

    def _spread(self, array: npt.NDArray[Any]) -> Any:
        """From one entry for each query to one for each row on the device, zero for other rows."""
        rows = np.zeros((len(self._grades), *array.shape[1:]), array.dtype)
        rows[self._chosen] = array
        return self._send(rows)

    def _send(self, array: npt.NDArray[Any]) -> Any:
        return sent(array, self._grades.device)

    def _stop(self) -> Any:
        return self._spread((self.ends[1] + 1).astype(np.int32))

    def precision_sum(self, cut: Integers) -> tuple[Reals, Reals]:
        """See RankedSums."""
        stop = np.minimum(cut, self.ends[1] + 1).astype(np.int32)
        sums = ranking_kernels.precision_sum(self._grades, self._spread(stop), self._lowest)
        return self._home(sums[0]), self._home(sums[1])

    def weighted_precision_sum(
        self, place: npt.NDArray[np.int32], value: Reals, value_top: Reals, value_low: Reals
    ) -> tuple[Reals, Reals]:
        """See RankedSums."""
        high, low = ranking_kernels.hierarchical_precision(
            self._grades,
            self._stop(),
            *(self._spread(part) for part in (place, value, value_top, value_low)),
        )
        return self._home(high), self._home(low)

    def discounted(self, count: int, cut: int, tables: tuple[Reals, Reals]) -> tuple[Reals, Reals]:
        """See RankedSums."""
        sent = (self._send(table) for table in tables)
        sums = ranking_kernels.discounted_gain(self._grades, self._stop(), count, cut, *sent)
        return self._home(sums[0]), self._home(sums[1])

    def intersected(self, tables: tuple[Reals, Reals]) -> tuple[Reals, Reals, Integers]:
        """See RankedSums."""
        sent = (self._send(table) for table in tables)
        totals = self._spread(self.totals.astype(np.int32))
        high, low, overlap = ranking_kernels.set_intersection(
            self._grades, totals, self._lowest, *sent
        )
        return self._home(high), self._home(low), self._home(overlap.to(torch.int64))
