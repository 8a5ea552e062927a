"""In users' own loops: a torchmetrics metric and a Lightning callback, each with its own extra."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truerank.integrations.callback import RetrievalCallback
    from truerank.integrations.metric import RetrievalMetric

__all__ = ["RetrievalCallback", "RetrievalMetric"]

_HOME = {"RetrievalCallback": "callback", "RetrievalMetric": "metric"}
_PACKAGES = {
    "RetrievalCallback": "torch torchmetrics lightning",
    "RetrievalMetric": "torch torchmetrics",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        try:
            module = import_module(f"truerank.integrations.{_HOME[name]}")
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ImportError(f"{name} needs torch: pip install {_PACKAGES[name]}") from error
        return getattr(module, name)
    raise AttributeError(f"module 'truerank.integrations' has no attribute {name!r}")
