"""Bars of a result: how often the nearest item is right, level by level, and how bad errors are.

They follow from the scores and from what a result says of its severity, fresh or read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from truerank.core import registry
from truerank.core.curve import Curve
from truerank.core.score import Score
from truerank.errors import InputError
from truerank.severity import NONE

__all__ = ["bars_of"]


def bars_of(scores: Mapping[str, Score], provenance: Mapping[str, Any]) -> dict[str, Curve]:
    """The bars that a result has, as curves over names: "levels" and "severity"."""
    found = [_levels(scores), _severity(provenance)]
    return {curve.name: curve for curve in found if curve is not None}


def _levels(scores: Mapping[str, Score]) -> Curve | None:
    """precision@1 at each level that was asked for, with the interval of each; two at the least."""
    held: dict[str, Score] = {}
    for name, score in scores.items():
        try:
            metric = registry.parse(name)
        except InputError:  # a metric of another version
            continue
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
        ends = [score.interval or (np.nan, np.nan) for score in ordered.values()]
        columns["low"], columns["high"] = np.array(ends, np.float64).T.copy()
    return Curve("levels", columns)


def _severity(provenance: Mapping[str, Any]) -> Curve | None:
    """Shares of the queries whose first item is wrong, by what it shares, the worst first."""
    facts, hierarchy = provenance.get("severity"), provenance.get("hierarchy")
    if not facts or not hierarchy or not facts["queries"]:
        return None
    names = [NONE, *map(str, hierarchy["levels"][:-1])]
    errors = np.array([facts["by_level"].get(name, 0) for name in names], np.int64)
    return Curve(
        "severity", {"shared": np.array(names, np.str_), "value": errors / int(facts["queries"])}
    )
