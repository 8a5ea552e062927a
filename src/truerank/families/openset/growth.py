"""DIR and FAR in smaller galleries: exact means over all that keep a query's mates.

A query without a mate with a others within the threshold is falsely accepted unless none of these
is among the m drawn: 1 - C(M - a, m) / C(M, m). A query with a mate is identified where its nearest
mate is accepted and no more than rank - 1 of the others drawn come before it. At a FAR target the
threshold is the largest whose expected FAR is at most the target.
"""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.groups import LocatedGroups
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import Part, RankObserver
from truerank.families.openset.collect import RANKED, Identification
from truerank.families.openset.scores import NO_TARGETS, identified, share
from truerank.families.thresholds import NO_IMPOSTORS, undefined, unresolved
from truerank.growth.laws import drawn_of
from truerank.growth.values import Growth
from truerank.jit import kernel
from truerank.space import Distances, Rows

__all__ = ["SmallerGalleries", "missed"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
LEAST_DEPTH, MOST_NUMBERS = 32, 1 << 27
"""Nearest items of strangers that are looked at first, and most of all of them together."""
CLOSE = 1e-9
"""Expected rates nearer than this to the target are compared to it as rational numbers."""
TOO_MANY = "the threshold lies behind more nearest items of strangers than are held"


class SmallerGalleries:
    """What a pass collects for open-set metrics at gallery sizes, and their scores there."""

    def __init__(self, seen: Identification, growth: Growth) -> None:
        self.seen, self.growth = seen, growth
        shape = (len(growth.sizes), 3, seen.context.task.queries)
        self.hits = {rank: np.full(shape, np.nan) for rank in seen.hits}
        """(sizes, 3, queries) for each rank: how likely a mate is among the first so many."""
        self._near: _Nearest | None = None
        self._within: dict[float, Integers] = {}
        self._limits: dict[tuple[Fraction, int], float | str] = {}

    def collect(self, rows: Integers, groups: LocatedGroups) -> None:
        """See Family."""
        ranks = list(self.hits)
        found = self.growth.values(groups, [Metric("hit", rank) for rank in ranks])
        for at, rank in enumerate(ranks):
            self.hits[rank][:, :, rows] = found[:, at]

    def collected(self) -> dict[str, npt.NDArray[Any]]:
        """See Family."""
        return {f"hits-{rank}-at-sizes": table for rank, table in self.hits.items()}

    def score(self, metric: Metric, place: int) -> Score:
        """A metric's score at one of the sizes."""
        context = self.seen.context
        targets = context.with_mate
        if metric.name in RANKED:
            if not targets.any():
                return undefined(metric, NO_TARGETS)
            limit, threshold = self._accepted(metric, place)
            if isinstance(limit, str):
                return undefined(metric, limit)
            values = self.hits[metric["rank"]][place] * (self.seen.first <= limit)
            values = identified(metric, values)
            return share(self.seen, metric, values, targets, threshold)
        if targets.all():
            return undefined(metric, NO_IMPOSTORS)
        table = np.zeros((3, len(targets)))
        near = self.near_within(context.units.cut(metric["tau"]))
        table[:, ~targets] = 1.0 - missed(*self.others(np.flatnonzero(~targets), place), near)
        return share(self.seen, metric, table, ~targets, float(metric["tau"]))

    def near_within(self, limit: float) -> Integers:
        """How many items each stranger has up to a distance."""
        if limit not in self._within:
            context = self.seen.context
            rows = np.flatnonzero(~context.with_mate)
            found = _Within(context.task.queries, limit)
            context.observe_again(found, rows)
            self._within[limit] = found.count[rows]
        return self._within[limit]

    def rate_below(self, limit: float, place: int) -> float:
        """The expected rate of false accepts below a distance that `limit` has found."""
        strangers = np.flatnonzero(~self.seen.context.with_mate)
        near = (self._nearest(1) < limit).sum(axis=1)
        return 1.0 - math.fsum(missed(*self.others(strangers, place), near)) / len(strangers)

    def others(self, rows: Integers, place: int) -> tuple[Integers, Integers]:
        """M and m of some queries."""
        view = self.seen.context.task.view
        excluded = view.exclusions.pairs(rows, view.items)
        every = view.items - np.bincount(excluded.query, minlength=len(rows)) - view.mates[rows]
        others, number = np.unique(every, return_inverse=True)
        size, gallery = self.growth.sizes[place], self.growth.gallery
        drawn = np.array([drawn_of(int(one), size, gallery) for one in others], np.int64)
        return every, drawn[number]

    def _accepted(self, metric: Metric, place: int) -> tuple[float | str, float | None]:
        """The largest accepted distance and the threshold to report; or why there is none."""
        context = self.seen.context
        if metric["tau"] is not None:
            return context.units.cut(metric["tau"]), float(metric["tau"])
        strangers = int((~context.with_mate).sum())
        if not strangers:
            return NO_IMPOSTORS, None
        reason = unresolved(metric["far"], strangers)
        if reason is not None:
            return reason, None
        limit = self.limit(metric["far"], place)
        if isinstance(limit, str):
            return limit, None
        met = np.concatenate([self._nearest(1).ravel(), self.seen.first])
        below = met[met < limit]
        largest = float(below.max()) if len(below) else -np.inf
        return largest, context.units.in_unit(largest)

    def limit(self, target: Fraction, place: int) -> float | str:
        """d*, the smallest distance of a stranger's item that may not be accepted any more."""
        if (target, place) not in self._limits:
            self._limits[target, place] = self._limit(target, place)
        return self._limits[target, place]

    def _limit(self, target: Fraction, place: int) -> float | str:
        others, drawn = self.others(np.flatnonzero(~self.seen.context.with_mate), place)
        most = int(others.max(initial=1))
        share_drawn = max(float(np.median(drawn / np.maximum(others, 1))), 1e-9)
        depth = min(most, max(LEAST_DEPTH, int(4 * float(target) / share_drawn)))
        while True:
            if depth * len(others) > MOST_NUMBERS:
                return TOO_MANY
            near = self._nearest(depth)
            known = near[:, -1].min() if depth < most else np.inf
            limit = _first_above(near, others, drawn, target)
            if limit <= known:
                return limit
            depth = min(most, 4 * depth)

    def _nearest(self, depth: int) -> Distances:
        """(strangers, at least depth): the distances of each one's nearest items, ascending."""
        context = self.seen.context
        if self._near is None or self._near.distance.shape[1] < depth:
            rows = np.flatnonzero(~context.with_mate)
            self._near = _Nearest(context.task.queries, rows, depth)
            context.observe_again(self._near, rows)
        return self._near.distance


class _Within(RankObserver):
    """How many items each query has up to a distance."""

    def __init__(self, queries: int, limit: float) -> None:
        self._limit, self.count = limit, np.zeros(queries, np.int64)

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> None:
        """See RankObserver."""
        self.count[block.rows] = block.within(self._limit)

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"count": self.count[rows]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self.count[rows] = part["count"]


class _Nearest(RankObserver):
    """The distances of the nearest items of some queries, ascending."""

    def __init__(self, queries: int, rows: Rows, depth: int) -> None:
        self._place = np.zeros(queries, np.int64)
        self._place[rows] = np.arange(len(rows))
        self.distance = np.full((len(rows), depth), np.inf)

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> None:
        """See RankObserver."""
        found = block.nearest(np.arange(len(block.rows)), self.distance.shape[1])
        self.distance[self._place[block.rows], : found.shape[1]] = found

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"distance": self.distance[self._place[rows]]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self.distance[self._place[rows]] = part["distance"]


def missed(others: Integers, drawn: Integers, near: Integers) -> Reals:
    """C(M - a, m) / C(M, m): how likely none of the a items within a threshold is drawn."""
    out = np.empty(len(near))
    _missed(others, drawn, near, out)
    return out


@kernel
def _missed(others: Any, drawn: Any, near: Any, out: Any) -> None:
    """C(M - a, m) / C(M, m), by the shorter of its two products."""
    for q in range(out.size):
        steps = min(near[q], drawn[q])
        rest = max(near[q], drawn[q])
        value = 1.0
        for i in range(steps):
            left = others[q] - rest - i
            value *= max(float(left), 0.0) / float(others[q] - i)
            if value < 1e-25:  # nobody could see the difference
                value = 0.0
                break
        out[q] = value


def _first_above(near: Distances, others: Integers, drawn: Integers, target: Fraction) -> float:
    """The smallest distance up to which the expected rate of false accepts is above the target."""
    depth = near.shape[1]
    held = np.ones((depth + 1, len(near)))
    for a in range(1, depth + 1):
        held[a] = missed(others, drawn, np.minimum(a, others))
    gains = (held[:-1] - held[1:]).T
    finite = np.isfinite(near)
    order = np.argsort(near[finite], kind="stable")
    at, gain = near[finite][order], gains[finite][order]
    distances, last = np.unique(at[::-1], return_index=True)
    rate = np.cumsum(gain)[len(at) - 1 - last] / len(near)
    open_ = np.flatnonzero(rate > float(target) - CLOSE)
    for place in open_.tolist():
        if (
            rate[place] > float(target) + CLOSE
            or _rate(near, others, drawn, float(distances[place])) > target
        ):
            return float(distances[place])
    return np.inf


def _rate(near: Distances, others: Integers, drawn: Integers, limit: float) -> Fraction:
    """The expected rate of false accepts up to a distance, as a rational number."""
    within = (near <= limit).sum(axis=1)
    kinds, times = np.unique(np.stack([others, drawn, within]), axis=1, return_counts=True)
    total = Fraction(0)
    for (whole, m, a), count in zip(kinds.T.tolist(), times.tolist(), strict=True):
        total += count * (1 - Fraction(comb(whole - a, m), comb(whole, m)))
    return total / len(near)
