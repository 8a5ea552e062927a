"""Registry entries of GOM, open-set and OPIS metrics (verification has its own), FAR targets.

This file needs no engine, so that the registry can load it. `threshold_at_far` is the one rule
for such thresholds in all families.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank._util.text import count
from truerank.core.metric import Exclusive, Metric, ThresholdDefinition, register
from truerank.core.parameters import (
    COUNT,
    HALF,
    POSITIVE,
    RATE,
    SEED,
    TARGETS,
    THRESHOLD,
    Choice,
    Parameter,
)
from truerank.core.registry import definition
from truerank.core.score import Score

if TYPE_CHECKING:
    from truerank.distance.base import Distances


NO_IMPOSTORS = "not defined: every query has a relevant item"
FEWEST_BELOW = 5
"""A threshold set by fewer queries than this has no interval: it jumps from one to the next."""


def far_targets(metric: Metric) -> list[Fraction]:
    """The FARs at which a metric looks for thresholds: one, two, or none."""
    far = metric.get("far")
    return [] if far is None else list(far) if isinstance(far, tuple) else [far]


def allowed(target: Fraction, impostors: int) -> int:
    """r = floor(f N): how many of N impostors may be accepted at a FAR of f."""
    return math.floor(target * impostors)


def limit_at(impostors: Distances, target: Fraction) -> float:
    """d* of ascending impostor distances, below which is accepted; infinite if all may be."""
    r = allowed(target, len(impostors))
    return float(impostors[r]) if r < len(impostors) else math.inf


class Negatives(Protocol):
    """Negative pairs, whose distances can be looked up by rank."""

    @property
    def impostors(self) -> int:
        """The number of negative pairs."""

    def impostor(self, rank: int) -> float:
        """The rank-th smallest negative distance, infinite beyond the last."""

    def observed_below(self, distance: float) -> float | None:
        """The largest distance of any pair below this one; None if there is none."""


def threshold_at_far(pairs: Negatives, target: Fraction) -> tuple[float, float | None]:
    """d*, below which a pair is accepted, and the largest observed distance below it.

    With every pair met twice, floor(2 f N)/2 rounded down is floor(f N): the same d*.
    """
    limit = pairs.impostor(allowed(target, pairs.impostors) + 1)
    return limit, pairs.observed_below(limit)


def unresolved(target: Fraction, met: int, what: str = "unmated query") -> str | None:
    """Why a FAR target cannot be resolved with this number of negatives, None if it can."""
    if target == 0 or target * met >= 1:
        return None
    least = Context(prec=3, rounding=ROUND_CEILING).divide(Decimal(1), Decimal(met))
    return (
        f"not defined: {count(met, what)} cannot resolve a FAR of {float(target):g}; "
        f"the smallest that they can is {float(least):g}"
    )


def why_too_few_below(below: int) -> str:
    """Why a threshold that so few queries set has no interval."""
    return (
        f"{count(below, 'unmated query')} below its threshold; an interval needs at least "
        f"{FEWEST_BELOW}"
    )


def measure(metric: Metric, seen: Any) -> Score:
    """A metric's score from what its family has collected."""
    known = definition(metric)
    if not isinstance(known, ThresholdDefinition):
        raise TypeError(f"{metric} is no metric over thresholds")
    score: Score = known.measure(seen, metric)
    return score


def undefined(metric: Metric, reason: str, n: int = 0) -> Score:
    """A score that is not defined, with the reason."""
    nan = float("nan")
    return Score(str(metric), nan, nan, nan, nan, n=n, reason=reason)


def certain(
    metric: Metric,
    value: float,
    n: int,
    *,
    threshold: float | None = None,
    bracket: tuple[float, float] | None = None,
    chance: float | None = None,
) -> Score:
    """A score that ties leave no doubt about; its best is 1, or 0 if lower is better."""
    best = 1.0 if definition(metric).higher_is_better else 0.0
    return Score(
        str(metric),
        value,
        value,
        value,
        value,
        chance=chance,
        attainable=None if chance is None else best,
        n=n,
        threshold=threshold,
        bracket=bracket,
    )


def at_places(ascending: Distances, rates: npt.NDArray[np.float64]) -> Distances:
    """The numbers that stand at these shares of a list."""
    return ascending[np.rint(rates * (len(ascending) - 1)).astype(np.int64)]


# The definitions of GOM's metrics.


_PAPER = (
    "Wang et al., Re-identification = Retrieval + Verification: Back to Essence and Forward with "
    "a New Metric, 2020"
)
_GOM_SCORES = "truerank.metrics.thresholds.gom"
_GOM_TAU = Parameter("tau", RATE, "one threshold on the axis from 0 to 1; (1 - s)/2 for cosines s")
_GOM_FAR = Parameter(
    "far",
    RATE,
    "the threshold at which this share of the unmated queries has an item accepted",
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


for _gom_definition in (
    ThresholdDefinition(
        "mrp",
        "mean retrieval precision at a threshold",
        "mean precision at the relevant items accepted at tau, or at a FAR; 0 if none is",
        _PAPER,
        score=_GOM_SCORES,
        parameters=(_GOM_FAR, _GOM_TAU, _SCALE),
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
        "relevant items accepted at tau, or at a FAR, divided by R plus the irrelevant items "
        "accepted; with fp=frozen those behind the last relevant item do not count",
        _PAPER,
        score=_GOM_SCORES,
        parameters=(_GOM_FAR, _GOM_TAU, _FP, _SCALE),
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
        score=_GOM_SCORES,
        parameters=(_GOM_FAR, _GOM_TAU, _FP, _INTEGRAL, _SCALE),
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
        "items accepted by an unmated query, divided by B and at most 1; integrated over tau "
        "or at one threshold",
        _PAPER,
        score=_GOM_SCORES,
        parameters=(_GOM_FAR, _GOM_TAU, _B, _INTEGRAL, _SCALE),
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
        score=_GOM_SCORES,
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
        score=_GOM_SCORES,
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
        score=_GOM_SCORES,
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
        "the smallest threshold at which an unmated query has anything accepted",
        _PAPER,
        score=_GOM_SCORES,
        parameters=(_SCALE,),
        unit="distance",
        with_mate=False,
        family="gom",
        examples=("tau_nz", "tau_nz@scale=minmax"),
    ),
):
    register(_gom_definition)


# The definitions of open-set metrics.


_PHILLIPS = "Phillips, Grother & Micheals, Evaluation Methods in Face Recognition, 2011"
_LIAO = "Liao et al., Open-set Person Re-identification, 2014"
_ZHENG = (
    "Zheng, Gong & Xiang, Towards Open-World Person Re-Identification by One-Shot Group-Based "
    "Verification, TPAMI 2016"
)
_OPEN_SET_SCORES = "truerank.metrics.thresholds.open_set"
_OPEN_SET_FAR = Parameter("far", RATE, "share of the unmated queries that may be accepted")
_OPEN_SET_TAU = Parameter(
    "tau", THRESHOLD, "accepted up to this distance, in the distance's own unit"
)
_RANK = Parameter("rank", COUNT, "how far down the relevant item may stand", "1")
_RANKED = "acceptance has none; the rank is lower, expected and upper over all orders of tied items"


def _at_given_threshold(metric: Metric) -> bool:
    return metric.get("far") is None


for _open_set_definition in (
    ThresholdDefinition(
        "dir",
        "detection and identification rate",
        "share of mated queries whose nearest relevant item is accepted and among the first "
        "`rank`; at the threshold tau, or at the one where a share `far` of the unmated queries is "
        "accepted",
        f"{_PHILLIPS}; {_LIAO}",
        score=_OPEN_SET_SCORES,
        parameters=(_OPEN_SET_FAR, _OPEN_SET_TAU, _RANK),
        ties=_RANKED,
        one_of=("far", "tau"),
        is_mean=_at_given_threshold,
        is_steep=False,
        family="openset",
        examples=("dir@far=0.1", "dir@far=0.25,rank=5", "dir@rank=5,tau=0.5"),
    ),
    ThresholdDefinition(
        "far",
        "false accept rate of unmated queries",
        "share of unmated queries that have any item accepted at the threshold tau",
        f"{_PHILLIPS}; {_LIAO}",
        score=_OPEN_SET_SCORES,
        parameters=(_OPEN_SET_TAU,),
        one_of=("tau",),
        higher_is_better=False,
        is_mean=_at_given_threshold,
        is_steep=False,
        with_mate=False,
        family="openset",
        examples=("far@tau=0.5",),
    ),
    ThresholdDefinition(
        "ttr",
        "true target rate",
        "share of mated queries that have any item accepted, the right one or not",
        _ZHENG,
        score=_OPEN_SET_SCORES,
        parameters=(_OPEN_SET_FAR, _OPEN_SET_TAU),
        one_of=("far", "tau"),
        is_mean=_at_given_threshold,
        is_steep=False,
        family="openset",
        examples=("ttr@far=0.1", "ttr@tau=0.5"),
    ),
    ThresholdDefinition(
        "ftr",
        "false target rate",
        "the same as far",
        _ZHENG,
        score=_OPEN_SET_SCORES,
        parameters=(_OPEN_SET_TAU,),
        one_of=("tau",),
        higher_is_better=False,
        is_mean=_at_given_threshold,
        is_steep=False,
        with_mate=False,
        family="openset",
        examples=("ftr@tau=0.5",),
    ),
    ThresholdDefinition(
        "fnir",
        "false negative identification rate",
        "share of queries with a relevant item that dir does not count: 1 - dir",
        f"{_PHILLIPS}; ISO/IEC 19795-1:2021, Biometric performance testing and reporting",
        score=_OPEN_SET_SCORES,
        parameters=(_OPEN_SET_FAR, _OPEN_SET_TAU, _RANK),
        ties=_RANKED.replace("lower", "upper", 1),
        one_of=("far", "tau"),
        higher_is_better=False,
        is_mean=_at_given_threshold,
        is_steep=False,
        family="openset",
        examples=("fnir@far=0.1", "fnir@far=0.25,rank=5", "fnir@tau=0.5"),
    ),
):
    register(_open_set_definition)


# The definition of OPIS.


_OPIS = "Zhang et al., Threshold-Consistent Margin Loss for Open-World Deep Metric Learning, 2024"

register(
    ThresholdDefinition(
        "opis",
        "operating-point inconsistency",
        "variance over classes of the utility (harmonic mean of specificity and sensitivity), "
        "averaged over the thresholds between two FAR targets; with eps= the squared difference "
        "between the utilities of the best and the worst share of classes",
        _OPIS,
        score="truerank.metrics.thresholds.consistency",
        parameters=(
            Parameter("far", TARGETS, "FAR targets that set the range of thresholds", "0.01:0.1"),
            Parameter("frr", RATE, "an FRR target that sets the lower end instead"),
            Parameter("eps", HALF, "compare only this share of the best and of the worst classes"),
            Parameter("c", POSITIVE, "how much more sensitivity counts than specificity", "1"),
            Parameter("negatives", COUNT, "number of negative pairs sampled for each positive one"),
            Parameter("seed", SEED, "of that sample", "0"),
            Parameter(
                "utility",
                Choice(("specificity", "precision")),
                "what sensitivity is averaged with",
                "specificity",
            ),
            Parameter(
                "integral",
                Choice(("step", "exact")),
                "of the step function, bracketed where it has very many steps, or exact at any "
                "size",
                "step",
            ),
        ),
        removed=(
            ("grid", "the mean over all thresholds is exact"),
            ("mean", "deviations are from the mean of the classes"),
        ),
        exclusive=(Exclusive("eps", "utility"),),
        needs=(("seed", "negatives"),),
        higher_is_better=False,
        decimals=4,
        counted="class",
        family="consistency",
        examples=(
            "opis",
            "opis@eps=0.1",
            "opis@far=0.05:0.5",
            "opis@far=0.05:0.5,frr=0.9",
            "opis@c=2,far=0.05:0.5,utility=precision",
            "opis@far=0.05:0.5,negatives=10",
            "opis@eps=0.2,far=0.05:0.5,integral=exact",
        ),
    )
)
