"""GOM: retrieval and verification together, at one threshold, over all of them, and at the best.

For a query with mates, RP is the mean precision at the relevant items that were accepted, VP the
share of true ones among accepted and missed, ReP their geometric mean; for a query without, FR is
the number of accepted items over B, at most 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.metrics.registry import Metric, ThresholdDefinition, register
from truerank.metrics.thresholds import NO_IMPOSTORS, certain, rate, undefined
from truerank.result import PerQuery, Score

if TYPE_CHECKING:
    from truerank.evidence import Evidence
    from truerank.evidence.gom import Gom

__all__ = ["table"]

Reals = npt.NDArray[np.float64]
NO_TARGETS = "not defined: no query has a mate in the gallery"


def _seen(evidence: Evidence, metric: Metric) -> Gom | str:
    found = evidence.gom[metric.option("scale") or "fixed"]
    needs_impostors = metric.name in ("mfr", "tau_nz")
    if not isinstance(found, str) and needs_impostors and evidence.with_mate.all():
        return NO_IMPOSTORS
    if not isinstance(found, str) and not needs_impostors and not evidence.with_mate.any():
        return NO_TARGETS
    return found


def _averaged(
    evidence: Evidence,
    metric: Metric,
    table: Reals,
    *,
    threshold: float | None = None,
    bracket: tuple[Reals, Reals] | None = None,
) -> Score:
    """The means of three rows over the queries with a mate, or without one for FR."""
    counts = evidence.with_mate if metric.name != "mfr" else ~evidence.with_mate
    values = np.where(counts, table, np.nan)
    lower, expected, upper = (evidence.mean(row, counts) for row in values)
    ends = None
    if bracket is not None:
        low, high = evidence.mean(bracket[0], counts), evidence.mean(bracket[1], counts)
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
    if metric.name == "mfr":
        limit = int(metric.option("b") or 3000)
        if metric.option("tau") is not None:
            values = np.minimum(gom.accepted_at[rate(metric, "tau")] / limit, 1.0)
        elif metric.option("integral") == "trapezoid":
            values = gom.false_trapezoid[limit]
        else:
            values = gom.false_rates[limit]
        return np.broadcast_to(values, (3, len(values)))
    if metric.option("tau") is not None:
        return _at(gom, metric)
    if metric.option("integral") == "trapezoid":
        trapezoid: Reals = gom.trapezoid[_frozen(metric)]
        return trapezoid
    least, most = gom.integral[int(_is_exact(gom, metric)), _frozen(metric)]
    middle: Reals = least if _is_exact(gom, metric) else (least + most) / 2
    return middle


def _at(gom: Gom, metric: Metric) -> Reals:
    """RP, VP, ReP and set precision and recall at one threshold."""
    tau = rate(metric, "tau")
    mates, true, false = gom.at[tau]
    held = np.maximum(mates, 1)
    precision = gom.sums_at[tau] / np.maximum(true, 1)
    share = np.broadcast_to(true / (held + false), precision.shape)
    if metric.option("fp") == "frozen":
        share = np.where(true == mates, gom.last, share)
    shape = precision.shape
    tables: dict[str, Reals] = {
        "mrp": precision,
        "mvp": share,
        "mrep": np.sqrt(precision * share),
        "set_precision": np.broadcast_to(true / np.maximum(true + false, 1), shape),
        "set_recall": np.broadcast_to(true / held, shape),
    }
    return tables[metric.name]


def _frozen(metric: Metric) -> int:
    return int(metric.option("fp") == "frozen")


def _is_exact(gom: Gom, metric: Metric) -> bool:
    return gom.is_exact and (metric.option("integral") == "exact" or not gom.is_bracketed)


def _point(evidence: Evidence, metric: Metric) -> Score:
    gom = _seen(evidence, metric)
    if isinstance(gom, str):
        return undefined(metric, gom)
    tau = metric.option("tau")
    threshold = None if tau is None else float(rate(metric, "tau"))
    return _averaged(evidence, metric, table(gom, metric), threshold=threshold)


def _mrep(evidence: Evidence, metric: Metric) -> Score:
    gom = _seen(evidence, metric)
    given = metric.option("tau") is not None or metric.option("integral") == "trapezoid"
    if isinstance(gom, str) or given or _is_exact(gom, metric):
        return _point(evidence, metric)
    least, most = gom.integral[0, _frozen(metric)]
    return _averaged(evidence, metric, table(gom, metric), bracket=(least[0], most[2]))


def _peak(evidence: Evidence, metric: Metric) -> Score:
    gom = _seen(evidence, metric)
    if isinstance(gom, str):
        return undefined(metric, gom)
    found = evidence.peaks(metric.option("scale") or "fixed")
    queries = int(evidence.with_mate.sum())
    taus = [float(gom.axis.tau(np.array([peak.distance]))[0]) for peak in found]
    if metric.name == "tau_max":
        return certain(metric, taus[1], queries, threshold=taus[1])
    values = [peak.total / (gom.one * queries) for peak in found]
    if metric.name == "mvp_max":
        return certain(metric, values[0], queries, threshold=taus[0])
    return Score(
        str(metric), values[1], values[1], values[2], values[3], n=queries, threshold=taus[1]
    )


def _tau_nz(evidence: Evidence, metric: Metric) -> Score:
    gom = _seen(evidence, metric)
    if isinstance(gom, str):
        return undefined(metric, gom)
    impostors = ~evidence.with_mate
    nearest = float(evidence.nearest[impostors].min())
    if not np.isfinite(nearest):
        return undefined(metric, "not defined: no query without a mate has anything to meet")
    tau = float(gom.axis.tau(np.array([nearest]))[0])
    return certain(metric, tau, int(impostors.sum()), threshold=tau)


_PAPER = (
    "Wang et al., Re-identification = Retrieval + Verification: Back to Essence and Forward with "
    "a New Metric, 2020"
)
_SCALE = {"scale": ("fixed", "minmax")}
_FP = {"fp": ("all", "frozen")}
_INTEGRAL = {"integral": ("step", "exact", "trapezoid")}

for _definition in (
    ThresholdDefinition(
        "mrp",
        "mean retrieval precision at a threshold",
        "mean precision at the relevant items accepted at tau; 0 if none is",
        _PAPER,
        measure=_point,
        options={"tau": "rate", **_SCALE},
        one_of=("tau",),
        family="gom",
        examples=("mrp@tau=0.3", "mrp@scale=minmax,tau=0.3"),
    ),
    ThresholdDefinition(
        "mvp",
        "mean verification precision at a threshold",
        "relevant items accepted at tau, divided by R plus the others accepted; with fp=frozen "
        "others behind the last relevant item do not count",
        _PAPER,
        measure=_point,
        options={"tau": "rate", **_FP, **_SCALE},
        one_of=("tau",),
        family="gom",
        examples=("mvp@tau=0.3", "mvp@fp=frozen,tau=0.6", "mvp@scale=minmax,tau=0.3"),
    ),
    ThresholdDefinition(
        "set_precision",
        "precision of the accepted set",
        "share of the items accepted at tau that are relevant; 0 if none is accepted",
        _PAPER,
        measure=_point,
        options={"tau": "rate", **_SCALE},
        one_of=("tau",),
        family="gom",
        examples=("set_precision@tau=0.3", "set_precision@scale=minmax,tau=0.3"),
    ),
    ThresholdDefinition(
        "set_recall",
        "recall of the accepted set",
        "share of the relevant items that are accepted at tau",
        _PAPER,
        measure=_point,
        options={"tau": "rate", **_SCALE},
        one_of=("tau",),
        family="gom",
        examples=("set_recall@tau=0.3", "set_recall@scale=minmax,tau=0.3"),
    ),
    ThresholdDefinition(
        "mrep",
        "mean re-identification precision",
        "sqrt(RP VP), integrated over tau from 0 to 1 or, with tau=, at one threshold; expected is "
        "sqrt(VP E[RP]) where items tie",
        _PAPER,
        measure=_mrep,
        options={"tau": "rate", **_FP, **_INTEGRAL, **_SCALE},
        apart=(("tau", "integral"),),
        family="gom",
        examples=(
            "mrep",
            "mrep@tau=0.3",
            "mrep@integral=exact",
            "mrep@fp=frozen",
            "mrep@fp=frozen,integral=trapezoid,scale=minmax",
        ),
    ),
    ThresholdDefinition(
        "mfr",
        "mean false rate",
        "items accepted by a query without a mate, divided by B and at most 1; integrated over tau "
        "or at one",
        _PAPER,
        measure=_point,
        options={"tau": "rate", "b": "count", **_INTEGRAL, **_SCALE},
        defaults={"b": "3000"},
        apart=(("tau", "integral"),),
        higher_is_better=False,
        family="gom",
        examples=(
            "mfr",
            "mfr@b=5",
            "mfr@b=5,tau=0.6",
            "mfr@b=20,integral=trapezoid",
            "mfr@b=20,integral=exact",
            "mfr@b=20,scale=minmax",
        ),
    ),
    ThresholdDefinition(
        "mrep_max",
        "highest mean re-identification precision",
        "the maximum of mReP over all thresholds",
        _PAPER,
        measure=_peak,
        options=_SCALE,
        family="gom",
        examples=("mrep_max", "mrep_max@scale=minmax"),
    ),
    ThresholdDefinition(
        "mvp_max",
        "highest mean verification precision",
        "the maximum of mVP over all thresholds",
        _PAPER,
        measure=_peak,
        options=_SCALE,
        family="gom",
        examples=("mvp_max", "mvp_max@scale=minmax"),
    ),
    ThresholdDefinition(
        "tau_max",
        "threshold of the highest mReP",
        "the smallest threshold at which mReP is highest",
        _PAPER,
        measure=_peak,
        options=_SCALE,
        unit="distance",
        family="gom",
        examples=("tau_max", "tau_max@scale=minmax"),
    ),
    ThresholdDefinition(
        "tau_nz",
        "threshold of the first false accept",
        "the smallest threshold at which a query without a mate has anything accepted",
        _PAPER,
        measure=_tau_nz,
        options=_SCALE,
        unit="distance",
        family="gom",
        examples=("tau_nz", "tau_nz@scale=minmax"),
    ),
):
    register(_definition)
