"""Open-set identification without each share of the classes, exactly.

A query's mates leave only together with it, so that all that changes for the others is which
strangers are left: the nearest of every share, and how many of it come before the first mate.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FEWEST_CLASSES, Dealing
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.engine.split import NearestByShare
from truerank.engine.watch import Witness
from truerank.families.openset.collect import Identification
from truerank.families.thresholds import allowed, limit_at
from truerank.space import Distances
from truerank.wording import count

__all__ = ["IdentificationShares"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
FEWEST_BELOW = 5
"""A threshold set by fewer queries than this has no interval: it jumps from one to the next."""


class IdentificationShares:
    """What the pass must count for DIR, TTR and FAR, and the scores without each share."""

    def __init__(self, seen: Identification, dealing: Dealing) -> None:
        self._seen, self._dealing = seen, dealing
        gallery = _Leaving if dealing.takes_items else _Staying
        self._gallery: _Staying | _Leaving = gallery(seen, dealing)

    @property
    def watchers(self) -> list[Witness]:
        """Who must see all pairs."""
        return self._gallery.watchers

    def moves(self, metric: Metric, score: Score) -> Reals | str:
        """How far the score moves without each share, or why that cannot be told."""
        context, mates = self._seen.context, self._seen.context.with_mate
        by_threshold = metric.get("far") is not None
        if by_threshold:
            below = allowed(metric["far"], int((~mates).sum()))
            if below < FEWEST_BELOW:
                return (
                    f"{count(below, 'query')} without a mate below its threshold; an interval "
                    f"needs at least {FEWEST_BELOW}"
                )
        counts = mates if definition(metric).with_mate else ~mates
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
            found[column] = context.mean(values, counts & kept)
        return found - score.value

    def _values(self, metric: Metric, column: int, kept: npt.NDArray[np.bool_]) -> Reals:
        """Of every query, without a share and with the threshold found again."""
        seen, context = self._seen, self._seen.context
        nearest = self._gallery.nearest(column)
        if metric["tau"] is not None:
            limit = context.units.cut(metric["tau"])
            accepted = nearest <= limit, seen.first <= limit
        else:
            impostors = np.sort(nearest[kept & ~context.with_mate])
            limit = limit_at(impostors, metric["far"])
            accepted = nearest < limit, seen.first < limit
        if metric.name != "dir":
            return accepted[0].astype(np.float64)
        hits = self._gallery.hits(metric["rank"], column)
        return np.asarray(accepted[1] * hits, np.float64)


class _Staying:
    """A gallery of its own, which no share leaves."""

    def __init__(self, seen: Identification, dealing: Dealing) -> None:
        self._seen = seen
        self.watchers: list[Witness] = []

    def nearest(self, column: int) -> Distances:
        """Of every query, without a share."""
        return self._seen.nearest

    def hits(self, rank: int, column: int) -> npt.NDArray[Any]:
        """Whether a relevant item is among the first, without a share."""
        found: npt.NDArray[Any] = self._seen.hits[rank][0]
        return found


class _Leaving:
    """The queries are their own gallery, and a share leaves both."""

    def __init__(self, seen: Identification, dealing: Dealing) -> None:
        self._shares = dealing.shares
        ours = seen.context.positives
        first = np.full(seen.context.task.queries, np.inf)
        np.minimum.at(first, ours.query, ours.distance)
        self._tied = np.bincount(
            ours.query[ours.distance == first[ours.query]], minlength=len(first)
        )
        first[~np.isfinite(first)] = -np.inf
        self._split = NearestByShare(first, dealing.items, 2 * dealing.shares)
        self.watchers: list[Witness] = [self._split]

    def nearest(self, column: int) -> Distances:
        """See _Staying."""
        first, second, which = self._two_nearest[column // self._shares]
        return np.where(which == column % self._shares, second, first)

    def hits(self, rank: int, column: int) -> npt.NDArray[Any]:
        """See _Staying."""
        found: npt.NDArray[Any] = self._before - self._within[:, column] < rank
        return found

    @cached_property
    def _two_nearest(self) -> list[tuple[Distances, Distances, Integers]]:
        """For each way of dealing: the nearest item, that of another share, and whose it is."""
        found = []
        for table in np.split(self._split.least, 2, axis=1):
            which = np.argmin(table, axis=1)
            least = table[np.arange(len(table)), which]
            table[np.arange(len(table)), which] = np.inf
            found.append((least, table.min(axis=1), which))
        return found

    @cached_property
    def _within(self) -> Integers:
        return self._split.within

    @cached_property
    def _before(self) -> Integers:
        """Strangers no farther than the first mate."""
        met = self._within[:, : self._shares].sum(axis=1)
        return np.asarray(met - self._tied, np.int64)
