"""Bars of a result: how often the nearest item is right, level by level, and how bad errors are.

They follow from the scores and from what a result says of its severity, fresh or read back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from truerank.core import registry
from truerank.core.curve import POINTWISE, SIMULTANEOUS, Curve
from truerank.core.score import Score
from truerank.severity import NONE
from truerank.stats.bootstrap import FEWEST_DRAWN
from truerank.stats.intervals import ends
from truerank.stats.student import quantile

__all__ = ["bars_of", "severity_bars"]


def bars_of(scores: Mapping[str, Score], provenance: Mapping[str, Any]) -> dict[str, Curve]:
    """The bars that a result has, as curves over names: "levels" and "severity"."""
    confidence = (provenance.get("intervals") or {}).get("confidence")
    severity = severity_bars(provenance.get("severity"), provenance.get("hierarchy"))
    found = [_levels(scores, confidence), severity]
    return {curve.name: curve for curve in found if curve is not None}


def _levels(scores: Mapping[str, Score], confidence: float | None) -> Curve | None:
    """precision@1 at each level that was asked for, with the interval of each; two at the least.

    Levels have units of their own, so that nothing tells how their scores move together: all bars
    lie in their simultaneous intervals as often as wanted if each misses its own so much less often
    (Bonferroni).
    """
    held: dict[str, Score] = {}
    for name, score in scores.items():
        metric = registry.of_result(name)
        if metric.name in ("precision", "hit") and metric.cut == 1 and score.reason is None:
            level = metric.get("level")
            if level != "mean":
                held.setdefault("finest" if level is None else str(level), score)
    if len(held) < 2:
        return None
    ordered = dict(sorted(held.items(), key=lambda one: one[0] == "finest"))
    columns: dict[str, Any] = {"level": np.array([*ordered], np.str_)}
    for end in ("lower", "expected", "upper"):
        columns[end] = np.array([getattr(score, end) for score in ordered.values()])
    if any(score.interval is not None for score in ordered.values()):
        near = [score.interval or (np.nan, np.nan) for score in ordered.values()]
        columns |= zip(POINTWISE, np.array(near, np.float64).T.copy(), strict=True)
        if confidence is not None:
            each = 1 - (1 - confidence) / len(ordered)
            wide = [_wider(score, confidence, each) for score in ordered.values()]
            columns |= zip(SIMULTANEOUS, np.array(wide, np.float64).T.copy(), strict=True)
    return Curve("levels", columns)


def _wider(score: Score, confidence: float, wanted: float) -> tuple[float, float]:
    """The interval of a score at another confidence; the score is a share.

    Wilson's ends are half a width w around their centre, w^2 (1 + r)^2 = r p (1 - p) + r^2 / 4,
    where r p (1 - p) is the square of t errors: the ends tell r. Where nobody says how many units
    there were, they were as many as an interval needs at the least.
    """
    if score.interval is None:
        return np.nan, np.nan
    low, high = score.interval
    p, half = score.value, (high - low) / 2
    a, b = half**2 - 0.25, 2 * half**2 - p * (1 - p)
    ratio = (-b - math.sqrt(max(b * b - 4 * a * half**2, 0.0))) / (2 * a)
    freedom = FEWEST_DRAWN - 1 if score.replicates is None else score.replicates.freedom
    more = quantile(wanted, freedom) / quantile(confidence, freedom)
    return ends(p, math.sqrt(ratio * p * (1 - p)), more, (0.0, 1.0))


def severity_bars(
    facts: Mapping[str, Any] | None, hierarchy: Mapping[str, Any] | None
) -> Curve | None:
    """Shares of the queries whose first item is wrong, by what it shares, the worst first.

    They are without a band: how they move without each class, only an evaluation knows.
    """
    if not facts or not hierarchy or not facts["queries"]:
        return None
    names = [NONE, *map(str, hierarchy["levels"][:-1])]
    errors = np.array([facts["by_level"].get(name, 0) for name in names], np.int64)
    columns = {"shared": np.array(names, np.str_), "value": errors / int(facts["queries"])}
    return Curve("severity", columns)
