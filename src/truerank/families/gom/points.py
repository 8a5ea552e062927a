"""GOM at single thresholds: what each query accepts up to some largest distances."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.groups import LocatedGroups
from truerank.core.metric import Metric
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import Deferred, Part, RankObserver
from truerank.engine.threads import PerThread
from truerank.families.gom.axis import Axis
from truerank.families.gom.profiles import Profiles
from truerank.space import Rows

__all__ = ["NO_AXIS", "Points", "PointsObserver", "table_at"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
NO_AXIS = Axis(0.0, 1.0)
"""For steps of which distances alone are asked."""


class Points:
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
        return Points, (self.cuts, self.last.shape[1])

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
        self.points = Points(cuts, queries)
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


def table_at(points: Points, metric: Metric, place: Fraction) -> Reals:
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
