"""The rank losses as they are usually written: tensors of batch x batch x batch.

In: (B, d) embeddings, (B,) labels or (B, 2) paths. Out: the loss. What bench.losses compares with.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

__all__ = ["PLAIN"]

T, RHO, DELTA = 0.01, 100.0, 0.05


def _leads(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """lead[q, i, j] = s_qj - s_qi, and where j is neither q nor i."""
    rows = normalize(embeddings, dim=1)
    scores = rows @ rows.T
    other = ~torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    return scores.unsqueeze(1) - scores.unsqueeze(2), other.unsqueeze(1) & other


def _mean(values: Tensor, positive: Tensor) -> Tensor:
    each = (values * positive).sum(1) / positive.sum(1).clamp_min(1)
    return 1 - each[positive.any(1)].mean()


def _positive(labels: Tensor) -> Tensor:
    return (labels.unsqueeze(1) == labels).fill_diagonal_(False)


def smooth_ap(embeddings: Tensor, labels: Tensor) -> Tensor:
    lead, other = _leads(embeddings)
    positive = _positive(labels)
    before = torch.sigmoid(lead / T) * other
    return _mean((1 + (before * positive.unsqueeze(1)).sum(2)) / (1 + before.sum(2)), positive)


def recall_at_k(embeddings: Tensor, labels: Tensor) -> Tensor:
    lead, other = _leads(embeddings)
    positive = _positive(labels)
    rank = 1 + (torch.sigmoid(lead / T) * other).sum(2)
    count = positive.sum(1, keepdim=True)
    found = [torch.sigmoid(k - rank) / count.clamp_max(k) for k in (1, 2, 4, 8, 16)]
    return _mean(torch.stack(found).mean(0) * count, positive)


def _ahead(x: Tensor) -> Tensor:
    offset = torch.sigmoid(torch.tensor(DELTA / T)).item() + 0.5
    curve = torch.sigmoid(x / T) + 0.5 * (x > 0)
    return torch.where(x > DELTA, RHO * (x - DELTA) + offset, curve)


def sup_ap(embeddings: Tensor, labels: Tensor) -> Tensor:
    lead, other = _leads(embeddings)
    positive = _positive(labels)
    mates = 1 + ((lead > 0) & other & positive.unsqueeze(1)).sum(2)
    wrong = (_ahead(lead) * (other & ~positive.unsqueeze(1))).sum(2)
    return _mean(mates / (mates + wrong), positive)


def happier(embeddings: Tensor, paths: Tensor) -> Tensor:
    lead, other = _leads(embeddings)
    same = paths.unsqueeze(1) == paths
    level = same.cumprod(2).sum(2).fill_diagonal_(0)
    relevance = torch.zeros_like(lead[:, 0])
    for number in range(1, paths.shape[1] + 1):
        members = level == number
        share = number / paths.shape[1] / members.sum(1, keepdim=True).clamp_min(1)
        relevance = relevance + members * share
    its, own = level.unsqueeze(1), level.unsqueeze(2)
    shared = torch.minimum(relevance.unsqueeze(1), relevance.unsqueeze(2)) * other
    below = torch.where(lead > 0, (25 * lead + 0.5).clamp_max(1), 10 * lead)
    before = (lead > 0) & other
    found = relevance + (shared * torch.where(its > own, below, before.to(lead.dtype))).sum(2)
    rank = 1 + torch.where(its < own, _ahead(lead) * other, before.to(lead.dtype)).sum(2)
    total = relevance.sum(1)
    each = (found / rank * (level > 0)).sum(1) / total.clamp_min(1e-30)
    return 1 - each[total > 0].mean()


PLAIN = {
    "smooth_ap": smooth_ap,
    "recall_at_k": recall_at_k,
    "sup_ap": sup_ap,
    "happier": happier,
}
