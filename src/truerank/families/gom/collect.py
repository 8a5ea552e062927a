"""What a pass collects for GOM: each query's step functions over the threshold tau.

For a query with R mates let S(tau) be the sum of the precisions at its accepted relevant items and
F(tau) the number of accepted others: ReP(tau)^2 = S/(R + F). S is known from the tie groups. F is
known at every relevant distance and at equal thresholds, which brackets the integral, or at every
item of a sorted row, which makes it exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import fill
from truerank.core.curve import POINTS
from truerank.core.groups import LocatedGroups
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import Deferred, Part, RankObserver, ResumableObserver
from truerank.engine.threads import PerThread, total
from truerank.families.gom import kernels as gom_kernels
from truerank.families.gom.axis import STEPS, Axis
from truerank.families.gom.points import Points
from truerank.families.gom.profiles import Profiles
from truerank.space import Rows

__all__ = ["Gom"]

Integers = npt.NDArray[np.int64]
Counters = npt.NDArray[np.int32]
Reals = npt.NDArray[np.float64]
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
        self.points = Points({tau: axis.cut(tau) for tau in self.taus}, queries)
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
