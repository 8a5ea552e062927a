"""Jackknife replicates of GOM's scores and curves, and GOM as a family of an evaluation.

A mean over queries loses the group's queries, which is known of all, and changes because the
group is missing from the gallery, which is computed in another pass, for all queries or, in a
large task, for a sample. Peaks, and thresholds set by a rate, are found again without each
group. Curves are known at knots; between knots a band is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.settings import current_limits
from truerank._util.text import count
from truerank._util.threads import PerThread, total
from truerank._util.types import Flags, Integers, Reals
from truerank.core.curve import POINTS, BandMoves, Curve, CurveMoves
from truerank.core.jackknife import (
    FEWEST_CLASSES,
    ChangeSums,
    FoldAssignment,
    Stratum,
    fixed,
    replicates,
    why_too_few,
)
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.core.sum_kernels import COARSE, ONE
from truerank.core.tie_groups import LocatedGroups
from truerank.distance.base import Distances, Rows
from truerank.engine import count_kernels
from truerank.engine.blocks import Cuts, DistanceBlock
from truerank.engine.reducers import Deferred, Part, RankObserver, ResumableObserver
from truerank.metrics.thresholds import gom, gom_kernels
from truerank.metrics.thresholds.definitions import (
    FEWEST_BELOW,
    allowed,
    measure,
    why_too_few_below,
)
from truerank.metrics.thresholds.family import Context, Moves, NearestWithout
from truerank.metrics.thresholds.gom import (
    BARE,
    NO_AXIS,
    Axis,
    Gom,
    GomAxes,
    GomCurve,
    GomPoints,
    Profiles,
    Rates,
    curve_of,
    curves_on,
    largest_below,
    of_gom,
    table_at,
)
from truerank.metrics.thresholds.gom_kernels import inverse_roots


class GomFamily(GomAxes):
    """The family of mRP, mVP, mReP and mFR at thresholds, over all of them, and at the best."""

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return measure(metric, self)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        found: dict[str, Curve] = {}
        for scale, seen in self.seen.items():
            if isinstance(seen, Gom):
                found |= of_gom(self, scale)
        return found

    def without(self, folds: FoldAssignment) -> GomFolds:
        """See Family."""
        return GomFolds(self, folds)


# GOM without each fold of the classes.


RATE_COLUMNS = 420
"""Most folds without which a sample is observed at the thresholds of rates."""
MOST_MOVES = 1 << 24
"""Most queries x folds for which it is computed how far a value moves, if folds are many."""
MOST_HEIGHTS, FEWEST_POINTS = 1 << 27, 21
"""Most queries x folds x points of a curve that are looked at; and points that always are."""
PEAKS = ("mvp_max", "mrep_max")
FEWEST_FOUND = 5
"""With fewer queries that accept what a curve is made of, how it would move is not known."""
REASONS = {
    "tau_max": "the place of a maximum jumps, so that a jackknife cannot estimate its spread",
    "tau_nz": "the smallest of all distances is no mean, so that a jackknife cannot estimate its "
    "spread",
    "minmax": "scale=minmax follows the smallest and the largest distance, whose spread is unknown",
}


class GomFolds:
    """What the pass must count for GOM on the fixed axis, and the scores without each fold."""

    def __init__(self, family: GomAxes, folds: FoldAssignment) -> None:
        self._family, self._context = family, family.context
        self._most = current_limits().observed_pairs
        few = folds.coarser(RATE_COLUMNS)
        self._rates = RateFolds(family.context, family.rates, family.metrics, few)
        pairs = self._context.pairs
        looked_at = self._context.task.queries * min(1.0, self._most / max(1, pairs))
        self._folds = folds = folds.up_to(int(MOST_MOVES / max(1.0, looked_at)))
        self._stride = knots_for(math.ceil(looked_at), folds.own.stop)
        if isinstance(family.seen.get("fixed"), Gom):
            if any(metric.name in PEAKS for metric in family.metrics):
                self._gom.keep_folds(folds.query, folds.columns, 1)
            else:
                self._gom.keep_folds(folds.query[:, :1], folds.own.stop, self._stride)

    @property
    def _gom(self) -> Gom:
        return self._family.on("fixed")

    @property
    def observers(self) -> list[ResumableObserver]:
        """Those of rates; for all else queries are observed again afterwards."""
        return self._rates.observers

    @cached_property
    def _again(self) -> Again:
        """The queries, observed once more without each fold."""
        context = self._context
        fixed = [
            m
            for m in self._family.metrics
            if m.name not in REASONS and m["scale"] == "fixed" and m.get("far") is None
        ]
        weight = {m: context.weights(counted(context, m)) for m in fixed if m.name not in PEAKS}
        curves = [
            CurvePoints(m.name == "mvp_max", m["fp"] == "frozen", self._highest(m), self._gom.one)
            for m in self._peaked
        ]
        again = Again(
            self._gom.axis,
            self._folds,
            context.with_mate,
            weight,
            curves,
            self._most,
            stride=self._stride,
            limits=self._gom.limits,
        )
        context.observe_again(again, again.sample)
        return again

    def moves(self, metric: Metric, score: Score) -> Moves:
        """The score without each fold, or why that cannot be told."""
        if metric.name in REASONS:
            return REASONS[metric.name]
        if metric.get("far") is not None:
            return self._rates.moves(metric)
        if metric["scale"] == "minmax":
            return REASONS["minmax"]
        counts = counted(self._context, metric)
        classes = len(np.unique(self._folds.query_codes[counts]))
        if classes < FEWEST_CLASSES:
            return why_too_few(classes, "class", FEWEST_CLASSES)
        if metric.name in PEAKS:
            return self._folds.replicates(score.value + self._peaks(metric, counts))
        rows = np.flatnonzero(counts)
        values = gom.table(self._gom, metric)[end_of(metric)]
        strata = [Stratum(rows, self._again.changes[metric])]
        return replicates(self._folds, rows, values[rows], strata, self._context.weights(counts))

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, BandMoves]:
        """See Without."""
        return {
            one.name: self._why_no_band(scale, one) or self._moves_of(one, curves[one.name])
            for scale in self._family.seen
            for one in curves_on(self._family, scale)
            if one.number >= BARE
        }

    def _counts(self, one: GomCurve) -> Flags:
        """The queries that a curve is a mean over."""
        mates = self._context.with_mate
        return mates if one.with_mate else ~mates

    def _why_no_band(self, scale: str, one: GomCurve) -> str | None:
        if scale in REASONS:
            return REASONS[scale]
        classes = len(np.unique(self._folds.query_codes[self._counts(one)]))
        return why_too_few(classes, "class", FEWEST_CLASSES) if classes < FEWEST_CLASSES else None

    def _moves_of(self, one: GomCurve, curve: Curve) -> CurveMoves:
        """A curve on the fixed axis without each fold."""
        gom, stride, own = self._gom, self._stride, self._folds.own
        if one.limit is not None:
            unit, sums, some = float(one.limit), gom.accepted(one.limit), gom.accepting()
            of_fold, column = gom.accepted_by_fold(one.limit, stride), "value"
        else:
            unit, sums, column = gom.one, gom.totals()[one.number], "lower"
            of_fold = gom.totals_by_fold(stride)[:, one.number]
            some = (gom.totals()[0] / unit).astype(np.int64)  # at least so many found a mate
        counts = self._counts(one)
        gone = np.bincount(self._folds.query[counts, 0], minlength=own.stop)[own]
        losses = Losses(sums[::stride] / unit, of_fold[own] / unit, int(counts.sum()), gone)
        away, noise = losses.without(), None
        if self._folds.takes_items:  # otherwise the gallery stays
            moved, noise = self._again.bands.moved(one.number - BARE, losses.left)
            away = away + moved
        return moved_curve(one.like, column, curve[column], away, noise, some < FEWEST_FOUND)

    @property
    def _peaked(self) -> list[Metric]:
        """The metrics that are the highest points of curves on the fixed axis."""
        found = {m for m in self._family.metrics if m.name in PEAKS and m["scale"] == "fixed"}
        return sorted(found, key=str)

    def _highest(self, metric: Metric) -> Integers:
        """The points of a curve, or the highest of them, where without a fold its peak may be."""
        steps = self._context.task.queries * self._folds.columns
        points = np.arange(0, POINTS + 1, POINTS // 100 if _is_coarse(metric) else 1)
        count = min(max(MOST_HEIGHTS // steps, FEWEST_POINTS), len(points))
        heights = self._gom.totals()[curve_of(metric)][points]
        return points[np.sort(np.argsort(-heights, kind="stable")[:count])]

    def _peaks(self, metric: Metric, counts: Flags) -> Reals:
        """How far the highest point of a curve moves."""
        points, curve = self._highest(metric), curve_of(metric)
        total = self._gom.totals()[curve][points]
        of_fold = self._gom.totals_by_fold(1)[:, curve][:, points]
        gone = np.bincount(self._folds.query[counts].ravel(), minlength=len(of_fold))
        curves = (total - of_fold) / (int(counts.sum()) - gone)[:, None]
        if self._folds.takes_items:  # otherwise the gallery stays
            curves += self._moved(metric, counts)
        moves = curves.max(axis=1) - (total / int(counts.sum())).max()
        return np.asarray(moves / self._gom.one, np.float64)

    def _moved(self, metric: Metric, counts: Flags) -> Reals:
        """(folds, points): by how much the mean curve moves because a fold is not met."""
        again = self._again
        sample = again.sample[counts[again.sample]]
        left = len(sample) - np.bincount(
            self._folds.query[sample].ravel(), minlength=self._folds.columns
        )
        moved = again.moved(self._peaked.index(metric))
        return np.asarray(moved / np.maximum(left, 1)[:, None], np.float64)


def _is_coarse(metric: Metric) -> bool:
    return bool(metric["integral"] == "trapezoid")


# GOM's queries observed once more, without each fold of the gallery.
#
# All queries of a task are, or a sample of them in a large one. How far each metric's value moves
# is added up in integers, so that neither blocks nor threads can be seen in it.


TOGETHER = 64
"""Queries that are looked at together: their distances by fold stay in the cache."""
FEWEST = 64
"""Queries of each kind, with a mate and without, that are observed however large the task is."""
MOST_MOVED = 1 << 20
"""Most queries x folds of which it is computed how far curves move; of more, a sample is."""
AT_A_THRESHOLD = ("mrp", "mvp", "mrep")
"""In the order in which the kernel has their values."""


@dataclass(frozen=True)
class CurvePoints:
    """Points at which it is wanted how far a mean curve moves."""

    is_share: bool
    """Whether it is the curve of VP; otherwise that of ReP."""
    frozen: bool
    """Whether false positives behind the last relevant item do not count."""
    steps: Integers
    """The points' numbers, ascending, of the `POINTS` + 1 of the curve."""
    one: float
    """What stands for 1 where values are added up in integers."""


class Again(RankObserver):
    """Observes queries once more, and adds up how far their values move without each fold.

    Parameters
    ----------
    weights : the weight in a mean of every query of the task, for each metric
    curves : points at which curves are wanted as well
    most : most pairs of a query and an item to look at; beyond, queries are sampled
    stride : every so many points of the curves are knots, at which bands are made
    limits : the B of every curve of FR
    """

    def __init__(
        self,
        axis: Axis,
        folds: FoldAssignment,
        with_mate: npt.NDArray[np.bool_],
        weights: dict[Metric, Reals],
        curves: list[CurvePoints],
        most: int,
        *,
        stride: int,
        limits: list[int],
    ) -> None:
        self._axis, self._folds, self._weights = replace(axis, steps=POINTS), folds, weights
        self.curves, gallery = curves, len(folds.items)
        self._grid = self._axis.grid()
        self.sample = np.arange(len(with_mate))
        is_large = len(with_mate) * gallery > most
        if is_large:
            count = max(FEWEST, most // (2 * gallery))
            kinds = (np.flatnonzero(kind) for kind in (with_mate, ~with_mate))
            self.sample = np.sort(np.concatenate([folds.sample(rows, count) for rows in kinds]))
        of_fold = folds.items.T.ravel()
        self._order = np.argsort(of_fold, kind="stable") % gallery
        self._start = np.searchsorted(np.sort(of_fold), np.arange(folds.columns + 1))
        self._roots = inverse_roots(gallery + 2)
        self.changes = {metric: ChangeSums(folds.columns) for metric in weights}
        self._moved = [
            PerThread(partial(_zeros, folds.columns, len(curve.steps))) for curve in curves
        ]

        self._banded = np.ones(len(with_mate), bool)
        enough = max(2 * FEWEST, MOST_MOVED // folds.own.stop)
        if len(self.sample) > enough:
            self._banded[:] = False
            for kind in (with_mate[self.sample], ~with_mate[self.sample]):
                self._banded[folds.sample(self.sample[kind], enough // 2)] = True
            is_large = True
        self.bands = CurveChanges(folds, stride, limits, sampled=is_large)
        """How far curves move at the knots."""

    def moved(self, curve: int) -> Integers:
        """(folds, points): how far a curve's sum over the queries that stay moves, in integers."""
        return total(self._moved[curve])

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> list[Deferred]:
        """See RankObserver."""
        here = block.some(np.arange(len(block.rows)))
        borders = [*range(0, len(block.rows), TOGETHER), len(block.rows)]
        return [partial(self._observe, here, groups, a, b) for a, b in pairwise(borders)]

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        changes = {metric: sums.total for metric, sums in self.changes.items()}
        moved = [total(moved) for moved in self._moved]
        return {"changes": changes, "moved": moved, "bands": self.bands.part()}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        for metric, sums in self.changes.items():
            sums.take(part["changes"][metric])
        for moved, mine in zip(self._moved, part["moved"], strict=True):
            moved.mine()[...] += mine
        self.bands.take(part["bands"])

    def _observe(self, block: DistanceBlock, groups: LocatedGroups, a: int, b: int) -> None:
        rows, distances = block.rows[a:b], block.distances[a:b]
        items = np.full((len(rows), len(self._order)), np.inf)
        count = np.empty((len(rows), self._folds.columns), np.int64)
        gom_kernels.sort_folds(distances, self._order, self._start, items, count)
        leaves = np.zeros(count.shape, bool)
        leaves[np.arange(len(rows))[:, None], self._folds.query[rows]] = True
        some = _BlockQueries(
            DistanceBlock(rows, distances, block.compiled),
            Profiles.of(groups.part(a, b), self._axis),
            items,
            self._start,
            count,
            leaves,
        )
        for metric, sums in self.changes.items():
            mine = some.strangers if metric.name == "mfr" else some.with_mate
            if len(mine):
                moves = self._false_rate if metric.name == "mfr" else self._precision
                wanted, change = rows[mine], moves(some, metric)
                sums.add(change, self._folds.query[wanted], self._weights[metric][wanted])
        self._move_curves(some)
        if self.curves and len(some.with_mate):
            others = some.others(self._on_grid(some), self._grid)
            for points, moved in zip(self.curves, self._moved, strict=True):
                cuts, here = self._grid[points.steps], others[:, points.steps]
                gom_kernels.steps_at(
                    *some.groups, here, *some.folds, cuts, points.is_share, points.frozen,
                    points.one, moved.mine(),
                )  # fmt: skip

    def _move_curves(self, some: _BlockQueries) -> None:
        """Add how far curves move, by those of the queries that are looked at for it."""
        cuts = self._grid[:: self.bands.stride]
        unseen = ~self._banded[some.block.rows]
        some = replace(some, leaves=some.leaves | unseen[:, None])
        if not unseen[some.with_mate].all():
            others = some.others(self._on_grid(some)[:, :: self.bands.stride], cuts)
            leaves = some.leaves[some.with_mate]
            self.bands.add(leaves, some.groups, others, some.folds, cuts, self._roots)
        if not unseen[some.strangers].all():
            mine = some.only(some.strangers)
            accepted = self._on_grid(mine)[:, :: self.bands.stride]
            self.bands.add_false(mine.leaves, accepted, mine.folds, cuts)

    def _on_grid(self, some: _BlockQueries) -> Integers:
        return some.block.accepted(self._grid, self._axis.low, self._axis.width).astype(np.int64)

    def _precision(self, some: _BlockQueries, metric: Metric) -> Reals:
        """(queries with a mate, folds): how far RP, VP, ReP or its integral move."""
        out = np.zeros(some.count.shape)
        frozen = metric.get("fp") == "frozen"
        if metric["tau"] is not None:
            cut = np.array([self._axis.cut(metric["tau"])])
            others = some.others(some.block.within(cut[0])[:, None], cut)[:, 0]
            kind = AT_A_THRESHOLD.index(metric.name)
            gom_kernels.at_threshold(*some.groups, others, *some.folds, cut[0], kind, frozen, out)
            return out[some.with_mate]
        is_even = metric["integral"] != "trapezoid"
        stride = 1 if is_even else POINTS // 100
        grid = self._grid[::stride]
        others = some.others(self._on_grid(some)[:, ::stride], grid)
        places = (some.steps.distance, some.items)
        if is_even:
            at, items_at = (self._axis.tau(some_at) * POINTS for some_at in places)
        else:
            at, items_at = (np.searchsorted(grid, d).astype(np.float64) for d in places)
        gom_kernels.areas(
            *some.groups, at, others, items_at, *some.folds, is_even, frozen, self._roots, out
        )
        return out[some.with_mate]

    def _false_rate(self, some: _BlockQueries, metric: Metric) -> Reals:
        """(queries without a mate, folds): how far FR or its integral move."""
        limit, mine = metric["b"], some.only(some.strangers)
        out = np.zeros(mine.count.shape)
        if metric["tau"] is None and metric["integral"] != "trapezoid":
            every = np.arange(len(out))
            nearest = mine.block.nearest(every, limit + int(mine.count.max()))
            taus = (self._axis.tau(nearest), self._axis.tau(mine.items))
            gom_kernels.false_areas(nearest, *taus, *mine.folds, limit, out)
            return out
        if metric["tau"] is not None:
            cuts, weights = np.array([self._axis.cut(metric["tau"])]), np.ones(1)
            accepted = mine.block.within(cuts[0])[:, None]
        else:
            cuts, weights = self._grid[:: POINTS // 100], np.full(101, 0.01)
            weights[[0, -1]] /= 2
            accepted = self._on_grid(mine)[:, :: POINTS // 100]
        gom_kernels.false_at(accepted, cuts, weights, *mine.folds, limit, out)
        return out


def _zeros(*shape: int) -> Integers:
    return np.zeros(shape, np.int64)


@dataclass(frozen=True)
class _BlockQueries:
    """Some queries of a block, and the distances of every fold's items."""

    block: DistanceBlock
    steps: Profiles
    items: Distances
    """(queries, places): distances of the items listed by fold, ascending in each."""
    start: Integers
    """The place of each fold's first item, and the number of places."""
    count: Integers
    """(queries, folds): items of each fold that a query meets."""
    leaves: npt.NDArray[np.bool_]
    """(queries, folds): whether a query itself leaves with the fold."""

    def only(self, chosen: Integers) -> _BlockQueries:
        """Some of the queries, which have no mate."""
        block = self.block.some(chosen)
        nothing = LocatedGroups.none(np.zeros(len(chosen), np.int64), 1)
        return replace(
            self,
            block=block,
            steps=Profiles.of(nothing, Axis(0.0, 1.0)),
            items=self.items[chosen],
            count=self.count[chosen],
            leaves=self.leaves[chosen],
        )

    @property
    def with_mate(self) -> Integers:
        """Places of the queries that have a mate."""
        return np.flatnonzero(np.diff(self.steps.offsets))

    @property
    def strangers(self) -> Integers:
        """Places of the queries without one."""
        return np.flatnonzero(np.diff(self.steps.offsets) == 0)

    @property
    def groups(self) -> tuple[Integers, Distances, Integers, Integers]:
        """Offsets, distances, and relevant and other items up to each group."""
        return self.steps.offsets, self.steps.distance, self.steps.found, self.steps.false

    @property
    def folds(self) -> tuple[Distances, Integers, Integers, npt.NDArray[np.bool_]]:
        """All that is known about the folds."""
        return self.items, self.start, self.count, self.leaves

    def others(self, accepted: Integers, cuts: Distances) -> Integers:
        """(queries, cuts): of the items accepted at each cut, those that are not relevant."""
        queries = len(self.block.rows)
        owner = np.repeat(np.arange(queries), np.diff(self.steps.offsets))
        first = np.searchsorted(cuts, self.steps.distance)
        relevant = np.zeros((queries, len(cuts) + 1), np.int64)
        np.add.at(relevant, (owner, first), self.steps.relevant)
        return np.asarray(accepted - np.cumsum(relevant, axis=1)[:, :-1], np.int64)


# Queries without a fold of the gallery: their blocks, their tie groups, and how means move.


def sample_of(context: Context, folds: FoldAssignment) -> Integers:
    """Some queries with a mate and some without, the same ones whatever the order of rows."""
    mates = context.with_mate
    count = context.limits.observed_again
    some = [folds.sample(np.flatnonzero(kind), count) for kind in (mates, ~mates)]
    return np.sort(np.concatenate(some))


def members_of(folds: FoldAssignment) -> list[Integers]:
    """The items of each fold."""
    return [np.flatnonzero((folds.items == c).any(axis=1)) for c in range(folds.columns)]


def groups_without(groups: LocatedGroups, gone: Distances) -> LocatedGroups:
    """Tie groups without irrelevant items at these distances, a row for each query."""
    between: Integers = np.zeros(len(groups.size), np.int64)
    equal = np.zeros_like(between)
    count_kernels.count_tile(gone, groups.offsets, groups.distance, between, equal)
    nearer: Integers = np.cumsum(between + equal)
    start = np.concatenate([[0], nearer])[groups.offsets[:-1]]
    nearer -= np.repeat(start, np.diff(groups.offsets))
    return LocatedGroups(
        groups.offsets,
        groups.before - (nearer - equal),
        groups.size - equal,
        groups.graded,
        groups.candidates - (gone < np.inf).sum(axis=1),
        groups.distance,
    )


def means_without(
    metric: Metric,
    context: Context,
    folds: FoldAssignment,
    table: Reals | None,
    sample: Integers,
    changes: Reals,
    sums: Integers | None = None,
) -> Moves:
    """A mean over queries without each fold, from its table (3, queries) or from `sums`.

    `changes` has, for each of the sample's queries that count, what the loss of each fold does.
    """
    counts = counted(context, metric)
    rows = np.flatnonzero(counts)
    mine = sample[counts[sample]]
    weight = context.weights(counts)
    moved = ChangeSums(folds.columns)
    moved.add(changes, folds.query[mine], weight[mine])
    values = None if table is None else table[end_of(metric)][rows]
    return replicates(folds, rows, values, [Stratum(rows, moved)], weight, sums)


def counted(context: Context, metric: Metric) -> npt.NDArray[np.bool_]:
    """The queries that a metric counts."""
    return context.with_mate if definition(metric).with_mate else ~context.with_mate


def end_of(metric: Metric) -> int:
    """The row of a table that is the headline: lower, or upper where lower is better."""
    return 0 if definition(metric).higher_is_better else 2


# GOM at a rate without each fold of the classes: the threshold is found again each time.
#
# The queries without a mate that are left set it, exactly, and all queries are seen again at it;
# how far they move because the fold is gone from the gallery is computed for a sample of them.


MOST_NUMBERS = 1 << 22
"""Most queries x folds that are held for each thread, where there are more than a few folds."""


class RateFolds:
    """What the pass must count for GOM at rates, and the scores without each fold."""

    def __init__(
        self, context: Context, rates: Rates, metrics: Sequence[Metric], folds: FoldAssignment
    ) -> None:
        self._context, self._rates, self._metrics = context, rates, metrics
        queries = context.task.queries
        self._folds = folds.coarser(MOST_NUMBERS // queries)
        nowhere = np.full(queries, -np.inf)
        self._nearest = NearestWithout(context, self._folds, nowhere) if rates.targets else None

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs."""
        return [] if self._nearest is None else self._nearest.observers

    def moves(self, metric: Metric) -> Moves:
        """The score without each fold, or why that cannot be told."""
        mates = self._context.with_mate
        below = allowed(metric["far"], int((~mates).sum()))
        if below < FEWEST_BELOW:
            return why_too_few_below(below)
        for some, which in ((mates, "mated"), (~mates, "unmated")):
            classes = len(np.unique(self._folds.query_codes[some]))
            if classes < FEWEST_CLASSES and (which == "unmated" or definition(metric).with_mate):
                return (
                    f"{count(classes, 'class')} of {which} queries; an interval needs at "
                    f"least {FEWEST_CLASSES}"
                )
        return means_without(
            metric,
            self._context,
            self._folds,
            None,
            self._again.sample,
            self._again.changes(metric),
            self._moved.sums(metric),
        )

    @cached_property
    def _cuts(self) -> list[dict[Fraction, float]]:
        """The largest distances that may be accepted without each fold."""
        assert self._nearest is not None
        found = []
        for column in range(self._folds.columns):
            kept = (self._folds.query != column).all(axis=1) & ~self._context.with_mate
            left = np.sort(self._nearest.nearest(column)[kept])
            found.append({target: largest_below(left, target) for target in self._rates.cuts})
        return found

    @cached_property
    def _moved(self) -> _Moved:
        """All queries at the thresholds of every fold."""
        known = [metric for metric in self._metrics if metric.get("far") in self._rates.cuts]
        moved = _Moved(self._context, self._folds, known, self._cuts)
        self._context.observe_again(moved, np.arange(self._context.task.queries))
        return moved

    @cached_property
    def _again(self) -> _Again:
        """A sample of queries, observed once more without each fold."""
        again = _Again(self._context, self._folds, self._cuts)
        self._context.observe_again(again, again.sample)
        return again


class _Moved(RankObserver):
    """Observes all queries at the thresholds that are found without each fold."""

    def __init__(
        self,
        context: Context,
        folds: FoldAssignment,
        metrics: Sequence[Metric],
        cuts: list[dict[Fraction, float]],
    ) -> None:
        self._folds, self._metrics = folds, metrics
        counts = {metric: counted(context, metric) for metric in metrics}
        self._weight = {
            metric: np.where(some, context.weights(some), 0.0) for metric, some in counts.items()
        }
        self._columns: dict[tuple[Fraction, float], list[int]] = {}
        """The columns that share a target's threshold."""
        for column, own in enumerate(cuts):
            for target, cut in own.items():
                self._columns.setdefault((target, cut), []).append(column)
        self._cuts = Cuts.of(np.array([cut for _, cut in self._columns]))
        self._sums = PerThread(
            lambda: {metric: np.zeros(folds.columns, np.int64) for metric in metrics}
        )

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> list[Deferred]:
        """See RankObserver."""
        queries = len(block.rows)
        table = np.zeros((queries, len(self._cuts) + 1), np.int64)
        block.tally(self._cuts, np.arange(queries), lambda: nullcontext(table))
        accepted = np.cumsum(table, axis=1)
        return [partial(self._add, block.rows, accepted, Profiles.of(groups, NO_AXIS))]

    def _add(self, rows: Integers, accepted: Integers, steps: Profiles) -> None:
        sums = self._sums.mine()
        for (target, cut), columns in self._columns.items():
            points = GomPoints({target: cut}, len(rows))
            points.accepted_at[target][:] = accepted[:, self._cuts.where(cut)]
            points.add(np.arange(len(rows)), steps)
            for metric in self._metrics:
                if metric["far"] != target:
                    continue
                values = table_at(points, metric, target)[end_of(metric)]
                values = fixed(self._weight[metric][rows] * values)
                for column in columns:
                    stays = (self._folds.query[rows] != column).all(axis=1)
                    sums[metric][column] += int(values[stays].sum())

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"sums": {metric: self.sums(metric) for metric in self._metrics}}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        for metric, sums in self._sums.mine().items():
            sums += part["sums"][metric]

    def sums(self, metric: Metric) -> Integers:
        """Weighted values of the queries that stay without each fold, in units of 2^-40."""
        parts = [found[metric] for found in self._sums.all()]
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64), np.int64)


class _Again(RankObserver):
    """Observes a sample of queries at the thresholds of every fold, with the fold and without."""

    def __init__(
        self, context: Context, folds: FoldAssignment, cuts: list[dict[Fraction, float]]
    ) -> None:
        self.sample = sample_of(context, folds)
        self._context, self._folds, self._items = context, folds, members_of(folds)
        self._place = np.full(context.task.queries, -1)
        self._place[self.sample] = np.arange(len(self.sample))
        self._with = [GomPoints(own, len(self.sample)) for own in cuts]
        self._without = [GomPoints(own, len(self.sample)) for own in cuts]

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> list[Deferred]:
        """See RankObserver."""
        rows = block.rows
        here = block.some(np.arange(len(rows))).distances
        steps = Profiles.of(groups, NO_AXIS)

        def observe(column: int) -> None:
            self._fill(self._with[column], rows, here, steps)
            kept = np.flatnonzero((self._folds.query[rows] != column).all(axis=1))
            if not len(kept):
                return
            items = self._items[column]
            left = here[kept]
            gone = left[:, items]
            left[:, items] = np.inf
            fewer = Profiles.of(groups_without(groups.some(kept), gone), NO_AXIS)
            self._fill(self._without[column], rows[kept], left, fewer)

        return [partial(observe, column) for column in range(len(self._with))]

    def _fill(
        self, points: GomPoints, rows: Integers, distances: Distances, steps: Profiles
    ) -> None:
        place = self._place[rows]
        points.count(DistanceBlock(place, distances, compiled=False))
        points.add(place, steps)

    def __getstate__(self) -> dict[str, Any]:
        """Without what a worker does not need: the task and its rows."""
        return {name: value for name, value in vars(self).items() if name != "_context"}

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        place = self._place[rows]
        return {"points": [points.part(place) for points in (*self._with, *self._without)]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        place = self._place[rows]
        for points, one in zip((*self._with, *self._without), part["points"], strict=True):
            points.take(place, one)

    def changes(self, metric: Metric) -> npt.NDArray[np.float64]:
        """(queries that count, columns): what the loss of each fold from the gallery does."""
        mine, end = counted(self._context, metric)[self.sample], end_of(metric)
        tables = (
            [table_at(points, metric, metric["far"])[end][mine] for points in some]
            for some in (self._without, self._with)
        )
        without, before = (np.column_stack(some) for some in tables)
        return np.asarray(without - before, np.float64)


# GOM's curves without each fold of the classes: what their confidence bands are made of.
#
# A curve loses the fold's queries, which the first pass has added up by fold, and moves because
# the fold is gone from the gallery, which is found when the queries are looked at again. Both are
# known at knots, every fifth or tenth of the curve's points, among which all taus of two decimals
# are; from knot to knot a band goes evenly.


FINE_STRIDE, STRIDE = 5, 10
MOST_STEPS = 1 << 17
"""Most queries x folds for which there are more knots."""
SMALL = 2.0**50
"""What stands for 1 where variances are added up in integers."""


def knots_for(queries: int, columns: int) -> int:
    """The stride of the knots, for so many queries that are looked at again and so many folds."""
    return FINE_STRIDE if queries * columns <= MOST_STEPS else STRIDE


class CurveChanges:
    """How far curves move at knots without each of the own folds, added up from any threads.

    Parameters
    ----------
    limits : the B of every curve of FR
    sampled : whether some queries stand for all, so that squares are wanted for their noise
    """

    def __init__(
        self, folds: FoldAssignment, stride: int, limits: list[int], *, sampled: bool
    ) -> None:
        self._folds, self.stride, self._limits, self._sampled = folds, stride, limits, sampled
        self.columns = folds.own.stop
        knots = POINTS // stride + 1
        kinds = 2 if sampled else 1
        self._shape = (kinds, self.columns, gom_kernels.CURVES + len(limits), knots)
        self._sums = PerThread(partial(np.zeros, self._shape, np.int64))
        self._staying = PerThread(partial(np.zeros, (2, self.columns), np.int64))

    def add(
        self, leaves: Flags, groups: Any, others: Integers, folds: Any, cuts: Reals, roots: Reals
    ) -> None:
        """Add queries with a mate; the arrays are those of `curve_kernels.move_curves`."""
        self._count(0, leaves)
        given = (*groups, others, *folds, cuts, roots, self._sums.mine())
        gom_kernels.move_curves(*given)

    def add_false(self, leaves: Flags, accepted: Integers, folds: Any, cuts: Reals) -> None:
        """Add queries without a mate, by what they accept at each cut."""
        self._count(1, leaves)
        for curve, limit in enumerate(self._limits, gom_kernels.CURVES):
            given = (accepted, cuts, limit, *folds, curve, self._sums.mine())
            gom_kernels.move_false_curves(*given)

    def _count(self, kind: int, leaves: Flags) -> None:
        self._staying.mine()[kind] += (~leaves[:, : self.columns]).sum(axis=0)

    def part(self) -> tuple[Integers, Integers]:
        """What was added up so far, which another one can `take`."""
        return total(self._sums), total(self._staying)

    def take(self, part: tuple[Integers, Integers]) -> None:
        """Add what another one has added up."""
        self._sums.mine()[...] += part[0]
        self._staying.mine()[...] += part[1]

    def moved(self, curve: int, population: Integers) -> tuple[Reals, Reals]:
        """(folds, knots), (knots,): how far a mean curve moves, and what sampling adds to that.

        `population` is the number of queries that count and stay without each fold. The formulas
        are those of `core.jackknife`, where all queries weigh the same.
        """
        sums, staying = self.part()
        count = staying[0 if curve < gom_kernels.CURVES else 1][:, None]
        whole = np.maximum(count, 1)
        moved = sums[0][:, curve] / ONE
        centre = moved / whole
        if not self._sampled:
            return centre, np.zeros(self._shape[-1])
        around = sums[1][:, curve] / COARSE**2 - centre * (2 * moved - centre * count)
        unseen = np.clip(1.0 - count / np.maximum(population[:, None], 1), 0.0, 1.0)
        share = unseen * count / np.maximum(count - 1, 1)
        variance = share * np.maximum(around, 0.0) / whole**2
        noise = np.rint(variance * SMALL).astype(np.int64).sum(axis=0) / SMALL
        return centre, noise * (self.columns - 1) / self.columns


@dataclass(frozen=True)
class Losses:
    """Sums over queries of a curve at its knots: of all that count, and of those of each fold."""

    whole: Reals
    """(knots,)"""
    of_fold: Reals
    """(folds, knots)"""
    queries: int
    gone: Integers
    """(folds,): queries of each fold."""

    @property
    def left(self) -> Integers:
        """(folds,): queries that stay without each fold."""
        return self.queries - self.gone

    def without(self) -> Reals:
        """(folds, knots): how far the mean is from that of all queries without those of a fold."""
        kept = np.maximum(self.left, 1)[:, None]
        return np.asarray((self.whole - self.of_fold) / kept - self.whole / self.queries)


def moved_curve(
    like: str, column: str, values: Reals, away: Reals, noise: Reals | None, sparse: Flags
) -> CurveMoves:
    """The moves of a curve, from how far it moves at its knots."""
    knots = np.linspace(0, len(values) - 1, away.shape[1]).astype(np.int64)
    rises = 1 if like == "mfr" else 0
    rows = values[knots] + away
    return CurveMoves(column, like, rows, noise, sparse=sparse[knots], rises=rises, knots=knots)
