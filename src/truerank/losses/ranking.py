"""Losses that are 1 minus a smooth average precision or recall of each row's ranked list.

The mean is over the rows with a relevant item; it is 0, with a graph, if there is none. The
query is not in its own list. Ranks are built from smooth bounds of the Heaviside step: an upper
bound for items that should not be ahead, a lower bound for those that should. Sums over all
(query, positive) hold a block of chosen size, never queries x items x items: the gradient of
each block is taken as soon as its value is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from truerank._util.errors import InputError
from truerank.losses.base import Batch, Loss, check_number, cosine, same_label
from truerank.losses.pairs import Calibration


class RankLoss(Loss):
    """A loss that sums over the positives of each list, in blocks."""

    block: int | None
    """How many numbers are held at once; None leaves it to the device."""

    def is_recordable(self, rows: int) -> bool:
        """Whether the batch is one block; otherwise positives are counted to make some."""
        return is_whole(rows, self.block)


# Sums over all (query, positive) of a function of every item's lead over that positive.


# Numbers in a block: on a CPU its few copies stay in the cache, a GPU is kept busy.
BLOCK = {"cpu": 2**17, "cuda": 2**24}


def is_whole(rows: int, block: int | None) -> bool:
    """Whether a batch on a GPU that searches itself is one block, of which no size is read back."""
    return rows**3 <= (block or BLOCK["cuda"])


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


Term: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(lead, query, item) -> values.

lead[q, p, j] = scores[query[q], j] - scores[query[q], item[q, p]], where j is an item that may come
before the positive: -inf for the positive itself and for what is left out. query is (q,), item is
(q, p), and the values are (q, p) or (anything, q, p).
"""

Total: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(values, query) -> what the queries add to the sum.

Where it is not the sum over the positives times a weight, positives must be kept together.
"""


def block_size(device: torch.device) -> int:
    """How many numbers are held at once on a device where nobody says."""
    return BLOCK.get(device.type, BLOCK["cuda"])


def check_block(block: int | None) -> None:
    """Refuse a block that is neither None nor a positive number."""
    if block is not None and (isinstance(block, bool) or not isinstance(block, int) or block < 1):
        raise InputError(
            f"The 'block' parameter must be None or an int >= 1. Got {block!r} instead."
        )


def sum_over_positives(
    scores: Tensor,
    positive: Tensor,
    term: Term,
    total: Total,
    block: int | None = None,
    together: bool = False,
) -> Tensor:
    """The sum of what `total` makes of `term`, 0 except where `positive` holds.

    A score of -inf leaves the item out of the query's list; a positive's score must be finite.
    `together` puts all positives of a query into one block, which then has at least their number
    times the items: never more than queries x items of a batch that searches itself.
    """
    size = block or block_size(scores.device)
    value: Tensor = _SumOverPositives.apply(scores, positive, term, total, size, together)  # type: ignore[no-untyped-call]
    return value


class _SumOverPositives(torch.autograd.Function):
    """The sum and its gradient, taken block by block in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        positive: Tensor,
        term: Term,
        total: Total,
        size: int,
        together: bool,
    ) -> Tensor:
        wanted = ctx.needs_input_grad[0]
        gradient = torch.zeros_like(scores) if wanted else None
        sum_of_all = scores.new_zeros(())
        whole = positive.numel() * positive.shape[1] <= size
        blocks = [_whole(positive)] if whole else _blocks(positive, size, together)
        for query, item, real in blocks:
            with torch.set_grad_enabled(wanted):
                rows = scores[query].detach().requires_grad_(wanted)
                lead = rows.unsqueeze(1) - rows.gather(1, item).unsqueeze(2)
                lead.scatter_(2, item.unsqueeze(2), -torch.inf)
                if whole:  # an item that is left out may be in a positive's place: no NaN from it
                    lead = lead.masked_fill(~real.unsqueeze(2), 0.0)
                values = term(lead, query, item).masked_fill(~real, 0.0)
                value = total(values, query).sum()
            sum_of_all += value.detach()
            if gradient is not None:
                # No query is twice in a block, so that this adds in the same order every time.
                gradient[query] += torch.autograd.grad(value, rows)[0]
        if gradient is not None:
            ctx.save_for_backward(gradient)
        return sum_of_all

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None, None, None, None


def _whole(positive: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All queries as one block, with every item in a positive's place.

    No size is read back from the device, so that a GPU is not waited for.
    """
    queries, items = positive.shape
    query = torch.arange(queries, device=positive.device)
    item = torch.arange(items, device=positive.device).expand(queries, items)
    return query, item, positive


def _blocks(positive: Tensor, size: int, together: bool) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Queries, their positives (padded with the first one), and which of these are real.

    Queries with as many positives stand together, so that there is little padding; the positives
    of one query are split where even they are too many, unless they must stay together.
    """
    count = positive.sum(1)
    item = positive.nonzero()[:, 1]
    start = count.cumsum(0) - count
    by_count = count.argsort(descending=True, stable=True)
    counts: list[int] = [number for number in count[by_count].tolist() if number]
    items = positive.shape[1]
    first = 0
    while first < len(counts):
        most = counts[first]
        width = most if together else min(most, max(1, size // items))
        last = first + (max(1, size // (width * items)) if width == most else 1)
        last = min(last, len(counts))
        queries = by_count[first:last]
        for begin in range(0, most, width):
            slot = torch.arange(begin, min(begin + width, most), device=item.device)
            real = slot < count[queries].unsqueeze(1)
            yield queries, item[start[queries].unsqueeze(1) + torch.where(real, slot, 0)], real
        first = last


# Smooth bounds of the Heaviside step, from which rank losses are built.


@dataclass(frozen=True)
class Ahead:
    """An upper bound: a sigmoid up to x = 0, then raised by `start`, and a line from delta on.

    Without an offset the line begins where the sigmoid ends; the authors released 1.44, a step down
    of 0.05.
    """

    temperature: float = 0.01
    rho: float = 100.0
    delta: float = 0.05
    start: float = 0.5
    offset: float | None = None

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, above=0)
        check_number("rho", self.rho, least=0)
        check_number("delta", self.delta, least=0)
        check_number("start", self.start, least=0)
        if self.offset is not None:
            check_number("offset", self.offset)

    def __call__(self, x: Tensor) -> Tensor:
        offset = self.offset
        if offset is None:
            offset = 1 / (1 + math.exp(-self.delta / self.temperature)) + self.start
        curve = torch.sigmoid(x / self.temperature) + self.start * (x > 0)
        return torch.where(x > self.delta, self.rho * (x - self.delta) + offset, curve)


def behind(x: Tensor) -> Tensor:
    """A lower bound of the step: 10x up to x = 0, then 25x + 0.5, at most 1."""
    return torch.where(x > 0, (25 * x + 0.5).clamp_max(1.0), 10 * x)
