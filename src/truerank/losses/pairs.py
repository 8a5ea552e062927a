"""Pairs of a batch: how similar they are, how much of their labels they share, which count.

In: a Batch. Out: (rows, references) matrices. A pair's level is the length of the common path, so
that 0 is a negative pair; -1 marks what does not count, a row with itself or a pair not mined.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from truerank.losses.base import Batch

__all__ = ["cosine", "levels", "logsumexp", "mean_above_zero", "row_weights", "same_label"]

LEFT_OUT = -1


def cosine(batch: Batch) -> Tensor:
    """Cosine similarity of each row with each reference; a zero vector has 0 with everything."""
    rows = normalize(batch.embeddings, dim=1)
    return rows @ (rows if batch.searches_itself else normalize(batch.references, dim=1)).T


def levels(batch: Batch) -> Tensor:
    """How many labels, from the coarsest on, a pair shares: int16 from 0 to L, or LEFT_OUT."""
    agree = torch.ones(
        len(batch.labels), len(batch.reference_labels), dtype=torch.bool, device=batch.labels.device
    )
    level = torch.zeros_like(agree, dtype=torch.int16)
    for own, other in zip(batch.labels.unbind(1), batch.reference_labels.unbind(1), strict=True):
        agree &= own.unsqueeze(1) == other
        level += agree
    return _leave_out(level, batch)


def same_label(batch: Batch) -> Tensor:
    """For each pair, 1 where the finest labels agree, 0 where they differ, or LEFT_OUT."""
    same = batch.finest.unsqueeze(1) == batch.reference_labels[:, -1]
    return _leave_out(same.to(torch.int16), batch)


def _leave_out(level: Tensor, batch: Batch) -> Tensor:
    if batch.indices is not None:
        mined = torch.zeros_like(level, dtype=torch.bool)
        mined[batch.indices[0], batch.indices[1]] = True
        mined[_anchors(batch.indices)[-1], batch.indices[-1]] = True
        level = level.masked_fill(~mined, LEFT_OUT)
    return level.fill_diagonal_(LEFT_OUT) if batch.searches_itself else level


def row_weights(batch: Batch) -> Tensor:
    """How often each row was mined, the most frequent 1; all 1 where nothing was mined."""
    rows = batch.embeddings
    if batch.indices is None or not any(len(part) for part in batch.indices):
        return torch.ones(len(rows), dtype=rows.dtype, device=rows.device)
    mined = batch.indices if batch.searches_itself else _anchors(batch.indices)
    count = torch.bincount(torch.cat(mined), minlength=len(rows)).to(rows.dtype)
    return count / count.max()


def _anchors(indices: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return indices[:1] if len(indices) == 3 else indices[::2]


def logsumexp(values: Tensor, mask: Tensor) -> Tensor:
    """log(sum(exp)) of the last dimension where a mask holds; -inf, without a gradient, if nowhere.

    (The plain function's gradient is NaN for a row that is -inf throughout.)
    """
    some = mask.any(-1, keepdim=True)
    values = values.masked_fill(~mask, -torch.inf).masked_fill(~some, 0.0)
    return values.logsumexp(-1).masked_fill(~some.squeeze(-1), -torch.inf)


def mean_above_zero(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the values above 0 where a mask holds; 0, with a graph, if there is none."""
    counted = mask & (values > 0)
    return torch.where(counted, values, 0.0).sum() / counted.sum().clamp_min(1)
