"""Open-set identification: is it there at all, and who? Queries without a mate are the impostors.

DIR(tau, x) is the share of queries with a mate whose nearest relevant item is accepted and among
the first x; FAR(tau) the share of queries without one that have anything accepted. The rank is
ambiguous where items tie, acceptance never is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import PerQuery, Score
from truerank.families.openset import chance as blind
from truerank.families.openset.collect import Identification
from truerank.families.thresholds import (
    NO_IMPOSTORS,
    allowed,
    limit_at,
    undefined,
    unresolved,
)

__all__ = ["NO_TARGETS", "SCORES", "as_dir", "identified", "observed_below", "share"]

Flags = npt.NDArray[np.bool_]
NO_TARGETS = "not defined: no query has a mate in the gallery"


def observed_below(
    seen: Identification, limits: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The largest distance below each limit, of those that decide here; -inf if there is none.

    Accepting up to it accepts what is nearer than the limit.
    """
    met = np.concatenate([seen.nearest, seen.first])
    met = np.append(-np.inf, np.sort(met[np.isfinite(met)]))
    return np.asarray(met[np.searchsorted(met, limits, side="left") - 1], np.float64)


def as_dir(metric: Metric) -> Metric:
    """DIR in place of FNIR, which is what it lacks of 1; any other metric as it is."""
    return Metric("dir", None, metric.options) if metric.name == "fnir" else metric


def identified(metric: Metric, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The three rows of FNIR from those of DIR; those of DIR as they are."""
    return 1.0 - values[::-1] if metric.name == "fnir" else values


def _acceptance(seen: Identification, metric: Metric) -> tuple[float, float | None] | str:
    """The largest accepted distance and the threshold to report, or why there is none."""
    if metric["tau"] is not None:
        tau = metric["tau"]
        return seen.context.units.cut(tau), float(tau)
    impostors = np.sort(seen.nearest[~seen.context.with_mate])
    if not len(impostors):
        return NO_IMPOSTORS
    target = metric["far"]
    reason = unresolved(target, len(impostors))
    if reason is not None:
        return reason
    largest = float(observed_below(seen, np.array([limit_at(impostors, target)]))[0])
    return largest, seen.context.units.in_unit(largest)


def share(
    seen: Identification,
    metric: Metric,
    table: npt.NDArray[np.float64],
    counts: Flags,
    threshold: float | None,
    chance: npt.NDArray[np.float64] | None = None,
) -> Score:
    """The means of three rows of values over the queries that count."""
    values = np.where(counts, table, np.nan)
    lower, expected, upper = (seen.context.mean(row, counts) for row in values)
    higher = definition(metric).higher_is_better
    return Score(
        str(metric),
        lower if higher else upper,
        lower,
        expected,
        upper,
        chance=None if chance is None else seen.context.mean(chance, counts),
        attainable=None if chance is None else float(higher),
        n=int(counts.sum()),
        per_query=PerQuery(*values),
        threshold=threshold,
    )


def _chance(seen: Identification, metric: Metric) -> npt.NDArray[np.float64] | None:
    """Every target's chance by random scores; None unless every query meets the whole gallery.

    In leave-one-out a target and an impostor meet each other, so that one's luck is the other's.
    """
    task = seen.context.task
    excluding = task.leave_one_out or task.excludes_pairs or task.group_names is not None
    if metric["far"] is None or excluding:
        return None
    candidates = task.items
    impostors = int((~seen.context.with_mate).sum())
    r = allowed(metric["far"], impostors)
    if metric.name == "ttr":
        return np.full(task.queries, blind.accepted_target(candidates, impostors, r))
    rank = metric["rank"]
    mates, number = np.unique(task.mates, return_inverse=True)
    values = [
        blind.identified_target(candidates, int(m), impostors, r, rank) if m else 0.0 for m in mates
    ]
    every: npt.NDArray[np.float64] = identified(metric, np.array([values]))[0]
    return every[number]


def _dir(seen: Identification, metric: Metric) -> Score:
    targets = seen.context.with_mate
    if not targets.any():
        return undefined(metric, NO_TARGETS)
    found = _acceptance(seen, metric)
    if isinstance(found, str):
        return undefined(metric, found)
    limit, threshold = found
    hits = seen.hits[metric["rank"]]
    values = identified(metric, hits * (seen.first <= limit))
    return share(seen, metric, values, targets, threshold, _chance(seen, metric))


def _ttr(seen: Identification, metric: Metric) -> Score:
    targets = seen.context.with_mate
    if not targets.any():
        return undefined(metric, NO_TARGETS)
    found = _acceptance(seen, metric)
    if isinstance(found, str):
        return undefined(metric, found)
    limit, threshold = found
    accepted = np.broadcast_to((seen.nearest <= limit) * 1.0, (3, len(targets)))
    return share(seen, metric, accepted, targets, threshold, _chance(seen, metric))


def _far(seen: Identification, metric: Metric) -> Score:
    impostors = ~seen.context.with_mate
    if not impostors.any():
        return undefined(metric, NO_IMPOSTORS)
    tau = metric["tau"]
    accepted = (seen.nearest <= seen.context.units.cut(tau)) * 1.0
    table = np.broadcast_to(accepted, (3, len(impostors)))
    return share(seen, metric, table, impostors, float(tau))


SCORES = {"dir": _dir, "fnir": _dir, "far": _far, "ttr": _ttr, "ftr": _far}
"""The function that gives each metric's Score."""
