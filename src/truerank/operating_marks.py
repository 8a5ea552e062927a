"""Operating points of a result on its curves: where scores were taken, and at which threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass

from truerank.core import registry
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.result import Result

__all__ = ["Mark", "marks_of"]


@dataclass(frozen=True)
class Mark:
    """A point of a curve at which a score was taken."""

    metric: str
    x: float
    y: float
    threshold: float | None


def marks_of(result: Result, curve: str) -> list[Mark]:
    """The operating points on a curve, of all scores that have one there."""
    found = []
    for name, score in result.items():
        if score.reason is None:
            at = _place(curve, registry.of_result(name), score)
            if at is not None and all(map(math.isfinite, at)):
                found.append(Mark(name, *at, score.threshold))
    return found


def _place(curve: str, metric: Metric, score: Score) -> tuple[float, float] | None:
    """Where a score lies on a curve, if it does."""
    kind, value = metric.name, score.value
    if kind in ("fnmr", "fnir"):
        kind, value = {"fnmr": "tar", "fnir": "dir"}[kind], 1 - value
    if curve in ("roc", "det") and kind == "eer":
        return (value, 1 - value) if curve == "roc" else (value, value)
    if curve in ("roc", "det") and kind == "tar" and metric["far"] is not None:
        return float(metric["far"]), value if curve == "roc" else 1 - value
    if kind == "dir" and metric["far"] is not None:
        rank = metric["rank"]
        if curve == ("dir" if rank == 1 else f"dir@rank={rank}"):
            return float(metric["far"]), value
    if (curve, kind) == ("f1", "best_f1") and score.threshold is not None:
        return score.threshold, value
    if kind in ("mrp", "mvp", "mrep", "mfr") and metric["tau"] is not None:
        whole = Metric(kind, None, tuple(p for p in metric.options if p[0] != "tau"))
        return (float(metric["tau"]), value) if str(whole) == curve else None
    if kind in ("mrep_max", "mvp_max") and metric["scale"] == "fixed":
        kept = tuple(option for option in metric.options if option[0] != "integral")
        whole = Metric(kind.removesuffix("_max"), None, kept)
        if str(whole) == curve and score.threshold is not None:
            return score.threshold, value
    return None
