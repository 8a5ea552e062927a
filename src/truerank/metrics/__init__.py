"""Metrics: their names, what each is, how a string becomes one, and how to add another."""

from __future__ import annotations

from truerank.core.registry import names, parse, register
from truerank.metrics.description import describe

__all__ = ["describe", "names", "parse", "register"]
