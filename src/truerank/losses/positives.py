"""Sums over all (query, positive) of a function of every item's lead over that positive.

In: (queries, items) scores, which pairs are positive, the function, and what is made of a query's
values. Out: a scalar with its gradient. What is held at once is a block of chosen size, never
queries x items x items: the gradient of each block is taken as soon as its value is, while the
block is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from truerank.errors import InputError

__all__ = ["Term", "Total", "block_size", "check_block", "is_whole", "sum_over_positives"]

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

# Numbers in a block: on a CPU its few copies stay in the cache, a GPU is kept busy.
BLOCK = {"cpu": 2**17, "cuda": 2**24}


def block_size(device: torch.device) -> int:
    """How many numbers are held at once on a device where nobody says."""
    return BLOCK.get(device.type, BLOCK["cuda"])


def is_whole(rows: int, block: int | None) -> bool:
    """Whether a batch on a GPU that searches itself is one block, of which no size is read back."""
    return rows**3 <= (block or BLOCK["cuda"])


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
