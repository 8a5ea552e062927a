"""RetrievalCallback: exact scores of a Lightning module's validation and test sets, logged.

validation_step or test_step returns a mapping with embeddings and labels, and ids where several
processes take part. "val/map@r" and the like are logged, the same on every process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from truerank._util.errors import InputError
from truerank.compat.torchmetrics import RetrievalMetric
from truerank.result.result import Result

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback  # type: ignore[assignment]
    except ImportError as error:
        raise ImportError(
            "RetrievalCallback needs Lightning: pip install lightning torchmetrics"
        ) from error


class RetrievalCallback(Callback):
    """Log truerank's scores at the end of every validation and test epoch.

    The module's validation_step (or test_step) returns a dict with "embeddings" (N, d), "labels"
    (N,) or (N, levels) and, on several processes, "ids" (N,), the index of each sample in its data
    set: samples that a distributed sampler repeats are counted once. Several data loaders make one
    set.

    Parameters
    ----------
    metrics, distance, levels, dtype
        As in RetrievalMetric.
    validation, test : str
        What stands before the metric's name in the log.

    Examples
    --------
    >>> from truerank.compat import RetrievalCallback
    >>> callback = RetrievalCallback(metrics=["map@r"])  # Trainer(callbacks=[callback])
    >>> callback.result is None  # the last epoch's truerank.Result, once there is one
    True
    """

    def __init__(
        self,
        metrics: Sequence[str] | str | None = None,
        *,
        distance: str = "cosine",
        levels: int = 1,
        dtype: torch.dtype = torch.float32,
        validation: str = "val/",
        test: str = "test/",
    ) -> None:
        self._metric = RetrievalMetric(metrics, distance=distance, levels=levels, dtype=dtype)
        self._validation, self._test = validation, test

    @property
    def result(self) -> Result | None:
        """The Result of the last finished epoch."""
        return self._metric.result

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._start(pl_module)

    def on_test_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._start(pl_module)

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._see(outputs, "validation_step")

    def on_test_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._see(outputs, "test_step")

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:  # a few batches say nothing about retrieval
            self._log(pl_module, self._validation)

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._log(pl_module, self._test)

    def _start(self, pl_module: Any) -> None:
        self._metric.to(pl_module.device).reset()

    def _see(self, outputs: Any, step: str) -> None:
        if not isinstance(outputs, Mapping) or not {"embeddings", "labels"} <= set(outputs):
            got = sorted(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
            raise InputError(
                f"RetrievalCallback needs {step} to return a dict with embeddings and labels, and "
                f"ids on several processes. Got {got} instead."
            )
        self._metric.update(outputs["embeddings"], outputs["labels"], outputs.get("ids"))

    def _log(self, pl_module: Any, prefix: str) -> None:
        values = self._metric.compute()
        # Already the same on all processes: averaging them again would only round.
        pl_module.log_dict(
            {prefix + name: value.to(torch.float32) for name, value in values.items()},
            sync_dist=False,
            rank_zero_only=False,
        )
