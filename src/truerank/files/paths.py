"""Paths as users pass them: text or path objects, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from truerank.errors import InputError, shortened

__all__ = ["as_path"]


def as_path(path: object) -> Path:
    """The path, or one sentence on what is none."""
    if isinstance(path, (str, os.PathLike)):
        text = os.fspath(path)
        if isinstance(text, str):
            return Path(text)
    raise InputError(f"a path must be text or a pathlib.Path. Got {shortened(path)} instead.")
