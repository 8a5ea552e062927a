"""Open-set identification without each fold of the classes.

A query's mates leave only together with it, so that all that changes for the others is which
strangers are left: the nearest of every fold, and how many of it come before the first mate. At a
given threshold that is exact; a threshold set by a rate moves as the fold's impostors say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core.curve import Curve
from truerank.core.curve_moves import BandMoves
from truerank.core.folds import FEWEST_CLASSES, FoldAssignment
from truerank.core.metric import Metric
from truerank.core.registry import definition
from truerank.core.score import Score
from truerank.engine.distance_block import LARGEST
from truerank.engine.observers import ResumableObserver
from truerank.families.family import Moves
from truerank.families.nearest_without import NearestWithout
from truerank.families.openset.collect import Identification
from truerank.families.openset.curves import curve_names
from truerank.families.openset.growth import SmallerGalleries
from truerank.families.openset.growth_folds import SmallerFolds
from truerank.families.openset.moved_curves import moved_dir
from truerank.families.openset.scores import as_dir
from truerank.families.openset.threshold_moves import neighbours_of, places_moved
from truerank.families.thresholds import FEWEST_BELOW, allowed, limit_at, why_too_few_below
from truerank.jit import kernel
from truerank.space import Distances
from truerank.wording import count

__all__ = ["OpenSetFolds"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
MOST_NUMBERS = 1 << 23
"""Most queries x folds that are held for each thread, where there are more than a few folds."""


class OpenSetFolds:
    """What the pass must count for DIR, TTR and FAR, and the scores without each fold."""

    def __init__(
        self, seen: Identification, folds: FoldAssignment, smaller: SmallerGalleries | None = None
    ) -> None:
        folds = folds.up_to(MOST_NUMBERS // seen.context.task.queries)
        self._seen, self._folds = seen, folds
        gallery = _Leaving if folds.takes_items else _Staying
        self._gallery: _Staying | _Leaving = gallery(seen, folds)
        self._smaller = None
        if smaller is not None:
            leaving = self._gallery if isinstance(self._gallery, _Leaving) else None
            self._smaller = SmallerFolds(smaller, folds, leaving)
        self._without = self._gallery.without

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs."""
        return self._gallery.observers

    def moves(self, metric: Metric, score: Score) -> Moves:
        """The score without each fold, or why that cannot be told."""
        reason = self._why_not(metric)
        if reason is not None:
            return reason
        return self._folds.replicates(_in_place_of(metric, self._means(as_dir(metric))))

    def moves_at(self, metric: Metric, place: int) -> Moves:
        """The score at one of the gallery sizes without each fold, or why that cannot be told."""
        reason = self._why_not(metric)
        if reason is not None or self._smaller is None:
            return reason or "no gallery sizes were asked for"
        found = self._smaller.means(as_dir(metric), place, self._counts(metric))
        if isinstance(found, str):
            return found
        return self._folds.replicates(_in_place_of(metric, found))

    def _counts(self, metric: Metric) -> Flags:
        """The queries that a metric is a mean over."""
        mates = self._seen.context.with_mate
        return mates if definition(metric).with_mate else ~mates

    def _why_not(self, metric: Metric) -> str | None:
        """Why how far a score moves cannot be told, None if it can."""
        mates = self._seen.context.with_mate
        by_threshold = metric.get("far") is not None
        if by_threshold:
            below = allowed(metric["far"], int((~mates).sum()))
            if below < FEWEST_BELOW:
                return why_too_few_below(below)
        used = {definition(metric).with_mate, not by_threshold and definition(metric).with_mate}
        return self._why_too_few(used)

    def _why_too_few(self, used: set[bool]) -> str | None:
        """The reason, where the queries with a mate, or those without, have too few classes."""
        for with_mate in sorted(used, reverse=True):
            some = self._seen.context.with_mate == with_mate
            classes = len(np.unique(self._folds.query_codes[some]))
            if classes < FEWEST_CLASSES:
                which = "with" if with_mate else "without"
                return (
                    f"{count(classes, 'class')} of queries {which} a mate; an interval needs at "
                    f"least {FEWEST_CLASSES}"
                )
        return None

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, BandMoves]:
        """See Without."""
        seen, reason = self._seen, self._why_too_few({True, False})
        return {
            name: reason
            or moved_dir(seen, self._folds, self._gallery, curves[name], rank, FEWEST_BELOW)
            for rank, name in curve_names(seen).items()
            if name in curves
        }

    def _means(self, metric: Metric) -> Reals:
        """The mean over the queries that count and stay, without each fold."""
        gallery, query = self._gallery, self._folds.query
        weight = self._weight(self._counts(metric))
        limit, moves = self._limit(metric, weight)
        found, stay = np.zeros((2, self._folds.columns), np.int64)
        for number, way in enumerate(self._without.ways):
            nearest, farther, which = self._without.two_nearest(number)
            if metric.name == "dir":
                nearest = farther = self._seen.first
                hits = gallery.all_hits(metric["rank"], way)
            else:
                hits = np.ones((len(weight), 1), bool)
            sums = (found[way], stay[way])
            _accept(nearest, farther, which, hits, limit, weight, query - way.start, *sums)
        return np.asarray(found / stay + moves, np.float64)

    def _weight(self, counts: Flags) -> Integers:
        """What each query counts in a mean, in integers so that no order of summation shows."""
        if not self._seen.context.by_class:
            return counts.astype(np.int64)
        codes = self._seen.context.task.query_codes
        size = np.bincount(codes[counts], minlength=int(codes.max()) + 1)
        one = 2.0 ** (62 - len(counts).bit_length())
        return np.where(counts, np.rint(one / np.maximum(size, 1)[codes]), 0).astype(np.int64)

    def _limit(self, metric: Metric, weight: Integers) -> tuple[float, Reals]:
        """The largest distance that is accepted, and how far a score moves as it moves."""
        columns = self._folds.columns
        if metric["tau"] is not None:
            return self._seen.context.units.cut(metric["tau"]), np.zeros(columns)
        rows = np.flatnonzero(~self._seen.context.with_mate)
        ranked = np.sort(self._seen.nearest[rows])
        limit = limit_at(ranked, metric["far"])
        if not np.isfinite(limit):
            return LARGEST, np.zeros(columns)
        rate = np.array([float(metric["far"])])
        steps = places_moved(self._without, self._folds, rows, np.array([limit]), rate)[:, 0]
        place = np.array([allowed(metric["far"], len(rows))])
        low, high = (int(end[0]) for end in neighbours_of(place, ranked))
        taken = [self._accepted(metric, weight, ranked[end]) for end in (low, high)]
        worth = (taken[1] - taken[0]) / int(weight.sum()) / max(high - low, 1)
        return float(np.nextafter(limit, -np.inf)), worth * steps

    def _accepted(self, metric: Metric, weight: Integers, limit: float) -> int:
        """The weight of the queries that are accepted, and hit, below a limit."""
        if metric.name != "dir":
            return int(weight[self._seen.nearest < limit].sum())
        hit = self._seen.hits[metric["rank"]][0] == 1.0
        return int(weight[(self._seen.first < limit) & hit].sum())


def _in_place_of(metric: Metric, means: Reals) -> Reals:
    """The means of a metric, from those of the DIR that stands for it."""
    return means if as_dir(metric) == metric else 1.0 - means


@kernel
def _accept(
    nearest: Any,
    farther: Any,
    which: Any,
    hits: Any,
    limit: float,
    weight: Any,
    query: Any,
    found: Any,
    stay: Any,
) -> None:
    """Weights of the queries that stay without each fold, and of those that are accepted and hit.

    `hits` has a column for each fold, or one for all; `query` are the columns of the query itself.
    """
    last = hits.shape[1] - 1
    for q in range(weight.size):
        if weight[q] == 0:
            continue
        for column in range(found.size):
            away = False
            for way in range(query.shape[1]):
                away |= query[q, way] == column
            if away:
                continue
            stay[column] += weight[q]
            d = farther[q] if which[q] == column else nearest[q]
            if d <= limit and hits[q, min(column, last)]:
                found[column] += weight[q]


class _Staying:
    """A gallery of its own, which no fold leaves."""

    def __init__(self, seen: Identification, folds: FoldAssignment) -> None:
        self._seen = seen
        self.without = NearestWithout(seen.context, folds, np.empty(0))
        self.observers: list[ResumableObserver] = []

    def nearest(self, column: int) -> Distances:
        """The distance of every query's nearest candidate, without a fold."""
        return self._seen.nearest

    def hits(self, rank: int, column: int) -> npt.NDArray[Any]:
        """Whether a relevant item is among the first, without a fold."""
        found: npt.NDArray[Any] = self._seen.hits[rank][0]
        return found

    def all_hits(self, rank: int, way: slice) -> Flags:
        """(queries, folds), or one column for all: the same without each fold of a way."""
        return np.asarray(self._seen.hits[rank][0][:, None] == 1.0)


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
        self.without = NearestWithout(seen.context, folds, first)
        self.observers: list[ResumableObserver] = self.without.observers

    def nearest(self, column: int) -> Distances:
        """See _Staying."""
        return self.without.nearest(column)

    def hits(self, rank: int, column: int) -> npt.NDArray[Any]:
        """See _Staying."""
        found: npt.NDArray[Any] = self._before - self.without.within[:, column] < rank
        return found

    def all_hits(self, rank: int, way: slice) -> Flags:
        """See _Staying."""
        return np.asarray(self._before[:, None] - self.without.within[:, way] < rank)

    def before_first(self) -> tuple[Integers, Integers]:
        """Irrelevant items no farther than each query's first mate, and those of each fold."""
        return self._before, self.without.within

    @cached_property
    def _before(self) -> Integers:
        """Irrelevant items of each query that are no farther than its first mate."""
        met = self.without.within[:, self._folds.own].sum(axis=1)
        return np.asarray(met - self._tied, np.int64)
