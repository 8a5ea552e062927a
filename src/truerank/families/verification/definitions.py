"""Verification metrics: what is known about each."""

from __future__ import annotations

import math

from truerank.core.catalogue import register
from truerank.core.definition import ThresholdDefinition
from truerank.core.parameters import INNER, POSITIVE, RATE, THRESHOLD, Parameter

__all__: list[str] = []

_ISO = "ISO/IEC 19795-1:2021, Biometric performance testing and reporting"
_FAWCETT = "Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 2006"
_NIST = "NIST Speaker Recognition Evaluation plan, 2016"
_SCORES = "truerank.families.verification.scores"
_FAR = Parameter("far", RATE, "share of the negative pairs that may be accepted")
_TAU = Parameter("tau", THRESHOLD, "accepted up to this distance, in the distance's own unit")

for _definition in (
    ThresholdDefinition(
        "auc",
        "area under the ROC curve",
        "probability that a positive pair is nearer than a negative one; a tie counts one half",
        _FAWCETT,
        scores=_SCORES,
        counted="pair",
        family="verification",
        examples=("auc",),
    ),
    ThresholdDefinition(
        "eer",
        "equal error rate",
        "the rate at which FAR and FRR are equal, interpolated between two operating points",
        _ISO,
        scores=_SCORES,
        higher_is_better=False,
        counted="pair",
        family="verification",
        examples=("eer",),
    ),
    ThresholdDefinition(
        "min_dcf",
        "minimum detection cost",
        "least miss p FRR + fa (1 - p) FAR over all thresholds, divided by the cost of the better "
        "of accepting or rejecting everything",
        _NIST,
        scores=_SCORES,
        parameters=(
            Parameter("p", INNER, "share of positive pairs to prepare for", "0.01"),
            Parameter("miss", POSITIVE, "cost of a positive pair rejected", "1"),
            Parameter("fa", POSITIVE, "cost of a negative pair accepted", "1"),
        ),
        higher_is_better=False,
        counted="pair",
        family="verification",
        examples=("min_dcf", "min_dcf@p=0.05", "min_dcf@fa=2,miss=10,p=0.5"),
    ),
    ThresholdDefinition(
        "tar",
        "true accept rate",
        "share of positive pairs accepted, at the threshold tau or at the one where a share `far` "
        "of the negative pairs is accepted",
        _ISO,
        scores=_SCORES,
        parameters=(_FAR, _TAU),
        one_of=("far", "tau"),
        counted="positive pair",
        family="verification",
        examples=("tar@far=0.01", "tar@far=0.001", "tar@tau=0.5"),
    ),
    ThresholdDefinition(
        "threshold",
        "threshold at a FAR",
        "the largest observed distance at which no more than a share `far` of the negative pairs "
        "is accepted",
        _ISO,
        scores=_SCORES,
        parameters=(_FAR,),
        one_of=("far",),
        unit="distance",
        range=(-math.inf, math.inf),
        counted="negative pair",
        family="verification",
        examples=("threshold@far=0.01",),
    ),
    ThresholdDefinition(
        "fmr",
        "false match rate",
        "share of negative pairs accepted at the threshold tau",
        _ISO,
        scores=_SCORES,
        parameters=(_TAU,),
        one_of=("tau",),
        higher_is_better=False,
        counted="negative pair",
        family="verification",
        examples=("fmr@tau=0.5",),
    ),
    ThresholdDefinition(
        "fnmr",
        "false non-match rate",
        "share of positive pairs rejected at the threshold tau",
        _ISO,
        scores=_SCORES,
        parameters=(_TAU,),
        one_of=("tau",),
        higher_is_better=False,
        counted="positive pair",
        family="verification",
        examples=("fnmr@tau=0.5",),
    ),
):
    register(_definition)
