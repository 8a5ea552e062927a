"""The definition of OPIS."""

from __future__ import annotations

from truerank.core.metric import Exclusive, ThresholdDefinition, register
from truerank.core.parameters import COUNT, HALF, POSITIVE, RATE, SEED, TARGETS, Choice, Parameter

__all__: list[str] = []

_OPIS = "Zhang et al., Threshold-Consistent Margin Loss for Open-World Deep Metric Learning, 2024"

register(
    ThresholdDefinition(
        "opis",
        "operating-point inconsistency",
        "variance over classes of the utility (harmonic mean of specificity and sensitivity), "
        "averaged over the thresholds between two FAR targets; with eps= the squared difference "
        "between the utilities of the best and the worst share of classes",
        _OPIS,
        score="truerank.families.opis.scores",
        parameters=(
            Parameter("far", TARGETS, "FAR targets that set the range of thresholds", "0.01:0.1"),
            Parameter("frr", RATE, "an FRR target that sets the lower end instead"),
            Parameter("eps", HALF, "compare only this share of the best and of the worst classes"),
            Parameter("c", POSITIVE, "how much more sensitivity counts than specificity", "1"),
            Parameter("negatives", COUNT, "sample so many negative pairs for each positive one"),
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
