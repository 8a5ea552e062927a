"""Miners by name: which pairs or triplets of a batch a loss is given.

In: embeddings and labels. Out: (anchor, positive, negative) or (anchor, positive, anchor, negative)
indices, as losses take them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from truerank.errors import InputError
from truerank.losses.base import check_number
from truerank.losses.borrowed import library

__all__ = ["DistanceWeighted", "batch_hard", "hard_pairs", "semihard"]

Miner = Callable[..., Any]


def hard_pairs(epsilon: float) -> Miner:
    """Pairs harder than the hardest of the other kind, within epsilon (Wang et al. 2019)."""
    check_number("epsilon", epsilon)
    miner: Miner = library("miners", "multi_similarity").MultiSimilarityMiner(epsilon=epsilon)
    return miner


def semihard(margin: float) -> Miner:
    """Triplets whose negative is farther than the positive, by less than the margin."""
    check_number("margin", margin, above=0)
    miner: Miner = library("miners", "semihard").TripletMarginMiner(
        margin=margin, type_of_triplets="semihard"
    )
    return miner


def batch_hard() -> Miner:
    """For each anchor its farthest positive and its nearest negative (Hermans et al. 2017)."""
    miner: Miner = library("miners", "batch_hard").BatchHardMiner()
    return miner


class DistanceWeighted(torch.nn.Module):
    """For each positive pair a negative, so drawn that all distances are as likely.

    After Wu et al. 2017. Distances below the cutoff count as the cutoff, and negatives farther than
    `farthest` are not drawn. Weights are normalised for each anchor: with one normaliser for the
    whole batch, as pytorch-metric-learning has it, anchors without a close negative get none in
    high dimensions.
    """

    def __init__(self, cutoff: float, farthest: float) -> None:
        super().__init__()
        check_number("cutoff", cutoff, above=0)
        check_number("farthest", farthest, above=0)
        if not cutoff < farthest <= 2:
            raise InputError(
                "distances of unit vectors reach from 0 to 2: cutoff < farthest <= 2 is needed. "
                f"Got {cutoff!r} and {farthest!r} instead."
            )
        self.cutoff, self.farthest = cutoff, farthest

    @torch.no_grad()
    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Triplets; an anchor without a negative in reach has none."""
        log_weight, same = self._log_weights(embeddings, labels, ref_emb, ref_labels)
        if ref_emb is None:
            same = same.clone().fill_diagonal_(False)
        anchor, positive = same.nonzero(as_tuple=True)
        reachable = log_weight.isfinite().any(1)[anchor]
        anchor, positive = anchor[reachable], positive[reachable]
        if not len(anchor):
            return anchor, positive, positive
        weight = torch.softmax(log_weight[anchor], dim=1)
        return anchor, positive, torch.multinomial(weight, 1).squeeze(1)

    def _log_weights(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_emb: Tensor | None,
        ref_labels: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """log 1/q of each pair's distance, -inf for what is not drawn; and the same-label pairs."""
        rows = normalize(embeddings.to(torch.promote_types(embeddings.dtype, torch.float32)))
        others = rows if ref_emb is None else normalize(ref_emb.to(rows))
        same = labels.unsqueeze(1) == (labels if ref_labels is None else ref_labels)
        distance = torch.cdist(rows, others)
        d = rows.shape[1]
        clipped = distance.clamp_min(self.cutoff)
        log_weight = (2 - d) * clipped.log() - (d - 3) / 2 * torch.log1p(-(clipped**2) / 4)
        return log_weight.masked_fill(same | (distance >= self.farthest), -torch.inf), same
