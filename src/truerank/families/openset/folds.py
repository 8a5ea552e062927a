"""Open-set identification without each fold of the classes, exactly.

A query's mates leave only together with it, so that all that changes for the others is which
strangers are left: the nearest of every fold, and how many of it come before the first mate.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.curve_moves import CurveMoves
from truerank.core.folds import FEWEST_CLASSES, FoldAssignment
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.engine.observers import ResumableObserver
from truerank.families.family import Moves
from truerank.families.nearest_without import NearestWithout
from truerank.families.openset.collect import Identification
from truerank.families.openset.curves import curve_names
from truerank.families.openset.moved_curves import moved_dir
from truerank.families.thresholds import FEWEST_BELOW, allowed, limit_at, why_too_few_below
from truerank.space import Distances
from truerank.wording import count

__all__ = ["OpenSetFolds"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
MOST_NUMBERS = 1 << 22
"""Most queries x folds that are held for each thread, where there are more than a few folds."""


class OpenSetFolds:
    """What the pass must count for DIR, TTR and FAR, and the scores without each fold."""

    def __init__(self, seen: Identification, folds: FoldAssignment) -> None:
        folds = folds.coarser(MOST_NUMBERS // seen.context.task.queries)
        self._seen, self._folds = seen, folds
        gallery = _Leaving if folds.takes_items else _Staying
        self._gallery: _Staying | _Leaving = gallery(seen, folds)

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs."""
        return self._gallery.observers

    def moves(self, metric: Metric, score: Score) -> Moves:
        """The score without each fold, or why that cannot be told."""
        context, mates = self._seen.context, self._seen.context.with_mate
        by_threshold = metric.get("far") is not None
        if by_threshold:
            below = allowed(metric["far"], int((~mates).sum()))
            if below < FEWEST_BELOW:
                return why_too_few_below(below)
        counts = mates if definition(metric).with_mate else ~mates
        used = (counts, ~mates) if by_threshold else (counts,)
        for some in used:
            classes = self._classes(some)
            if classes < FEWEST_CLASSES:
                which = "with" if some is mates else "without"
                return (
                    f"{count(classes, 'class')} of queries {which} a mate; an interval needs at "
                    f"least {FEWEST_CLASSES}"
                )
        found = np.empty(self._folds.columns)
        for column in range(len(found)):
            kept = (self._folds.query != column).all(axis=1)
            values = self._values(metric, column, kept)
            found[column] = context.mean(values, counts & kept)
        return self._folds.replicates(found)

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, CurveMoves]:
        """See Without."""
        seen, mates = self._seen, self._seen.context.with_mate
        if min(self._classes(mates), self._classes(~mates)) < FEWEST_CLASSES:
            return {}
        return {
            name: moved_dir(seen, self._folds, self._gallery, curves[name], rank, FEWEST_BELOW)
            for rank, name in curve_names(seen).items()
            if name in curves
        }

    def _classes(self, some: npt.NDArray[np.bool_]) -> int:
        """The classes of some of the queries."""
        return len(np.unique(self._folds.query_codes[some]))

    def _values(self, metric: Metric, column: int, kept: npt.NDArray[np.bool_]) -> Reals:
        """The value of every query without a fold, at the threshold found again."""
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
    """A gallery of its own, which no fold leaves."""

    def __init__(self, seen: Identification, folds: FoldAssignment) -> None:
        self._seen = seen
        self.observers: list[ResumableObserver] = []

    def nearest(self, column: int) -> Distances:
        """The distance of every query's nearest candidate, without a fold."""
        return self._seen.nearest

    def hits(self, rank: int, column: int) -> npt.NDArray[Any]:
        """Whether a relevant item is among the first, without a fold."""
        found: npt.NDArray[Any] = self._seen.hits[rank][0]
        return found


class _Leaving:
    """The queries are their own gallery, and a fold leaves both."""

    def __init__(self, seen: Identification, folds: FoldAssignment) -> None:
        self._folds = folds
        ours = seen.context.positives
        first = np.full(seen.context.task.queries, np.inf)
        np.minimum.at(first, ours.query, ours.distance)
        self._tied = np.bincount(
            ours.query[ours.distance == first[ours.query]], minlength=len(first)
        )
        first[~np.isfinite(first)] = -np.inf
        self._without = NearestWithout(seen.context, folds, first)
        self.observers: list[ResumableObserver] = self._without.observers

    def nearest(self, column: int) -> Distances:
        """See _Staying."""
        return self._without.nearest(column)

    def hits(self, rank: int, column: int) -> npt.NDArray[Any]:
        """See _Staying."""
        found: npt.NDArray[Any] = self._before - self._without.within[:, column] < rank
        return found

    @cached_property
    def _before(self) -> Integers:
        """Irrelevant items of each query that are no farther than its first mate."""
        met = self._without.within[:, self._folds.own].sum(axis=1)
        return np.asarray(met - self._tied, np.int64)
