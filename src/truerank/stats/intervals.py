"""Intervals, from a score and how far it moves, or the reason why there is none.

Leave-one-out: the delete-group jackknife, for the expectation over new data sets of the same
design. A gallery of its own: the class bootstrap, conditional on that gallery.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from truerank.core import registry
from truerank.core.folds import FoldAssignment, why_too_few
from truerank.core.metric import Metric
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.errors import InputError, check_choice, check_seed, shortened
from truerank.families.family import Moves
from truerank.stats.bootstrap import RESAMPLES
from truerank.stats.student import quantile
from truerank.wording import count

__all__ = [
    "Interval",
    "IntervalRequest",
    "around",
    "ends",
    "facts",
    "from_replicates",
    "from_standard_error",
    "interval_of",
    "too_few",
]

UNITS = ("metric", "finer", "finest")
"""Units of intervals: those of each metric; or, where these are too few, those of the coarsest
level below that has enough, or the finest."""
AT_LIMIT = "every query scores {limit} %, which says nothing about the spread"
ALL_AT_LIMIT = "the score is {limit} %, which says nothing about the spread"


@dataclass(frozen=True)
class IntervalRequest:
    """The confidence, the seed and the units that a user asked for."""

    confidence: float
    seed: int
    units: str = "metric"
    """What metrics with too few units do: nothing, or take finer classes."""

    @staticmethod
    def of(confidence: Any, seed: Any, units: Any = "metric") -> IntervalRequest | None:
        """A checked request; None without a confidence."""
        check_choice("units", units, UNITS)
        check_seed(seed)
        if confidence is None:
            return None
        try:
            number = float("nan") if isinstance(confidence, (bool, str)) else float(confidence)
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not 0.0 < number < 1.0:
            raise InputError(
                "The 'confidence' parameter must be a number between 0 and 1, such as 0.95, or "
                f"None. Got {shortened(confidence)} instead."
            )
        return IntervalRequest(number, int(seed), str(units))


@dataclass(frozen=True)
class Interval:
    """Low and high end, or why there is none; and the replicates that comparisons need."""

    ends: tuple[float, float] | None = None
    reason: str | None = None
    replicates: Replicates | None = None

    def put_on(self, score: Score) -> Score:
        """The score with this interval."""
        return replace(
            score, interval=self.ends, interval_reason=self.reason, replicates=self.replicates
        )


def too_few(units: int, unit: str, fewest: int, of: str = "", more: str = "") -> Interval:
    """No interval, because there are too few independent observations."""
    return Interval(reason=why_too_few(units, unit, fewest, of) + more)


def from_replicates(
    value: float,
    own: Replicates,
    paired: Replicates,
    confidence: float,
    limits: tuple[float, float],
    *,
    steep: bool = False,
) -> Interval:
    """An interval by the jackknife's error; `steep` where few classes may make up the loss."""
    t = quantile(confidence, own.heavy_freedom if steep else own.freedom)
    return around(value, own.standard_error(), t, limits, paired, steep=steep)


def from_standard_error(
    value: float,
    error: float,
    classes: int,
    confidence: float,
    limits: tuple[float, float],
) -> Interval:
    """An interval by the bootstrap's standard error."""
    return around(value, error, quantile(confidence, classes - 1), limits)


def around(
    value: float,
    error: float,
    t: float,
    limits: tuple[float, float],
    paired: Replicates | None = None,
    *,
    steep: bool = False,
) -> Interval:
    """An interval of t errors around a score, or why there is none."""
    if value in limits:
        reason = ALL_AT_LIMIT if steep else AT_LIMIT
        return Interval(reason=reason.format(limit=f"{100 * value:g}"), replicates=paired)
    if error == 0.0 or math.isnan(error):
        return Interval(reason="the score is the same without any class", replicates=paired)
    return Interval(ends(value, error, t, limits, steep=steep), replicates=paired)


def ends(
    value: float, error: float, t: float, limits: tuple[float, float], *, steep: bool = False
) -> tuple[float, float]:
    """All scores p with |p - value| <= t x the error that p itself would have.

    A mean's error shrinks towards the limits of its range as sqrt(p (1 - p)) does, so the ends are
    the roots of a quadratic (Wilson's interval, with the sample size that the error stands for).
    With `steep` it shrinks as p (1 - p): t errors on the scale of log-odds. So it is where a few
    hard classes make up most of what is lost.
    """
    low, high = limits
    if math.isinf(low) or math.isinf(high):
        return value - t * error, value + t * error
    p, scale = (value - low) / (high - low), high - low
    if steep:
        centre, reach = math.log(p / (1 - p)), t * error / scale / (p * (1 - p))
        below, above = (1 / (1 + math.exp(min(side - centre, 700))) for side in (reach, -reach))
        return low + scale * min(p, below), low + scale * max(p, above)
    ratio = (t * error / scale) ** 2 / (p * (1 - p))
    centre = (p + ratio / 2) / (1 + ratio)
    half = math.sqrt(ratio * p * (1 - p) + ratio * ratio / 4) / (1 + ratio)
    return low + scale * min(p, centre - half), low + scale * max(p, centre + half)


def facts(
    request: IntervalRequest,
    *,
    leave_one_out: bool,
    folds: list[FoldAssignment],
    unit: str,
    levels: dict[str, str],
) -> dict[str, Any]:
    """How the intervals came about, for the result's provenance.

    `levels` names the level of a metric's units, where they are, or would be, no classes by the
    finest label.
    """
    units = count(2, unit).removeprefix("2 ")
    shares = max((some.own.stop for some in folds if not some.singly), default=0)
    jackknife = f"jackknife over the {units}, each left out"
    if shares:
        jackknife = f"delete-group jackknife over {shares} shares of the {units}"
    if leave_one_out:
        method = jackknife
        truth = "expectation over new data sets of the same design: new classes, same sizes"
    else:
        method = f"{unit} bootstrap with {RESAMPLES:,} resamples, ratio estimator"
        if folds:
            method += f"; {jackknife} where the data set a threshold"
        truth = "conditional on this gallery"
    found = {
        "confidence": request.confidence,
        "method": method,
        "truth": truth,
        "seed": request.seed,
    }
    return found | ({"units": levels} if levels else {})


def interval_of(score: Score, metric: Metric, moves: Moves, confidence: float) -> Interval:
    """The interval of a threshold metric's score, from how far it moves without each fold."""
    if isinstance(moves, str):
        return Interval(reason=moves)
    if not all(math.isfinite(value) for some in moves for value in some.values):
        return Interval(reason="without some of the classes it is not defined")
    known = registry.definition(metric)
    return from_replicates(score.value, *moves, confidence, known.range, steep=known.is_steep)
