"""GOM's queries observed once more, without each fold of the gallery.

All queries of a task are, or a sample of them in a large one. How far each metric's value moves
is added up in integers, so that neither blocks nor threads can be seen in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from truerank.core.curve import POINTS
from truerank.core.folds import FoldAssignment
from truerank.core.groups import LocatedGroups
from truerank.core.jackknife import ChangeSums
from truerank.core.metric import Metric
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import Deferred, Part, RankObserver
from truerank.engine.threads import PerThread, total
from truerank.families.gom import fold_kernels
from truerank.families.gom.axis import Axis
from truerank.families.gom.curve_folds import CurveChanges
from truerank.families.gom.kernels import inverse_roots
from truerank.families.gom.profiles import Profiles
from truerank.space import Distances, Rows

__all__ = ["Again", "CurvePoints"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
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
        fold_kernels.sort_folds(distances, self._order, self._start, items, count)
        leaves = np.zeros(count.shape, bool)
        leaves[np.arange(len(rows))[:, None], self._folds.query[rows]] = True
        some = _Queries(
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
                fold_kernels.steps_at(
                    *some.groups, here, *some.folds, cuts, points.is_share, points.frozen,
                    points.one, moved.mine(),
                )  # fmt: skip

    def _move_curves(self, some: _Queries) -> None:
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

    def _on_grid(self, some: _Queries) -> Integers:
        return some.block.accepted(self._grid, self._axis.low, self._axis.width).astype(np.int64)

    def _precision(self, some: _Queries, metric: Metric) -> Reals:
        """(queries with a mate, folds): how far RP, VP, ReP or its integral move."""
        out = np.zeros(some.count.shape)
        frozen = metric.get("fp") == "frozen"
        if metric["tau"] is not None:
            cut = np.array([self._axis.cut(metric["tau"])])
            others = some.others(some.block.within(cut[0])[:, None], cut)[:, 0]
            kind = AT_A_THRESHOLD.index(metric.name)
            fold_kernels.at_threshold(*some.groups, others, *some.folds, cut[0], kind, frozen, out)
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
        fold_kernels.areas(
            *some.groups, at, others, items_at, *some.folds, is_even, frozen, self._roots, out
        )
        return out[some.with_mate]

    def _false_rate(self, some: _Queries, metric: Metric) -> Reals:
        """(queries without a mate, folds): how far FR or its integral move."""
        limit, mine = metric["b"], some.only(some.strangers)
        out = np.zeros(mine.count.shape)
        if metric["tau"] is None and metric["integral"] != "trapezoid":
            every = np.arange(len(out))
            nearest = mine.block.nearest(every, limit + int(mine.count.max()))
            taus = (self._axis.tau(nearest), self._axis.tau(mine.items))
            fold_kernels.false_areas(nearest, *taus, *mine.folds, limit, out)
            return out
        if metric["tau"] is not None:
            cuts, weights = np.array([self._axis.cut(metric["tau"])]), np.ones(1)
            accepted = mine.block.within(cuts[0])[:, None]
        else:
            cuts, weights = self._grid[:: POINTS // 100], np.full(101, 0.01)
            weights[[0, -1]] /= 2
            accepted = self._on_grid(mine)[:, :: POINTS // 100]
        fold_kernels.false_at(accepted, cuts, weights, *mine.folds, limit, out)
        return out


def _zeros(*shape: int) -> Integers:
    return np.zeros(shape, np.int64)


@dataclass(frozen=True)
class _Queries:
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

    def only(self, chosen: Integers) -> _Queries:
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
