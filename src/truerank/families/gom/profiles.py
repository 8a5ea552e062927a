"""The steps of each query's curves over thresholds, from its tie groups."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.groups import LocatedGroups, TieGroups
from truerank.core.metric import Metric
from truerank.core.scale import Scale
from truerank.families.gom.axis import Axis
from truerank.metrics import ranking_kernels
from truerank.metrics.harmonics import harmonics
from truerank.space import Distances

__all__ = ["Profiles"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


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
