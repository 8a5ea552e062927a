"""Losses over pairs: angular, lifted, N-pairs, NT-Xent, tuplet, calibration margins, SNR.

A Batch has one label per row. The value is a mean over the positive pairs (0, with a graph, if
there is none) or over pairs and two margins. In the losses over positive pairs, each pair takes
a row of the similarity matrix. SNR needs no (rows, rows, dimensions) tensor.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from truerank._util.errors import InputError
from truerank.losses.base import (
    Batch,
    Loss,
    check_number,
    cosine,
    logsumexp,
    mean_above_zero,
    same_label,
)


class Angular(Loss):
    """An upper bound of the angle at each negative (Wang et al. 2017); alpha in degrees."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        check_number("alpha", alpha, above=0)
        if alpha >= 90:
            raise InputError(
                f"The 'alpha' parameter of angular must be below 90. Got {alpha!r} instead."
            )
        self.alpha = alpha

    def compute(self, batch: Batch) -> Tensor:
        scores, level = cosine(batch), same_label(batch)
        references = normalize(batch.references, dim=1)
        among_references = references @ references.T
        anchor, positive = (level > 0).nonzero(as_tuple=True)
        tangent = math.tan(math.radians(self.alpha)) ** 2
        to_negatives = scores[anchor] + among_references[positive]
        together = scores[anchor, positive].unsqueeze(1)
        exponent = 4 * tangent * to_negatives - 2 * (1 + tangent) * together
        return _mean(softplus(logsumexp(exponent, level[anchor] == 0)), scores)


class LiftedStructure(Loss):
    """Both ends of a positive pair against all their negatives (Oh Song et al. 2016).

    With references the negatives of the positive, which is one of them, are the batch's rows.
    """

    def __init__(self, positive_margin: float, negative_margin: float) -> None:
        super().__init__()
        check_number("positive_margin", positive_margin)
        check_number("negative_margin", negative_margin)
        self.positive_margin, self.negative_margin = positive_margin, negative_margin

    def compute(self, batch: Batch) -> Tensor:
        rows, references = normalize(batch.embeddings), normalize(batch.references)
        distance, level = torch.cdist(rows, references), same_label(batch)
        near = self.negative_margin - distance
        of_anchor, of_positive = logsumexp(near, level == 0), logsumexp(near.T, (level == 0).T)
        anchor, positive = (level > 0).nonzero(as_tuple=True)
        some = of_anchor[anchor].isfinite() | of_positive[positive].isfinite()
        anchor, positive = anchor[some], positive[some]
        negatives = torch.logaddexp(of_anchor[anchor], of_positive[positive])
        excess = negatives + distance[anchor, positive] - self.positive_margin
        return _mean(excess.relu() ** 2, distance) / 2


class NPairs(Loss):
    """Each class's first pair against the other classes' positives, by plain dot products (Sohn).

    The length of the embeddings is limited by a regulariser, not by normalising them.
    """

    takes_references = False

    def __init__(self, regularizer: float) -> None:
        super().__init__()
        check_number("regularizer", regularizer, least=0)
        self.regularizer = regularizer

    def compute(self, batch: Batch) -> Tensor:
        # Long rows are shortened, and the square of the factor is multiplied last: dot products
        # leave float32's range before the loss itself does.
        length = batch.embeddings.detach().abs().amax().clamp_min(1.0)
        rows = batch.embeddings / length
        anchor, positive = _first_pairs(same_label(batch) > 0, batch.finest)
        dots = rows[anchor] @ rows[positive].T
        lead = dots - dots.diagonal().unsqueeze(1)
        most = lead.amax(1, keepdim=True) if len(anchor) else lead
        rest = (length**2 * (lead - most)).logsumexp(1)
        squares = _mean(most, rows) + self.regularizer * (rows**2).sum(1).mean()
        return length**2 * squares + _mean(rest, rows)


def _first_pairs(positive: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The first row of each label that has a positive, and its first one."""
    anchor = positive.any(1).nonzero().squeeze(1)
    kinds, kind = labels[anchor].unique(return_inverse=True)
    first = anchor.new_full(kinds.shape, len(labels)).scatter_reduce(0, kind, anchor, "amin")
    return first, positive[first].int().argmax(1)


class NTXent(Loss):
    """Each positive pair as a softmax against the anchor's negatives alone (Chen et al. 2020).

    Other positives of the anchor are in no denominator: with two rows of each class it is SimCLR's.
    """

    def __init__(self, temperature: float) -> None:
        super().__init__()
        check_number("temperature", temperature, above=0)
        self.temperature = temperature

    def compute(self, batch: Batch) -> Tensor:
        logits, level = cosine(batch) / self.temperature, same_label(batch)
        negatives = logsumexp(logits, level == 0)
        anchor, positive = (level > 0).nonzero(as_tuple=True)
        return _mean(softplus(negatives[anchor] - logits[anchor, positive]), logits)


class TupletMargin(Loss):
    """log(1 + sum over negatives), with slack for the positive's angle (Yu & Tao 2019).

    The margin, in degrees, makes hard positives pull less.
    """

    def __init__(self, margin: float, scale: float) -> None:
        super().__init__()
        check_number("margin", margin, least=0)
        check_number("scale", scale, above=0)
        self.margin, self.scale = margin, scale

    def compute(self, batch: Batch) -> Tensor:
        scores, level = cosine(batch), same_label(batch)
        negatives = logsumexp(self.scale * scores, level == 0)
        anchor, positive = (level > 0).nonzero(as_tuple=True)
        cos = scores[anchor, positive]
        # cos(angle - margin) without the angle, whose gradient is infinite where two rows agree.
        sin = (1 - cos**2).clamp_min(torch.finfo(cos.dtype).eps).sqrt()
        margin = math.radians(self.margin)
        slack = cos * math.cos(margin) + sin * math.sin(margin)
        return _mean(softplus(negatives[anchor] - self.scale * slack), scores)


def _mean(losses: Tensor, scores: Tensor) -> Tensor:
    return losses.sum() / max(len(losses), 1) + 0.0 * scores.sum()


# Losses over similarities and two fixed margins: ROADMAP's calibration, TCM and its variants.
#
# In: a Batch with one label a row. Out: how far positive pairs stay below their margin and
# negative ones reach above theirs, averaged over the offending ("hard") pairs or over all of
# them.


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


# The contrastive loss on the noise-to-signal ratio of the embeddings themselves, of any length.
#
# In: a Batch with one label a row. Out: how far positive pairs lie beyond one margin and negative
# ones within another, plus a pull towards embeddings of mean 0. No (rows, rows, dimensions)
# tensor.


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
