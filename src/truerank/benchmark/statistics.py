"""Numbers of the table from reruns.csv alone: means over reruns, and their intervals.

The four folds of a rerun share classes, so that a rerun is one number: n is the number of reruns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from truerank.benchmark.scoring import CONCAT
from truerank.stats.student import quantile

__all__ = ["CONFIDENCE", "PARTS", "numbers", "summarise"]

PARTS = ("concatenated", "separated")
CONFIDENCE = 0.95


def numbers(
    rows: Iterable[Mapping[str, Any]],
) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Rows of reruns.csv as method -> part or "default PART" -> metric -> summary.

    A rerun's separated score is the mean over its folds; default parameters have one run.
    """
    values: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for row in rows:
        key = (row["method"], "default" if row["default"] else "", row["metric"], row["rerun"])
        values.setdefault(key, {})[row["fold"]] = row["value"]
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (method, default, metric, _), folds in values.items():
        separated = [value for fold, value in folds.items() if fold != CONCAT]
        parts = {"concatenated": [folds[CONCAT]] if CONCAT in folds else []}
        parts["separated"] = [math.fsum(separated) / len(separated)] if separated else []
        for part, some in parts.items():
            name = f"{default} {part}".strip()
            kept = found.setdefault(method, {}).setdefault(name, {}).setdefault(metric, [])
            kept += some
    return {
        method: {
            part: {metric: summarise(some) for metric, some in metrics.items() if some}
            for part, metrics in parts.items()
        }
        for method, parts in found.items()
    }


def summarise(values: Sequence[float]) -> dict[str, Any]:
    """Mean, t interval of the mean (None for a single run), and the values themselves."""
    n = len(values)
    mean = math.fsum(values) / n
    interval = None
    if n > 1:
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
        margin = quantile(CONFIDENCE, n - 1) * spread / math.sqrt(n)
        interval = [mean - margin, mean + margin]
    return {"mean": mean, "interval": interval, "n": n, "values": list(values)}
