"""Base class of losses, `loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)`, and pairs.

A loss gets a checked Batch, in float32 or wider whatever precision the network runs in, and any
two losses can be added as `a + w * b`. Pairs are (rows, references) matrices: similarities,
levels (the length of the common path, 0 for a negative pair, -1 for a row with itself or a pair
not mined).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from truerank._util.errors import InputError


@dataclass(frozen=True)
class Batch:
    """The checked input of a loss; labels are paths, coarse to fine: (rows, levels) int64."""

    embeddings: Tensor
    labels: Tensor
    references: Tensor
    reference_labels: Tensor
    indices: tuple[Tensor, ...] | None = None
    """What a miner chose: (anchor, positive, negative) or (anchor, positive, anchor, negative)."""

    @property
    def searches_itself(self) -> bool:
        """Whether each row is compared with the others of the batch, and so never with itself."""
        return self.references is self.embeddings

    @property
    def finest(self) -> Tensor:
        """The label that binary losses compare."""
        return self.labels[:, -1]


class Loss(torch.nn.Module):
    """The base of all losses: a subclass writes `compute`, and says what it takes."""

    takes_references = True
    """Whether ref_emb has a meaning; a loss with proxies compares rows with nothing else."""
    reads_back = True
    """Whether `compute` looks at a number, or makes a shape of it; a GPU is then waited for."""

    def is_recordable(self, rows: int) -> bool:
        """Whether a batch of so many rows on a GPU may be recorded as a CUDA graph, and replayed.

        Such a batch is the same operations on the same shapes whatever its numbers, and nothing is
        read back. That holds without indices_tuple and ref_emb, within `trusted_labels`, and where
        embeddings, labels and the loss are all on the GPU.
        """
        return not self.reads_back

    @property
    def title(self) -> str:
        """The name of the loss in messages."""
        return type(self).__name__

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: Sequence[Tensor] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch, a scalar with a graph; NaN if any embedding is not finite.

        Parameters
        ----------
        embeddings : (N, d)
            Any floating dtype; half and bfloat16 are widened to float32 first.
        labels : (N,) or (N, L) integers
            Any integers in any order; several columns are a path from coarse to fine, of which
            a binary loss takes the finest.
        indices_tuple : three or four index tensors, optional
            What a miner chose. A loss over pairs then counts only these pairs; a loss with
            proxies weighs each row by how often it occurs.
        ref_emb, ref_labels : optional
            Compare the rows with these instead of with one another. No row is then left out.
        """
        batch = self._check(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        with torch.autocast(embeddings.device.type, enabled=False):
            value = self.compute(batch)
            # A mask may hide what is not a number; asking with `if` would wait for the GPU.
            sound = batch.embeddings.isfinite().all()
            if not batch.searches_itself:
                sound = sound & batch.references.isfinite().all()
            return torch.where(sound, value, torch.nan)

    def compute(self, batch: Batch) -> Tensor:
        """The loss of a checked batch."""
        raise NotImplementedError

    def __add__(self, other: torch.nn.Module) -> WeightedSum:
        return WeightedSum([(1.0, self), (1.0, other)])

    def __radd__(self, other: torch.nn.Module) -> WeightedSum:
        return WeightedSum([(1.0, other), (1.0, self)])

    def __mul__(self, weight: float) -> WeightedSum:
        return WeightedSum([(weight, self)])

    __rmul__ = __mul__

    def _check(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices: Sequence[Tensor] | None,
        ref_emb: Tensor | None,
        ref_labels: Tensor | None,
    ) -> Batch:
        rows = _check_embeddings(embeddings, "embeddings")
        paths = _check_labels(labels, "labels", rows)
        if (ref_emb is None) != (ref_labels is None):
            raise InputError("ref_emb and ref_labels come together; pass both or neither.")
        if ref_emb is embeddings or ref_emb is None or ref_labels is None:
            return Batch(rows, paths, rows, paths, _check_indices(indices))
        if not self.takes_references:
            raise InputError(
                f"{self.title} compares rows with its own proxies, or with one another; "
                "leave ref_emb and ref_labels out."
            )
        references = _check_embeddings(ref_emb, "ref_emb").to(rows)
        if references.shape[1] != rows.shape[1]:
            raise InputError(
                "embeddings and ref_emb must have the same number of dimensions. "
                f"Got {tuple(embeddings.shape)} and {tuple(ref_emb.shape)}."
            )
        reference_paths = _check_labels(ref_labels, "ref_labels", references)
        if reference_paths.shape[1] != paths.shape[1]:
            raise InputError(
                f"labels have {paths.shape[1]} levels but ref_labels {reference_paths.shape[1]}."
            )
        return Batch(rows, paths, references, reference_paths, _check_indices(indices))


def all_recordable(losses: Iterable[torch.nn.Module], rows: int) -> bool:
    """Whether each is a loss of ours that may be recorded; of others nothing is known."""
    return all(isinstance(loss, Loss) and loss.is_recordable(rows) for loss in losses)


def check_number(
    name: str, value: Any, *, above: float | None = None, least: float | None = None
) -> None:
    """Refuse what is not a finite number, or not in its range."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if above is not None and not (is_number and above < value < float("inf")):
        raise InputError(
            f"The '{name}' parameter must be a number > {above:g}. Got {value!r} instead."
        )
    if least is not None and not (is_number and least <= value < float("inf")):
        raise InputError(
            f"The '{name}' parameter must be a number >= {least:g}. Got {value!r} instead."
        )
    if not (is_number and abs(value) < float("inf")):
        raise InputError(f"The '{name}' parameter must be a finite number. Got {value!r} instead.")


def _check_embeddings(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"{name} must be a floating-point tensor. Got {kind} instead.")
    if value.ndim != 2 or 0 in value.shape:
        raise InputError(
            f"{name} must have shape (rows, dimensions), with at least one of each. "
            f"Got {tuple(value.shape)} instead."
        )
    return value.to(torch.promote_types(value.dtype, torch.float32))


def _check_labels(value: Any, name: str, rows: Tensor) -> Tensor:
    try:
        labels = torch.as_tensor(value, device=rows.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a tensor of integers ({error}).") from error
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(f"{name} must be integers, compared exactly. Got {labels.dtype} instead.")
    if labels.ndim not in (1, 2) or len(labels) != len(rows) or 0 in labels.shape[1:]:
        raise InputError(
            f"{name} must have shape ({len(rows)},) or ({len(rows)}, levels), one row for each "
            f"embedding. Got {tuple(labels.shape)} instead."
        )
    labels = labels.to(torch.int64)
    return labels if labels.ndim == 2 else labels.unsqueeze(1)


def _check_indices(value: Any) -> tuple[Tensor, ...] | None:
    if value is None:
        return None
    indices = tuple(value)
    if len(indices) not in (3, 4) or not all(isinstance(part, Tensor) for part in indices):
        raise InputError(
            "indices_tuple must hold three tensors (anchor, positive, negative) or four (anchor, "
            "positive, anchor, negative), as miners return them."
        )
    return indices


class WeightedSum(Loss):
    """The loss `a + w * b`: parts take the same batch; a binary part takes the finest label."""

    def __init__(self, parts: Sequence[tuple[float, torch.nn.Module]]) -> None:
        super().__init__()
        flat: list[tuple[float, torch.nn.Module]] = []
        for weight, loss in parts:
            check_number("weight", weight)
            if not isinstance(loss, torch.nn.Module):
                raise InputError(f"only losses can be added. Got {loss!r} instead.")
            if isinstance(loss, WeightedSum):
                flat += [(weight * inner, part) for inner, part in loss.parts()]
            else:
                flat.append((weight, loss))
        self.weights = tuple(weight for weight, _ in flat)
        self.losses = torch.nn.ModuleList(loss for _, loss in flat)

    def parts(self) -> list[tuple[float, torch.nn.Module]]:
        """The weight and the loss of each part."""
        return list(zip(self.weights, self.losses, strict=True))

    def is_recordable(self, rows: int) -> bool:
        """Whether all parts are."""
        return all_recordable(self.losses, rows)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: Sequence[Tensor] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The weighted sum of the parts' losses."""
        values: list[Tensor] = [
            weight * loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)
            for weight, loss in self.parts()
        ]
        return reduce(add, values)

    def extra_repr(self) -> str:
        return f"weights={self.weights}"


# Pairs of a batch: how similar they are, how much of their labels they share, which count.
#
# In: a Batch. Out: (rows, references) matrices. A pair's level is the length of the common path,
# so that 0 is a negative pair; -1 marks what does not count, a row with itself or a pair not
# mined.


LEFT_OUT = -1


def cosine(batch: Batch) -> Tensor:
    """Cosine similarity of each row with each reference; a zero vector has 0 with everything."""
    rows = normalize(batch.embeddings, dim=1)
    return rows @ (rows if batch.searches_itself else normalize(batch.references, dim=1)).T


def levels(batch: Batch) -> Tensor:
    """How many labels, from the coarsest on, a pair shares: int16 from 0 to L, or LEFT_OUT."""
    agree = torch.ones(
        len(batch.labels), len(batch.reference_labels), dtype=torch.bool, device=batch.labels.device
    )
    level = torch.zeros_like(agree, dtype=torch.int16)
    for own, other in zip(batch.labels.unbind(1), batch.reference_labels.unbind(1), strict=True):
        agree &= own.unsqueeze(1) == other
        level += agree
    return _leave_out(level, batch)


def same_label(batch: Batch) -> Tensor:
    """For each pair, 1 where the finest labels agree, 0 where they differ, or LEFT_OUT."""
    same = batch.finest.unsqueeze(1) == batch.reference_labels[:, -1]
    return _leave_out(same.to(torch.int16), batch)


def _leave_out(level: Tensor, batch: Batch) -> Tensor:
    if batch.indices is not None:
        mined = torch.zeros_like(level, dtype=torch.bool)
        mined[batch.indices[0], batch.indices[1]] = True
        mined[_anchors(batch.indices)[-1], batch.indices[-1]] = True
        level = level.masked_fill(~mined, LEFT_OUT)
    return level.fill_diagonal_(LEFT_OUT) if batch.searches_itself else level


def row_weights(batch: Batch) -> Tensor:
    """How often each row was mined, the most frequent 1; all 1 where nothing was mined."""
    rows = batch.embeddings
    if batch.indices is None or not any(len(part) for part in batch.indices):
        return torch.ones(len(rows), dtype=rows.dtype, device=rows.device)
    mined = batch.indices if batch.searches_itself else _anchors(batch.indices)
    count = torch.bincount(torch.cat(mined), minlength=len(rows)).to(rows.dtype)
    return count / count.max()


def _anchors(indices: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return indices[:1] if len(indices) == 3 else indices[::2]


def logsumexp(values: Tensor, mask: Tensor) -> Tensor:
    """log(sum(exp)) of the last dimension where a mask holds; -inf, without a gradient, if nowhere.

    (The plain function's gradient is NaN for a row that is -inf throughout.)
    """
    some = mask.any(-1, keepdim=True)
    values = values.masked_fill(~mask, -torch.inf).masked_fill(~some, 0.0)
    return values.logsumexp(-1).masked_fill(~some.squeeze(-1), -torch.inf)


def mean_above_zero(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the values above 0 where a mask holds; 0, with a graph, if there is none."""
    counted = mask & (values > 0)
    return torch.where(counted, values, 0.0).sum() / counted.sum().clamp_min(1)
