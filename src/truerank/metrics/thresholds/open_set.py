"""Open-set identification: DIR, FNIR, FAR, TTR, smaller galleries and replicates.

DIR(tau, x) is the share of mated queries whose nearest relevant item is accepted and among the
first x; FAR(tau) the share of unmated queries that have anything accepted. The rank is
ambiguous where items tie, acceptance never is.

In a gallery of m of M irrelevant items, an unmated query with a items within the threshold is
falsely accepted with probability 1 - C(M - a, m) / C(M, m). Without a jackknife group, a query
outside the group loses irrelevant items only, as its relevant items are deleted together with
it. At a given threshold that is exact; a threshold set by a rate changes with the unmated
queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import comb, fsum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.text import count
from truerank._util.types import Flags, Integers, Reals
from truerank.core import registry
from truerank.core.curve import ENDS, POINTS, BandMoves, Curve, CurveMoves
from truerank.core.jackknife import FEWEST_CLASSES, FoldAssignment, left
from truerank.core.metric import Metric, Scale
from truerank.core.registry import definition
from truerank.core.score import PerQuery, Score
from truerank.core.sum_kernels import ONE
from truerank.core.tie_groups import LocatedGroups, TieGroups
from truerank.distance.base import Distances, Rows
from truerank.engine.blocks import LARGEST, DistanceBlock
from truerank.engine.reducers import Part, RankObserver, ResumableObserver
from truerank.metrics.gallery_sizes import Growth, drawn_of
from truerank.metrics.thresholds.definitions import (
    FEWEST_BELOW,
    NO_IMPOSTORS,
    allowed,
    limit_at,
    measure,
    undefined,
    unresolved,
    why_too_few_below,
)
from truerank.metrics.thresholds.family import Context, Family, Moves, NearestWithout
from truerank.metrics.thresholds.open_set_kernels import _accept, _add, _mark, _missed, _race

# Chance in an open set: what scores that are drawn at random, whatever the input, get.
#
# The candidates of a query come in one after the other as if at constant rates; an impostor is
# accepted at its first candidate. So whether a target's i-th candidate comes before the threshold
# is a race between its candidates and those of the impostors, of which the order alone matters.


def accepted_target(candidates: int, impostors: int, allowed: int) -> float:
    """Probability that a target has any candidate accepted, when `allowed` impostors have."""
    return float(_in_time(candidates, impostors, allowed, 1)[0])


def identified_target(
    candidates: int, relevant: int, impostors: int, allowed: int, rank: int
) -> float:
    """Probability that the first relevant candidate is accepted, and among the first `rank`."""
    last = min(rank, candidates - relevant + 1)
    parts, none_yet = [], 1.0
    for before, early in enumerate(_in_time(candidates, impostors, allowed, last).tolist()):
        first = relevant / (candidates - before)
        parts.append(none_yet * first * early)
        none_yet *= 1.0 - first
    return fsum(parts)


def _in_time(candidates: int, impostors: int, allowed: int, count: int) -> Reals:
    """Probabilities, for i = 1 to count, that candidate i comes before impostor `allowed` + 1."""
    out = np.ones(count)
    if allowed < impostors:  # otherwise everything is accepted
        _race(float(candidates), impostors, allowed, out)
    return out


# What a pass collects for open-set identification: what is nearest, and what is found first.


RANKED = ("dir", "fnir")
"""Metrics that ask for a relevant item among the first `rank`."""


class Identification(Family):
    """The nearest candidate and the nearest mate of every query, and whether a mate comes first."""

    def __init__(self, context: Context, metrics: list[Metric]) -> None:
        super().__init__(context, metrics)
        self.observers = [context.nearest]
        queries = context.task.queries
        self.first = np.full(queries, np.inf)
        """Distance of every query's nearest relevant item, infinite if it has none."""
        ranks = {m["rank"] for m in metrics if m.name in RANKED}
        self.hits = {rank: np.full((3, queries), np.nan) for rank in sorted(ranks)}
        """(3, queries) for each rank: whether a relevant item is among the first so many."""

    @property
    def nearest(self) -> Distances:
        """Distance of every query's nearest candidate, relevant or not."""
        return self.context.nearest.distance

    def collect(self, rows: Integers, groups: LocatedGroups) -> None:
        """See Family."""
        self.first[rows] = groups.distance[groups.offsets[:-1]]
        for rank, table in self.hits.items():
            metric = Metric("hit", rank)
            hit = registry.ranking(metric).per_query
            table[:, rows] = hit(groups, metric, Scale(np.ones(1)))

    def collected(self) -> dict[str, npt.NDArray[Any]]:
        """See Family."""
        return {"first": self.first} | {f"hits-{rank}": table for rank, table in self.hits.items()}


# Open-set identification: is it there at all, and who? Queries without a mate are the impostors.


NO_TARGETS = "not defined: no query has a relevant item in the gallery"


def observed_below(
    seen: Identification, limits: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The largest distance below each limit, of those that decide here; -inf if there is none.

    Accepting up to it accepts what is nearer than the limit.
    """
    met = np.concatenate([seen.nearest, seen.first])
    met = np.append(-np.inf, np.sort(met[np.isfinite(met)]))
    return np.asarray(met[np.searchsorted(met, limits, side="left") - 1], np.float64)


def as_dir(metric: Metric) -> Metric:
    """DIR in place of FNIR, which is what it lacks of 1; any other metric as it is."""
    return Metric("dir", None, metric.options) if metric.name == "fnir" else metric


def identified(metric: Metric, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The three rows of FNIR from those of DIR; those of DIR as they are."""
    return 1.0 - values[::-1] if metric.name == "fnir" else values


def _acceptance(seen: Identification, metric: Metric) -> tuple[float, float | None] | str:
    """The largest accepted distance and the threshold to report, or why there is none."""
    if metric["tau"] is not None:
        tau = metric["tau"]
        return seen.context.units.cut(tau), float(tau)
    impostors = np.sort(seen.nearest[~seen.context.with_mate])
    if not len(impostors):
        return NO_IMPOSTORS
    target = metric["far"]
    reason = unresolved(target, len(impostors))
    if reason is not None:
        return reason
    largest = float(observed_below(seen, np.array([limit_at(impostors, target)]))[0])
    return largest, seen.context.units.in_unit(largest)


def share(
    seen: Identification,
    metric: Metric,
    table: npt.NDArray[np.float64],
    counts: Flags,
    threshold: float | None,
    chance: npt.NDArray[np.float64] | None = None,
) -> Score:
    """The means of three rows of values over the queries that count."""
    values = np.where(counts, table, np.nan)
    lower, expected, upper = (seen.context.mean(row, counts) for row in values)
    higher = definition(metric).higher_is_better
    return Score(
        str(metric),
        lower if higher else upper,
        lower,
        expected,
        upper,
        chance=None if chance is None else seen.context.mean(chance, counts),
        attainable=None if chance is None else float(higher),
        n=int(counts.sum()),
        per_query=PerQuery(*values),
        threshold=threshold,
    )


def _chance(seen: Identification, metric: Metric) -> npt.NDArray[np.float64] | None:
    """Every target's chance by random scores; None unless every query meets the whole gallery.

    In leave-one-out a target and an impostor meet each other, so that one's luck is the other's.
    """
    task = seen.context.task
    excluding = task.leave_one_out or task.excludes_pairs or task.group_names is not None
    if metric["far"] is None or excluding:
        return None
    candidates = task.items
    impostors = int((~seen.context.with_mate).sum())
    r = allowed(metric["far"], impostors)
    if metric.name == "ttr":
        return np.full(task.queries, accepted_target(candidates, impostors, r))
    rank = metric["rank"]
    mates, number = np.unique(task.n_relevant, return_inverse=True)
    values = [
        identified_target(candidates, int(m), impostors, r, rank) if m else 0.0 for m in mates
    ]
    every: npt.NDArray[np.float64] = identified(metric, np.array([values]))[0]
    return every[number]


def _dir(seen: Identification, metric: Metric) -> Score:
    targets = seen.context.with_mate
    if not targets.any():
        return undefined(metric, NO_TARGETS)
    found = _acceptance(seen, metric)
    if isinstance(found, str):
        return undefined(metric, found)
    limit, threshold = found
    hits = seen.hits[metric["rank"]]
    values = identified(metric, hits * (seen.first <= limit))
    return share(seen, metric, values, targets, threshold, _chance(seen, metric))


def _ttr(seen: Identification, metric: Metric) -> Score:
    targets = seen.context.with_mate
    if not targets.any():
        return undefined(metric, NO_TARGETS)
    found = _acceptance(seen, metric)
    if isinstance(found, str):
        return undefined(metric, found)
    limit, threshold = found
    accepted = np.broadcast_to((seen.nearest <= limit) * 1.0, (3, len(targets)))
    return share(seen, metric, accepted, targets, threshold, _chance(seen, metric))


def _far(seen: Identification, metric: Metric) -> Score:
    impostors = ~seen.context.with_mate
    if not impostors.any():
        return undefined(metric, NO_IMPOSTORS)
    tau = metric["tau"]
    accepted = (seen.nearest <= seen.context.units.cut(tau)) * 1.0
    table = np.broadcast_to(accepted, (3, len(impostors)))
    return share(seen, metric, table, impostors, float(tau))


SCORES = {"dir": _dir, "fnir": _dir, "far": _far, "ttr": _ttr, "ftr": _far}
"""The function that gives each metric's Score."""


# The curve of DIR over FAR: queries identified, by the share of strangers accepted.


def curve_names(seen: Identification) -> dict[int, str]:
    """The name of the curve of each rank at which DIR is asked for."""
    return {rank: "dir" if rank == 1 else f"dir@rank={rank}" for rank in seen.hits}


def dir_over_far(seen: Identification, rank: int) -> dict[str, npt.NDArray[Any]]:
    """DIR where r of the queries without a mate are accepted, r from 0 to all of them.

    The threshold is NaN where nothing at all is accepted.
    """
    impostors = np.sort(seen.nearest[~seen.context.with_mate])
    count = len(impostors)
    accepted = np.unique(np.linspace(0, count, min(count, POINTS) + 1).astype(np.int64))
    limits = np.append(impostors, np.inf)[accepted]
    order = np.argsort(seen.first[seen.context.with_mate], kind="stable")
    first = seen.first[seen.context.with_mate][order]
    hits = seen.hits[rank][:, seen.context.with_mate][:, order]
    totals = _running_means(hits)
    place = np.searchsorted(first, limits, side="left")
    columns: dict[str, npt.NDArray[Any]] = {"far": np.searchsorted(impostors, limits) / count}
    columns |= dict(zip(ENDS, totals[:, place], strict=True))
    largest = observed_below(seen, limits)
    threshold = seen.context.space.in_unit(np.where(np.isfinite(largest), largest, 0.0))
    return columns | {"threshold": np.where(np.isfinite(largest), threshold, np.nan)}


def _running_means(hits: Reals) -> Reals:
    """Means over all queries of the hits of the first n, summed in integers."""
    count = hits.shape[1]
    one = 2.0 ** min(52, 62 - count.bit_length())
    sums = np.zeros((3, count + 1), np.int64)
    np.cumsum(np.rint(hits * one).astype(np.int64), axis=1, out=sums[:, 1:])
    return np.asarray(sums / (one * count), np.float64)


# The family of open-set identification, as an evaluation uses it.


class OpenSet(Identification):
    """The family of DIR, FAR, TTR and FTR."""

    smaller: SmallerGalleries | None = None

    def widen(self, growth: Growth) -> None:
        """See Family."""
        self.smaller = SmallerGalleries(self, growth)

    def collect(self, rows: Integers, groups: LocatedGroups) -> None:
        """See Family."""
        super().collect(rows, groups)
        if self.smaller is not None:
            self.smaller.collect(rows, groups)

    def collected(self) -> dict[str, npt.NDArray[Any]]:
        """See Family."""
        more = {} if self.smaller is None else self.smaller.collected()
        return super().collected() | more

    def score_at(self, metric: Metric, place: int) -> Score | None:
        """See Family."""
        return None if self.smaller is None else self.smaller.score(metric, place)

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return measure(metric, self)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        mates = self.context.with_mate
        if mates.all() or not mates.any():
            return {}
        names = curve_names(self)
        return {name: Curve(name, dir_over_far(self, rank)) for rank, name in names.items()}

    def without(self, folds: FoldAssignment) -> OpenSetFolds:
        """See Family."""
        return OpenSetFolds(self, folds, self.smaller)


# Open-set identification without each fold of the classes.
#
# A query's mates leave only together with it, so that all that changes for the others is which
# strangers are left: the nearest of every fold, and how many of it come before the first mate. At
# a given threshold that is exact; a threshold set by a rate moves as the fold's impostors say.


MOST_REPLICATE_NUMBERS = 1 << 23
"""Most queries x folds that are held for each thread, where there are more than a few folds."""


class OpenSetFolds:
    """What the pass must count for DIR, TTR and FAR, and the scores without each fold."""

    def __init__(
        self, seen: Identification, folds: FoldAssignment, smaller: SmallerGalleries | None = None
    ) -> None:
        folds = folds.up_to(MOST_REPLICATE_NUMBERS // seen.context.task.queries)
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
                which = "mated" if with_mate else "unmated"
                return (
                    f"{count(classes, 'class')} of {which} queries; an interval needs at "
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
        low, high = (int(end[0]) for end in neighbors_of(place, ranked))
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


# How thresholds that a rate sets move without each fold of the classes.
#
# A threshold stands at one of the impostors' distances, and without a fold at another one: as
# many places further as the fold takes away from below it, less its due. One place among few
# impostors is an accident, so what a place is worth to a score is taken from many of them.


def places_moved(
    gallery: NearestWithout,
    folds: FoldAssignment,
    strangers: Integers,
    limits: Distances,
    rates: Reals,
) -> Reals:
    """(folds, limits): by how many places each limit, at its rate, moves without each fold."""
    order = np.argsort(limits, kind="stable")
    ranked = limits[order]
    found = np.empty((folds.columns, len(limits)))
    for number, way in enumerate(gallery.ways):
        nearest, farther, folds_of = gallery.two_nearest(number)
        which = folds_of[strangers]
        at, beyond = (
            np.searchsorted(ranked, d[strangers], side="right") for d in (nearest, farther)
        )
        size = way.stop - way.start
        gone, count = np.zeros((size, len(ranked) + 1), np.int64), np.zeros(size, np.int64)
        met = which >= 0
        for column in folds.query[strangers].T - way.start:
            mine = np.flatnonzero((column >= 0) & (column < size))
            np.add.at(gone, (column[mine], at[mine]), 1)
            np.add.at(count, column[mine], 1)
            met &= which != column  # a query that leaves is gone anyway
        # the nearest item of a query leaves, and the next one is no longer accepted
        np.add.at(gone, (which[met], at[met]), 1)
        np.add.at(gone, (which[met], beyond[met]), -1)
        moved = np.cumsum(gone, axis=1)[:, :-1] - rates[order] * count[:, None]
        found[way] = moved[:, np.argsort(order, kind="stable")]
    return found


def neighbors_of(places: Integers, impostors: Distances) -> tuple[Integers, Integers]:
    """Places of ascending impostors on either side, between which a place's worth is measured."""
    reach = math.isqrt(len(impostors)) + 1
    last = max(int(np.isfinite(impostors).sum()) - 1, 0)
    return np.clip(places - reach, 0, last), np.clip(places + reach, 0, last)


# The curve of DIR over FAR without each fold of the classes, with which its thresholds move.


class GalleryWithout(Protocol):
    """The gallery without each fold, as queries see it."""

    without: NearestWithout
    """The nearest candidates."""

    def hits(self, rank: int, column: int) -> npt.NDArray[Any]:
        """Whether a relevant item is among the first, without a fold."""


def moved_dir(
    seen: Identification,
    folds: FoldAssignment,
    gallery: GalleryWithout,
    curve: Curve,
    rank: int,
    fewest: int,
) -> CurveMoves:
    """DIR at each FAR of the curve without each fold; NaN where fewer strangers are accepted."""
    mates = seen.context.with_mate
    strangers = np.flatnonzero(~mates)
    impostors = np.sort(seen.nearest[strangers])
    accepted = np.rint(curve["far"] * len(strangers)).astype(np.int64)
    limits = np.append(impostors, np.inf)[accepted]
    order = np.flatnonzero(mates)[np.argsort(seen.first[mates], kind="stable")]
    at = np.searchsorted(seen.first[order], limits, side="left")
    # what a place among the impostors is worth to the score, from many of them on either side
    low, high = neighbors_of(accepted, impostors)
    hits = np.append(0, np.cumsum(seen.hits[rank][0][order] == 1.0))
    ends = (np.searchsorted(seen.first[order], impostors[end], side="left") for end in (low, high))
    below, above = (hits[end] for end in ends)
    worth = np.where(
        np.isfinite(limits), (above - below) / len(order) / np.maximum(high - low, 1), 0.0
    )
    steps = places_moved(gallery.without, folds, strangers, limits, curve["far"])
    columns = range(folds.own.start, folds.own.stop)
    values = np.empty((len(columns), len(accepted)))
    for column in columns:
        kept = (folds.query != column).all(axis=1)
        found = gallery.hits(rank, column)[order] * kept[order]
        running = np.append(0, np.cumsum(found > 0.5))
        values[column] = running[at] / max(int(kept[order].sum()), 1) + worth * steps[column]
    values[:, accepted < fewest] = np.nan
    return CurveMoves("lower", "dir", values, rises=1)


# DIR and FAR in smaller galleries: exact means over all that keep a query's mates.
#
# A query without a mate with a others within the threshold is falsely accepted unless none of
# these is among the m drawn: 1 - C(M - a, m) / C(M, m). A query with a mate is identified where
# its nearest mate is accepted and no more than rank - 1 of the others drawn come before it. At a
# FAR target the threshold is the largest whose expected FAR is at most the target.


LEAST_DEPTH, MOST_SIZE_NUMBERS = 32, 1 << 27
"""Nearest items of unmated queries that are looked at first, and most of all of them together."""
CLOSE = 1e-9
"""Expected rates nearer than this to the target are compared to it as rational numbers."""
TOO_MANY = "the threshold lies behind more nearest items of unmated queries than are held"


class SmallerGalleries:
    """What a pass collects for open-set metrics at gallery sizes, and their scores there."""

    def __init__(self, seen: Identification, growth: Growth) -> None:
        self.seen, self.growth = seen, growth
        shape = (len(growth.sizes), 3, seen.context.task.queries)
        self.hits = {rank: np.full(shape, np.nan) for rank in seen.hits}
        """(sizes, 3, queries) for each rank: how likely a mate is among the first so many."""
        self._near: _Nearest | None = None
        self._within: dict[float, Integers] = {}
        self._limits: dict[tuple[Fraction, int], float | str] = {}

    def collect(self, rows: Integers, groups: LocatedGroups) -> None:
        """See Family."""
        ranks = list(self.hits)
        found = self.growth.values(groups, [Metric("hit", rank) for rank in ranks])
        for at, rank in enumerate(ranks):
            self.hits[rank][:, :, rows] = found[:, at]

    def collected(self) -> dict[str, npt.NDArray[Any]]:
        """See Family."""
        return {f"hits-{rank}-at-sizes": table for rank, table in self.hits.items()}

    def score(self, metric: Metric, place: int) -> Score:
        """A metric's score at one of the sizes."""
        context = self.seen.context
        targets = context.with_mate
        if metric.name in RANKED:
            if not targets.any():
                return undefined(metric, NO_TARGETS)
            limit, threshold = self._accepted(metric, place)
            if isinstance(limit, str):
                return undefined(metric, limit)
            values = self.hits[metric["rank"]][place] * (self.seen.first <= limit)
            values = identified(metric, values)
            return share(self.seen, metric, values, targets, threshold)
        if targets.all():
            return undefined(metric, NO_IMPOSTORS)
        table = np.zeros((3, len(targets)))
        near = self.near_within(context.units.cut(metric["tau"]))
        table[:, ~targets] = 1.0 - missed(*self.others(np.flatnonzero(~targets), place), near)
        return share(self.seen, metric, table, ~targets, float(metric["tau"]))

    def near_within(self, limit: float) -> Integers:
        """How many items each stranger has up to a distance."""
        if limit not in self._within:
            context = self.seen.context
            rows = np.flatnonzero(~context.with_mate)
            found = _Within(context.task.queries, limit)
            context.observe_again(found, rows)
            self._within[limit] = found.count[rows]
        return self._within[limit]

    def rate_below(self, limit: float, place: int) -> float:
        """The expected rate of false accepts below a distance that `limit` has found."""
        strangers = np.flatnonzero(~self.seen.context.with_mate)
        near = (self._nearest(1) < limit).sum(axis=1)
        return 1.0 - math.fsum(missed(*self.others(strangers, place), near)) / len(strangers)

    def others(self, rows: Integers, place: int) -> tuple[Integers, Integers]:
        """M and m of some queries."""
        view = self.seen.context.task.view
        excluded = view.exclusions.pairs(rows, view.items)
        every = view.items - np.bincount(excluded.query, minlength=len(rows)) - view.mates[rows]
        others, number = np.unique(every, return_inverse=True)
        size, gallery = self.growth.sizes[place], self.growth.gallery
        drawn = np.array([drawn_of(int(one), size, gallery) for one in others], np.int64)
        return every, drawn[number]

    def _accepted(self, metric: Metric, place: int) -> tuple[float | str, float | None]:
        """The largest accepted distance and the threshold to report; or why there is none."""
        context = self.seen.context
        if metric["tau"] is not None:
            return context.units.cut(metric["tau"]), float(metric["tau"])
        strangers = int((~context.with_mate).sum())
        if not strangers:
            return NO_IMPOSTORS, None
        reason = unresolved(metric["far"], strangers)
        if reason is not None:
            return reason, None
        limit = self.limit(metric["far"], place)
        if isinstance(limit, str):
            return limit, None
        met = np.concatenate([self._nearest(1).ravel(), self.seen.first])
        below = met[met < limit]
        largest = float(below.max()) if len(below) else -np.inf
        return largest, context.units.in_unit(largest)

    def limit(self, target: Fraction, place: int) -> float | str:
        """d*, the smallest distance of a stranger's item that may not be accepted any more."""
        if (target, place) not in self._limits:
            self._limits[target, place] = self._limit(target, place)
        return self._limits[target, place]

    def _limit(self, target: Fraction, place: int) -> float | str:
        others, drawn = self.others(np.flatnonzero(~self.seen.context.with_mate), place)
        most = int(others.max(initial=1))
        share_drawn = max(float(np.median(drawn / np.maximum(others, 1))), 1e-9)
        depth = min(most, max(LEAST_DEPTH, int(4 * float(target) / share_drawn)))
        while True:
            if depth * len(others) > MOST_SIZE_NUMBERS:
                return TOO_MANY
            near = self._nearest(depth)
            known = near[:, -1].min() if depth < most else np.inf
            limit = _first_above(near, others, drawn, target)
            if limit <= known:
                return limit
            depth = min(most, 4 * depth)

    def _nearest(self, depth: int) -> Distances:
        """(strangers, at least depth): the distances of each one's nearest items, ascending."""
        context = self.seen.context
        if self._near is None or self._near.distance.shape[1] < depth:
            rows = np.flatnonzero(~context.with_mate)
            self._near = _Nearest(context.task.queries, rows, depth)
            context.observe_again(self._near, rows)
        return self._near.distance


class _Within(RankObserver):
    """How many items each query has up to a distance."""

    def __init__(self, queries: int, limit: float) -> None:
        self._limit, self.count = limit, np.zeros(queries, np.int64)

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> None:
        """See RankObserver."""
        self.count[block.rows] = block.within(self._limit)

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"count": self.count[rows]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self.count[rows] = part["count"]


class _Nearest(RankObserver):
    """The distances of the nearest items of some queries, ascending."""

    def __init__(self, queries: int, rows: Rows, depth: int) -> None:
        self._place = np.zeros(queries, np.int64)
        self._place[rows] = np.arange(len(rows))
        self.distance = np.full((len(rows), depth), np.inf)

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> None:
        """See RankObserver."""
        found = block.nearest(np.arange(len(block.rows)), self.distance.shape[1])
        self.distance[self._place[block.rows], : found.shape[1]] = found

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"distance": self.distance[self._place[rows]]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self.distance[self._place[rows]] = part["distance"]


def missed(others: Integers, drawn: Integers, near: Integers) -> Reals:
    """C(M - a, m) / C(M, m): how likely none of the a items within a threshold is drawn."""
    out = np.empty(len(near))
    _missed(others, drawn, near, out)
    return out


def _first_above(near: Distances, others: Integers, drawn: Integers, target: Fraction) -> float:
    """The smallest distance up to which the expected rate of false accepts is above the target."""
    depth = near.shape[1]
    held = np.ones((depth + 1, len(near)))
    for a in range(1, depth + 1):
        held[a] = missed(others, drawn, np.minimum(a, others))
    gains = (held[:-1] - held[1:]).T
    finite = np.isfinite(near)
    order = np.argsort(near[finite], kind="stable")
    at, gain = near[finite][order], gains[finite][order]
    distances, last = np.unique(at[::-1], return_index=True)
    rate = np.cumsum(gain)[len(at) - 1 - last] / len(near)
    open_ = np.flatnonzero(rate > float(target) - CLOSE)
    for place in open_.tolist():
        if (
            rate[place] > float(target) + CLOSE
            or _rate(near, others, drawn, float(distances[place])) > target
        ):
            return float(distances[place])
    return np.inf


def _rate(near: Distances, others: Integers, drawn: Integers, limit: float) -> Fraction:
    """The expected rate of false accepts up to a distance, as a rational number."""
    within = (near <= limit).sum(axis=1)
    kinds, times = np.unique(np.stack([others, drawn, within]), axis=1, return_counts=True)
    total = Fraction(0)
    for (whole, m, a), many in zip(kinds.T.tolist(), times.tolist(), strict=True):
        total += many * (1 - Fraction(comb(whole - a, m), comb(whole, m)))
    return total / len(near)


# DIR and FAR in smaller galleries without each fold of the classes.
#
# The share of the others that is there stays, so that without a fold a query has as many of them
# less before its mate, or within the threshold, as the fold holds there: of every query, exactly.
# At a FAR target the threshold moves as the expected FAR says: what a step of that is worth to
# DIR is taken from a wide range on either side, since single items are accidents.


ValueOf = Callable[[int, int, Integers], Reals]
"""From M, m and numbers of items: what a query with each of them is worth."""


class FirstRelevant(Protocol):
    """What is known of the others before every query's first mate."""

    def before_first(self) -> tuple[Integers, Integers]:
        """The others no farther than a query's first mate, and (queries, folds) those of each
        fold."""


class SmallerFolds:
    """Scores at gallery sizes without each fold; a gallery that no fold leaves is None."""

    def __init__(
        self, smaller: SmallerGalleries, folds: FoldAssignment, gallery: FirstRelevant | None
    ) -> None:
        self._smaller, self._folds, self._gallery = smaller, folds, gallery
        self._context = smaller.seen.context
        self._within: dict[float, npt.NDArray[np.int32]] = {}

    def means(self, metric: Metric, place: int, counts: Flags) -> Reals | str:
        """The score at one of the sizes without each fold, or why that cannot be told."""
        smaller, weight = self._smaller, self._context.weights(counts)
        if metric.name != "dir":
            return self._accepted(self._context.units.cut(metric["tau"]), place, weight)
        if metric["tau"] is not None:
            return self._identified(metric, self._context.units.cut(metric["tau"]), place, weight)
        limit = smaller.limit(metric["far"], place)
        if isinstance(limit, str):
            return limit
        below = float(np.nextafter(limit, -np.inf))
        found = self._identified(metric, below, place, weight)
        slope = self._slope(metric, place, weight) if np.isfinite(limit) else 0.0
        if isinstance(slope, str):
            return slope
        alike = np.ones(len(weight))
        rate = smaller.rate_below(limit, place)
        return found + slope * (rate - self._accepted(below, place, alike))

    def _slope(self, metric: Metric, place: int, weight: Reals) -> float | str:
        """What a step of the expected FAR is worth to DIR, around the target."""
        smaller, target = self._smaller, metric["far"]
        strangers = int((~self._context.with_mate).sum())
        reach = Fraction(math.isqrt(strangers) + 1, strangers)
        ends = (max(target - reach, Fraction(0)), min(target + reach, (1 + target) / 2))
        rows = np.flatnonzero(self._context.with_mate)
        first, mine = smaller.seen.first[rows], weight[rows]
        hits = mine * smaller.hits[metric["rank"]][place, 0, rows]
        points = []
        for end in ends:
            limit = smaller.limit(end, place)
            if isinstance(limit, str):
                return limit
            found = math.fsum(hits[first < limit]) / math.fsum(mine)
            points.append((smaller.rate_below(limit, place), found))
        (low, fewer), (high, more) = points
        return (more - fewer) / (high - low) if high > low else 0.0

    def _identified(self, metric: Metric, limit: float, place: int, weight: Reals) -> Reals:
        """DIR up to a distance without each fold."""
        smaller, targets = self._smaller, np.flatnonzero(self._context.with_mate)
        near = smaller.seen.first[targets] <= limit
        if self._gallery is None:
            return self._mean(
                smaller.hits[metric["rank"]][place, 0, targets] * near, targets, weight
            )
        rows, growth = targets[near], smaller.growth
        before, lost = self._gallery.before_first()
        alone = Growth((growth.sizes[place],), growth.gallery)

        def value_of(others: int, drawn: int, counts: Integers) -> Reals:
            every = np.ones(len(counts), np.int64)
            places = np.arange(len(counts) + 1)
            groups = TieGroups(
                places, counts, every, every.astype(np.int32)[:, None], every * (others + 1)
            )
            found = alone.values(groups, [Metric("hit", metric["rank"])])
            return np.asarray(found[0, 0, 0], np.float64)

        sums = self._sums(rows, before[rows], lost[rows], place, weight, value_of)
        return self._divided(sums, targets, weight)

    def _accepted(self, limit: float, place: int, weight: Reals) -> Reals:
        """The expected FAR up to a distance without each fold."""
        rows = np.flatnonzero(~self._context.with_mate)
        if self._gallery is None:
            near = self._smaller.near_within(limit)
            accepted = 1.0 - missed(*self._smaller.others(rows, place), near)
            return self._mean(accepted, rows, weight)
        if limit not in self._within:
            observer = _WithinByFold(self._context.task.queries, limit, self._folds)
            self._context.observe_again(observer, rows)
            self._within[limit] = observer.within[rows]
        lost = self._within[limit]
        near = lost[:, self._folds.own].sum(axis=1, dtype=np.int64)

        def value_of(others: int, drawn: int, counts: Integers) -> Reals:
            return 1.0 - missed(np.full(len(counts), others), np.full(len(counts), drawn), counts)

        return self._divided(self._sums(rows, near, lost, place, weight, value_of), rows, weight)

    def _sums(
        self,
        rows: Integers,
        count: Integers,
        lost: npt.NDArray[np.integer],
        place: int,
        weight: Reals,
        value_of: ValueOf,
    ) -> Integers:
        """Sums of the values of queries that stay without each fold, in units of 1 / ONE: those of
        `count` items less those `lost` with the fold."""
        sums = np.zeros(self._folds.columns, np.int64)
        others, drawn = self._smaller.others(rows, place)
        for whole in np.unique(others).tolist():
            mine = np.flatnonzero(others == whole)
            args = (count[mine], lost[mine], self._folds.query[rows[mine]])
            used = np.zeros(int(count[mine].max()) + 1, np.bool_)
            _mark(*args, used)
            numbers = np.flatnonzero(used)
            table = np.zeros(len(used))
            table[numbers] = value_of(whole, int(drawn[mine[0]]), numbers)
            _add(*args, weight[rows[mine]] * ONE, table, sums)
        return sums

    def _mean(self, values: Reals, rows: Integers, weight: Reals) -> Reals:
        """Means of values that no fold moves, over the queries that stay."""
        own, columns = self._folds.query[rows], self._folds.columns
        return left(weight[rows] * values, own, columns) / left(weight[rows], own, columns)

    def _divided(self, sums: Integers, rows: Integers, weight: Reals) -> Reals:
        """Means over the queries that stay."""
        own = self._folds.query[rows]
        return np.asarray(sums / ONE / left(weight[rows], own, self._folds.columns), np.float64)


class _WithinByFold(RankObserver):
    """How many items of each fold every query has up to a distance."""

    def __init__(self, queries: int, limit: float, folds: FoldAssignment) -> None:
        self._limit, self._items = np.full(queries, limit), folds.items
        self.within = np.zeros((queries, folds.columns), np.int32)

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> None:
        """See RankObserver."""
        # with something nearer in every fold, all that is looked for is what lies up to the limit
        nothing = np.full(self.within.shape, -np.inf)
        block.nearest_by_fold(self._limit, self._items[block.items], nothing, self.within)

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return {"within": self.within[rows]}

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self.within[rows] += part["within"]
