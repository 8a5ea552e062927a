"""GOM at a rate: the threshold that queries without a mate set, and what is accepted there.

The rule is that of open-set identification. The threshold is known when all queries without a mate
have been seen; a second pass counts what each query accepts below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from truerank.cached import cached_property
from truerank.engine.distance_block import LARGEST
from truerank.families.family import Context
from truerank.families.gom.points import Points, PointsObserver
from truerank.families.thresholds import NO_IMPOSTORS, limit_at, unresolved
from truerank.space import Distances

__all__ = ["Rates", "largest_below"]


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
    def points(self) -> Points:
        """What every query accepts at each rate's threshold."""
        return self._observed.points

    def threshold(self, target: Fraction) -> float | None:
        """The largest observed distance that is accepted, in the user's unit; None if none is."""
        return self._context.units.in_unit(self._observed.largest(target))
