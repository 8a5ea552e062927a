"""The contrastive loss on the noise-to-signal ratio of the embeddings themselves, of any length.

In: a Batch with one label a row. Out: how far positive pairs lie beyond one margin and negative
ones within another, plus a pull towards embeddings of mean 0. No (rows, rows, dimensions) tensor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from truerank.losses.base import Batch, Loss, check_number
from truerank.losses.pairs import mean_above_zero, same_label

__all__ = ["SNRContrastive", "noise_to_signal"]


class SNRContrastive(Loss):
    """Contrastive with var(b - a)/var(a) as distance of b from the anchor a (Yuan et al. 2019).

    Rows are not normalised: for unit vectors of mean 0 the ratio is the squared Euclidean distance,
    and nothing of it would be left.
    """

    reads_back = False

    def __init__(self, positive_margin: float, negative_margin: float, regularizer: float) -> None:
        super().__init__()
        check_number("positive_margin", positive_margin)
        check_number("negative_margin", negative_margin)
        check_number("regularizer", regularizer, least=0)
        self.positive_margin, self.negative_margin = positive_margin, negative_margin
        self.regularizer = regularizer

    def compute(self, batch: Batch) -> Tensor:
        ratio, has_signal = noise_to_signal(batch.embeddings, batch.references)
        level = same_label(batch).masked_fill(~has_signal.unsqueeze(1), -1)
        far = mean_above_zero(ratio - self.positive_margin, level > 0)
        near = mean_above_zero(self.negative_margin - ratio, level == 0)
        return far + near + self.regularizer * batch.embeddings.sum(1).abs().mean()


def noise_to_signal(rows: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """var(other - row)/var(row) of each pair, and which rows have a variance to divide by.

    A row has none if its components are equal, or differ by less than what rounding does to the
    largest number here; its ratios are then 0, without a gradient.
    """
    largest = torch.maximum(rows.detach().abs().amax(), others.detach().abs().amax())
    scale = torch.where(largest > 0, largest, 1.0)  # cancels out, and keeps squares in range
    centred = rows / scale
    centred = centred - centred.mean(1, keepdim=True)
    noisy = others / scale
    noisy = noisy - noisy.mean(1, keepdim=True)
    signal = (centred**2).sum(1)
    has_signal = signal > rows.shape[1] * (4 * torch.finfo(rows.dtype).eps) ** 2
    noise = signal.unsqueeze(1) + (noisy**2).sum(1) - 2 * centred @ noisy.T
    ratio = noise.clamp_min(0.0) / torch.where(has_signal, signal, 1.0).unsqueeze(1)
    return ratio.masked_fill(~has_signal.unsqueeze(1), 0.0), has_signal
