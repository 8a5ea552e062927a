"""Losses of pytorch-metric-learning over whole matrices, with masks in place of lists of pairs.

The library's loss gives options and parameters, a Batch that searches itself gives the rows,
and nothing is mined. Value and gradients are the library's up to rounding. No shape depends on
a value and nothing is read back, so a GPU is never waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, pad

from truerank.losses.base import Batch, cosine, mean_above_zero, same_label
from truerank.losses.proxies import proxy_logits, proxy_products

Dense: TypeAlias = Callable[[Any, Batch], Tensor]
"""(the library's loss, batch) -> its value. Labels are numbers of proxies where there are some."""
_SHORTEST = 1e-12
"""The length that shorter vectors are taken to have, as torch does when it normalises."""


def contrastive(loss: Any, batch: Batch) -> Tensor:
    """Mean distance beyond a margin of the positives, within another of the negatives."""
    distance, positive, negative = _distances(batch)
    far = mean_above_zero(distance - loss.pos_margin, positive)
    return far + mean_above_zero(loss.neg_margin - distance, negative)


def triplet(loss: Any, batch: Batch) -> Tensor:
    """Mean over the offending [anchor, positive, negative]: rows x rows x rows numbers at once."""
    distance, positive, negative = _distances(batch)
    excess = distance.unsqueeze(2) - distance.unsqueeze(1) + loss.margin
    return mean_above_zero(excess, positive.unsqueeze(2) & negative.unsqueeze(1))


def margin(loss: Any, batch: Batch) -> Tensor:
    """A sum over triplets of a positive's and a negative's term, so that pairs can be weighed.

    A positive pair is in as many triplets as its anchor has negatives, and the other way round.
    """
    distance, positive, negative = _distances(batch)
    of_positive = positive * negative.sum(1, keepdim=True)
    of_negative = negative * positive.sum(1, keepdim=True)
    triplets = of_positive.sum(1)
    beta: Tensor = loss.beta.to(distance)
    each = beta if len(beta) == 1 else beta[batch.finest]
    far = (distance - each.unsqueeze(1) + loss.margin).relu()
    near = (each.unsqueeze(1) - distance + loss.margin).relu()
    total = (far * of_positive).sum() + (near * of_negative).sum()
    terms = ((far > 0) * of_positive).sum() + ((near > 0) * of_negative).sum()
    value: Tensor = total / terms.clamp_min(1)
    if not loss.learn_beta:
        return value
    if len(beta) == 1:
        price = torch.where(triplets.sum() > 0, beta.sum(), 0.0)
    else:
        price = torch.where(terms > 0, (each * triplets).sum() / terms.clamp_min(1), 0.0)
    return value + float(loss.nu) * price


def fastap(loss: Any, batch: Batch) -> Tensor:
    """1 - average precision of histograms of the squared distances, over the rows with a mate."""
    distance, positive, negative = _distances(batch)
    farthest = 4.0  # of two unit vectors, squared
    middles = torch.linspace(
        0.0, farthest, loss.num_bins + 1, dtype=distance.dtype, device=distance.device
    )
    offset = (distance**2 - middles.reshape(-1, 1, 1)).abs() / (farthest / loss.num_bins)
    pulse = (1 - offset).relu()
    mates, others = (pulse * positive).sum(2), (pulse * negative).sum(2)
    found = mates * mates.cumsum(0)
    seen = (mates + others).cumsum(0)
    some = (found > 0) & (seen > 0)
    precision = torch.where(some, found / torch.where(some, seen, 1.0), 0.0).sum(0)
    count = positive.sum(1)
    losses = torch.where(count > 0, 1 - precision / count.clamp_min(1), 0.0)
    return losses.sum() / (count > 0).sum().clamp_min(1)


def multi_similarity(loss: Any, batch: Batch) -> Tensor:
    """Soft maxima over each row's positives and negatives."""
    level = same_label(batch)
    return _soft_maxima(loss, cosine(batch), level > 0, level == 0)


def mined_multi_similarity(loss: Any, epsilon: float, batch: Batch) -> Tensor:
    """The same over pairs that are harder than the hardest of the other kind, within epsilon."""
    scores, level = cosine(batch), same_label(batch)
    positive, negative = level > 0, level == 0
    known = scores.detach()
    least = known.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
    most = known.masked_fill(~negative, -torch.inf).amax(1, keepdim=True)
    hard_positive = positive & (known - epsilon < most)
    hard_negative = negative & (known + epsilon > least)
    return _soft_maxima(loss, scores, hard_positive, hard_negative)


def normalized_softmax(loss: Any, batch: Batch) -> Tensor:
    """Cross-entropy of cosines with the proxies."""
    logits = proxy_logits(batch.embeddings, loss.W.T) / loss.temperature
    return cross_entropy(logits, batch.finest)


def cosface(loss: Any, batch: Batch) -> Tensor:
    """The same with the own class's cosine lowered."""
    logits = proxy_logits(batch.embeddings, loss.W.T)
    return cross_entropy(loss.scale * _lower_own(logits, batch, loss.margin), batch.finest)


def soft_triple(loss: Any, batch: Batch) -> Tensor:
    """The same with several centres a class, and what they are regularised by.

    Lengths of centres and their cosines come from one product of each class's centres, so that none
    of the many centres is normalised by itself.
    """
    centres = loss.fc.T.contiguous()
    own = centres.unflatten(0, (loss.num_classes, loss.centers_per_class))
    products = own @ own.mT
    length = products.diagonal(dim1=1, dim2=2).clamp_min(_SHORTEST**2).sqrt()
    to_centres = proxy_products(batch.embeddings, centres).unflatten(1, length.shape) / length
    by_centre = to_centres.mT.contiguous()  # exponentials are vectorised along the classes
    to_classes = ((by_centre * loss.gamma).softmax(1) * by_centre).sum(1)
    value = cross_entropy(loss.la * _lower_own(to_classes, batch, loss.margin), batch.finest)
    cos = products / (length.unsqueeze(2) * length.unsqueeze(1))
    spread: Tensor = loss.weight_reg_weight * loss.weight_regularizer.of_cosines(cos)
    return value + spread


def _distances(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Euclidean distances of unit vectors, and which pairs are positive and negative."""
    rows, level = normalize(batch.embeddings), same_label(batch)
    return torch.cdist(rows, rows), level > 0, level == 0


def _soft_maxima(loss: Any, scores: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    far = _log_one_plus_sum(loss.alpha * (loss.base - scores), positive)
    near = _log_one_plus_sum(loss.beta * (scores - loss.base), negative)
    mean: Tensor = (far / loss.alpha + near / loss.beta).mean()
    return mean


def _log_one_plus_sum(exponents: Tensor, mask: Tensor) -> Tensor:
    # The 1 is the exponential of a further column, of zeros: no row is without one.
    return pad(exponents.masked_fill(~mask, -torch.inf), (0, 1)).logsumexp(1)


def _lower_own(scores: Tensor, batch: Batch, margin: float) -> Tensor:
    own = batch.finest.unsqueeze(1) == torch.arange(scores.shape[1], device=scores.device)
    return torch.where(own, scores - margin, scores)
