"""Trials of a task, pairs or searches: what must be known of them to choose a threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import floor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FEWEST_CLASSES
from truerank.errors import InputError
from truerank.evaluation import evaluate_task
from truerank.evaluation.checks import check_task, check_threads
from truerank.families.thresholds import NO_IMPOSTORS
from truerank.result import Result
from truerank.space import build, catalogue
from truerank.stats.operating import mean_interval
from truerank.task import TaskRules
from truerank.threshold.point import ClassRates
from truerank.threshold.written import WrittenThreshold, write

__all__ = [
    "Ends",
    "Judgement",
    "Rated",
    "Trials",
    "found_threshold",
    "interval_of_mean",
    "kept_of",
]

Array = npt.NDArray[Any]
Ends = tuple[float, float]


@dataclass(frozen=True)
class Judgement:
    """What a threshold leads to."""

    values: dict[str, float]
    intervals: dict[str, Ends | None]
    classes: list[ClassRates]


class Rated(Protocol):
    """What has rates at thresholds, and thresholds at rates."""

    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """Return thresholds at which a rate is at most each target, or why there are none."""

    def interval(self, rate: str, threshold: float) -> Ends | None:
        """Return the interval of a rate at a threshold."""

    def trials(self, rate: str) -> int:
        """Return the number of trials that a rate is a share of."""


class Trials(ABC):
    """A task on whose trials a threshold is chosen, or judged. What it excludes is no trial.

    Parameters
    ----------
    task, rows, items : the task, its queries and its gallery, as `prepare` gives them
    options : distance, device and threads, as for evaluate
    """

    def __init__(
        self, task: TaskRules, rows: Array, items: Array | None, options: Mapping[str, Any]
    ) -> None:
        distance, threads = options["distance"], options["threads"]
        check_threads(threads)
        check_task(task, rows, items, given=catalogue.find(distance).given)
        self.task, self.rows, self.items, self.options = task, rows, items, options
        self._space = build(distance, rows, items, task.columns, threads=threads)

    @abstractmethod
    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """Return thresholds at which a rate is at most each target, or why there are none."""

    @abstractmethod
    def interval(self, rate: str, threshold: float) -> Ends | None:
        """Return the interval of a rate at a threshold, over classes."""

    @abstractmethod
    def trials(self, rate: str) -> int:
        """Return the number of trials that a rate is a share of."""

    @abstractmethod
    def judge(self, threshold: float) -> Judgement:
        """Return all that a threshold leads to."""

    def written(self, threshold: float) -> WrittenThreshold:
        """Return the threshold as a decimal that accepts the same pairs in any arithmetic."""
        return write(self.task, self._space, threshold, self.options)

    def evaluate(
        self,
        metrics: Iterable[str],
        *,
        task: TaskRules | None = None,
        confidence: float | None = None,
        gallery_sizes: Iterable[int] = (),
    ) -> Result:
        """Score the rows by metrics, under the rules of another task if one is passed."""
        return evaluate_task(
            self.task if task is None else task,
            self.rows,
            self.items,
            metrics=list(metrics),
            confidence=confidence,
            gallery_sizes=gallery_sizes,
            **self.options,
        )

    def _scored(
        self, metrics: Mapping[str, str]
    ) -> tuple[dict[str, float], dict[str, Ends | None], dict[str, Array]]:
        """Return values and intervals of the metrics that are defined, and values per query.

        Queries come in the classes of their labels; where judgements stand in the place of labels,
        intervals are those of evaluate, over queries.
        """
        labelled = self.task.levels is not None
        result = self.evaluate(metrics.values(), confidence=None if labelled else 0.95)
        values: dict[str, float] = {}
        intervals: dict[str, Ends | None] = {}
        each: dict[str, Array] = {}
        for key, name in metrics.items():
            score = result[name]
            if score.reason is not None:
                continue
            values[key] = score.value
            if score.per_query is not None:
                each[key] = np.asarray(score.per_query.lower)
            if not labelled:
                intervals[key] = score.interval
            elif key in each:
                intervals[key] = interval_of_mean(each[key], self.task.query_codes)
        return values, intervals, each


def kept_of(met: int, target: Decimal, nouns: str, *, times: int = 1) -> int | str:
    """Return how many must be accepted for an FRR, or why that cannot be resolved.

    `met` counts each trial so many `times`.
    """
    trials = -(-met // times)
    if trials == 0:
        return f"not defined: there are no {nouns}"
    if 0 < Fraction(target) * trials < 1:
        least = Context(prec=3, rounding=ROUND_CEILING).divide(Decimal(1), Decimal(trials))
        return (
            f"not defined: {trials:,} {nouns} cannot resolve an FRR of {float(target):g}; "
            f"the smallest that they can is {float(least):g}"
        )
    return met - floor(Fraction(target) * met)


def interval_of_mean(each: npt.ArrayLike, codes: npt.NDArray[np.int64]) -> Ends | None:
    """The interval of a mean over queries (NaN: does not count), None with too few classes."""
    values = np.asarray(each, np.float64)
    if len(np.unique(codes[~np.isnan(values)])) < FEWEST_CLASSES:
        return None
    return mean_interval(values, codes)


def found_threshold(trials: Rated, rate: str, target: Decimal) -> tuple[float, Ends | None]:
    """Return the threshold that meets a target, and its interval; refuse a target without one."""
    [threshold] = trials.thresholds(rate, [target])
    if isinstance(threshold, str):
        named = f"{'an' if rate == 'frr' else 'a'} {rate.upper()} of {float(target):g}"
        hint = ""
        if threshold == NO_IMPOSTORS:
            hint = (
                ", and FAR is the share of queries without one that accept an item; choose by frr"
            )
        raise InputError(f"no threshold for {named}: {threshold}{hint}.")
    return threshold, _threshold_interval(trials, rate, threshold)


def _threshold_interval(trials: Rated, rate: str, threshold: float) -> tuple[float, float] | None:
    """The thresholds at both ends of the interval of the rate that the chosen one has.

    This is the set of thresholds whose rate cannot be told from the target with so many classes
    (Woodruff's interval of a quantile); it needs no assumption on how distances are distributed.
    """
    ends = trials.interval(rate, threshold)
    if ends is None:
        return None
    resolved = 1 / trials.trials(rate)
    first, last = trials.thresholds(
        rate, [Decimal(f"{end:.4g}") if end > 1.001 * resolved else Decimal(0) for end in ends]
    )
    if isinstance(first, str) or isinstance(last, str):  # nothing is nearer than an impostor
        return None
    return min(first, last), max(first, last)
