"""What trials, of pairs or of searches, must tell so that a threshold can be chosen on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import floor
from typing import Protocol

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FEWEST_CLASSES
from truerank.stats.operating import mean_interval
from truerank.task import TaskRules
from truerank.threshold.point import ClassRates
from truerank.threshold.written import WrittenThreshold

__all__ = ["Ends", "Judgement", "Trials", "interval_of_mean", "kept_of"]

Ends = tuple[float, float]


@dataclass(frozen=True)
class Judgement:
    """What a threshold leads to."""

    values: dict[str, float]
    intervals: dict[str, Ends | None]
    classes: list[ClassRates]


class Trials(Protocol):
    """A labelled set on which a threshold is chosen, or judged."""

    task: TaskRules

    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """Thresholds at which a rate is at most each target, or why there are none."""

    def interval(self, rate: str, threshold: float) -> Ends | None:
        """The interval of a rate at a threshold, over classes."""

    def trials(self, rate: str) -> int:
        """How many trials a rate is a share of."""

    def written(self, threshold: float) -> WrittenThreshold:
        """The threshold as a decimal that accepts the same pairs in any arithmetic."""

    def judge(self, threshold: float) -> Judgement:
        """All that a threshold leads to."""


def kept_of(trials: int, target: Decimal, nouns: str) -> int | str:
    """How many of so many trials must be accepted for an FRR, or why that cannot be told."""
    missed = Fraction(target) * trials
    if trials == 0:
        return f"not defined: there are no {nouns}"
    if 0 < missed < 1:
        least = Context(prec=3, rounding=ROUND_CEILING).divide(Decimal(1), Decimal(trials))
        return (
            f"not defined: {trials:,} {nouns} cannot resolve an FRR of {float(target):g}; "
            f"the smallest that they can is {float(least):g}"
        )
    return trials - floor(missed)


def interval_of_mean(each: npt.ArrayLike, codes: npt.NDArray[np.int64]) -> Ends | None:
    """The interval of a mean over queries (NaN: does not count), None with too few classes."""
    values = np.asarray(each, np.float64)
    if len(np.unique(codes[~np.isnan(values)])) < FEWEST_CLASSES:
        return None
    return mean_interval(values, codes)
