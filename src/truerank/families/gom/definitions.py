"""The definitions of GOM's metrics."""

from __future__ import annotations

from truerank.core.metric import Exclusive, Metric, ThresholdDefinition, register
from truerank.core.parameters import COUNT, RATE, Choice, Parameter

__all__: list[str] = []

_PAPER = (
    "Wang et al., Re-identification = Retrieval + Verification: Back to Essence and Forward with "
    "a New Metric, 2020"
)
_SCORES = "truerank.families.gom.scores"
_TAU = Parameter("tau", RATE, "one threshold on the axis from 0 to 1; (1 - s)/2 for cosines s")
_FAR = Parameter(
    "far",
    RATE,
    "the threshold at which so many of the queries without a mate have an item accepted",
)
_SCALE = Parameter(
    "scale",
    Choice(("fixed", "minmax")),
    "the axis: comparable across models, or from the smallest to the largest distance seen",
    "fixed",
)
_FP = Parameter(
    "fp",
    Choice(("all", "frozen")),
    "false positives that count: all, or those up to the last relevant item",
    "all",
)
_INTEGRAL = Parameter(
    "integral",
    Choice(("step", "exact", "trapezoid")),
    "of the step function (bracketed where it has very many steps), exact at any size, or over 101 "
    "points",
    "step",
)
_MAXIMUM = Parameter(
    "integral",
    Choice(("step", "trapezoid")),
    "the maximum over all thresholds, or over the 101 points of the trapezoid",
    "step",
)
_B = Parameter("b", COUNT, "accepted items from which on the false rate is 1", "3000")
_TRIPLE = "lower, expected and upper over all orders of tied items; acceptance has none"
_FROZEN = f"none; with fp=frozen {_TRIPLE}"


_RESCALED = Exclusive("far", "scale", "a rate is the same on every scale")
_ONE_WAY = (
    Exclusive("tau", "integral"),
    Exclusive("far", "tau"),
    Exclusive("far", "integral"),
    _RESCALED,
)


def _at_given_thresholds(metric: Metric) -> bool:
    fixed: bool = metric["scale"] == "fixed" and metric.get("far") is None
    return fixed


def _own_scale(metric: Metric) -> str | None:
    if metric["far"] is not None:
        return None
    return (
        "mrep and mfr follow the scale that each model gives its distances, which no ranking and "
        "no threshold at a rate does; compare models by mrep@far=0.01 and mfr@far=0.01."
    )


for _definition in (
    ThresholdDefinition(
        "mrp",
        "mean retrieval precision at a threshold",
        "mean precision at the relevant items accepted at tau, or at a FAR; 0 if none is",
        _PAPER,
        score=_SCORES,
        parameters=(_FAR, _TAU, _SCALE),
        one_of=("tau", "far"),
        exclusive=(_RESCALED,),
        is_mean=_at_given_thresholds,
        ties=_TRIPLE,
        family="gom",
        examples=("mrp@tau=0.3", "mrp@far=0.1", "mrp@scale=minmax,tau=0.3"),
    ),
    ThresholdDefinition(
        "mvp",
        "mean verification precision at a threshold",
        "relevant items accepted at tau, or at a FAR, divided by R plus the others accepted; with "
        "fp=frozen others behind the last relevant item do not count",
        _PAPER,
        score=_SCORES,
        parameters=(_FAR, _TAU, _FP, _SCALE),
        one_of=("tau", "far"),
        exclusive=(_RESCALED,),
        is_mean=_at_given_thresholds,
        ties=_FROZEN,
        family="gom",
        examples=(
            "mvp@tau=0.3",
            "mvp@far=0.1",
            "mvp@far=0.25,fp=frozen",
            "mvp@fp=frozen,tau=0.6",
            "mvp@scale=minmax,tau=0.3",
        ),
    ),
    ThresholdDefinition(
        "mrep",
        "mean re-identification precision",
        "sqrt(RP VP), integrated over tau from 0 to 1 or, with tau= or far=, at one threshold; "
        "expected is sqrt(VP E[RP]) where items tie",
        _PAPER,
        score=_SCORES,
        parameters=(_FAR, _TAU, _FP, _INTEGRAL, _SCALE),
        exclusive=_ONE_WAY,
        is_mean=_at_given_thresholds,
        ties=_TRIPLE,
        side_by_side=_own_scale,
        family="gom",
        examples=(
            "mrep",
            "mrep@tau=0.3",
            "mrep@far=0.1",
            "mrep@far=0.25,fp=frozen",
            "mrep@integral=exact",
            "mrep@fp=frozen",
            "mrep@fp=frozen,integral=trapezoid,scale=minmax",
        ),
    ),
    ThresholdDefinition(
        "mfr",
        "mean false rate",
        "items accepted by a query without a mate, divided by B and at most 1; integrated over tau "
        "or at one threshold",
        _PAPER,
        score=_SCORES,
        parameters=(_FAR, _TAU, _B, _INTEGRAL, _SCALE),
        exclusive=_ONE_WAY,
        higher_is_better=False,
        is_mean=_at_given_thresholds,
        is_steep=False,
        with_mate=False,
        side_by_side=_own_scale,
        family="gom",
        examples=(
            "mfr",
            "mfr@b=5",
            "mfr@b=5,tau=0.6",
            "mfr@b=5,far=0.25",
            "mfr@b=20,integral=trapezoid",
            "mfr@b=20,integral=exact",
            "mfr@b=20,scale=minmax",
        ),
    ),
    ThresholdDefinition(
        "mrep_max",
        "highest mean re-identification precision",
        "the maximum of mReP over all thresholds, or with integral=trapezoid over 0, .01, ..., 1",
        _PAPER,
        score=_SCORES,
        parameters=(_FP, _MAXIMUM, _SCALE),
        ties=_TRIPLE,
        family="gom",
        examples=(
            "mrep_max",
            "mrep_max@scale=minmax",
            "mrep_max@fp=frozen",
            "mrep_max@integral=trapezoid",
            "mrep_max@fp=frozen,integral=trapezoid,scale=minmax",
        ),
    ),
    ThresholdDefinition(
        "mvp_max",
        "highest mean verification precision",
        "the maximum of mVP over all thresholds, or with integral=trapezoid over 0, .01, ..., 1",
        _PAPER,
        score=_SCORES,
        parameters=(_FP, _MAXIMUM, _SCALE),
        ties=_FROZEN,
        family="gom",
        examples=(
            "mvp_max",
            "mvp_max@scale=minmax",
            "mvp_max@fp=frozen",
            "mvp_max@integral=trapezoid",
            "mvp_max@fp=frozen,integral=trapezoid,scale=minmax",
        ),
    ),
    ThresholdDefinition(
        "tau_max",
        "threshold of the highest mReP",
        "the smallest threshold at which mReP is highest, of all or of those of mrep_max",
        _PAPER,
        score=_SCORES,
        parameters=(_FP, _MAXIMUM, _SCALE),
        unit="distance",
        family="gom",
        examples=(
            "tau_max",
            "tau_max@scale=minmax",
            "tau_max@fp=frozen",
            "tau_max@integral=trapezoid",
            "tau_max@fp=frozen,integral=trapezoid,scale=minmax",
        ),
    ),
    ThresholdDefinition(
        "tau_nz",
        "threshold of the first false accept",
        "the smallest threshold at which a query without a mate has anything accepted",
        _PAPER,
        score=_SCORES,
        parameters=(_SCALE,),
        unit="distance",
        with_mate=False,
        family="gom",
        examples=("tau_nz", "tau_nz@scale=minmax"),
    ),
):
    register(_definition)
