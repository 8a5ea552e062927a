"""Interval of a score from its jackknife or bootstrap replicates, or the reason for none.

In leave-one-out it comes from the delete-group jackknife, for the expectation over new data
sets of the same design. With a gallery apart from the queries it comes from the class
bootstrap, conditional on that gallery: whole classes of queries are drawn with replacement, and
a resample's score is a weighted sum over a weighted number. All sums are integers below 2^53,
so that a matrix product gives the same bits everywhere. Rates at a threshold have an interval
over classes too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import fsum, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError, check_choice, check_seed, shortened
from truerank._util.text import count
from truerank._util.types import Flags, Integers, Reals
from truerank.core import registry
from truerank.core.jackknife import FoldAssignment, Replicates, why_too_few
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.core.student import quantile

if TYPE_CHECKING:
    from truerank.metrics.thresholds.family import Moves


UNITS = ("metric", "finer", "finest")
"""Units of intervals: those of each metric; or, where these are too few, those of the coarsest
level below that has enough, or the finest."""
FINER = '; a finer level has enough: pass units="finer" (--units finer)'
"""Follows why there are too few units, where other ones help."""
AT_LIMIT = "every query scores {limit} %, so that the spread cannot be estimated"
ALL_AT_LIMIT = "the score is {limit} %, so that the spread cannot be estimated"


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


# Intervals of the rates at a threshold, over the classes that happened to be tested.


ONE = 2.0**30
"""Values are summed in units of 2^-30: the order of rows cannot show."""


def rate_interval(
    errors: Integers, trials: Integers, *, shared: bool, confidence: float = 0.95
) -> tuple[float, float] | None:
    """The interval of sum(errors)/sum(trials), where classes are what could have been others.

    With `shared`, each trial stands in two classes (a pair of different classes), once in the
    counts of either. The rate is then a U-statistic of degree two over classes, and its jackknife
    variance is that of class sums with every deviation counted double; it errs on the wide side.
    It is taken on the log-odds scale, so that it stays between 0 and 1; None where there are no
    errors, or nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = rate_interval(np.array([2, 1, 3, 2] * 5), np.array([50] * 20), shared=False)
    >>> round(low, 3), round(high, 3)
    (0.034, 0.047)
    """
    total = int(trials.sum())
    rate = int(errors.sum()) / total
    classes = len(trials)
    if not 0 < rate < 1 or classes < 2:
        return None
    deviation = (errors - rate * trials) * (2.0 if shared else 1.0)
    error = sqrt(fsum((deviation**2).tolist()) * classes / (classes - 1)) / total
    return ends(rate, error, quantile(confidence, classes - 1), (0.0, 1.0), steep=True)


def mean_interval(values: npt.NDArray[np.float64], codes: Integers) -> tuple[float, float] | None:
    """The 95 % interval of a mean over queries (NaN: does not count) that come in classes.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = mean_interval(np.array([0.2, 0.4, 0.3, 0.5] * 5), np.arange(20) // 2)
    >>> round(low, 3), round(high, 3)
    (0.313, 0.389)
    """
    held = ~np.isnan(values)
    classes, number = np.unique(codes[held], return_inverse=True)
    sums = np.zeros(len(classes), np.int64)
    np.add.at(sums, number, np.rint(values[held] * ONE).astype(np.int64))
    counts = np.bincount(number, minlength=len(classes))
    return rate_interval(sums, (counts * ONE).astype(np.int64), shared=False)


# The class bootstrap for a fixed gallery: whole classes of queries drawn with replacement.


RESAMPLES = 2000
FEWEST_DRAWN = 30
"""With fewer classes to draw from, intervals were seen to hold the truth too rarely."""
_CHUNK = 1 << 22
GRID = 2.0**30
"""Sums are held in units of 2^-30: up to 2^23 queries their total stays below 2^53."""


@dataclass(frozen=True)
class ClassSums:
    """The sum of values and the number of queries of every class with a query that counts."""

    total: Reals
    count: Reals

    def __len__(self) -> int:
        return len(self.total)

    @property
    def mean(self) -> float:
        """The score of all classes together."""
        return float(self.total.sum() / self.count.sum() / GRID)

    @staticmethod
    def of(
        values: Reals,
        codes: Integers,
        classes: Integers | None = None,
        *,
        among: Flags | None = None,
    ) -> ClassSums:
        """Sums from values of queries, NaN where one does not count; units in the order of codes.

        With `classes`, the class of each query, a class counts once, with the mean of its queries.
        The units of the queries `among` are all there, with 0 if none of theirs counts.
        """
        held = ~np.isnan(values)
        fixed = np.rint(values[held] * GRID).astype(np.int64)
        own, weight = codes[held], np.ones(len(fixed), np.int64)
        if classes is not None:
            both, place = np.unique(np.stack([own, classes[held]]), axis=1, return_inverse=True)
            sums = np.zeros(both.shape[1], np.int64)
            np.add.at(sums, place.ravel(), fixed)
            own, fixed = both[0], np.rint(sums / np.bincount(place.ravel())).astype(np.int64)
            weight = np.ones(len(own), np.int64)
        units = int(codes.max()) + 1
        total, number = np.zeros((2, units), np.int64)
        np.add.at(total, own, fixed)
        np.add.at(number, own, weight)
        alive = np.flatnonzero(number) if among is None else np.unique(codes[among])
        return ClassSums(total[alive].astype(np.float64), number[alive].astype(np.float64))

    def in_order(self) -> ClassSums:
        """The classes in the order of their sums and counts, so that their names cannot show."""
        order = np.lexsort((self.total, self.count))
        return ClassSums(self.total[order], self.count[order])


def standard_errors(sums: list[ClassSums], seed: int) -> list[float]:
    """The standard error of each score; those over as many classes share their resamples."""
    out = [float("nan")] * len(sums)
    for classes in sorted({len(some) for some in sums}):
        which = [place for place, some in enumerate(sums) if len(some) == classes]
        if classes < 2:
            continue
        table = np.column_stack([sums[i].total for i in which] + [sums[i].count for i in which])
        ratios = _resample(table, classes, seed)
        # n - 1 observations are free to vary, while a resample varies as if all n were
        wider = math.sqrt(classes / (classes - 1))
        for place, column in zip(which, ratios.T, strict=True):
            out[place] = wider * _spread(column)
    return out


def error_of_mean(sums: list[ClassSums], seed: int) -> float:
    """The standard error of the mean of scores over the same classes, which are drawn together."""
    classes = len(sums[0])
    table = np.column_stack([some.total for some in sums] + [some.count for some in sums])
    ratios = _resample(table, classes, seed)
    together = ratios[:, 0]
    for column in ratios.T[1:]:
        together = together + column
    return math.sqrt(classes / (classes - 1)) * _spread(together / len(sums))


def _resample(table: Reals, classes: int, seed: int) -> Reals:
    """(resamples, metrics) ratios of the sums in the left half of the table to the right half."""
    metrics = table.shape[1] // 2
    numbers = np.random.Philox(key=seed)
    ratios = np.empty((RESAMPLES, metrics))
    step = max(1, _CHUNK // classes)
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        raw = numbers.random_raw(rows * classes) >> np.uint64(32)
        drawn = (raw * np.uint64(classes) >> np.uint64(32)).astype(np.int64)
        drawn += np.repeat(np.arange(rows) * classes, classes)
        weights = np.bincount(drawn, minlength=rows * classes).reshape(rows, classes)
        sums = weights.astype(np.float64) @ table
        ratios[start : start + rows] = sums[:, :metrics] / sums[:, metrics:] / GRID
    return ratios


def _spread(values: Reals) -> float:
    """The standard deviation of values."""
    centre = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((values - centre) ** 2) / (len(values) - 1))
