"""Losses with a learned vector per class, ProxyNCA and ArcFace, and which label owns which.

A Batch has one label per row; the value is the mean over its rows. A label outside the known
classes is refused: as an index, -1 would be the last class, and -100 would be ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from truerank._util.errors import InputError
from truerank.losses.base import Batch, Loss, check_number, row_weights
from truerank.losses.registry import labels_are_trusted


class Classes(torch.nn.Module):
    """The labels that have a proxy: 0 to num_classes - 1, or whichever integers `classes` lists."""

    values: Tensor

    def __init__(self, num_classes: int | None, classes: Iterable[int] | None) -> None:
        super().__init__()
        if (num_classes is None) == (classes is None):
            raise InputError(
                "a loss with proxies needs num_classes=C, for the labels 0 to C - 1, or classes=, "
                "the labels themselves; pass one of them."
            )
        if classes is None:
            if not isinstance(num_classes, int) or isinstance(num_classes, bool) or num_classes < 1:
                raise InputError(
                    f"The 'num_classes' parameter must be an int >= 1. Got {num_classes!r} instead."
                )
            values = torch.arange(num_classes)
        else:
            values = torch.unique(_as_integers(classes))
        self.register_buffer("values", values)
        self._checks = Checks()

    def __len__(self) -> int:
        return len(self.values)

    def index(self, labels: Tensor) -> Tensor:
        """The number of each label's proxy; labels are checked unless they are trusted."""
        values = self.values.to(labels.device)
        index = torch.searchsorted(values, labels.contiguous()).clamp_max(len(values) - 1)
        if labels_are_trusted():
            return index
        wrong = self._checks.refused(labels, values[index] == labels)
        if wrong is not None:
            raise InputError(
                f"label {wrong} is not one of the {len(values)} classes of this loss, "
                f"{int(values[0])} to {int(values[-1])}; pass classes=, the labels that occur in "
                "training."
            )
        return index


class Checks:
    """Checks that all labels are known; for a batch on a GPU the answer is read at the next one.

    Waiting for it would leave the GPU idle until the rest of the step is queued.
    """

    def __init__(self) -> None:
        self._earlier: tuple[Tensor, Tensor, Tensor, torch.cuda.Event] | None = None

    def __reduce__(self) -> tuple[type[Checks], tuple[()]]:
        return Checks, ()  # events cannot be copied

    def refused(self, labels: Tensor, known: Tensor) -> int | None:
        """A label that is not known, of this batch or of the one before; None if all are."""
        if not labels.is_cuda:
            return None if bool(known.all()) else int(labels[~known][0])
        earlier = self._earlier
        answer = torch.empty((), dtype=torch.bool, pin_memory=True)
        answer.copy_(known.all(), non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        self._earlier = (labels, known, answer, arrived)
        if earlier is None:
            return None
        labels, known, answer, arrived = earlier
        arrived.synchronize()
        return None if bool(answer) else int(labels[~known][0])


def _as_integers(classes: Any) -> Tensor:
    wrong = InputError(
        f"The 'classes' parameter must list integer labels. Got {classes!r} instead."
    )
    try:
        values = torch.as_tensor(classes if isinstance(classes, Tensor) else list(classes))
    except (TypeError, ValueError, RuntimeError) as error:
        raise wrong from error
    integers = not values.is_floating_point() and values.dtype != torch.bool
    if not integers or values.ndim != 1 or not len(values):
        raise wrong
    return values.cpu().to(torch.int64)


def make_proxies(count: int, embedding_size: int) -> torch.nn.Parameter:
    """Proxies that start in random directions."""
    if not isinstance(embedding_size, int) or embedding_size < 1:
        raise InputError(
            f"The 'embedding_size' parameter must be an int >= 1. Got {embedding_size!r} instead."
        )
    return torch.nn.Parameter(torch.randn(count, embedding_size))


def proxy_logits(embeddings: Tensor, proxies: Tensor) -> Tensor:
    """Cosine similarity of each row with each proxy, in the wider of their dtypes."""
    dtype = torch.promote_types(embeddings.dtype, proxies.dtype)
    return proxy_products(embeddings, normalize(proxies.to(dtype), dim=1))


def proxy_products(embeddings: Tensor, proxies: Tensor) -> Tensor:
    """Product of each row, brought to length 1, with each proxy as it is."""
    if embeddings.shape[1] != proxies.shape[1]:
        raise InputError(
            f"embeddings have {embeddings.shape[1]} dimensions but this loss was made with "
            f"embedding_size={proxies.shape[1]}."
        )
    dtype = torch.promote_types(embeddings.dtype, proxies.dtype)
    return normalize(embeddings.to(dtype), dim=1) @ proxies.to(dtype).T


class ProxyNCA(Loss):
    """-log of a proxy's share, by squared distance on the sphere (Movshovitz-Attias et al. 2017).

    The paper's denominator leaves the row's own proxy out; ProxyNCA++ counts it (Teh et al. 2020).
    """

    takes_references = False
    reads_back = False

    def __init__(
        self,
        embedding_size: int,
        scale: float,
        own_in_denominator: bool,
        num_classes: int | None = None,
        classes: Iterable[int] | None = None,
    ) -> None:
        super().__init__()
        check_number("scale", scale, above=0)
        self.classes = Classes(num_classes, classes)
        if len(self.classes) < 2 and not own_in_denominator:
            raise InputError("proxy_nca compares with the other classes; it needs at least two.")
        self.proxies = make_proxies(len(self.classes), embedding_size)
        self.scale, self.own_in_denominator = scale, own_in_denominator

    def compute(self, batch: Batch) -> Tensor:
        target = self.classes.index(batch.finest)
        # The squared distance of unit vectors is 2 - 2 cos; the 2 cancels in the quotient.
        logits = 2 * self.scale * proxy_logits(batch.embeddings, self.proxies)
        if self.own_in_denominator:
            losses = cross_entropy(logits, target, reduction="none")
        else:
            own = logits.gather(1, target.unsqueeze(1))
            others = logits.scatter(1, target.unsqueeze(1), -torch.inf)
            losses = others.logsumexp(1) - own.squeeze(1)
        return (losses * row_weights(batch)).mean()


class ArcFace(Loss):
    """Cross-entropy with the own class's angle widened by a margin, in degrees (Deng et al. 2019).

    Past 180 degrees - margin the own logit is cos - m sin m, which keeps it decreasing. The angle
    itself is never taken: its gradient is infinite where a row meets its proxy.
    """

    takes_references = False
    reads_back = False

    def __init__(
        self,
        embedding_size: int,
        margin: float,
        scale: float,
        num_classes: int | None = None,
        classes: Iterable[int] | None = None,
    ) -> None:
        super().__init__()
        check_number("margin", margin, least=0)
        check_number("scale", scale, above=0)
        if margin >= 180:
            raise InputError(
                f"The 'margin' of arcface must be below 180 degrees. Got {margin!r} instead."
            )
        self.classes = Classes(num_classes, classes)
        self.proxies = make_proxies(len(self.classes), embedding_size)
        self.margin, self.scale = margin, scale

    def compute(self, batch: Batch) -> Tensor:
        target = self.classes.index(batch.finest).unsqueeze(1)
        logits = proxy_logits(batch.embeddings, self.proxies)
        cos = logits.gather(1, target)
        sin = (1 - cos**2).clamp_min(torch.finfo(cos.dtype).eps).sqrt()
        margin = math.radians(self.margin)
        widened = cos * math.cos(margin) - sin * math.sin(margin)
        # angle <= pi - margin, in cosines
        own = torch.where(cos >= -math.cos(margin), widened, cos - margin * math.sin(margin))
        losses = cross_entropy(
            self.scale * logits.scatter(1, target, own), target.squeeze(1), reduction="none"
        )
        return (losses * row_weights(batch)).mean()
