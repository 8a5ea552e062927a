"""Losses of pytorch-metric-learning behind the common call form and checks.

Labels outside the known classes are refused, half precision is widened first (the library would
turn its own proxies into half precision), and a batch with one pair counts. Where dense.py has
the same arithmetic without lists of pairs, a batch that searches itself takes that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from truerank._util.errors import InputError
from truerank.losses import dense
from truerank.losses.base import Batch, Loss, check_number
from truerank.losses.dense import Dense
from truerank.losses.proxies import Classes
from truerank.losses.ranking import block_size, is_whole


def library(part: str, name: str) -> Any:
    """A module of pytorch-metric-learning, or a sentence on how to get it."""
    try:
        return import_module(f"pytorch_metric_learning.{part}")
    except ImportError as error:
        raise ImportError(
            f"{name} comes from pytorch-metric-learning: pip install pytorch-metric-learning"
        ) from error


class Borrowed(Loss):
    """A loss of pytorch-metric-learning."""

    def __init__(
        self,
        inner: torch.nn.Module,
        classes: Classes | None = None,
        takes_references: bool = False,
        dense: Dense | None = None,
        makes_cube: bool = False,
    ) -> None:
        super().__init__()
        self.inner, self.classes, self.takes_references = inner, classes, takes_references
        self.dense, self.makes_cube = dense, makes_cube

    @property
    def title(self) -> str:
        """The library's name of the loss."""
        return type(self.inner).__name__

    def is_recordable(self, rows: int) -> bool:
        """Whether whole matrices are taken, and no cube larger than a block."""
        return self.dense is not None and (not self.makes_cube or is_whole(rows, None))

    def compute(self, batch: Batch) -> Tensor:
        labels = batch.finest if self.classes is None else self.classes.index(batch.finest)
        rows = batch.embeddings
        for parameter in self.inner.parameters():
            # The library casts its parameters to the embeddings' dtype, for good.
            rows = rows.to(torch.promote_types(parameter.dtype, torch.float32))
        if self.dense is not None and self._is_dense(batch):
            paths = labels.unsqueeze(1)
            return self.dense(self.inner, Batch(rows, paths, rows, paths))
        references: tuple[Tensor | None, Tensor | None] = (None, None)
        if not batch.searches_itself:
            references = (batch.references.to(rows), batch.reference_labels[:, -1])
            if self.classes is not None:
                references = (references[0], self.classes.index(batch.reference_labels[:, -1]))
        loss: Tensor = self.inner(rows, labels, batch.indices, *references)
        return loss.reshape(())

    def _is_dense(self, batch: Batch) -> bool:
        """Whether the whole matrix is taken; a list takes less than a cube larger than a block."""
        rows = batch.embeddings
        small = not self.makes_cube or len(rows) ** 3 <= block_size(rows.device)
        return batch.indices is None and batch.searches_itself and small


def _pair_loss(name: str, kind: str, dense: Dense, **options: Any) -> Borrowed:
    """A loss over pairs that counts a single pair too: the library's own returns 0 then."""
    losses, tools = library("losses", name), library("utils.loss_and_miner_utils", name)
    original = getattr(losses, kind)

    def compute_loss(
        self: Any, embeddings: Any, labels: Any, indices: Any, ref_emb: Any, ref_labels: Any
    ) -> Any:
        indices = tools.convert_to_pairs(indices, labels, ref_labels)
        if not any(len(part) for part in indices):
            return self.zero_losses()
        return self.loss_method(self.distance(embeddings, ref_emb), indices)

    inner = type(kind, (original,), {"compute_loss": compute_loss})(**options)
    return Borrowed(inner, takes_references=True, dense=dense)


def contrastive(positive_margin: float, negative_margin: float) -> Borrowed:
    """Distances of unit vectors beyond two margins, averaged over the pairs that offend."""
    _check_numbers(positive_margin=positive_margin, negative_margin=negative_margin)
    return _pair_loss(
        "contrastive",
        "ContrastiveLoss",
        dense.contrastive,
        pos_margin=positive_margin,
        neg_margin=negative_margin,
    )


def triplet(margin: float) -> Borrowed:
    """A negative must be farther than a positive by a margin; mean over the offending triplets."""
    _check_numbers(margin=margin)
    inner = library("losses", "triplet").TripletMarginLoss(margin=margin)
    return Borrowed(inner, takes_references=True, dense=dense.triplet, makes_cube=True)


def margin(
    margin: float,
    beta: float,
    nu: float,
    learn_beta: bool,
    num_classes: int | None = None,
    classes: Iterable[int] | None = None,
) -> Borrowed:
    """Positives within beta - margin, negatives beyond beta + margin; beta may be learned."""
    _check_numbers(margin=margin, beta=beta, nu=nu)
    known = None if num_classes is None and classes is None else Classes(num_classes, classes)
    inner = library("losses", "margin").MarginLoss(
        margin=margin,
        beta=beta,
        nu=nu,
        learn_beta=learn_beta,
        num_classes=None if known is None else len(known),
    )
    if not learn_beta:  # as a buffer it moves to a GPU with the loss, not in every batch
        fixed = inner.beta
        del inner.beta
        inner.register_buffer("beta", fixed, persistent=False)
    return Borrowed(inner, known, takes_references=True, dense=dense.margin)


def fastap(bins: int) -> Borrowed:
    """Average precision by a soft histogram of squared distances."""
    if not isinstance(bins, int) or isinstance(bins, bool) or bins < 2:
        raise InputError(
            f"The 'bins' parameter of fastap must be an int >= 2. Got {bins!r} instead."
        )
    return Borrowed(library("losses", "fastap").FastAPLoss(num_bins=bins), dense=dense.fastap)


def multi_similarity(alpha: float, beta: float, base: float) -> Borrowed:
    """Soft maxima over each anchor's positives and negatives."""
    check_number("alpha", alpha, above=0)
    check_number("beta", beta, above=0)
    _check_numbers(base=base)
    return _pair_loss(
        "multi_similarity",
        "MultiSimilarityLoss",
        dense.multi_similarity,
        alpha=alpha,
        beta=beta,
        base=base,
    )


def _with_proxies(
    name: str,
    kind: str,
    embedding_size: int,
    num_classes: int | None,
    classes: Iterable[int] | None,
    options: Callable[[int], dict[str, Any]],
    dense: Dense | None = None,
) -> Borrowed:
    known = Classes(num_classes, classes)
    inner = getattr(library("losses", name), kind)(
        num_classes=len(known), embedding_size=embedding_size, **options(len(known))
    )
    return Borrowed(inner, known, dense=dense)


def normalized_softmax(
    embedding_size: int,
    temperature: float,
    num_classes: int | None = None,
    classes: Iterable[int] | None = None,
) -> Borrowed:
    """Cross-entropy over cosines with one proxy per class."""
    check_number("temperature", temperature, above=0)
    return _with_proxies(
        "normalized_softmax",
        "NormalizedSoftmaxLoss",
        embedding_size,
        num_classes,
        classes,
        lambda _: {"temperature": temperature},
        dense.normalized_softmax,
    )


def cosface(
    embedding_size: int,
    margin: float,
    scale: float,
    num_classes: int | None = None,
    classes: Iterable[int] | None = None,
) -> Borrowed:
    """Cross-entropy with the own class's cosine lowered by a margin."""
    _check_numbers(margin=margin)
    check_number("scale", scale, above=0)
    return _with_proxies(
        "cosface",
        "CosFaceLoss",
        embedding_size,
        num_classes,
        classes,
        lambda _: {"margin": margin, "scale": scale},
        dense.cosface,
    )


def sphereface(
    embedding_size: int,
    margin: int,
    scale: float,
    num_classes: int | None = None,
    classes: Iterable[int] | None = None,
) -> Borrowed:
    """Cross-entropy with the own class's angle multiplied, and the embedding's length kept."""
    if not isinstance(margin, int) or isinstance(margin, bool) or margin < 1:
        raise InputError(
            f"The 'margin' parameter of sphereface must be an int >= 1. Got {margin!r} instead."
        )
    check_number("scale", scale, above=0)
    return _with_proxies(
        "sphereface",
        "SphereFaceLoss",
        embedding_size,
        num_classes,
        classes,
        lambda _: {"margin": margin, "scale": scale},
    )


def proxy_anchor(
    embedding_size: int,
    margin: float,
    alpha: float,
    num_classes: int | None = None,
    classes: Iterable[int] | None = None,
) -> Borrowed:
    """Each proxy as an anchor against the batch's rows, by soft maxima."""
    _check_numbers(margin=margin)
    check_number("alpha", alpha, above=0)
    return _with_proxies(
        "proxy_anchor",
        "ProxyAnchorLoss",
        embedding_size,
        num_classes,
        classes,
        lambda _: {"margin": margin, "alpha": alpha},
    )


def soft_triple(
    embedding_size: int,
    centers_per_class: int,
    la: float,
    gamma: float,
    margin: float,
    regularizer: float,
    num_classes: int | None = None,
    classes: Iterable[int] | None = None,
) -> Borrowed:
    """Normalized softmax with several centres a class, which a regulariser merges."""
    for name, value in (("la", la), ("gamma", gamma)):
        check_number(name, value, above=0)
    _check_numbers(margin=margin)
    check_number("regularizer", regularizer, least=0)

    def options(count: int) -> dict[str, Any]:
        return {
            "centers_per_class": centers_per_class,
            "la": la,
            "gamma": gamma,
            "margin": margin,
            "weight_regularizer": _CentreSpread(count, centers_per_class),
            "weight_reg_weight": regularizer,
        }

    return _with_proxies(
        "soft_triple",
        "SoftTripleLoss",
        embedding_size,
        num_classes,
        classes,
        options,
        dense.soft_triple,
    )


class _CentreSpread(torch.nn.Module):
    """Mean distance of the centres of a class, halved: what SoftTriple adds to merge them.

    The library's own keeps (classes x centres)^2 masks: 13 GB for the 11,318 classes of SOP.
    """

    def __init__(self, classes: int, centres: int) -> None:
        super().__init__()
        self.shape = (classes, centres, -1)
        self.pairs = max(classes * centres * (centres - 1), 1)

    def forward(self, weights: Tensor) -> Tensor:
        centres = normalize(weights, dim=1).reshape(self.shape)
        return self.of_cosines(centres @ centres.mT)

    def of_cosines(self, cos: Tensor) -> Tensor:
        """The same from (classes, centres, centres) cosines."""
        distance = (2 - 2 * cos).clamp_min(torch.finfo(cos.dtype).eps).sqrt()
        return distance.triu(1).sum() / self.pairs


def _check_numbers(**values: float) -> None:
    for name, value in values.items():
        check_number(name, value)
