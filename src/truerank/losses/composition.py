"""Losses made of losses, summed over levels or with a miner in front, and the miners.

Miners are found by name: from embeddings and labels they give (anchor, positive, negative) or
(anchor, positive, anchor, negative) indices, as losses take them. `a + w * b` is in base.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from truerank._util.errors import InputError
from truerank.losses import dense, pml
from truerank.losses.base import Batch, Loss, all_recordable, check_number
from truerank.losses.pml import library

# Losses made of losses: one summed over the levels of a hierarchy, or with a miner in front.
#
# In: losses of the common call form. Out: a loss of the same form. (`a + w * b` is Loss's own.)


class SumOverLevels(Loss):
    """A loss taken at every level of the labels and summed: the papers' sigma baselines.

    One loss without parameters of its own serves all levels; a loss with proxies needs one for
    each level, coarse to fine, because each level has its own classes. Each level's labels are
    compared by themselves, without those above.
    """

    def __init__(self, loss: torch.nn.Module | Sequence[torch.nn.Module]) -> None:
        super().__init__()
        self.shared = isinstance(loss, torch.nn.Module)
        losses = [loss] if isinstance(loss, torch.nn.Module) else list(loss)
        if not losses or not all(isinstance(one, torch.nn.Module) for one in losses):
            raise InputError("sum_over_levels takes a loss, or one loss for each level.")
        if self.shared and any(True for _ in losses[0].parameters()):
            raise InputError(
                "this loss has parameters for one set of classes; "
                "pass sum_over_levels a list with one such loss for each level, coarse to fine."
            )
        self.losses = torch.nn.ModuleList(losses)

    def is_recordable(self, rows: int) -> bool:
        """Whether the losses of all levels are."""
        return all_recordable(self.losses, rows)

    def compute(self, batch: Batch) -> Tensor:
        depth = batch.labels.shape[1]
        losses = list(self.losses) * depth if self.shared else list(self.losses)
        if len(losses) != depth:
            raise InputError(f"there are {len(losses)} losses, but labels have {depth} levels.")
        rows, labels, indices = batch.embeddings, batch.labels, batch.indices
        values: list[Tensor] = [
            loss(rows, labels[:, level], indices, *_references(batch, level))
            for level, loss in enumerate(losses)
        ]
        return reduce(add, values)


def _references(batch: Batch, level: int) -> tuple[Tensor | None, Tensor | None]:
    if batch.searches_itself:
        return None, None
    return batch.references, batch.reference_labels[:, level]


class Mined(Loss):
    """A loss over the pairs or triplets that a miner chooses in each batch."""

    def __init__(self, loss: torch.nn.Module, miner: Callable[..., Any]) -> None:
        super().__init__()
        if not isinstance(loss, torch.nn.Module) or not callable(miner):
            raise InputError(
                "with_miner takes a loss and a miner, as losses.get and losses.miner return them. "
                f"Got {loss!r} and {miner!r} instead."
            )
        self.loss, self.miner = loss, miner

    def compute(self, batch: Batch) -> Tensor:
        if batch.indices is not None:
            raise InputError("this loss mines its own pairs; leave indices_tuple out.")
        references = _references(batch, -1)
        indices = self.miner(batch.embeddings, batch.finest, *references)
        loss: Tensor = self.loss(batch.embeddings, batch.finest, indices, *references)
        return loss


class MinedMultiSimilarity(Mined):
    """The multi-similarity loss as its paper trains with it: over the pairs its miner finds hard.

    A batch that searches itself has them as masks, without a list.
    """

    reads_back = False

    def __init__(self, alpha: float, beta: float, base: float, epsilon: float) -> None:
        super().__init__(pml.multi_similarity(alpha, beta, base), hard_pairs(epsilon))
        self.epsilon = epsilon

    def compute(self, batch: Batch) -> Tensor:
        if batch.indices is not None or not batch.searches_itself:
            return super().compute(batch)
        return dense.mined_multi_similarity(self.loss.inner, self.epsilon, batch)


# Miners by name: which pairs or triplets of a batch a loss is given.


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
