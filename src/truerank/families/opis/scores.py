"""Threshold consistency (OPIS): how far apart the classes are at one and the same threshold.

A class's utility at a threshold is the harmonic mean of its specificity and its sensitivity. OPIS
is the variance of that over classes, averaged over the range of thresholds that two FAR targets
set; eps-OPIS the squared gap between the best and the worst share eps of the classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.opis import kernels as utility
from truerank.families.opis.collect import CountedClasses
from truerank.families.opis.sampled import to_draw
from truerank.families.opis.utilities import Events, Formula, Utilities
from truerank.families.thresholds import certain, threshold_at_far, undefined

__all__ = [
    "SCORES",
    "ClassUtility",
    "Consistency",
    "calibration_range",
    "class_mean",
    "class_utility",
    "combine",
    "measured",
    "report",
]

Reals = npt.NDArray[np.float64]
NO_SAMPLE = "not defined: negatives= draws pairs of one set, and there is a gallery of its own"
SHUFFLES = 16
NOISE_POINTS = 64


@dataclass(frozen=True)
class ClassUtility:
    """One class: its mean utility over the range, and the threshold that would serve it best."""

    label: Any
    mean: float
    best: float
    best_threshold: float | None


@dataclass(frozen=True)
class Consistency:
    """The range over which OPIS was taken, and what is reported beside it."""

    low: float
    high: float
    """The range of thresholds, in the distance's own unit."""
    far: tuple[float, float]
    classes: int
    left_out: int
    """Classes without a pair of their own, which have no sensitivity."""
    noise: float
    """OPIS of the same positive distances shuffled among the classes."""
    ranked: list[ClassUtility]
    """The classes, worst first."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the five worst and the five best classes."""
        return {
            "low": self.low,
            "high": self.high,
            "far": list(self.far),
            "classes": self.classes,
            "left_out": self.left_out,
            "noise": self.noise,
            "worst": [vars(one) | {"label": str(one.label)} for one in self.ranked[:5]],
            "best": [vars(one) | {"label": str(one.label)} for one in self.ranked[:-6:-1]],
        }


def calibration_range(family: CountedClasses, metric: Metric) -> tuple[float, float] | str:
    """The distances between which thresholds are compared, or why there are none."""
    pool = family.sampled(metric) or family.pool
    if not pool.genuine or not pool.impostors:
        return "not defined: it needs pairs of one class and pairs of two"
    low, high = (threshold_at_far(pool, target)[1] for target in metric["far"])
    if metric["frr"] is not None:
        missed = math.floor(metric["frr"] * pool.genuine)
        low = float(pool.positives.ascending[max(0, pool.genuine - missed - 1)])
    if low is None:  # the nearest negative is nearer than everything else
        low = pool.impostor(1)
    if high is None or not low < high:
        targets = metric.text("far").replace(":", " and ")
        return f"not defined: no thresholds lie between the FAR targets {targets}"
    return low, high


def _range(family: CountedClasses, metric: Metric) -> tuple[float, float] | str:
    """The distances between which a metric compares thresholds, or why it is not defined."""
    context = family.context
    if context.task.levels is None:
        return "not defined: it compares classes, which relevance= does not name"
    if metric["negatives"] is not None:
        if not context.task.leave_one_out:
            return NO_SAMPLE
        drawn = int(to_draw(context.task, context.positives, metric["negatives"]).sum())
        most = context.limits.drawn
        if drawn > most:
            return (
                f"not defined: it would draw {drawn:,} negatives, and at most {most:,} are held; "
                "leave negatives= out"
            )
    return calibration_range(family, metric)


def _opis(family: CountedClasses, metric: Metric) -> Score:
    ends = _range(family, metric)
    if isinstance(ends, str):
        return undefined(metric, ends)
    seen = family.utilities(metric, *ends)
    if seen is None:
        return undefined(metric, "not defined: no class has pairs of its own and pairs with others")
    if metric["eps"] is not None:
        formula = family.formula(metric)
        low, high = divide(seen, metric["eps"], formula.square)
    else:
        low, high = average(seen)
    value = low if low == high else (low + high) / 2
    bracket = None if low == high else (low, high)
    return certain(metric, value, len(seen.table.classes), bracket=bracket)


def measured(
    family: CountedClasses, metric: Metric
) -> tuple[tuple[float, float], Utilities] | None:
    """The distances between which thresholds are compared, and the classes' utilities there."""
    ends = _range(family, metric)
    seen = None if isinstance(ends, str) else family.utilities(metric, *ends)
    return None if isinstance(ends, str) or seen is None else (ends, seen)


def report(family: CountedClasses, metric: Metric) -> Consistency | None:
    """What is reported beside an OPIS; None where it is not defined."""
    found = measured(family, metric)
    if found is None:
        return None
    ends, seen = found
    pool, context = family.pool, family.context
    task = context.task
    names = task.named_levels.finest.values
    means = seen.areas.mean(axis=0)
    best_at = context.space.in_unit(seen.best_at)
    ranked = [
        ClassUtility(
            names[seen.table.classes[i]],
            float(means[i]),
            float(seen.best[i]),
            float(best_at[i]) if np.isfinite(seen.best_at[i]) else None,
        )
        for i in np.lexsort((seen.table.classes, means))
    ]
    inside = pool.cuts.at[(pool.cuts.at > ends[0]) & (pool.cuts.at < ends[1])]
    inside = inside[:: max(1, len(inside) // NOISE_POINTS)]
    points = np.concatenate([[ends[0]], inside])
    places = context.space.linear(np.append(points, ends[1]))
    sizes, ours = seen.table.genuine, pool.positives.ascending
    if task.leave_one_out and not (sizes % 2).any():  # both orders of a pair are one pair
        sizes, ours = sizes // 2, ours[::2]
    floor = noise(
        ours[: int(sizes.sum())],
        sizes,
        points,
        1 - pool.up_to(points) / pool.impostors,
        np.diff(places),
        family.formula(metric).square,
        context.seed,
        context.threads,
    )
    low, high = (context.units.in_unit(end) for end in ends)
    first, second = (float(target) for target in metric["far"])
    return Consistency(
        float(low if low is not None else np.nan),
        float(high if high is not None else np.nan),
        (first, second),
        len(seen.table.classes),
        len(np.unique(task.query_codes)) - len(seen.table.classes),
        floor,
        ranked,
    )


def average(seen: Utilities) -> tuple[float, float]:
    """Bounds of the mean spread over the range."""
    width = np.diff(seen.borders)
    total = math.fsum(width.tolist())
    low = math.fsum((np.maximum(seen.spreads - seen.errors, 0.0) * width).tolist()) / total
    if not seen.errors.any():
        return low, low
    return low, math.fsum(((seen.spreads + seen.errors) * width).tolist()) / total


def weights(areas: Reals, count: int) -> Reals:
    """Weights of so many classes with the smallest areas; those tied at the cut share the rest."""
    last = np.sort(areas)[count - 1]
    below, tied = areas < last, areas == last
    return np.asarray(below + tied * ((count - int(below.sum())) / int(tied.sum())), np.float64)


def divide(seen: Utilities, share: Fraction, square: float) -> tuple[float, float]:
    """Bounds of the mean squared gap between the utilities of the best and the worst classes."""
    if seen.events is not None:
        count = math.ceil(share * len(seen.areas[0]))
        groups = [weights(sign * seen.areas[0], count) for sign in (1, -1)]
        worst, best = (_group(seen, seen.events, group, count, square) for group in groups)
        gap = (worst - best) ** 2
        value = math.fsum((gap * np.diff(seen.borders)).tolist())
        value /= math.fsum(np.diff(seen.borders).tolist())
        return value, value
    ends = []
    for sign in (1, -1):
        low, high = np.sort(sign * seen.areas, axis=0)
        ends.append(_group_bounds(seen, low, high, share, square))
    (worst_low, worst_high), (best_low, best_high) = ends
    most = np.maximum(np.abs(best_high - worst_low), np.abs(worst_high - best_low))
    disjoint = (worst_high < best_low) | (best_high < worst_low)
    nearest = np.minimum(np.abs(best_low - worst_high), np.abs(worst_low - best_high))
    least = np.where(disjoint, nearest, 0.0)
    width = np.diff(seen.cells)
    total = math.fsum(width.tolist())
    return (
        math.fsum((least**2 * width).tolist()) / total,
        math.fsum((most**2 * width).tolist()) / total,
    )


def _group(seen: Utilities, events: Events, group: Reals, total: int, square: float) -> Reals:
    """Utility, on each piece, of the mean specificity and sensitivity of weighted classes.

    `total` is the sum of the weights, a whole number: added up as floats, the order of the classes
    would show in it.
    """
    code, place, positive = events
    table, unit = seen.table, 2.0**60 / total
    true, false = seen.start
    rates = []
    for counts, base, flags in (
        (table.genuine, true, positive),
        (table.impostors, false, ~positive),
    ):
        step = np.rint(group / counts * unit).astype(np.int64)
        at_start = int((step * base).sum())
        change = np.where(flags, step[code], 0)
        running = at_start + np.concatenate([[0], np.cumsum(change)])
        rates.append(running[np.searchsorted(place, seen.borders[:-1], side="right")])
    sensitivity, false_rate = (rate / unit / total for rate in rates)
    return combine(sensitivity, 1 - false_rate, square)


def _group_bounds(
    seen: Utilities, low: Reals, high: Reals, share: Fraction, square: float
) -> tuple[Reals, Reals]:
    """Bounds of _group on cells, whichever of the possible classes are among the smallest."""
    table = seen.table
    count = math.ceil(share * len(low))
    sorted_low, sorted_high = np.sort(low), np.sort(high)
    sure = np.searchsorted(sorted_low, high, side="right") <= count
    possible = np.searchsorted(sorted_high, low, side="left") < count
    unsure = possible & ~sure
    first, last = seen.columns
    true = table.positives[:, first : last + 1] / table.genuine[:, None]
    false = 1 - table.negatives[:, first : last + 1] / table.impostors[:, None]
    open_ = count - int(sure.sum())

    one = 2.0 ** min(50, 62 - count.bit_length())  # integers, so that their order cannot show

    def held(rate: Reals, pick: Callable[..., Any]) -> Reals:
        """The mean rate of the group; the unsure places go to the lowest or the highest."""
        steps = np.rint(rate * one).astype(np.int64)
        total = steps[sure].sum(axis=0)
        if open_:
            total = total + open_ * pick(steps[unsure], axis=0)
        return np.asarray(total / one / count, np.float64)

    return (
        combine(held(true[:, :-1], np.min), held(false[:, 1:], np.min), square),
        combine(held(true[:, 1:], np.max), held(false[:, :-1], np.max), square),
    )


def combine(sensitivity: Reals, specificity: Reals, square: float) -> Reals:
    """(1 + c^2) a b / (c^2 a + b), 0 where both are."""
    below = square * specificity + sensitivity
    product = (1 + square) * specificity * sensitivity
    return np.divide(product, below, out=np.zeros_like(below), where=below > 0)


def class_utility(
    true: Reals, false: Reals, genuine: Reals, impostors: Reals, formula: Formula
) -> Reals:
    """The utility of each class, from what it accepts and all that it has."""
    other = 1 - false / impostors
    if formula.precise:
        weighed = formula.precise * true
        below = weighed + false
        other = np.divide(weighed, below, out=np.zeros_like(below), where=below > 0)
    return combine(true / genuine, other, formula.square)


def class_mean(values: Reals) -> Reals:
    """The mean over classes, in integers, so that their order cannot show."""
    one = 2.0 ** min(50, 62 - len(values).bit_length())
    return np.asarray(np.rint(values * one).astype(np.int64).sum(axis=0) / one / len(values))


def noise(
    positives: Reals,
    sizes: npt.NDArray[np.int64],
    points: Reals,
    specificity: Reals,
    width: Reals,
    square: float,
    seed: int,
    threads: int = 1,
) -> float:
    """OPIS when the positive distances are dealt at random to classes of these sizes.

    All classes have one specificity, so this is a lower bound of the noise: pairs with a common
    sample go together in truth.
    """
    sizes = np.sort(sizes)
    place = np.searchsorted(points, np.sort(positives), side="left")
    one = 2.0 ** min(50, 62 - len(sizes).bit_length())

    def deal(number: int) -> float:
        drawn = np.random.Philox(seed).jumped(number).random_raw(len(place))
        first, second = np.zeros((2, len(points)), np.int64)
        utility.dealt(place.copy(), drawn, sizes, specificity, square, one, first, second)
        mean = first / one / len(sizes)
        spread = np.maximum(second / one / len(sizes) - mean * mean, 0.0)
        return math.fsum((spread * width).tolist()) / math.fsum(width.tolist())

    with ThreadPoolExecutor(threads) as pool:
        return math.fsum(pool.map(deal, range(SHUFFLES))) / SHUFFLES


SCORES = {"opis": _opis}
"""The function that gives each metric's Score."""
