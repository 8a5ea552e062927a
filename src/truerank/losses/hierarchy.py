"""Losses over paths of labels, coarse to fine: HAPPIER, its baseline by sigmoids, and CSL.

A Batch has (rows, levels) labels. The value is 1 minus a smooth lower bound of the hierarchical
average precision, with a clustering term; or margins around fine proxies at every level.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from truerank._util.errors import InputError, TruerankWarning
from truerank.losses.base import Batch, Loss, check_number, cosine, levels, logsumexp, row_weights
from truerank.losses.proxies import Classes, make_proxies, proxy_logits
from truerank.losses.ranking import Ahead, RankLoss, behind, check_block, one_minus_mean
from truerank.losses.registry import labels_are_trusted

RELEVANCES = ("level", "sum_wap")
RELEASED_MARGINS = {
    2: (0.45, 0.25),
    3: (0.45, 0.35, 0.25),
    7: (0.75, 0.65, 0.55, 0.45, 0.35, 0.25, 0.15),
}
"""Of CSL, by the number of levels, coarse to fine, as its papers' code has them."""


class Happier(RankLoss):
    """Hierarchical AP by smooth bounds, and a clustering of fine labels (Ramzi et al. 2022).

    (1 - w) L_HAP + w L_clust. 1 - L_HAP never exceeds the true H-AP of a list without ties. With a
    cluster_weight of 0 there are no proxies, and no num_classes to give.
    """

    def __init__(
        self,
        alpha: float,
        relevance: str,
        cluster_weight: float,
        cluster_temperature: float,
        temperature: float,
        rho: float,
        delta: float,
        start: float,
        offset: float | None,
        pull_back: bool,
        block: int | None,
        embedding_size: int | None = None,
        num_classes: int | None = None,
        classes: Iterable[int] | None = None,
    ) -> None:
        super().__init__()
        _check_relevance(alpha, relevance)
        check_number("cluster_temperature", cluster_temperature, above=0)
        check_number("cluster_weight", cluster_weight, least=0)
        check_block(block)
        if cluster_weight > 1:
            raise InputError(
                f"The 'cluster_weight' parameter must be at most 1. Got {cluster_weight!r} instead."
            )
        self.alpha, self.relevance, self.pull_back, self.block = alpha, relevance, pull_back, block
        self.cluster_weight, self.cluster_temperature = cluster_weight, cluster_temperature
        self.ahead = Ahead(temperature, rho, delta, start, offset)
        self._order = _LevelOrder()
        if cluster_weight > 0:
            if embedding_size is None:
                raise InputError("happier needs embedding_size=, or cluster_weight=0 (no proxies).")
            self.classes = Classes(num_classes, classes)
            self.proxies = make_proxies(len(self.classes), embedding_size)

    def compute(self, batch: Batch) -> Tensor:
        self._order(batch.labels)
        ranking = self._ranking(batch)
        if self.cluster_weight == 0:
            return ranking
        target = self.classes.index(batch.finest)
        logits = proxy_logits(batch.embeddings, self.proxies) / self.cluster_temperature
        clustering = (cross_entropy(logits, target, reduction="none") * row_weights(batch)).mean()
        return (1 - self.cluster_weight) * ranking + self.cluster_weight * clustering

    def _ranking(self, batch: Batch) -> Tensor:
        scores, level = cosine(batch), levels(batch)
        share = shares_by_level(level, batch.labels.shape[1], self.relevance, self.alpha)
        relevance = share.to(scores).gather(1, level.clamp_min(0).long())

        def term(lead: Tensor, query: Tensor, item: Tensor) -> Tensor:
            its, its_relevance = level[query].unsqueeze(1), relevance[query].unsqueeze(1)
            own = level[query].gather(1, item).unsqueeze(2)
            own_relevance = relevance[query].gather(1, item)
            with torch.no_grad():  # what is as near or nearer is counted, not trained
                before = lead > 0
                shared = torch.minimum(its_relevance, own_relevance.unsqueeze(2))
                nearer = its > own
                counted = before & ~nearer if self.pull_back else before
                found = own_relevance + (shared * counted).sum(-1)
                rank = 1 + (before & (its >= own)).sum(-1)
            if self.pull_back:
                found = found + torch.where(nearer, shared * behind(lead), 0.0).sum(-1)
            return found / (rank + self.ahead(lead).masked_fill(its >= own, 0.0).sum(-1))

        positive = level > 0
        ones = torch.ones_like(positive.sum(1))
        return one_minus_mean(scores, level, positive, term, ones, self.block)


class SmoothHAP(RankLoss):
    """Hierarchical AP with each comparison a sigmoid: what HAPPIER was compared with."""

    def __init__(self, alpha: float, relevance: str, temperature: float, block: int | None) -> None:
        super().__init__()
        _check_relevance(alpha, relevance)
        check_number("temperature", temperature, above=0)
        check_block(block)
        self.alpha, self.relevance = alpha, relevance
        self.temperature, self.block = temperature, block
        self._order = _LevelOrder()

    def compute(self, batch: Batch) -> Tensor:
        self._order(batch.labels)
        scores, level = cosine(batch), levels(batch)
        share = shares_by_level(level, batch.labels.shape[1], self.relevance, self.alpha)
        relevance = share.to(scores).gather(1, level.clamp_min(0).long())

        def term(lead: Tensor, query: Tensor, item: Tensor) -> Tensor:
            before = torch.sigmoid(lead / self.temperature)
            own = relevance[query].gather(1, item)
            shared = torch.minimum(relevance[query].unsqueeze(1), own.unsqueeze(2))
            return (own + (shared * before).sum(-1)) / (1 + before.sum(-1))

        positive = level > 0
        ones = torch.ones_like(positive.sum(1))
        return one_minus_mean(scores, level, positive, term, ones, self.block)


def _check_relevance(alpha: float, relevance: str) -> None:
    check_number("alpha", alpha, least=0)
    if relevance not in RELEVANCES:
        raise InputError(
            f"The 'relevance' parameter must be one of {', '.join(RELEVANCES)}. "
            f"Got {relevance!r} instead."
        )


class _LevelOrder:
    """Warns once if the first batch's labels look as if they ran from fine to coarse.

    Trusted labels are not looked at.
    """

    def __init__(self) -> None:
        self.looked = False

    def __call__(self, labels: Tensor) -> None:
        if self.looked or labels_are_trusted():
            return
        self.looked = True
        first, last = (len(labels[:, column].unique()) for column in (0, -1))
        if first > last:
            warnings.warn(
                f"the first level of the labels has {first} classes in a batch and the last one "
                f"{last}: levels go from coarse to fine, and these look reversed.",
                TruerankWarning,
                stacklevel=2,
            )


def shares_by_level(level: Tensor, depth: int, kind: str, alpha: float) -> Tensor:
    """The relevance of an item of each level, 0 to depth, to each query; each list sums to 1.

    "level": (l/L)^alpha, divided by the number of items of exactly that level. "sum_wap": the sum,
    over the levels that the item reaches, of 1/(number of items that reach it); H-AP is then the
    mean of the levels' average precisions. In float64, where a large alpha does not yet make the
    coarse levels vanish, and without waiting for a GPU.
    """
    count = torch.stack([(level == number).sum(1) for number in range(1, depth + 1)], 1)
    count = (count.cpu() if count.device.type == "mps" else count).double()  # mps has no float64
    if kind == "level":
        number = torch.arange(1, depth + 1, device=count.device, dtype=count.dtype)
        worth = (number / depth) ** alpha / count.clamp_min(1)
    else:
        reaching = count.flip(1).cumsum(1).flip(1)
        worth = (1 / reaching.clamp_min(1)).cumsum(1)
    total = (worth * count).sum(1, keepdim=True)
    share = worth / total.clamp_min(torch.finfo(total.dtype).tiny)
    return torch.nn.functional.pad(share, (1, 0))


class CSL(Loss):
    """Cross-scale learning: one margin for each level, around fine proxies (Sun et al. 2021).

    `hierarchy` lists the path, coarse to fine, of each fine class; its last column is what labels
    are matched by. Margins are coarse to fine; by default those released for 2, 3 and 7 levels, and
    otherwise .25 for the finest level and .1 more for each level above it. The finest one is moved
    by `shift`, and the steps from level to level are multiplied by `spread`: both can be searched,
    whatever the number of levels.
    """

    takes_references = False
    reads_back = False
    ancestors: Tensor

    def __init__(
        self,
        hierarchy: Any,
        embedding_size: int,
        scale: float,
        margins: Sequence[float] | None,
        shift: float,
        spread: float,
    ) -> None:
        super().__init__()
        check_number("scale", scale, above=0)
        check_number("shift", shift)
        check_number("spread", spread)
        paths = torch.as_tensor(hierarchy)
        if paths.ndim != 2 or paths.is_floating_point() or not len(paths):
            raise InputError(
                "The 'hierarchy' parameter of csl must be a (classes, levels) table of integer "
                f"labels. Got shape {tuple(paths.shape)}, {paths.dtype}."
            )
        order = paths[:, -1].argsort()
        self.classes = Classes(None, paths[:, -1])
        if len(self.classes) != len(paths):
            raise InputError("The 'hierarchy' parameter of csl names a fine class twice.")
        self.register_buffer("ancestors", paths[order].to(torch.int64))
        depth = paths.shape[1]
        rising = tuple(0.25 + 0.1 * above for above in reversed(range(depth)))
        given = tuple(margins or RELEASED_MARGINS.get(depth, rising))
        if len(given) != depth:
            raise InputError(
                f"The 'margins' parameter of csl must have one number for each of {depth} levels. "
                f"Got {margins!r} instead."
            )
        finest = given[-1]
        self.margins = tuple(
            margin if (shift, spread) == (0, 1) else finest + shift + spread * (margin - finest)
            for margin in given
        )
        self.proxies = make_proxies(len(paths), embedding_size)
        self.scale = scale

    def compute(self, batch: Batch) -> Tensor:
        own = self.classes.index(batch.finest)
        ancestors = self.ancestors.to(own.device)
        fits = batch.labels.shape[1] == ancestors.shape[1]
        if fits and not labels_are_trusted():
            fits = torch.equal(ancestors[own], batch.labels)
        if not fits:
            raise InputError("labels do not follow the paths of the 'hierarchy' given to csl.")
        logits = self.scale * proxy_logits(batch.embeddings, self.proxies)
        its = logits.gather(1, own.unsqueeze(1)).squeeze(1)
        shared = torch.ones_like(logits, dtype=torch.bool)
        losses = torch.zeros_like(its)
        for column, margin in zip(ancestors.unbind(1), self.margins, strict=True):
            shared = shared & (column[own].unsqueeze(1) == column)
            others = logsumexp(logits, ~shared)
            losses = losses + softplus(others - its + self.scale * margin)
        return (losses * row_weights(batch)).mean()
