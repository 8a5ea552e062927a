"""Replacements for other libraries' calls, with exact numbers, and metrics for training loops.

pytorch_metric_learning.py has AccuracyCalculator, torchreid.py evaluate_rank, torchmetrics.py
RetrievalMetric, lightning.py RetrievalCallback. Every argument of an original is obeyed or
refused, never ignored. Where scores tie, the value is the lower bound.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from truerank.compat.pytorch_metric_learning import AccuracyCalculator
from truerank.compat.torchreid import evaluate_rank

if TYPE_CHECKING:
    from truerank.compat.lightning import RetrievalCallback
    from truerank.compat.torchmetrics import RetrievalMetric

__all__ = [
    "AccuracyCalculator",
    "RetrievalCallback",
    "RetrievalMetric",
    "evaluate_rank",
]

_HOME = {"RetrievalCallback": "lightning", "RetrievalMetric": "torchmetrics"}
_PACKAGES = {
    "RetrievalCallback": "torch torchmetrics lightning",
    "RetrievalMetric": "torch torchmetrics",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        try:
            module = import_module(f"truerank.compat.{_HOME[name]}")
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError(f"{name} needs torch: pip install {_PACKAGES[name]}") from error
        return getattr(module, name)
    raise AttributeError(f"module 'truerank.compat' has no attribute {name!r}")
