"""Public names of metrics: what an added metric is made of, and `register`.

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
