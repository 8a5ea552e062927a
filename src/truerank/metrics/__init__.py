"""Metrics: names, definitions and values; how a string becomes a metric, how to add another.

Ranking metrics are in ranking.py and hierarchy.py, metrics over thresholds in thresholds/.
"""

from __future__ import annotations

from truerank.core.metric import names, register
from truerank.core.registry import parse
from truerank.metrics.description import describe

__all__ = [
    "describe",
    "names",
    "parse",
    "register",
]
