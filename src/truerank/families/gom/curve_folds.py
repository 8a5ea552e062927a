"""GOM's curves without each fold of the classes: what their confidence bands are made of.

A curve loses the fold's queries, which the first pass has added up by fold, and moves because the
fold is gone from the gallery, which is found when the queries are looked at again. Both are known
at knots, every fifth or tenth of the curve's points, among which all taus of two decimals are; from
knot to knot a band goes evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.curve import POINTS
from truerank.core.curve_moves import CurveMoves
from truerank.core.folds import FoldAssignment
from truerank.core.jackknife import COARSE, ONE
from truerank.engine.threads import PerThread, total
from truerank.families.gom import curve_kernels

__all__ = ["CurveChanges", "Losses", "knots_for", "moved_curve"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
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
        self._shape = (kinds, self.columns, curve_kernels.CURVES + len(limits), knots)
        self._sums = PerThread(partial(np.zeros, self._shape, np.int64))
        self._staying = PerThread(partial(np.zeros, (2, self.columns), np.int64))

    def add(
        self, leaves: Flags, groups: Any, others: Integers, folds: Any, cuts: Reals, roots: Reals
    ) -> None:
        """Add queries with a mate; the arrays are those of `curve_kernels.move_curves`."""
        self._count(0, leaves)
        given = (*groups, others, *folds, cuts, roots, self._sums.mine())
        curve_kernels.move_curves(*given)

    def add_false(self, leaves: Flags, accepted: Integers, folds: Any, cuts: Reals) -> None:
        """Add queries without a mate, by what they accept at each cut."""
        self._count(1, leaves)
        for curve, limit in enumerate(self._limits, curve_kernels.CURVES):
            given = (accepted, cuts, limit, *folds, curve, self._sums.mine())
            curve_kernels.move_false_curves(*given)

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
        count = staying[0 if curve < curve_kernels.CURVES else 1][:, None]
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
