"""Open-set identification: is it there at all, and who? Queries without a mate are the impostors.

DIR(tau, x) is the share of queries with a mate whose nearest relevant item is accepted and among
the first x; FAR(tau) the share of queries without one that have anything accepted. The rank is
ambiguous where items tie, acceptance never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.metrics import blind
from truerank.metrics.registry import Metric, ThresholdDefinition, register
from truerank.metrics.thresholds import (
    NO_IMPOSTORS,
    allowed,
    limit_at,
    rate,
    undefined,
    unresolved,
)
from truerank.result import PerQuery, Score

if TYPE_CHECKING:
    from truerank.evidence import Evidence

__all__ = ["observed_below"]

Flags = npt.NDArray[np.bool_]
NO_TARGETS = "not defined: no query has a mate in the gallery"


def observed_below(evidence: Evidence, limits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of the distances that decide here, the largest below each limit; -inf if there is none.

    Accepting up to it accepts what is nearer than the limit.
    """
    seen = np.concatenate([evidence.nearest, evidence.first])
    seen = np.append(-np.inf, np.sort(seen[np.isfinite(seen)]))
    return np.asarray(seen[np.searchsorted(seen, limits, side="left") - 1], np.float64)


def _acceptance(evidence: Evidence, metric: Metric) -> tuple[float, float | None] | str:
    """The largest accepted distance and the threshold to report, or why there is none."""
    if metric.option("tau") is not None:
        tau = rate(metric, "tau")
        return evidence.cut(tau), float(tau)
    impostors = np.sort(evidence.nearest[~evidence.with_mate])
    if not len(impostors):
        return NO_IMPOSTORS
    target = rate(metric, "far")
    reason = unresolved(target, len(impostors))
    if reason is not None:
        return reason
    largest = float(observed_below(evidence, np.array([limit_at(impostors, target)]))[0])
    return largest, evidence.in_unit(largest)


def _share(
    evidence: Evidence,
    metric: Metric,
    table: npt.NDArray[np.float64],
    counts: Flags,
    threshold: float | None,
    chance: npt.NDArray[np.float64] | None = None,
) -> Score:
    """The means of three rows of values over the queries that count."""
    values = np.where(counts, table, np.nan)
    lower, expected, upper = (evidence.mean(row, counts) for row in values)
    best = lower if _HIGHER[metric.name] else upper
    return Score(
        str(metric),
        best,
        lower,
        expected,
        upper,
        chance=None if chance is None else evidence.mean(chance, counts),
        attainable=None if chance is None else 1.0,
        n=int(counts.sum()),
        per_query=PerQuery(*values),
        threshold=threshold,
    )


def _chance(evidence: Evidence, metric: Metric) -> npt.NDArray[np.float64] | None:
    """Of every target by random scores; None unless every query meets the whole gallery.

    In leave-one-out a target and an impostor meet each other, so that one's luck is the other's.
    """
    task = evidence.task
    apart = task.leave_one_out or task.excludes_pairs or task.group_names is not None
    if metric.option("far") is None or apart:
        return None
    candidates = task.items
    impostors = int((~evidence.with_mate).sum())
    r = allowed(rate(metric, "far"), impostors)
    if metric.name == "ttr":
        return np.full(task.queries, blind.accepted_target(candidates, impostors, r))
    rank = int(metric.option("rank") or 1)
    mates, number = np.unique(task.mates, return_inverse=True)
    values = [
        blind.identified_target(candidates, int(m), impostors, r, rank) if m else 0.0 for m in mates
    ]
    return np.array(values)[number]


def _dir(evidence: Evidence, metric: Metric) -> Score:
    targets = evidence.with_mate
    if not targets.any():
        return undefined(metric, NO_TARGETS)
    found = _acceptance(evidence, metric)
    if isinstance(found, str):
        return undefined(metric, found)
    limit, threshold = found
    hits = evidence.hits[int(metric.option("rank") or 1)]
    values = hits * (evidence.first <= limit)
    return _share(evidence, metric, values, targets, threshold, _chance(evidence, metric))


def _ttr(evidence: Evidence, metric: Metric) -> Score:
    targets = evidence.with_mate
    if not targets.any():
        return undefined(metric, NO_TARGETS)
    found = _acceptance(evidence, metric)
    if isinstance(found, str):
        return undefined(metric, found)
    limit, threshold = found
    accepted = np.broadcast_to((evidence.nearest <= limit) * 1.0, (3, len(targets)))
    return _share(evidence, metric, accepted, targets, threshold, _chance(evidence, metric))


def _far(evidence: Evidence, metric: Metric) -> Score:
    impostors = ~evidence.with_mate
    if not impostors.any():
        return undefined(metric, NO_IMPOSTORS)
    tau = rate(metric, "tau")
    accepted = (evidence.nearest <= evidence.cut(tau)) * 1.0
    table = np.broadcast_to(accepted, (3, len(impostors)))
    return _share(evidence, metric, table, impostors, float(tau))


_HIGHER = {"dir": True, "ttr": True, "far": False, "ftr": False}
_PHILLIPS = "Phillips, Grother & Micheals, Evaluation Methods in Face Recognition, 2011"
_LIAO = "Liao et al., Open-set Person Re-identification, 2014"
_ZHENG = (
    "Zheng, Gong & Xiang, Towards Open-World Person Re-Identification by One-Shot Group-Based "
    "Verification, TPAMI 2016"
)

for _definition in (
    ThresholdDefinition(
        "dir",
        "detection and identification rate",
        "share of queries with a mate whose nearest relevant item is accepted and among the first "
        "`rank`; at the threshold tau, or at the one where a share `far` of the queries without a "
        "mate is accepted",
        f"{_PHILLIPS}; {_LIAO}",
        measure=_dir,
        options={"far": "rate", "tau": "threshold", "rank": "count"},
        defaults={"rank": "1"},
        one_of=("far", "tau"),
        family="openset",
        examples=("dir@far=0.1", "dir@far=0.25,rank=5", "dir@rank=5,tau=0.5"),
    ),
    ThresholdDefinition(
        "far",
        "false accept rate of queries without a mate",
        "share of queries without a mate that have any item accepted at the threshold tau",
        f"{_PHILLIPS}; {_LIAO}",
        measure=_far,
        options={"tau": "threshold"},
        one_of=("tau",),
        higher_is_better=False,
        family="openset",
        examples=("far@tau=0.5",),
    ),
    ThresholdDefinition(
        "ttr",
        "true target rate",
        "share of queries with a mate that have any item accepted, the right one or not",
        _ZHENG,
        measure=_ttr,
        options={"far": "rate", "tau": "threshold"},
        one_of=("far", "tau"),
        family="openset",
        examples=("ttr@far=0.1", "ttr@tau=0.5"),
    ),
    ThresholdDefinition(
        "ftr",
        "false target rate",
        "the same as far",
        _ZHENG,
        measure=_far,
        options={"tau": "threshold"},
        one_of=("tau",),
        higher_is_better=False,
        family="openset",
        examples=("ftr@tau=0.5",),
    ),
):
    register(_definition)
