"""Losses over similarities and two fixed margins: ROADMAP's calibration, TCM and its variants.

In: a Batch with one label a row. Out: how far positive pairs stay below their margin and negative
ones reach above theirs, averaged over the offending ("hard") pairs or over all of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from truerank.errors import InputError
from truerank.losses.base import Batch, Loss, check_number
from truerank.losses.pairs import cosine, same_label

__all__ = ["Calibration", "shortfall"]

DENOMINATORS = ("hard", "all")


class Calibration(Loss):
    """A loss over two margins; a weight of 0 drops a side, without `indicator` all pairs pull."""

    reads_back = False

    def __init__(
        self,
        positive_margin: float,
        negative_margin: float,
        positive_weight: float,
        negative_weight: float,
        denominator: str,
        indicator: bool,
    ) -> None:
        super().__init__()
        check_number("positive_margin", positive_margin)
        check_number("negative_margin", negative_margin)
        check_number("positive_weight", positive_weight, least=0)
        check_number("negative_weight", negative_weight, least=0)
        if denominator not in DENOMINATORS:
            raise InputError(
                f"The 'denominator' parameter must be one of {', '.join(DENOMINATORS)}. "
                f"Got {denominator!r} instead."
            )
        self.positive_margin, self.negative_margin = positive_margin, negative_margin
        self.positive_weight, self.negative_weight = positive_weight, negative_weight
        self.denominator, self.indicator = denominator, indicator

    def compute(self, batch: Batch) -> Tensor:
        scores, level = cosine(batch), same_label(batch)
        how = (self.denominator, self.indicator)
        below = shortfall(self.positive_margin - scores, level > 0, *how)
        above = shortfall(scores - self.negative_margin, level == 0, *how)
        return self.positive_weight * below + self.negative_weight * above


def shortfall(distance: Tensor, mask: Tensor, denominator: str, indicator: bool) -> Tensor:
    """Mean distance to the wrong side of a margin; 0, with a graph, where there is no such pair.

    With `indicator` only pairs on the wrong side (distance >= 0) add to the sum; the denominator
    counts these ("hard") or all pairs of the mask ("all").
    """
    hard = mask & (distance >= 0)
    total = torch.where(hard if indicator else mask, distance, 0.0).sum()
    count = (hard if denominator == "hard" else mask).sum()
    return torch.where(count > 0, total / count.clamp_min(1), total * 0.0)
