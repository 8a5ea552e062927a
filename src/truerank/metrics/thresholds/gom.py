"""GOM, the genuine open-set metric: collected steps, scores, peaks, rates and curves.

For a query with R relevant items let S(tau) be the sum of the precisions at its accepted
relevant items and F(tau) the number of accepted irrelevant ones: ReP(tau)^2 = S/(R + F). S is
known from the tie groups. F is known at every relevant distance and at equal thresholds, which
brackets the integral, or at every item of a sorted row, which makes it exact. RP is the mean
precision at the accepted relevant items, VP the share of true ones among accepted and missed,
ReP their geometric mean; for an unmated query FR is the number of accepted items over B, at
most 1. A rescaled axis maps distances in the user's unit to tau in [0, 1], with an exact
threshold for every tau.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.checkpoint import fill
from truerank._util.threads import PerThread, total
from truerank._util.types import Integers, Reals
from truerank.core import registry
from truerank.core.curve import ENDS, POINTS, Curve
from truerank.core.metric import Metric, Scale
from truerank.core.registry import definition
from truerank.core.score import PerQuery, Score
from truerank.core.tie_groups import LocatedGroups, TieGroups
from truerank.distance.base import Distances, Rows
from truerank.engine.blocks import LARGEST, DistanceBlock, largest_float
from truerank.engine.reducers import (
    Deferred,
    Extent,
    PairObserver,
    Part,
    RankObserver,
    ResumableObserver,
)
from truerank.metrics import ranking_kernels
from truerank.metrics.double_double_kernels import harmonics
from truerank.metrics.thresholds import gom_kernels
from truerank.metrics.thresholds.definitions import (
    NO_IMPOSTORS,
    certain,
    limit_at,
    undefined,
    unresolved,
)
from truerank.metrics.thresholds.family import Context, Family

# GOM's threshold axis: tau in [0, 1] for every distance, and the exact cut for every tau.
#
# A rescaled axis starts from distances in the user's unit. Where a space has their squares, the
# roots are taken first, each the nearest float64; the axis and its cuts are of these roots.


STEPS = 5000
"""Equal thresholds at which accepted pairs are counted. The 1,001 points of a curve and the 101 of
a trapezoid are among them (both step evenly through 5,000)."""


@dataclass(frozen=True)
class Axis:
    """tau = (d - low) / width, no more than 1; the width is not 0."""

    low: float
    width: float
    steps: int = STEPS
    squared: bool = False
    """Whether the space has the squares of the distances d."""

    @staticmethod
    def between(low: float, high: float, *, squared: bool) -> Axis:
        """The axis from one distance of a space to another; all of it if they are one."""
        if squared:
            low, high = float(np.sqrt(low)), float(np.sqrt(high))
        return Axis(low, (high - low) or 1.0, squared=squared)

    def on(self, distances: Distances) -> Distances:
        """The distances d of those of a space."""
        return np.sqrt(distances) if self.squared else distances

    def block(self, block: DistanceBlock) -> DistanceBlock:
        """A block with the distances d of those of a space."""
        return block.rooted() if self.squared else block

    def tau(self, distances: Distances) -> Distances:
        """The threshold at which each distance is first accepted."""
        return np.minimum((distances - self.low) / self.width, 1.0)

    def cut(self, tau: Fraction) -> float:
        """The largest distance accepted at tau; at 1 everything is."""
        if tau >= 1:
            return LARGEST
        if (self.low, self.width) == (0.0, 1.0):  # given as float64: so is the threshold
            return float(tau)
        return largest_float(Fraction(self.low) + tau * Fraction(self.width))

    def grid(self) -> Distances:
        """The cuts of 0, 1/steps, ..., 1."""
        return _grid(self)


@lru_cache(maxsize=4)
def _grid(axis: Axis) -> Distances:
    return np.array([axis.cut(Fraction(step, axis.steps)) for step in range(axis.steps + 1)])


# The steps of each query's curves over thresholds, from its tie groups.


@dataclass(frozen=True)
class Profiles:
    """The steps of S for a block of queries; arrays over groups, nearest first."""

    offsets: Integers
    tau: Reals
    """Threshold at which each group is accepted."""
    distance: Distances
    sums: Reals
    """(3, groups): lower, expected, upper of S from this group on."""
    found: Integers
    """Relevant items up to this group."""
    nearer: Integers
    """Irrelevant items before this group."""
    false: Integers
    """Irrelevant items up to this group, those in it included."""
    last: Reals
    """(3, queries): R over the rank of the last relevant item."""

    @staticmethod
    def of(groups: LocatedGroups, axis: Axis) -> Profiles:
        """The steps of queries' tie groups, which have one grade; queries may have none."""
        relevant = groups.relevant
        owner = np.repeat(np.arange(len(groups)), np.diff(groups.offsets))
        running = np.cumsum(relevant)
        base = np.concatenate([[0], running])[groups.offsets[:-1]]
        found = running - base[owner]
        sums = np.zeros((3, len(relevant)))
        high, low = harmonics(groups.before, groups.size)
        ranking_kernels.precision_sums(
            groups.offsets, groups.before, groups.size, relevant, high, low, sums
        )
        some = np.flatnonzero(np.diff(groups.offsets))
        last = np.zeros((3, len(groups)))
        if len(some):
            metric = Metric("minp")
            inverse_penalty = registry.ranking(metric).per_query
            kept = TieGroups(
                np.append(groups.offsets[some], groups.offsets[-1]),
                groups.before,
                groups.size,
                groups.graded,
                groups.candidates[some],
            )
            last[:, some] = inverse_penalty(kept, metric, Scale(np.ones(1)))
        distance = axis.on(groups.distance)
        return Profiles(
            groups.offsets,
            axis.tau(distance),
            distance,
            sums,
            found,
            groups.before - (found - relevant),
            groups.before + groups.size - found,
            last,
        )

    @property
    def relevant(self) -> Integers:
        """Relevant items of each group."""
        step = np.diff(self.found, prepend=0)
        first = self.offsets[:-1][np.diff(self.offsets) > 0]
        step[first] = self.found[first]
        return step

    def part(self, start: int, stop: int) -> Profiles:
        """The steps of the queries start to stop."""
        first, last = self.offsets[start], self.offsets[stop]
        groups = slice(first, last)
        return Profiles(
            self.offsets[start : stop + 1] - first,
            self.tau[groups],
            self.distance[groups],
            np.ascontiguousarray(self.sums[:, groups]),
            self.found[groups],
            self.nearer[groups],
            self.false[groups],
            np.ascontiguousarray(self.last[:, start:stop]),
        )

    @staticmethod
    def joined(parts: list[Profiles]) -> Profiles:
        """The steps of several blocks, one block after the other."""
        if not parts:
            nothing = LocatedGroups.none(np.empty(0, np.int64), 1)
            return Profiles.of(nothing, Axis(0.0, 1.0))
        behind = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[:-1] + start for part, start in zip(parts, behind, strict=False)]
        others = [f.name for f in fields(Profiles) if f.name != "offsets"]
        return Profiles(
            np.concatenate([*offsets, behind[-1:]]),
            *(np.concatenate([getattr(p, name) for p in parts], axis=-1) for name in others),
        )


# GOM at single thresholds: what each query accepts up to some largest distances.


NO_AXIS = Axis(0.0, 1.0)
"""For steps of which distances alone are asked."""


class GomPoints:
    """What queries accept at thresholds, each known by a number and by its largest distance."""

    def __init__(self, cuts: Mapping[Fraction, float], queries: int) -> None:
        self.cuts = dict(cuts)
        self.at = {place: np.zeros((3, queries), np.int64) for place in self.cuts}
        """Relevant items, accepted relevant ones and accepted others of queries."""
        self.sums_at = {place: np.zeros((3, queries)) for place in self.cuts}
        """(3, queries): lower, expected and upper sum of the precisions at accepted ones."""
        self.accepted_at = {place: np.zeros(queries, np.int64) for place in self.cuts}
        self.last = np.zeros((3, queries))
        """(3, queries): R over the rank of the last relevant item, as in Profiles."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process begins anew."""
        return GomPoints, (self.cuts, self.last.shape[1])

    def part(self, rows: Rows) -> Part:
        """What these queries accept, to be taken over by points of the same thresholds."""
        found: Part = {"last": self.last[:, rows]}
        for name, table in self.tables().items():
            found[name] = {place: array[..., rows] for place, array in table.items()}
        return found

    def take(self, rows: Rows, part: Part) -> None:
        """Take over what these queries accept."""
        self.last[:, rows] = part["last"]
        for name, table in self.tables().items():
            for place, array in table.items():
                array[..., rows] = part[name][place]

    def count(self, block: DistanceBlock) -> None:
        """Count what each query of a block accepts."""
        for place, cut in self.cuts.items():
            self.accepted_at[place][block.rows] = block.within(cut)

    def add(self, rows: Rows, steps: Profiles) -> None:
        """Add the steps of queries whose accepted items have been counted."""
        self.last[:, rows] = steps.last
        owner = np.repeat(np.arange(len(rows)), np.diff(steps.offsets))
        held = np.flatnonzero(np.diff(steps.offsets))
        total = np.zeros(len(rows), np.int64)
        total[held] = steps.found[steps.offsets[held + 1] - 1]
        for place, cut in self.cuts.items():
            inside = steps.distance <= cut
            count = np.bincount(owner[inside], minlength=len(rows))
            some = np.flatnonzero(count)
            at = steps.offsets[some] + count[some] - 1
            true = np.zeros(len(rows), np.int64)
            true[some] = steps.found[at]
            self.at[place][:, rows] = [total, true, self.accepted_at[place][rows] - true]
            sums = np.zeros((3, len(rows)))
            sums[:, some] = steps.sums[:, at]
            self.sums_at[place][:, rows] = sums

    def tables(self) -> dict[str, dict[Any, npt.NDArray[Any]]]:
        """The arrays that are filled query by query, by name and threshold."""
        return {"at": self.at, "sums_at": self.sums_at, "accepted_at": self.accepted_at}


class PointsObserver(RankObserver):
    """Observes queries once more for what they accept at thresholds known by now."""

    def __init__(self, cuts: Mapping[Fraction, float], queries: int) -> None:
        self.points = GomPoints(cuts, queries)
        self._largest = PerThread(lambda: dict.fromkeys(self.points.cuts, -np.inf))

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> list[Deferred]:
        """See RankObserver."""
        self.points.count(block)
        largest = self._largest.mine()
        for place, cut in self.points.cuts.items():
            largest[place] = max(largest[place], block.largest(cut))
        return [partial(self.points.add, block.rows, Profiles.of(groups, NO_AXIS))]

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        largest = {place: self.largest(place) for place in self.points.cuts}
        return {"points": self.points.part(rows), "largest": largest}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self.points.take(rows, part["points"])
        mine = self._largest.mine()
        for place, largest in part["largest"].items():
            mine[place] = max(mine[place], largest)

    def largest(self, place: Fraction) -> float:
        """The largest accepted distance of any pair; -inf if none is accepted."""
        return max(found[place] for found in self._largest.all())


def table_at(points: GomPoints, metric: Metric, place: Fraction) -> Reals:
    """(3, queries): lower, expected and upper of a metric of GOM at one threshold."""
    if metric.name == "mfr":
        values = np.minimum(points.accepted_at[place] / metric["b"], 1.0)
        return np.broadcast_to(values, (3, len(values)))
    mates, true, false = points.at[place]
    held = np.maximum(mates, 1)
    precision = points.sums_at[place] / np.maximum(true, 1)
    share = np.broadcast_to(true / (held + false), precision.shape)
    if metric.get("fp") == "frozen":
        share = np.where(true == mates, points.last, share)
    tables: dict[str, Reals] = {
        "mrp": precision,
        "mvp": share,
        "mrep": np.sqrt(precision * share),
    }
    return tables[metric.name]


# What a pass collects for GOM: each query's step functions over the threshold tau.


Counters = npt.NDArray[np.int32]

TOGETHER = 256
"""Queries whose curves one thread adds up, one after the other."""


class Gom(RankObserver, ResumableObserver):
    """Observes rows for everything that is asked of GOM on one axis."""

    def __init__(
        self,
        axis: Axis,
        queries: int,
        gallery: int,
        *,
        exact: bool,
        bracketed: bool,
        limits: Iterable[int],
        taus: Iterable[Fraction],
        peaks: Iterable[bool],
        frozen_share: bool,
    ) -> None:
        """`peaks` are the readings of FP, frozen or not, of which the highest points are wanted;
        `frozen_share` asks for the curve of frozen VP."""
        self.axis, self._grid = axis, axis.grid()
        self.one = 2.0 ** min(52, 62 - queries.bit_length())
        """Sums over queries are taken in integers, 1 standing for this many: no order shows."""
        self.is_exact, self.is_bracketed, self._peaks = exact, bracketed, sorted(set(peaks))
        self._kinds = 5 if frozen_share else 4
        self.asks_for_cuts = not exact and not axis.squared
        self._roots = gom_kernels.inverse_roots(gallery + 2)
        self.limits, self.taus = sorted(set(limits)), sorted(set(taus))
        self._begin(queries)
        self.points = GomPoints({tau: axis.cut(tau) for tau in self.taus}, queries)
        """What queries accept at each tau."""
        self._curves = PerThread(lambda: np.zeros((POINTS + 1, 4, self._kinds), np.int64))
        self.keep_folds(np.zeros((queries, 0), np.int64), 0, POINTS)
        self._false_curves = PerThread(
            lambda: np.zeros((len(self.limits) + 1, POINTS + 1), np.int64)
        )
        self._bounds = [
            PerThread(lambda: np.zeros((2, 2, STEPS + 1), np.int64)) for _ in (False, True)
        ]
        self._kept = PerThread[list[tuple[Rows, Profiles]]](list)

    def _begin(self, queries: int) -> None:
        """Make the arrays that are filled query by query."""
        self.integral = np.zeros((2, 2, 2, 3, queries))
        """Integral of ReP: [bracketed or exact, all or frozen, low or high, tie bound, query]."""
        self.trapezoid = np.zeros((2, 3, queries))
        """Integral of ReP over 101 points: [all or frozen, tie bound, query]."""
        self.false_rates = {limit: np.full(queries, np.nan) for limit in self.limits}
        """Integral of FR for queries without a mate, for each B."""
        self.false_trapezoid = {limit: np.full(queries, np.nan) for limit in self.limits}

    def __getstate__(self) -> dict[str, Any]:
        """Without what is filled query by query: another process begins anew."""
        filled = ("integral", "trapezoid", "false_rates", "false_trapezoid")
        return {name: value for name, value in vars(self).items() if name not in filled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin(len(self._folds))

    def keep_folds(self, folds: Integers, columns: int, stride: int) -> None:
        """Add the curves up by fold as well, at every so many points.

        `folds` are the columns that each query belongs to.
        """
        self._folds, self._stride = folds, stride
        knots = POINTS // stride + 1
        self._parts = PerThread(lambda: np.zeros((columns, self._kinds, knots), np.int64))
        self._false_parts = PerThread(
            lambda: np.zeros((len(self.limits), columns, knots), np.int64)
        )

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> list[Deferred] | None:
        """See RankObserver."""
        rows, block = block.rows, self.axis.block(block)
        steps = Profiles.of(groups, self.axis)
        accepted = block.accepted(self._grid, self.axis.low, self.axis.width)
        self.points.count(block)
        without_mate = np.diff(groups.offsets) == 0
        if self.limits and without_mate.any():
            self._without_mate(block, accepted, np.flatnonzero(without_mate))
        if not len(groups.size):
            return None
        if self.is_exact:
            self._integrate(block, steps, groups.candidates)
        return [
            partial(self._with_mate, rows[a:b], steps.part(a, b), accepted[a:b])
            for a, b in pairwise([*range(0, len(rows), TOGETHER), len(rows)])
        ]

    def _integrate(self, block: DistanceBlock, steps: Profiles, candidates: Integers) -> None:
        """Integrate ReP exactly, from rows in order."""
        out = np.zeros((2, 2, 3, len(block.rows)))
        for start, ranked in block.ranked():
            gom_kernels.exact(
                start, steps.offsets, steps.tau, steps.sums, steps.found, steps.nearer,
                steps.false, steps.last, candidates, ranked, self.axis.low,
                self.axis.width, self._roots, out,
            )  # fmt: skip
        self.integral[1][:, :, :, block.rows] = out

    def _with_mate(self, rows: Rows, steps: Profiles, accepted: Counters) -> None:
        if self.is_bracketed:
            out = np.zeros((2, 2, 3, len(rows)))
            gom_kernels.bracketed(
                steps.offsets, steps.tau, steps.sums, steps.found, steps.nearer, steps.false,
                steps.last, accepted, self._roots, out,
            )  # fmt: skip
            self.integral[0][:, :, :, rows] = out
        trapezoid = np.zeros((2, 3, len(rows)))
        gom_kernels.curves(
            steps.offsets, steps.distance, steps.sums, steps.found, steps.last,
            accepted, self._grid, self.axis.steps // POINTS, POINTS // 100, self.one,
            self._curves.mine(), trapezoid, self._folds[rows], self._stride, self._parts.mine(),
        )  # fmt: skip
        self.trapezoid[:, :, rows] = trapezoid
        self.points.add(rows, steps)
        for frozen in self._peaks:
            gom_kernels.bounds(
                steps.offsets, steps.distance, steps.sums, steps.found, steps.false, steps.last,
                accepted, self._grid, frozen, self.one, self._bounds[frozen].mine(),
            )  # fmt: skip
        if self._peaks:
            self._kept.mine().append((rows, steps))

    def _without_mate(self, block: DistanceBlock, accepted: Counters, chosen: Rows) -> None:
        rows = block.rows[chosen]
        curves, parts = self._false_curves.mine(), self._false_parts.mine()
        curves[-1] += (accepted[chosen][:, :: self.axis.steps // POINTS] > 0).sum(axis=0)
        for number, limit in enumerate(self.limits):
            out = np.zeros(len(chosen))
            gom_kernels.false_rate(self.axis.tau(block.nearest(chosen, limit)), limit, out)
            self.false_rates[limit][rows] = out
            at = np.minimum(accepted[chosen][:, :: self.axis.steps // POINTS], limit)
            curves[number] += at.sum(axis=0)
            for way in self._folds[rows].T:
                np.add.at(parts[number], way, at[:, :: self._stride])
            coarse = at[:, :: POINTS // 100]
            whole = 2 * coarse.sum(axis=1) - coarse[:, 0] - coarse[:, -1]
            self.false_trapezoid[limit][rows] = whole / (200 * limit)

    # -- what is kept -------------------------------------------------------------------------

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """See ResumableObserver."""
        state = {name: array.copy() for name, array in self._by_query().items()}
        state |= {name: total(sums) for name, sums in self._sums().items()}
        if self._peaks:
            state["kept"] = np.concatenate([*(rows for rows, _ in self.kept), np.empty(0, int)])
            steps = Profiles.joined([steps for _, steps in self.kept])
            state |= {f"kept-{f.name}": getattr(steps, f.name) for f in fields(Profiles)}
        return state

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """See ResumableObserver."""
        for name, array in self._by_query().items():
            fill(array, state[name])
        for name, sums in self._sums().items():
            fill(total(sums), state[name])
            sums.put(state[name].copy())
        if self._peaks:
            steps = Profiles(*(state[f"kept-{f.name}"] for f in fields(Profiles)))
            self._kept.put([(state["kept"], steps)])

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        part: Part = {name: array[..., rows] for name, array in self._by_query().items()}
        part |= {name: total(sums) for name, sums in self._sums().items()}
        return part | {"kept": self.kept}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        for name, array in self._by_query().items():
            array[..., rows] = part[name]
        for name, sums in self._sums().items():
            sums.mine()[...] += part[name]
        self._kept.mine().extend(part["kept"])

    def _by_query(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that are filled query by query, by name."""
        tables: dict[str, dict[Any, npt.NDArray[Any]]] = {
            "false_rates": self.false_rates,
            "false_trapezoid": self.false_trapezoid,
            **self.points.tables(),
        }
        named = {
            f"{name}-{number}": array
            for name, table in tables.items()
            for number, array in enumerate(table.values())
        }
        return {
            "integral": self.integral,
            "trapezoid": self.trapezoid,
            "last": self.points.last,
            **named,
        }

    def _sums(self) -> dict[str, PerThread[npt.NDArray[np.int64]]]:
        """The sums over queries, by name."""
        sums: dict[str, PerThread[npt.NDArray[np.int64]]] = {
            "curves": self._curves,
            "parts": self._parts,
            "false_curves": self._false_curves,
            "false_parts": self._false_parts,
            "bounds": self._bounds[False],
        }
        if True in self._peaks:
            sums["frozen_bounds"] = self._bounds[True]
        return sums

    # -- what was collected -------------------------------------------------------------------

    def curve(self, number: int, queries: int) -> Reals:
        """(3, points): the mean over queries of RP, VP, ReP or frozen ReP, by number."""
        return np.asarray(self.sums_at_points()[number] / (self.one * queries), np.float64)

    def totals(self) -> Integers:
        """(curves, points): RP, VP, ReP and frozen ReP, the lower ones, summed over queries; and
        frozen VP if it was asked for."""
        return self.sums_at_points()[:, 0]

    def sums_at_points(self) -> Integers:
        """[curve, tie bound, point]; what all bounds share is added to each."""
        found = total(self._curves)
        return (found[:, :3] + found[:, 3:]).transpose(2, 1, 0)

    def totals_by_fold(self, stride: int) -> Integers:
        """(columns, curves, knots): the same over the queries of each fold, at every so many
        points."""
        found: Integers = total(self._parts)[:, :, :: stride // self._stride]
        return found

    def accepted_by_fold(self, limit: int, stride: int) -> Integers:
        """(columns, knots): items that the queries of each fold accept, up to B of each."""
        found: Integers = total(self._false_parts)[self.limits.index(limit)]
        return found[:, :: stride // self._stride]

    def accepting(self) -> Integers:
        """(points,): queries without a mate that accept anything."""
        found: Integers = total(self._false_curves)[-1]
        return found

    def false_curve(self, limit: int, queries: int) -> Reals:
        """(points,): the mean over queries of FR."""
        return np.asarray(self.accepted(limit) / (limit * queries), np.float64)

    def accepted(self, limit: int) -> Integers:
        """(points,): items that queries without a mate accept, up to B of each."""
        found: Integers = total(self._false_curves)[self.limits.index(limit)]
        return found

    def bounds(self, frozen: bool) -> Integers:
        """[ReP or VP, value at the start or upper bound, cell], summed over queries."""
        return total(self._bounds[frozen])

    @property
    def kept(self) -> list[tuple[Rows, Profiles]]:
        """The step functions of every query, block by block."""
        return [part for thread in self._kept.all() for part in thread]


# The peaks of GOM's mean curves: the cells that can hold the maximum, then their steps.
#
# The first pass bounds the curves on every cell; what another cell beats is discarded, and the few
# that are left are walked through step by step, in integers, in a second pass.


@dataclass(frozen=True)
class Peak:
    """A maximum, as a sum over queries in integers, and the smallest threshold that has it."""

    total: int
    tau: float


def peaks_at_points(gom: Gom, number: int) -> list[Peak]:
    """The lower, expected and upper peak of a curve of `gom` at the points of the trapezoid."""
    sums = gom.sums_at_points()[number][:, :: POINTS // 100]
    return [Peak(int(row.max()), float(row.argmax() / 100)) for row in sums]


def peaks(gom: Gom, frozen: bool, sweep: Callable[[list[PairObserver]], None]) -> list[Peak]:
    """The lower, expected and upper peak of mVP, and those of mReP, over all thresholds."""
    bounds = gom.bounds(frozen)
    grid = gom.axis.grid()
    # Bounds and steps are rounded separately: a query may be off by one on each side.
    slack = 4 * sum(len(rows) for rows, _ in gom.kept)
    cells: set[int] = set()
    for at_start, at_most in bounds:
        cells.update(np.flatnonzero(at_most + slack >= at_start.max()).tolist())
    ranges: list[tuple[float, float]] = []
    for cell in sorted(cells):
        low = float(np.nextafter(grid[cell], -np.inf)) if cell else -np.inf
        high = float(grid[min(cell + 1, STEPS)])
        if cell - 1 in cells:
            ranges[-1] = (ranges[-1][0], high)
        else:
            ranges.append((low, high))
    observer = _Steps(gom, ranges, frozen)
    sweep([observer])
    found = []
    for curve in range(6):
        highest, nearest = 0, np.inf
        for number, (low, _) in enumerate(observer.ranges):
            at, change = observer.steps(number)
            order = np.argsort(at, kind="stable")
            at, running = at[order], np.cumsum(change[curve][order])
            ends = np.append(at[1:] != at[:-1], True)
            if not ends.any():
                continue
            at, running = at[ends], running[ends]
            top = int(np.argmax(running))
            where = low if at[top] == -np.inf else float(at[top])
            if (running[top], -where) > (highest, -nearest):
                highest, nearest = int(running[top]), where
        found.append(Peak(highest, float(gom.axis.tau(np.array([nearest]))[0])))
    return found


class _Steps(PairObserver):
    """Observes the steps of every query's curves in some ranges of distances."""

    whole_rows = True

    def __init__(self, gom: Gom, ranges: list[tuple[float, float]], frozen: bool) -> None:
        self._frozen = frozen
        self.ranges, self._one, self._axis = ranges, gom.one, gom.axis
        self._of: dict[int, tuple[Profiles, int]] = {
            int(row): (profiles, q)
            for rows, profiles in gom.kept
            for q, row in enumerate(rows)
            if profiles.offsets[q] < profiles.offsets[q + 1]
        }
        self._parts: PerThread[list[list[tuple[Distances, Integers]]]] = PerThread(
            lambda: [[] for _ in ranges]
        )

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        for start, rows in self._axis.block(block).ranked():
            numbers = block.rows[start : start + len(rows)]
            for row, number in zip(rows, numbers.tolist(), strict=True):
                if number in self._of:
                    self._walk(row[: np.searchsorted(row, np.inf)], *self._of[number])

    def _walk(self, ranked: Distances, profiles: Profiles, q: int) -> None:
        for (low, high), part in zip(self.ranges, self._parts.mine(), strict=True):
            first, last = np.searchsorted(ranked, [low, high], side="right")
            at = np.empty(last - first + 1)
            change = np.empty((6, last - first + 1), np.int64)
            count = gom_kernels.events(
                profiles.offsets, profiles.distance, profiles.sums, profiles.found,
                profiles.last, ranked, q, low, high, self._frozen, self._one, change, at, 0,
            )  # fmt: skip
            part.append((at[:count], change[:, :count]))

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {str(number): self.steps(number) for number in range(len(self.ranges))}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        for number, steps in enumerate(self._parts.mine()):
            steps.append(part[str(number)])

    def steps(self, number: int) -> tuple[Distances, Integers]:
        """Distances and changes of the six sums at each, of one range, in no order."""
        parts = [part for thread in self._parts.all() for part in thread[number]]
        return (
            np.concatenate([*(at for at, _ in parts), np.empty(0)]),
            np.concatenate([*(change for _, change in parts), np.empty((6, 0), np.int64)], axis=1),
        )


# GOM at a rate: the threshold that queries without a mate set, and what is accepted there.
#
# The rule is that of open-set identification. The threshold is known when all queries without a
# mate have been seen; a second pass counts what each query accepts below it.


def largest_below(impostors: Distances, target: Fraction) -> float:
    """The largest number below d*: accepting up to it accepts what is nearer than d*."""
    limit = limit_at(impostors, target)
    return float(np.nextafter(limit, -np.inf)) if np.isfinite(limit) else LARGEST


class Rates:
    """What is accepted at the thresholds of some rates, on the exact distances of any space."""

    def __init__(self, context: Context, targets: Sequence[Fraction]) -> None:
        self._context, self.targets = context, sorted(set(targets))

    @property
    def _impostors(self) -> Distances:
        """The nearest distances of the queries without a mate, ascending."""
        context = self._context
        return np.sort(context.nearest.distance[~context.with_mate])

    def why_not(self, target: Fraction) -> str | None:
        """Why a rate sets no threshold here, None if it does."""
        count = int((~self._context.with_mate).sum())
        return NO_IMPOSTORS if not count else unresolved(target, count)

    @cached_property
    def cuts(self) -> dict[Fraction, float]:
        """The largest distance that may be accepted, for every rate that sets one."""
        found = self._impostors
        kept = [target for target in self.targets if self.why_not(target) is None]
        return {target: largest_below(found, target) for target in kept}

    @cached_property
    def _observed(self) -> PointsObserver:
        queries = self._context.task.queries
        observer = PointsObserver(self.cuts, queries)
        self._context.observe_again(observer, np.arange(queries))
        return observer

    @property
    def points(self) -> GomPoints:
        """What every query accepts at each rate's threshold."""
        return self._observed.points

    def threshold(self, target: Fraction) -> float | None:
        """The largest observed distance that is accepted, in the user's unit; None if none is."""
        return self._context.units.in_unit(self._observed.largest(target))


# What a pass collects for GOM: on one axis of thresholds, or on two.


HIGHEST = ("mrep_max", "mvp_max", "tau_max")
CURVES = {("mvp", "all"): 1, ("mrep", "all"): 2, ("mrep", "frozen"): 3, ("mvp", "frozen"): 4}
"""The numbers of the curves whose highest points are scores, among those of `Gom`."""
OFF_THE_AXIS = (
    "not defined: thresholds of GOM lie in [0, 1], which these distances leave; ask for "
    "scale=minmax"
)


def curve_of(metric: Metric) -> int:
    """The number of the curve of which a metric is the highest point or its place."""
    return CURVES["mvp" if metric.name == "mvp_max" else "mrep", metric["fp"]]


class GomAxes(Family):
    """What was collected on each axis, and where the curves are highest."""

    def __init__(self, context: Context, metrics: list[Metric]) -> None:
        super().__init__(context, metrics)
        self.seen: dict[str, Gom | str] = {}
        """What was collected on the axis of each scale, or why GOM is not defined on it."""
        self._peaks: dict[tuple[str, str], list[Peak]] = {}
        on_axes = [metric for metric in metrics if metric.get("far") is None]
        for scale in sorted({metric["scale"] for metric in on_axes}):
            axis = self._axis(scale)
            some = [metric for metric in on_axes if metric["scale"] == scale]
            self.seen[scale] = OFF_THE_AXIS if axis is None else self._observe(axis, some)
        collected = [gom for gom in self.seen.values() if isinstance(gom, Gom)]
        self.rates = Rates(context, [m["far"] for m in metrics if m.get("far") is not None])
        needs_nearest = bool(self.rates.targets) or any(m.name == "tau_nz" for m in metrics)
        self.observers = [*([context.nearest] if needs_nearest else []), *collected]

    def _observe(self, axis: Axis, metrics: list[Metric]) -> Gom:
        """An observer of all that these metrics need on one axis."""
        integrals = [m["integral"] for m in metrics if m.name == "mrep" and m["tau"] is None]
        small = self.context.pairs <= self.context.limits.breakpoints
        return Gom(
            axis,
            self.context.task.queries,
            self.context.space.gallery,
            exact="exact" in integrals or ("step" in integrals and small),
            bracketed="step" in integrals and not small,
            # tau_nz is where the curve of mfr leaves 0
            limits=[
                (m if m.name == "mfr" else Metric("mfr"))["b"]
                for m in metrics
                if m.name in ("mfr", "tau_nz")
            ],
            taus=[m["tau"] for m in metrics if m.get("tau") is not None],
            peaks=[
                m["fp"] == "frozen"
                for m in metrics
                if m.name in HIGHEST and m["integral"] != "trapezoid"
            ],
            frozen_share=any(m.name == "mvp_max" and m["fp"] == "frozen" for m in metrics),
        )

    def _axis(self, scale: str) -> Axis | None:
        if scale == "minmax":
            extent = Extent()
            self.context.sweep([extent])
            return Axis.between(*extent.ends, squared=self.context.space.squared)
        if self.context.space.unit_scale is None:
            return None
        return Axis(0.0, 1 / self.context.space.unit_scale)

    def on(self, scale: str) -> Gom:
        """What was collected on a scale on which GOM is defined."""
        gom = self.seen[scale]
        if isinstance(gom, str):
            raise LookupError(gom)
        return gom

    def peaks(self, metric: Metric) -> list[Peak]:
        """The lower, expected and upper highest point of a metric's curve."""
        gom, key = self.on(metric["scale"]), (metric["scale"], metric["fp"])
        if metric["integral"] == "trapezoid":
            return peaks_at_points(gom, curve_of(metric))
        if key not in self._peaks:
            self._peaks[key] = peaks(gom, metric["fp"] == "frozen", self.context.sweep)
        return self._peaks[key][:3] if metric.name == "mvp_max" else self._peaks[key][3:]


# The scores of GOM: at one threshold, over all of them, and at the best.


NO_TARGETS = "not defined: no query has a relevant item in the gallery"


def _seen(family: GomAxes, metric: Metric) -> Gom | str:
    found = family.seen[metric["scale"]]
    needs_impostors = not definition(metric).with_mate
    if not isinstance(found, str) and needs_impostors and family.context.with_mate.all():
        return NO_IMPOSTORS
    if not isinstance(found, str) and not needs_impostors and not family.context.with_mate.any():
        return NO_TARGETS
    return found


def _averaged(
    family: GomAxes,
    metric: Metric,
    table: Reals,
    *,
    threshold: float | None = None,
    bracket: tuple[Reals, Reals] | None = None,
) -> Score:
    """The means of three rows over the queries with a mate, or without one for FR."""
    counts = family.context.with_mate if metric.name != "mfr" else ~family.context.with_mate
    values = np.where(counts, table, np.nan)
    lower, expected, upper = (family.context.mean(row, counts) for row in values)
    ends = None
    if bracket is not None:
        low, high = family.context.mean(bracket[0], counts), family.context.mean(bracket[1], counts)
        ends = None if low == high else (low, high)
    return Score(
        str(metric),
        upper if metric.name == "mfr" else lower,
        lower,
        expected,
        upper,
        n=int(counts.sum()),
        per_query=PerQuery(*values),
        threshold=threshold,
        bracket=ends,
    )


def table(gom: Gom, metric: Metric) -> Reals:
    """(3, queries): lower, expected and upper of a metric that is a mean over queries."""
    if metric["tau"] is not None:
        return table_at(gom.points, metric, metric["tau"])
    if metric.name == "mfr":
        limit = metric["b"]
        if metric["integral"] == "trapezoid":
            values = gom.false_trapezoid[limit]
        else:
            values = gom.false_rates[limit]
        return np.broadcast_to(values, (3, len(values)))
    if metric["integral"] == "trapezoid":
        trapezoid: Reals = gom.trapezoid[_frozen(metric)]
        return trapezoid
    least, most = gom.integral[int(_is_exact(gom, metric)), _frozen(metric)]
    middle: Reals = least if _is_exact(gom, metric) else (least + most) / 2
    return middle


def _frozen(metric: Metric) -> int:
    return int(metric["fp"] == "frozen")


def _is_exact(gom: Gom, metric: Metric) -> bool:
    return gom.is_exact and (metric["integral"] == "exact" or not gom.is_bracketed)


def _point(family: GomAxes, metric: Metric) -> Score:
    if metric.get("far") is not None:
        return _at_far(family, metric)
    gom = _seen(family, metric)
    if isinstance(gom, str):
        return undefined(metric, gom)
    tau = metric["tau"]
    threshold = None if tau is None else float(tau)
    return _averaged(family, metric, table(gom, metric), threshold=threshold)


def _at_far(family: GomAxes, metric: Metric) -> Score:
    """At the threshold that a rate of queries without a mate sets."""
    if not family.context.with_mate.any():
        return undefined(metric, NO_TARGETS)
    target = metric["far"]
    reason = family.rates.why_not(target)
    if reason is not None:
        return undefined(metric, reason)
    values = table_at(family.rates.points, metric, target)
    return _averaged(family, metric, values, threshold=family.rates.threshold(target))


def _mrep(family: GomAxes, metric: Metric) -> Score:
    if metric["far"] is not None:
        return _at_far(family, metric)
    gom = _seen(family, metric)
    given = metric["tau"] is not None or metric["integral"] == "trapezoid"
    if isinstance(gom, str) or given or _is_exact(gom, metric):
        return _point(family, metric)
    least, most = gom.integral[0, _frozen(metric)]
    return _averaged(family, metric, table(gom, metric), bracket=(least[0], most[2]))


def _peak(family: GomAxes, metric: Metric) -> Score:
    gom = _seen(family, metric)
    if isinstance(gom, str):
        return undefined(metric, gom)
    found = family.peaks(metric)
    queries, tau = int(family.context.with_mate.sum()), found[0].tau
    if metric.name == "tau_max":
        return certain(metric, tau, queries, threshold=tau)
    lower, expected, upper = (peak.total / (gom.one * queries) for peak in found)
    return Score(str(metric), lower, lower, expected, upper, n=queries, threshold=tau)


def _tau_nz(family: GomAxes, metric: Metric) -> Score:
    gom = _seen(family, metric)
    if isinstance(gom, str):
        return undefined(metric, gom)
    impostors = ~family.context.with_mate
    nearest = float(family.context.nearest.distance[impostors].min())
    if not np.isfinite(nearest):
        return undefined(metric, "not defined: no unmated query is compared with any item")
    tau = float(gom.axis.tau(gom.axis.on(np.array([nearest])))[0])
    return certain(metric, tau, int(impostors.sum()), threshold=tau)


SCORES = {
    "mrp": _point,
    "mvp": _point,
    "mrep": _mrep,
    "mfr": _point,
    "mrep_max": _peak,
    "mvp_max": _peak,
    "tau_max": _peak,
    "tau_nz": _tau_nz,
}
"""The function that gives each metric's Score."""


# The curves of GOM's metrics and of mFR over the axis of thresholds.


MEANS = ("mrp", "mvp", "mrep", "mrep@fp=frozen")
BARE = 2
"""So many of them, the first, have no confidence band."""


@dataclass(frozen=True)
class GomCurve:
    """One of the curves on an axis."""

    name: str
    number: int
    """RP, VP, ReP and frozen ReP come first, in the order in which they are collected; then FR."""
    like: str
    """The name of the metric that it is the curve of."""
    limit: int | None = None
    """The B of a curve of FR."""

    @property
    def with_mate(self) -> bool:
        """Whether it is a mean over the queries with a mate; otherwise over those without."""
        return self.limit is None


def curves_on(family: GomAxes, scale: str) -> list[GomCurve]:
    """The curves on a scale's axis, those that there is a query for."""
    gom, mates = family.seen[scale], family.context.with_mate
    if isinstance(gom, str):
        return []
    end = "" if scale == "fixed" else f"scale={scale}"
    found = []
    for number, name in enumerate(MEANS if mates.any() else ()):
        joint = ("," if "@" in name else "@") if end else ""
        found.append(GomCurve(name + joint + end, number, name.partition("@")[0]))
    for place, limit in enumerate(gom.limits if not mates.all() else ()):
        name = str(registry.parse(f"mfr@b={limit},scale={scale}"))
        found.append(GomCurve(name, len(MEANS) + place, "mfr", limit))
    return found


def of_gom(family: GomAxes, scale: str) -> dict[str, Curve]:
    """The curves of GOM on a scale's axis, by name."""
    gom, mates = family.on(scale), family.context.with_mate
    tau = np.arange(POINTS + 1) / POINTS
    found = {}
    for one in curves_on(family, scale):
        queries = int((mates if one.with_mate else ~mates).sum())
        if one.limit is None:
            rows = dict(zip(ENDS, gom.curve(one.number, queries), strict=True))
        else:
            rows = {"value": gom.false_curve(one.limit, queries)}
        found[one.name] = Curve(one.name, {"tau": tau, **rows})
    return found
