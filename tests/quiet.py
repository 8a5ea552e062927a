"""Evaluations whose warnings are not what a test is about."""

from __future__ import annotations

import warnings
from typing import Any

import truerank

__all__ = ["evaluate"]


def evaluate(*arguments: Any, **options: Any) -> truerank.Result:
    """truerank.evaluate, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return truerank.evaluate(*arguments, **options)
