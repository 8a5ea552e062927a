"""Losses made of losses: one summed over the levels of a hierarchy, or with a miner in front.

In: losses of the common call form. Out: a loss of the same form. (`a + w * b` is Loss's own.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from truerank.errors import InputError
from truerank.losses import borrowed, dense, mining
from truerank.losses.base import Batch, Loss, all_recordable

__all__ = ["Mined", "MinedMultiSimilarity", "SumOverLevels"]


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
                "this loss has parameters of its own, for one set of classes; "
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
        super().__init__(borrowed.multi_similarity(alpha, beta, base), mining.hard_pairs(epsilon))
        self.epsilon = epsilon

    def compute(self, batch: Batch) -> Tensor:
        if batch.indices is not None or not batch.searches_itself:
            return super().compute(batch)
        return dense.mined_multi_similarity(self.loss.inner, self.epsilon, batch)
