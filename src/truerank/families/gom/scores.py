"""The scores of GOM: at one threshold, over all of them, and at the best.

For a query with mates, RP is the mean precision at the relevant items that were accepted, VP the
share of true ones among accepted and missed, ReP their geometric mean; for a query without, FR is
the number of accepted items over B, at most 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import PerQuery, Score
from truerank.families.gom.axes import GomAxes
from truerank.families.gom.collect import Gom
from truerank.families.gom.points import table_at
from truerank.families.thresholds import NO_IMPOSTORS, certain, undefined

__all__ = ["SCORES", "table"]

Reals = npt.NDArray[np.float64]
NO_TARGETS = "not defined: no query has a mate in the gallery"


def _seen(family: GomAxes, metric: Metric) -> Gom | str:
    found = family.seen[metric["scale"]]
    needs_impostors = not definition(metric).with_mate
    if not isinstance(found, str) and needs_impostors and family.context.with_mate.all():
        return NO_IMPOSTORS
    if not isinstance(found, str) and not needs_impostors and not family.context.with_mate.any():
        return NO_TARGETS
    return found


def _averaged(
    family: GomAxes,
    metric: Metric,
    table: Reals,
    *,
    threshold: float | None = None,
    bracket: tuple[Reals, Reals] | None = None,
) -> Score:
    """The means of three rows over the queries with a mate, or without one for FR."""
    counts = family.context.with_mate if metric.name != "mfr" else ~family.context.with_mate
    values = np.where(counts, table, np.nan)
    lower, expected, upper = (family.context.mean(row, counts) for row in values)
    ends = None
    if bracket is not None:
        low, high = family.context.mean(bracket[0], counts), family.context.mean(bracket[1], counts)
        ends = None if low == high else (low, high)
    return Score(
        str(metric),
        upper if metric.name == "mfr" else lower,
        lower,
        expected,
        upper,
        n=int(counts.sum()),
        per_query=PerQuery(*values),
        threshold=threshold,
        bracket=ends,
    )


def table(gom: Gom, metric: Metric) -> Reals:
    """(3, queries): lower, expected and upper of a metric that is a mean over queries."""
    if metric["tau"] is not None:
        return table_at(gom.points, metric, metric["tau"])
    if metric.name == "mfr":
        limit = metric["b"]
        if metric["integral"] == "trapezoid":
            values = gom.false_trapezoid[limit]
        else:
            values = gom.false_rates[limit]
        return np.broadcast_to(values, (3, len(values)))
    if metric["integral"] == "trapezoid":
        trapezoid: Reals = gom.trapezoid[_frozen(metric)]
        return trapezoid
    least, most = gom.integral[int(_is_exact(gom, metric)), _frozen(metric)]
    middle: Reals = least if _is_exact(gom, metric) else (least + most) / 2
    return middle


def _frozen(metric: Metric) -> int:
    return int(metric["fp"] == "frozen")


def _is_exact(gom: Gom, metric: Metric) -> bool:
    return gom.is_exact and (metric["integral"] == "exact" or not gom.is_bracketed)


def _point(family: GomAxes, metric: Metric) -> Score:
    if metric.get("far") is not None:
        return _at_far(family, metric)
    gom = _seen(family, metric)
    if isinstance(gom, str):
        return undefined(metric, gom)
    tau = metric["tau"]
    threshold = None if tau is None else float(tau)
    return _averaged(family, metric, table(gom, metric), threshold=threshold)


def _at_far(family: GomAxes, metric: Metric) -> Score:
    """At the threshold that a rate of queries without a mate sets."""
    if not family.context.with_mate.any():
        return undefined(metric, NO_TARGETS)
    target = metric["far"]
    reason = family.rates.why_not(target)
    if reason is not None:
        return undefined(metric, reason)
    values = table_at(family.rates.points, metric, target)
    return _averaged(family, metric, values, threshold=family.rates.threshold(target))


def _mrep(family: GomAxes, metric: Metric) -> Score:
    if metric["far"] is not None:
        return _at_far(family, metric)
    gom = _seen(family, metric)
    given = metric["tau"] is not None or metric["integral"] == "trapezoid"
    if isinstance(gom, str) or given or _is_exact(gom, metric):
        return _point(family, metric)
    least, most = gom.integral[0, _frozen(metric)]
    return _averaged(family, metric, table(gom, metric), bracket=(least[0], most[2]))


def _peak(family: GomAxes, metric: Metric) -> Score:
    gom = _seen(family, metric)
    if isinstance(gom, str):
        return undefined(metric, gom)
    found = family.peaks(metric)
    queries, tau = int(family.context.with_mate.sum()), found[0].tau
    if metric.name == "tau_max":
        return certain(metric, tau, queries, threshold=tau)
    lower, expected, upper = (peak.total / (gom.one * queries) for peak in found)
    return Score(str(metric), lower, lower, expected, upper, n=queries, threshold=tau)


def _tau_nz(family: GomAxes, metric: Metric) -> Score:
    gom = _seen(family, metric)
    if isinstance(gom, str):
        return undefined(metric, gom)
    impostors = ~family.context.with_mate
    nearest = float(family.context.nearest.distance[impostors].min())
    if not np.isfinite(nearest):
        return undefined(metric, "not defined: no query without a mate has anything to meet")
    tau = float(gom.axis.tau(gom.axis.on(np.array([nearest])))[0])
    return certain(metric, tau, int(impostors.sum()), threshold=tau)


SCORES = {
    "mrp": _point,
    "mvp": _point,
    "mrep": _mrep,
    "mfr": _point,
    "mrep_max": _peak,
    "mvp_max": _peak,
    "tau_max": _peak,
    "tau_nz": _tau_nz,
}
"""The function that gives each metric's Score."""
