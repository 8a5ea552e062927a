"""The definitions of open-set metrics."""

from __future__ import annotations

from truerank.core.metric import Metric, ThresholdDefinition, register
from truerank.core.parameters import COUNT, RATE, THRESHOLD, Parameter

__all__: list[str] = []

_PHILLIPS = "Phillips, Grother & Micheals, Evaluation Methods in Face Recognition, 2011"
_LIAO = "Liao et al., Open-set Person Re-identification, 2014"
_ZHENG = (
    "Zheng, Gong & Xiang, Towards Open-World Person Re-Identification by One-Shot Group-Based "
    "Verification, TPAMI 2016"
)
_SCORES = "truerank.families.openset.scores"
_FAR = Parameter("far", RATE, "share of the queries without a mate that may be accepted")
_TAU = Parameter("tau", THRESHOLD, "accepted up to this distance, in the distance's own unit")
_RANK = Parameter("rank", COUNT, "how far down the relevant item may stand", "1")
_RANKED = "acceptance has none; the rank is lower, expected and upper over all orders of tied items"


def _at_given_threshold(metric: Metric) -> bool:
    return metric.get("far") is None


for _definition in (
    ThresholdDefinition(
        "dir",
        "detection and identification rate",
        "share of queries with a mate whose nearest relevant item is accepted and among the first "
        "`rank`; at the threshold tau, or at the one where a share `far` of the queries without a "
        "mate is accepted",
        f"{_PHILLIPS}; {_LIAO}",
        score=_SCORES,
        parameters=(_FAR, _TAU, _RANK),
        ties=_RANKED,
        one_of=("far", "tau"),
        is_mean=_at_given_threshold,
        is_steep=False,
        family="openset",
        examples=("dir@far=0.1", "dir@far=0.25,rank=5", "dir@rank=5,tau=0.5"),
    ),
    ThresholdDefinition(
        "far",
        "false accept rate of queries without a mate",
        "share of queries without a mate that have any item accepted at the threshold tau",
        f"{_PHILLIPS}; {_LIAO}",
        score=_SCORES,
        parameters=(_TAU,),
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
        "share of queries with a mate that have any item accepted, the right one or not",
        _ZHENG,
        score=_SCORES,
        parameters=(_FAR, _TAU),
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
        score=_SCORES,
        parameters=(_TAU,),
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
        score=_SCORES,
        parameters=(_FAR, _TAU, _RANK),
        ties=_RANKED.replace("lower", "upper", 1),
        one_of=("far", "tau"),
        higher_is_better=False,
        is_mean=_at_given_threshold,
        is_steep=False,
        family="openset",
        examples=("fnir@far=0.1", "fnir@far=0.25,rank=5", "fnir@tau=0.5"),
    ),
):
    register(_definition)
