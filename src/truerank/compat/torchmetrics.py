"""RetrievalMetric: exact scores as a torchmetrics metric.

Embeddings, labels and sample ids come in batch by batch, on any number of processes. A sample
seen twice, as distributed samplers pad their last batches, counts once. One process may omit
the ids: every row is then a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from truerank._util.errors import InputError
from truerank.core import registry
from truerank.distance import catalogue
from truerank.evaluation.evaluate import evaluate
from truerank.result.result import Result

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError as error:
    raise ImportError("RetrievalMetric needs torchmetrics: pip install torchmetrics") from error

NO_ID = torch.iinfo(torch.int64).min
"""Kept in place of the id of a sample that came without one."""


class RetrievalMetric(Metric):
    """A torchmetrics metric: exact retrieval scores of all samples, each counted once.

    Samples are identified by their ids, which only several processes need: their samplers repeat
    samples to fill the last batches.

    Parameters
    ----------
    metrics : metric strings
        Such as "map@r" or "hit@10"; truerank's default list without hierarchy if left out.
    distance : str
        As in `truerank.evaluate`.
    levels : int
        Number of label columns, coarse to fine; 1 takes (N,) labels.
    dtype : torch dtype
        float32, or float64 if embeddings come in it. Half precision fits float32 exactly.
    **options
        torchmetrics' own, such as `dist_sync_on_step`.

    Examples
    --------
    >>> import torch
    >>> from truerank.compat import RetrievalMetric
    >>> metric = RetrievalMetric(metrics=["precision@1", "map@r"])
    >>> points = torch.tensor([[0.0, 1], [0, 2], [1, 0], [1, 1]])
    >>> metric.update(points, torch.tensor([0, 0, 1, 1]), ids=torch.arange(4))
    >>> metric.update(points[:2], torch.tensor([0, 0]), ids=torch.arange(2))  # seen before
    >>> {name: float(value) for name, value in metric.compute().items()}
    {'precision@1': 0.75, 'map@r': 0.75}
    >>> metric.result["map@r"].per_query.lower.tolist()
    [1.0, 1.0, 1.0, 0.0]
    """

    higher_is_better = True
    is_differentiable = False
    full_state_update = False

    embeddings: list[Tensor]
    labels: list[Tensor]
    ids: list[Tensor]

    def __init__(
        self,
        metrics: Sequence[str] | str | None = None,
        *,
        distance: str = "cosine",
        levels: int = 1,
        dtype: torch.dtype = torch.float32,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if dtype not in (torch.float32, torch.float64):
            raise InputError(
                f"The 'dtype' parameter must be float32 or float64. Got {dtype} instead."
            )
        if isinstance(levels, bool) or not isinstance(levels, int) or levels < 1:
            raise InputError(f"The 'levels' parameter must be an int >= 1. Got {levels!r} instead.")
        catalogue.find(distance)
        chosen = registry.parse_all(registry.DEFAULT if metrics is None else metrics)
        self.metrics = tuple(str(metric) for metric in chosen)
        self.distance, self.levels, self.kept_dtype = distance, levels, dtype
        self.result: Result | None = None
        # Flat, so that a process without a single sample holds arrays of the shape of all others.
        for name in ("embeddings", "labels", "ids"):
            self.add_state(name, default=[], dist_reduce_fx="cat")
        self._begin()

    def _begin(self) -> None:
        self._width: int | None = None
        self.embeddings.append(torch.empty(0, dtype=self.kept_dtype, device=self.device))
        self.labels.append(torch.empty(0, dtype=torch.int64, device=self.device))
        self.ids.append(torch.empty(0, dtype=torch.int64, device=self.device))

    def reset(self) -> None:
        """Forget everything seen."""
        super().reset()
        self._begin()

    def update(self, embeddings: Tensor, labels: Tensor, ids: Tensor | None = None) -> None:
        """Add a batch: (N, d) embeddings, (N,) or (N, levels) labels, (N,) ids of the samples."""
        rows = embeddings.detach()
        if rows.ndim != 2 or not rows.is_floating_point():
            raise InputError(
                "embeddings must be a floating-point tensor of shape (rows, dimensions). "
                f"Got {rows.dtype} of shape {tuple(rows.shape)} instead."
            )
        if rows.dtype == torch.float64 and self.kept_dtype != torch.float64:
            raise InputError(
                "embeddings are float64 but this metric keeps float32; pass dtype=torch.float64."
            )
        labels = _as_integers(labels, "labels", rows, self.levels)
        ids = self._ids(ids, rows)
        if self._width not in (None, rows.shape[1]):
            raise InputError(
                f"embeddings have {rows.shape[1]} dimensions; those before had {self._width}."
            )
        self._width = rows.shape[1]
        self.embeddings.append(rows.to(self.kept_dtype).flatten())
        self.labels.append(labels.flatten())
        self.ids.append(ids)

    def _ids(self, ids: Tensor | None, rows: Tensor) -> Tensor:
        if ids is not None:
            given = _as_integers(ids, "ids", rows, 1)
            if (given == NO_ID).any():
                raise InputError(f"the sample id {NO_ID} stands for none; choose another.")
            return given
        if self.distributed_available_fn() and _processes() > 1:
            raise InputError(
                "several processes take part, whose samplers may repeat samples; pass ids, the "
                "index of each sample in its data set."
            )
        return torch.full((len(rows),), NO_ID, dtype=torch.int64, device=rows.device)

    def compute(self) -> dict[str, Tensor]:
        """The scores by metric string; the whole Result is then `self.result`."""
        ids = dim_zero_cat(self.ids).cpu().numpy()
        if not len(ids):
            raise InputError("nothing was seen yet; call update before compute.")
        rows = dim_zero_cat(self.embeddings).cpu().numpy().reshape(len(ids), -1)
        labels = dim_zero_cat(self.labels).cpu().numpy().reshape(len(ids), self.levels)
        kept = _each_once(_numbered(ids), labels, rows)
        paths = {str(n + 1): labels[kept, n] for n in range(self.levels)}
        self.result = evaluate(
            rows[kept], paths, distance=self.distance, metrics=list(self.metrics)
        )
        dtype = torch.float32 if self.device.type == "mps" else torch.float64
        return {
            name: torch.tensor(score.value, dtype=dtype, device=self.device)
            for name, score in self.result.items()
        }


def _processes() -> int:
    distributed = torch.distributed
    here = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if here else 2  # by another library than torch's own


def _as_integers(value: Tensor, name: str, rows: Tensor, columns: int) -> Tensor:
    value = torch.as_tensor(value, device=rows.device)
    shape = (len(rows),) if columns == 1 else (len(rows), columns)
    if value.is_floating_point() or value.dtype == torch.bool or tuple(value.shape) != shape:
        raise InputError(
            f"{name} must be integers of shape {shape}. "
            f"Got {value.dtype} of shape {tuple(value.shape)} instead."
        )
    return value.to(torch.int64)


def _numbered(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Ids, or numbers in the order of arrival where no sample came with one."""
    without = int(np.count_nonzero(ids == NO_ID))
    if without and without < len(ids):
        raise InputError(
            f"{without} of {len(ids)} samples came without an id; pass ids with every batch or "
            "with none."
        )
    return np.arange(len(ids)) if without else ids


def _each_once(
    ids: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], rows: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """One row of each id, in the order of the ids.

    Copies that another batch shape computed may differ in their last bits; the smallest one is
    kept, so that the choice does not depend on how samples were spread over processes.
    """
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=ids[order[0]] - 1))
    kept = order[starts]
    counts = np.diff(starts, append=len(order))
    for place in np.flatnonzero(counts > 1):
        copies = order[starts[place] : starts[place] + counts[place]]
        if (labels[copies] != labels[copies[0]]).any():
            raise InputError(f"sample id {int(ids[copies[0]])} came with different labels.")
        kept[place] = min(copies.tolist(), key=lambda row: rows[row].tolist())
    return kept
