"""Values from sums over rankings without ties: what a GPU offers, here taken in plain numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.metric import RankingDefinition, Scale
from truerank.core.tie_groups import TieGroups

GRADES = 3
METRICS = [
    *("precision@1", "precision@7", "r_precision", "recall@5", "recall@500", "hit@3", "mrr"),
    *("mrr@1", "mrr@5"),
    *("minp", "map", "map@r", "map@10", "map@10,divisor=min", "h_ap", "h_ap@alpha=2"),
    *("sum_wap", "sum_wap@weights=1:2:3", "ndcg", "ndcg@5", "ndcg@gain=linear", "asi"),
]


@dataclass(frozen=True)
class Sums:
    """RankedSums of rows of grades, nearest first, 0 for irrelevant items."""

    grades: np.ndarray
    highest: int = GRADES

    def __len__(self) -> int:
        return len(self.grades)

    @property
    def items(self) -> int:
        return int(self.grades.shape[1])

    @property
    def totals(self) -> np.ndarray:
        return np.stack([(self.grades == g + 1).sum(axis=1) for g in range(self.highest)], axis=1)

    @property
    def mates(self) -> np.ndarray:
        return np.asarray((self.grades > 0).sum(axis=1))

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        ranks = [np.flatnonzero(row) for row in self.grades]
        return np.array([r[0] for r in ranks]), np.array([r[-1] for r in ranks])

    def found(self, cut: np.ndarray) -> np.ndarray:
        return np.array([(row[:k] > 0).sum() for row, k in zip(self.grades, cut, strict=True)])

    def precision_sum(self, cut: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rank = np.arange(1, self.items + 1)
        relevant = self.grades > 0
        precision = np.cumsum(relevant, axis=1) / rank
        return self._whole((precision * (relevant & (rank <= cut[:, None]))).sum(axis=1))

    def weighted_precision_sum(
        self, place: np.ndarray, value: np.ndarray, value_top: np.ndarray, value_low: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        sums = []
        for row, own, worth in zip(self.grades, place, value, strict=True):
            relevance = np.concatenate([[0.0], worth[own]])[row]
            least = [np.minimum(relevance[: k + 1], relevance[k]) for k in range(len(row))]
            sums.append(sum(part.sum() / len(part) for part in least))
        return self._whole(np.array(sums))

    def discounted(
        self, count: int, cut: int, tables: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        sums = np.zeros((len(self), count))
        for q, k in zip(*np.nonzero(self.grades[:, :cut]), strict=True):
            sums[q, self.grades[q, k] - 1] += tables[0][k + 1] - tables[0][k]
        return self._whole(sums)

    def intersected(
        self, tables: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sums, last = np.zeros(len(self)), np.zeros(len(self), np.int64)
        for q, row in enumerate(self.grades):
            best = np.sort(row)[::-1]
            for n in range(int(self.mates[q])):
                overlap = sum(
                    min((row[: n + 1] == g).sum(), (best[: n + 1] == g).sum())
                    for g in range(1, self.highest + 1)
                )
                sums[q] -= (overlap - last[q]) * tables[0][n]
                last[q] = overlap
        return *self._whole(sums), last

    def groups(self) -> TieGroups:
        """The same rankings, a group for each relevant item."""
        query, rank = np.nonzero(self.grades)
        graded = np.eye(self.highest, dtype=np.int32)[self.grades[query, rank] - 1]
        offsets = np.concatenate([[0], np.cumsum(self.mates)])
        candidates = np.full(len(self), self.items)
        return TieGroups(offsets, rank, np.ones(len(rank), np.int64), graded, candidates)

    @staticmethod
    def _whole(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return sums, np.zeros_like(sums)


@pytest.mark.parametrize("name", METRICS)
def test_the_value_is_that_of_the_groups(name: str) -> None:
    metric = registry.parse(name)
    definition = registry.ranking(metric)
    assert definition.ranked is not None
    rng = np.random.default_rng(4)
    highest = GRADES if definition.graded else 1
    grades = rng.integers(highest + 1, size=(30, 40)) * (rng.random((30, 40)) < 0.5)
    grades[:, 11] = highest  # nobody without a mate
    ranked, scale = Sums(grades, highest), Scale(np.arange(1.0, highest + 1))
    wanted = definition.per_query(ranked.groups(), metric, scale)
    found = np.broadcast_to(definition.ranked(ranked, metric, scale), wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_every_metric_with_such_a_value_is_compared() -> None:
    every = [definitions.entry(name) for name in definitions.names()]
    ranked = {one.name for one in every if isinstance(one, RankingDefinition) and one.ranked}
    assert ranked == {name.split("@")[0] for name in METRICS}
