"""Open-set identification without each share of the classes, exactly.

A query's mates leave only together with it, so that all that changes for the others is which
strangers are left: the nearest of every share, and how many of it come before the first mate.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.engine.split import NearestByShare
from truerank.engine.watch import Witness
from truerank.metrics.registry import Metric
from truerank.metrics.thresholds import allowed, limit_at, rate
from truerank.space import Distances
from truerank.stats.shares import FEWEST_CLASSES, Dealing
from truerank.wording import count

if TYPE_CHECKING:
    from truerank.evidence import Evidence
    from truerank.result import Score

__all__ = ["IdentificationShares"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
FEWEST_BELOW = 5
"""A threshold set by fewer queries than this has no interval: it jumps from one to the next."""


class IdentificationShares:
    """What the pass must count for DIR, TTR and FAR, and the scores without each share."""

    def __init__(self, evidence: Evidence, dealing: Dealing) -> None:
        self._evidence, self._dealing = evidence, dealing
        self._split: NearestByShare | None = None
        if dealing.takes_items:
            ours = evidence.positives
            first = np.full(evidence.task.queries, np.inf)
            np.minimum.at(first, ours.query, ours.distance)
            self._tied = np.bincount(
                ours.query[ours.distance == first[ours.query]], minlength=len(first)
            )
            first[~np.isfinite(first)] = -np.inf
            self._split = NearestByShare(first, dealing.items, 2 * dealing.shares)

    @property
    def watchers(self) -> list[Witness]:
        """Who must see all pairs."""
        return [] if self._split is None else [self._split]

    def moves(self, metric: Metric, score: Score) -> Reals | str:
        """How far the score moves without each share, or why that cannot be told."""
        evidence, mates = self._evidence, self._evidence.with_mate
        by_threshold = metric.option("far") is not None
        if by_threshold:
            below = allowed(rate(metric, "far"), int((~mates).sum()))
            if below < FEWEST_BELOW:
                return (
                    f"{count(below, 'query')} without a mate below its threshold; an interval "
                    f"needs at least {FEWEST_BELOW}"
                )
        counts = mates if metric.name in ("dir", "ttr") else ~mates
        used = (counts, ~mates) if by_threshold else (counts,)
        for some in used:
            classes = len(np.unique(self._dealing.query_codes[some]))
            if classes < FEWEST_CLASSES:
                which = "with" if some is mates else "without"
                return (
                    f"{count(classes, 'class')} of queries {which} a mate; an interval needs at "
                    f"least {FEWEST_CLASSES}"
                )
        found = np.empty(2 * self._dealing.shares)
        for column in range(len(found)):
            kept = (self._dealing.query != column).all(axis=1)
            values = self._values(metric, column, kept)
            found[column] = evidence.mean(values, counts & kept)
        return found - score.value

    def _values(self, metric: Metric, column: int, kept: npt.NDArray[np.bool_]) -> Reals:
        """Of every query, without a share and with the threshold found again."""
        evidence = self._evidence
        nearest = self._nearest(column)
        if metric.option("tau") is not None:
            limit = evidence.cut(rate(metric, "tau"))
            accepted = nearest <= limit, evidence.first <= limit
        else:
            impostors = np.sort(nearest[kept & ~evidence.with_mate])
            limit = limit_at(impostors, rate(metric, "far"))
            accepted = nearest < limit, evidence.first < limit
        if metric.name != "dir":
            return accepted[0].astype(np.float64)
        rank = int(metric.option("rank") or 1)
        if self._split is None:
            hits = evidence.hits[rank][0]
        else:
            hits = self._before - self._within[:, column] < rank
        return np.asarray(accepted[1] * hits, np.float64)

    def _nearest(self, column: int) -> Distances:
        if self._split is None:
            return self._evidence.nearest
        shares = self._dealing.shares
        first, second, which = self._two_nearest[column // shares]
        return np.where(which == column % shares, second, first)

    @cached_property
    def _two_nearest(self) -> list[tuple[Distances, Distances, Integers]]:
        """For each way of dealing: the nearest item, that of another share, and whose it is."""
        assert self._split is not None
        found = []
        for table in np.split(self._split.least, 2, axis=1):
            which = np.argmin(table, axis=1)
            least = table[np.arange(len(table)), which]
            table[np.arange(len(table)), which] = np.inf
            found.append((least, table.min(axis=1), which))
        return found

    @cached_property
    def _within(self) -> Integers:
        assert self._split is not None
        return self._split.within

    @cached_property
    def _before(self) -> Integers:
        """Strangers no farther than the first mate."""
        met = self._within[:, : self._dealing.shares].sum(axis=1)
        return np.asarray(met - self._tied, np.int64)
