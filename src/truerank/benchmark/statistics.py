"""Numbers of the table from reruns.csv alone: means over reruns, and their intervals.

The four folds of a rerun share classes, so that a rerun is one number: n is the number of reruns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from truerank.benchmark.scoring import CONCAT
from truerank.stats.student import quantile

__all__ = ["CONFIDENCE", "PARTS", "numbers", "spread", "summarise", "trend"]

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


def spread(rows: Sequence[Mapping[str, Any]], part: str, metric: str) -> dict[str, Any]:
    """How far the methods are apart, with the parameters that were found and with default ones.

    Lowest and highest mean, and (highest - lowest) / lowest.
    """
    found: dict[str, Any] = {}
    for name, scores in (
        ("searched", [row[part][metric]["mean"] for row in rows]),
        ("default", [row["default"][part][metric]["mean"] for row in rows]),
    ):
        low, high = min(scores), max(scores)
        found[name] = {"low": low, "high": high, "relative": (high - low) / low if low else None}
    return found


def trend(rows: Sequence[Mapping[str, Any]], part: str, metric: str) -> dict[str, Any] | None:
    """The least-squares line of the methods' means over the years they were proposed in.

    `per_year` is its slope as a share of the mean of all methods; None with fewer than two years.
    """
    points = [
        (row["year"], row[part][metric]["mean"]) for row in rows if row.get("year") is not None
    ]
    if len({year for year, _ in points}) < 2:
        return None
    year = math.fsum(x for x, _ in points) / len(points)
    mean = math.fsum(y for _, y in points) / len(points)
    across = math.fsum((x - year) ** 2 for x, _ in points)
    along = math.fsum((x - year) * (y - mean) for x, y in points)
    total = math.fsum((y - mean) ** 2 for _, y in points)
    return {
        "per_year": along / across / mean if mean else None,
        "correlation": along / math.sqrt(across * total) if total else None,
        "methods": len(points),
    }
