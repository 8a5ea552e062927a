"""Verification (1:1): every pair that may meet is a trial, a positive one if it is relevant.

FAR(tau) is the share of negatives with d <= tau (also called FMR), FRR(tau) the share of positives
with d > tau (FNMR). Pairs tied in distance are accepted or rejected together, so nothing here is
ambiguous.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.families.pool import Pooled
from truerank.families.thresholds import (
    allowed,
    certain,
    rate,
    threshold_at_far,
    undefined,
    unresolved,
)
from truerank.families.units import Units

__all__ = ["SCORES", "PooledPairs", "area", "equal_error"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PooledPairs:
    """Pairs as one pool, and how a user counts them."""

    pool: Pooled
    units: Units
    both_orders: bool
    """Whether each pair is met twice."""

    def numbers(self) -> tuple[Pooled, int, int] | str:
        """The pool, with its positives and negatives as a user counts them; or what it lacks."""
        pool = self.pool
        if not pool.genuine:
            return "not defined: no query has a mate in the gallery"
        if not pool.impostors:
            return "not defined: there are no pairs of different classes"
        # In leave-one-out both orders of a pair are met (but for lopsided masks): one trial.
        times = 2 if self.both_orders else 1
        return pool, -(-pool.genuine // times), -(-pool.impostors // times)


def _auc(pairs: PooledPairs, metric: Metric) -> Score:
    found = pairs.numbers()
    if isinstance(found, str):
        return undefined(metric, found)
    pool, genuine, impostors = found
    low, high = area(pool)
    return certain(
        metric,
        low if low == high else (low + high) / 2,
        genuine + impostors,
        bracket=None if low == high else (low, high),
        chance=0.5,
    )


def area(pool: Pooled) -> tuple[float, float]:
    """Bounds of P(positive nearer than negative) + P(tie)/2; equal unless cuts were thinned."""
    true, false = pool.true_accepts, pool.false_accepts
    step = np.diff(true, prepend=0)
    before = np.concatenate([[0], false[:-1]])
    beaten = _dot(step, before + false)
    unsure = (step > 0) & ~pool.single
    open_ = _dot(step[unsure], (false - before)[unsure])
    total = 2 * pool.genuine * pool.impostors
    low, high = (
        (total - beaten - open_) / total,
        (total - beaten + open_) / total,
    )
    return low, high


def _dot(left: Integers, right: Integers) -> int:
    """The sum of products, without overflow."""
    high, low = np.divmod(right, 1 << 24)
    return (int((left * high).sum()) << 24) + int((left * low).sum())


def _eer(pairs: PooledPairs, metric: Metric) -> Score:
    found = pairs.numbers()
    if isinstance(found, str):
        return undefined(metric, found)
    pool, genuine, impostors = found
    value, threshold = equal_error(pool)
    at = pairs.units.in_unit(threshold)
    return certain(metric, value, genuine + impostors, threshold=at, chance=0.5)


def equal_error(pool: Pooled) -> tuple[float, float]:
    """Where FAR meets FRR, by linear interpolation between the two operating points around it."""

    def state(index: int) -> tuple[int, int]:
        """Positives and negatives accepted at a cut."""
        if index < 0:
            return 0, 0
        if index == len(pool.cuts):
            return pool.genuine, pool.impostors
        return int(pool.true_accepts[index]), int(pool.false_accepts[index])

    def crossed(accepted: tuple[int, int]) -> bool:
        """FAR >= FRR, in integers."""
        true, false = accepted
        return false * pool.genuine + true * pool.impostors >= pool.genuine * pool.impostors

    index = bisect_left(range(len(pool.cuts)), True, key=lambda i: crossed(state(i)))
    before, after = state(index - 1), state(index)
    if before[0] == after[0]:  # only negatives lie between: FRR stands still and FAR passes it
        miss = Fraction(pool.genuine - before[0], pool.genuine)
        rank = math.ceil(miss * pool.impostors)
        return miss.numerator / miss.denominator, pool.impostor(max(rank, 1))
    if pool.single[index]:
        return _meeting(pool, before, after), float(pool.cuts.at[index])
    base = before
    for distance, true, false in pool.steps(index):
        after = (base[0] + true, base[1] + false)
        if crossed(after):
            return _meeting(pool, before, after), distance
        before = after
    raise AssertionError("FAR and FRR cross between these cuts")


def _meeting(pool: Pooled, before: tuple[int, int], after: tuple[int, int]) -> float:
    """The rate at which the lines of FAR and FRR between two operating points meet."""
    gaps = []
    for true, false in (before, after):
        miss = Fraction(pool.genuine - true, pool.genuine)
        gaps.append((miss - Fraction(false, pool.impostors), miss))
    (first, miss), (second, later) = gaps
    value = miss + first / (first - second) * (later - miss)
    return value.numerator / value.denominator


def _min_dcf(pairs: PooledPairs, metric: Metric) -> Score:
    found = pairs.numbers()
    if isinstance(found, str):
        return undefined(metric, found)
    pool, genuine, impostors = found
    prior, miss, false_accept = (float(metric[key]) for key in ("p", "miss", "fa"))
    reject_all, accept_all = miss * prior, false_accept * (1 - prior)
    missed = 1 - pool.true_accepts / pool.genuine
    false = pool.false_accepts / pool.impostors
    costs = reject_all * missed + accept_all * false
    # Accepting up to a positive distance, or nothing, is best: more lets negatives in alone.
    steps = np.flatnonzero(np.diff(pool.true_accepts, prepend=0))
    best = int(steps[np.argmin(costs[steps])])
    least = min(float(costs[best]), reject_all)
    threshold = float(pool.cuts.at[best]) if costs[best] == least else None
    loose = steps[~pool.single[steps]]
    before = np.concatenate([[0.0], false])[loose]
    bound = min([least, *(reject_all * missed[loose] + accept_all * before)])
    scale = min(reject_all, accept_all)
    return certain(
        metric,
        least / scale,
        genuine + impostors,
        threshold=pairs.units.in_unit(threshold),
        bracket=None if bound == least else (bound / scale, least / scale),
    )


def _tar(pairs: PooledPairs, metric: Metric) -> Score:
    found = pairs.numbers()
    if isinstance(found, str):
        return undefined(metric, found)
    pool, genuine, impostors = found
    ours = pool.positives.ascending
    if metric["tau"] is not None:
        tau = rate(metric, "tau")
        accepted = int(np.searchsorted(ours, pairs.units.cut(tau), side="right"))
        return certain(metric, accepted / pool.genuine, genuine, threshold=float(tau))
    target = rate(metric, "far")
    reason = unresolved(target, impostors)
    if reason is not None:
        return undefined(metric, reason)
    limit, threshold = threshold_at_far(pool, target)
    accepted = int(np.searchsorted(ours, limit, side="left"))
    # A positive is as likely in any place among the negatives as in any other.
    chance = min((allowed(target, impostors) + 1) / (impostors + 1), 1.0)
    at = pairs.units.in_unit(threshold)
    return certain(metric, accepted / pool.genuine, genuine, threshold=at, chance=chance)


def _threshold(pairs: PooledPairs, metric: Metric) -> Score:
    found = pairs.numbers()
    if isinstance(found, str):
        return undefined(metric, found)
    pool, _, impostors = found
    target = rate(metric, "far")
    reason = unresolved(target, impostors)
    if reason is not None:
        return undefined(metric, reason)
    threshold = pairs.units.in_unit(threshold_at_far(pool, target)[1])
    if threshold is None:
        return undefined(metric, "not defined: no pair is nearer than the nearest negative one")
    return certain(metric, threshold, impostors, threshold=threshold)


def _fmr(pairs: PooledPairs, metric: Metric) -> Score:
    found = pairs.numbers()
    if isinstance(found, str):
        return undefined(metric, found)
    pool, _, impostors = found
    tau = rate(metric, "tau")
    accepted = int(pool.up_to(np.array([pairs.units.cut(tau)]))[0])
    return certain(metric, accepted / pool.impostors, impostors, threshold=float(tau))


def _fnmr(pairs: PooledPairs, metric: Metric) -> Score:
    found = pairs.numbers()
    if isinstance(found, str):
        return undefined(metric, found)
    pool, genuine, _ = found
    tau = rate(metric, "tau")
    missed = pool.genuine - int(pool.positives.up_to(np.array([pairs.units.cut(tau)]))[0])
    return certain(metric, missed / pool.genuine, genuine, threshold=float(tau))


SCORES = {
    "auc": _auc,
    "eer": _eer,
    "min_dcf": _min_dcf,
    "tar": _tar,
    "threshold": _threshold,
    "fmr": _fmr,
    "fnmr": _fnmr,
}
"""Each metric's Score."""
