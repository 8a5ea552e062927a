"""Losses that are 1 minus a smooth average precision or recall of each row's ranked list.

In: a Batch with one label a row. Out: the mean over the rows that have a mate; 0, with a graph, if
none has. The query is not in its own list.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from truerank.errors import InputError
from truerank.losses.base import Batch, Loss, check_number
from truerank.losses.calibration import Calibration
from truerank.losses.pairs import cosine, same_label
from truerank.losses.positives import Term, Total, check_block, is_whole, sum_over_positives
from truerank.losses.surrogates import Ahead

__all__ = ["RankLoss", "RecallAtK", "Roadmap", "SmoothAP", "SupAP", "one_minus_mean"]


class RankLoss(Loss):
    """A loss that sums over the positives of each list, in blocks."""

    block: int | None
    """How many numbers are held at once; None leaves it to the device."""

    def is_recordable(self, rows: int) -> bool:
        """Whether the batch is one block; otherwise positives are counted to make some."""
        return is_whole(rows, self.block)


class SmoothAP(RankLoss):
    """Average precision in which every comparison is a sigmoid (Brown et al. 2020).

    With `query_in_list` each query is its own first mate, as in the authors' code.
    """

    def __init__(self, temperature: float, query_in_list: bool, block: int | None) -> None:
        super().__init__()
        check_number("temperature", temperature, above=0)
        check_block(block)
        self.temperature, self.query_in_list, self.block = temperature, query_in_list, block

    def compute(self, batch: Batch) -> Tensor:
        scores, level = cosine(batch), same_label(batch)
        if self.query_in_list and batch.searches_itself:
            level.fill_diagonal_(1)
        positive = level > 0

        def term(lead: Tensor, query: Tensor, item: Tensor) -> Tensor:
            before = torch.sigmoid(lead / self.temperature)
            mates = (before * positive[query].unsqueeze(1)).sum(-1)
            return (1 + mates) / (1 + before.sum(-1))

        return one_minus_mean(scores, level, positive, term, positive.sum(1), self.block)


class RecallAtK(RankLoss):
    """Recall at several k, smooth in the ranks and in the cut (Patel et al. 2022).

    As in the authors' code no more than k positives are found among the first k, however many a
    soft cut lets in: the loss is never below 0.
    """

    def __init__(
        self, k: Sequence[int], temperature: float, cut_temperature: float, block: int | None
    ) -> None:
        super().__init__()
        check_number("temperature", temperature, above=0)
        check_number("cut_temperature", cut_temperature, above=0)
        check_block(block)
        if isinstance(k, (str, int)) or not k or not all(_is_cut(one) for one in k):
            raise InputError(
                "The 'k' parameter of recall_at_k must be a sequence of ints >= 1. "
                f"Got {k!r} instead."
            )
        self.k, self.block = tuple(k), block
        self.temperature, self.cut_temperature = temperature, cut_temperature

    def compute(self, batch: Batch) -> Tensor:
        scores, level = cosine(batch), same_label(batch)
        positive = level > 0
        mates = positive.sum(1)

        def term(lead: Tensor, query: Tensor, item: Tensor) -> Tensor:
            rank = 1 + torch.sigmoid(lead / self.temperature).sum(-1)
            return torch.stack([torch.sigmoid((k - rank) / self.cut_temperature) for k in self.k])

        def recall(values: Tensor, query: Tensor) -> Tensor:
            most = mates[query].clamp_min(1)
            found = zip(self.k, values.sum(-1), strict=True)
            return torch.stack([one.clamp_max(k) / most.clamp_max(k) for k, one in found]).mean(0)

        ones = torch.ones_like(mates)
        return one_minus_mean(scores, level, positive, term, ones, self.block, recall)


def _is_cut(k: object) -> bool:
    return isinstance(k, int) and not isinstance(k, bool) and k >= 1


class SupAP(RankLoss):
    """Average precision with an upper bound of the negatives' ranks (Ramzi et al. 2021).

    1 - loss never exceeds the true average precision of a list without ties. Positives are
    counted by a step, without a gradient.
    """

    def __init__(
        self,
        temperature: float,
        rho: float,
        delta: float,
        start: float,
        offset: float | None,
        block: int | None,
    ) -> None:
        super().__init__()
        check_block(block)
        self.ahead = Ahead(temperature, rho, delta, start, offset)
        self.block = block

    def compute(self, batch: Batch) -> Tensor:
        scores, level = cosine(batch), same_label(batch)
        positive = level > 0

        def term(lead: Tensor, query: Tensor, item: Tensor) -> Tensor:
            mate = positive[query].unsqueeze(1)
            among_mates = 1 + ((lead > 0) & mate).sum(-1)
            negatives = self.ahead(lead).masked_fill(mate, 0.0).sum(-1)
            return among_mates / (among_mates + negatives)

        return one_minus_mean(scores, level, positive, term, positive.sum(1), self.block)


class Roadmap(Loss):
    """SupAP plus a calibration of the similarities themselves (Ramzi et al. 2021)."""

    def __init__(
        self,
        temperature: float,
        rho: float,
        delta: float,
        start: float,
        offset: float | None,
        positive_margin: float,
        negative_margin: float,
        calibration_weight: float,
        block: int | None,
    ) -> None:
        super().__init__()
        check_number("calibration_weight", calibration_weight, least=0)
        self.ranking = SupAP(temperature, rho, delta, start, offset, block)
        self.calibration = Calibration(positive_margin, negative_margin, 1.0, 1.0, "all", True)
        self.calibration_weight = calibration_weight

    def is_recordable(self, rows: int) -> bool:
        """Whether the ranking is; the calibration always is."""
        return self.ranking.is_recordable(rows)

    def compute(self, batch: Batch) -> Tensor:
        calibration = self.calibration.compute(batch)
        return self.ranking.compute(batch) + self.calibration_weight * calibration


def one_minus_mean(
    scores: Tensor,
    level: Tensor,
    positive: Tensor,
    term: Term,
    divisor: Tensor,
    block: int | None,
    total: Total | None = None,
) -> Tensor:
    """1 - mean, over the queries with a positive, of their sum of terms / divisor.

    `total` makes something else than the sum of a query's terms, all of which it is then given.
    """
    has_mate = positive.any(1)
    queries = has_mate.sum()
    weight = has_mate.to(scores.dtype) / (divisor.clamp_min(1) * queries.clamp_min(1))

    def weighted(values: Tensor, query: Tensor) -> Tensor:
        return (values.sum(-1) if total is None else total(values, query)) * weight[query]

    listed = scores.masked_fill(level < 0, -torch.inf)
    whole = total is not None
    share = sum_over_positives(listed, positive, term, weighted, block, together=whole)
    return (queries > 0).to(scores.dtype) - share
