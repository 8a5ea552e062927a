"""All pairs of a task as one pool: accepted positives and negatives per threshold, and curves.

FAR(tau) is the share of negatives with d <= tau (also FMR), FRR(tau) the share of positives
with d > tau (FNMR). Pairs tied in distance are accepted or rejected together, so nothing is
ambiguous. Where the whole ROC curve is wanted, the thresholds are the distinct positive
distances and the float64 just below each. Order statistics of the negatives are exact: they are
looked up in ranges predicted from a sample, or collected in a second pass.

In leave-one-out every negative pair occurs from both sides and so counts in two jackknife
groups: subtracting a group's counts twice weighs pairs by w_i + w_j - 1, which doubles a
class's deviation on negatives, as it must. Thresholds are found again without each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from weakref import proxy

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.kernels import compiled
from truerank._util.settings import current_limits, current_settings
from truerank._util.text import count
from truerank._util.types import Integers, Reals
from truerank.core import registry
from truerank.core.curve import POINTS, SECOND, BandMoves, Curve, CurveMoves
from truerank.core.jackknife import FoldAssignment
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.distance.base import Distances, Space
from truerank.engine.blocks import LARGEST, Cuts, DistanceRange, tally
from truerank.engine.reducers import Collector, PairObserver, ResumableObserver, Tally
from truerank.metrics.thresholds.definitions import (
    allowed,
    at_places,
    far_targets,
    measure,
    undefined,
)
from truerank.metrics.thresholds.family import Context, Family, Moves, Positives, Units
from truerank.metrics.thresholds.verification import pair_metric

# All pairs of a task as one pool: how many positives and negatives each threshold accepts.


SAMPLE_CUTS = 64
MOST_COLLECTED = 1 << 24


class Pooled:
    """Counts of accepted pairs at cuts, and exact order statistics between them."""

    def __init__(
        self,
        positives: Positives,
        queries: int,
        *,
        sample: Distances,
        pairs: int,
        targets: Sequence[Fraction],
        thresholds: Sequence[float],
        whole_curve: bool,
        sweep: Callable[[list[PairObserver]], None],
    ) -> None:
        self.positives, self.whole_curve, self._sweep = positives, whole_curve, sweep
        self._targets, self._sampled = targets, len(sample) > 0
        edges = np.unique(positives.ascending) if whole_curve else np.empty(0)
        most = current_limits().edges
        if len(edges) > most:
            edges = np.append(edges[:: -(-len(edges) // most)], edges[-1])
        ranges = _foretell(sample, positives if whole_curve else None, pairs, targets)
        cuts = [edges, np.nextafter(edges, -np.inf), np.array(ranges).ravel(), np.array(thresholds)]
        if len(sample):
            # Where only thresholds of targets are wanted, most pairs lie beyond all that matters.
            top = 1.0 if whole_curve else min(1.0, 1.25 * float(max(targets)))
            cuts.append(np.quantile(sample, np.linspace(0, top, SAMPLE_CUTS), method="lower"))
        every = np.concatenate(cuts)
        every = every[np.isfinite(every)]
        self.cuts = Cuts.of(every if len(every) else np.zeros(1))
        self._tally, self._times = Tally(self.cuts, np.zeros(queries, np.int64), 1), 1
        self._collector = Collector(ranges)
        self._collected = [self._collector]
        self._segments: dict[DistanceRange, Distances] = {}

    @property
    def observers(self) -> list[Tally | Collector]:
        """The observers that must see all pairs."""
        return [self._tally, self._collector]

    def count_with(self, tally: Tally, times: int) -> None:
        """Take the counts from another tally, whose owners together count each pair so often."""
        self._tally, self._times, self.cuts = tally, times, tally.cuts

    # -- counts -------------------------------------------------------------------------------

    @cached_property
    def _counts(self) -> Integers:
        counts: Integers = self._tally.pooled // self._times
        return counts

    @cached_property
    def accepted(self) -> Integers:
        """Pairs accepted at each cut."""
        return np.cumsum(self._counts)[:-1]

    @cached_property
    def true_accepts(self) -> Integers:
        """Positives accepted at each cut."""
        return self.positives.up_to(self.cuts.at)

    @cached_property
    def false_accepts(self) -> Integers:
        """Negatives accepted at each cut."""
        return self.accepted - self.true_accepts

    @property
    def genuine(self) -> int:
        """Number of positives."""
        return len(self.positives)

    @cached_property
    def impostors(self) -> int:
        """Number of negatives."""
        return int(self._counts.sum()) - self.genuine

    def up_to(self, thresholds: Distances) -> Integers:
        """Negatives accepted at each of any thresholds."""
        place = np.searchsorted(self.cuts.at, thresholds, side="right") - 1
        found = np.where(place >= 0, self.false_accepts[place], 0)
        for number, (index, threshold) in enumerate(zip(place, thresholds, strict=True)):
            if index >= 0 and self.cuts.at[index] == threshold:
                continue
            if self._counts[index + 1]:
                low, high = self._ends(index + 1)
                within = self._negatives(low, high)
                found[number] += np.searchsorted(within, threshold, side="right")
        return found

    # -- curves -------------------------------------------------------------------------------

    def corners(self) -> Integers:
        """The cuts at every corner of the ROC curve, or at some where there are very many."""
        steps = np.flatnonzero(np.diff(self.true_accepts, prepend=0))
        if len(steps) > POINTS:
            true = np.linspace(0, self.genuine, POINTS // 2 + 1)
            false = np.logspace(0, np.log10(self.impostors), POINTS // 2 + 1)
            places = [
                np.searchsorted(counts[steps], wanted)
                for counts, wanted in ((self.true_accepts, true), (self.false_accepts, false))
            ]
            steps = steps[np.unique(np.minimum(np.concatenate(places), len(steps) - 1))]
        keep = np.unique(np.concatenate([steps - 1, steps]))
        return keep[keep >= 0]

    def curves(self, space: Space) -> dict[str, Curve]:
        """ROC and DET, from nothing accepted to everything; precision over recall."""
        keep = self.corners()
        with np.errstate(invalid="ignore"):  # just below the distance 0 lies nothing: NaN
            at = space.in_unit(self.cuts.at[keep])
        far = np.concatenate([[0.0], self.false_accepts[keep] / self.impostors, [1.0]])
        tar = np.concatenate([[0.0], self.true_accepts[keep] / self.genuine, [1.0]])
        threshold = np.concatenate([[np.nan], at, [np.nan]])
        some = np.flatnonzero(self.accepted[keep])  # where anything is accepted
        clean = self.true_accepts[keep[some]] / self.accepted[keep[some]]
        precision = np.append(clean, self.genuine / (self.genuine + self.impostors))
        recall, at = (column[np.append(some + 1, -1)] for column in (tar, threshold))
        return {
            "roc": Curve("roc", {"far": far, "tar": tar, "threshold": threshold}),
            "det": Curve("det", {"far": far, "frr": 1 - tar, "threshold": threshold}),
            "pr": Curve("pr", {"recall": recall, "precision": precision, "threshold": at}),
        }

    def all_distances(self) -> Collector | None:
        """All distances of the pool; None where there are so many that they were sampled."""
        if self._sampled:
            return None
        if not self._holds(-np.inf, np.inf):
            self._collected.append(Collector([(-np.inf, np.inf)]))
            self._sweep([self._collected[-1]])
        return self._holds(-np.inf, np.inf)[0][0]

    # -- order statistics ---------------------------------------------------------------------

    def impostor(self, rank: int) -> float:
        """The rank-th smallest negative distance, infinite beyond the last."""
        if rank > self.impostors:
            return np.inf
        index = int(np.searchsorted(self.false_accepts, rank))
        low, high = self._ends(index)
        if index < len(self.cuts) and self.single[index]:
            return high
        before = int(self.false_accepts[index - 1]) if index else 0
        return float(self._negatives(low, high)[rank - before - 1])

    def around(self, target: Fraction) -> tuple[float, float]:
        """The two cuts between which the threshold of a FAR target lies."""
        return self._ends(self._place(target))

    def observed_below(self, distance: float) -> float | None:
        """The largest pair distance below this one; None if there is none."""
        index = int(np.searchsorted(self.cuts.at, distance))
        held = [i for i in (index, *np.flatnonzero(self._counts[:index])[-1:]) if self._counts[i]]
        for index in held:
            low, high = self._ends(index)
            if index < len(self.cuts) and self.single[index]:
                nearer = np.array([high])
            else:
                nearer = self._segment(low, high)
            nearer = nearer[nearer < distance]
            if len(nearer):
                return float(nearer[-1])
        return None

    def steps(self, index: int) -> Iterator[tuple[float, int, int]]:
        """Distances between two cuts, each with the positives and negatives up to it from there."""
        low, high = self._ends(index)
        every = self._segment(low, high)
        ours = self.positives.ascending
        first = int(np.searchsorted(ours, low, side="right"))
        for distance in np.unique(every):
            true = int(np.searchsorted(ours, distance, side="right")) - first
            yield float(distance), true, int(np.searchsorted(every, distance, side="right")) - true

    @cached_property
    def single(self) -> npt.NDArray[np.bool_]:
        """For each cut, whether it is the only float64 above the cut before."""
        before = np.concatenate([[-np.inf], self.cuts.at[:-1]])
        return np.asarray(np.nextafter(self.cuts.at, -np.inf) == before)

    def _ends(self, index: int) -> tuple[float, float]:
        at = self.cuts.at
        low = float(at[index - 1]) if index else -np.inf
        return low, float(at[index]) if index < len(at) else np.inf

    def _negatives(self, low: float, high: float) -> Distances:
        """The negatives in (low, high], ascending."""
        every = self._segment(low, high)
        ours = self.positives.ascending
        first, last = np.searchsorted(ours, [low, high], side="right")
        if first == last:
            return every
        values, times = np.unique(every, return_counts=True)
        mine, mine_times = np.unique(ours[first:last], return_counts=True)
        times[np.searchsorted(values, mine)] -= mine_times
        return np.repeat(values, times)

    def _segment(self, low: float, high: float) -> Distances:
        """All pair distances in (low, high], ascending; from another pass if need be."""
        if (low, high) not in self._segments:
            if not self._holds(low, high):
                self._collected.append(Collector(self._missing(low, high)))
                self._sweep([self._collected[-1]])
            collector, number = self._holds(low, high)[0]
            self._segments[low, high] = collector.distances(number, low, high)
        return self._segments[low, high]

    def _holds(self, low: float, high: float) -> list[tuple[Collector, int]]:
        """The collectors, and the numbers of their ranges, that hold all distances of a range."""
        return [
            (collector, number)
            for collector in self._collected
            for number, (start, stop) in enumerate(collector.ranges)
            if start <= low and high <= stop
        ]

    def _missing(self, low: float, high: float) -> list[tuple[float, float]]:
        """This range, and what the FAR targets will ask for: one pass serves them all."""
        found = {(low, high)}
        for target in self._targets:
            index = self._place(target)
            start, stop = self._ends(index)
            known = bool(self._holds(start, stop))
            known |= index < len(self.cuts) and bool(self.single[index])
            if not known and self._counts[index] <= MOST_COLLECTED:
                found.add((start, stop))
        return sorted(found)

    def _place(self, target: Fraction) -> int:
        """Number of the cut up to which the threshold of a FAR target lies."""
        rank = allowed(target, self.impostors) + 1
        return int(np.searchsorted(self.false_accepts, rank))


def _foretell(
    sample: Distances, positives: Positives | None, pairs: int, targets: Sequence[Fraction]
) -> list[tuple[float, float]]:
    """Ranges that probably hold the negatives at these FARs, and at the one that equals FRR."""
    if pairs <= current_settings().collected:
        return [(-np.inf, np.inf)]
    count = len(sample)
    if not count:
        return []
    rates = [float(target) for target in targets]
    if positives is not None and len(positives):
        misses = 1 - positives.up_to(sample) / len(positives)
        meets = np.flatnonzero(np.arange(1, count + 1) / count >= misses)
        rates += [(int(meets[0]) + 1) / count] if len(meets) else []
    found: list[tuple[float, float]] = []
    most = MOST_COLLECTED / max(1, len(rates)) / pairs
    for rate in sorted(rate for rate in set(rates) if rate < 1):
        if most < _half(rate):  # less than half of what it takes: another pass will do it
            continue
        ends = quantile_range(sample, rate, most)
        if found and ends[0] <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ends[1]))
        elif ends[0] < ends[1]:
            found.append(ends)
    return found


def quantile_range(sample: Distances, rate: float, most: float = 1.0) -> tuple[float, float]:
    """The range that probably holds a quantile of all distances, at most a share `most` of them."""
    count = len(sample)
    half = min(_half(rate), most / 2) + 8 / count
    low = int(np.floor((rate - half) * count))
    high = min(int(np.ceil((rate + half) * count)), count - 1)
    return (float(sample[low]) if low >= 0 else -np.inf, float(sample[high]))


def _half(rate: float) -> float:
    """How far a sample's rate may be from the true one.

    Pairs that share a row go together, so the sample is worth less than its size.
    """
    return rate * min(0.5, 0.2 * float(np.sqrt(0.01 / max(rate, 1e-12))))


class Pairs:
    """The pool of all pairs of an evaluation, made when it is first asked for."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.companions: list[Callable[[], list[PairObserver]]] = []
        """Functions that name further observers whenever the pool needs another pass."""

    @cached_property
    def pool(self) -> Pooled:
        """The pool, with all FAR targets and thresholds that metrics ask for."""
        context, mine = self._context, proxy(self)  # no cycle: what is held goes with its last user
        judged = [m for m in context.metrics if registry.definition(m).family == "verification"]
        return Pooled(
            context.positives,
            context.task.queries,
            sample=context.sample,
            pairs=context.pairs,
            targets=sorted({target for m in context.metrics for target in far_targets(m)}),
            thresholds=[
                context.units.cut(metric["tau"])
                for metric in judged
                if metric.get("tau") is not None
            ],
            whole_curve=not len(context.sample) or bool(judged),
            sweep=lambda observers: mine.sweep(observers),
        )

    def curves(self) -> dict[str, Curve]:
        """ROC and DET, where the pool was counted for them."""
        pool = self.pool
        if not (pool.whole_curve and pool.genuine and pool.impostors):
            return {}
        return pool.curves(self._context.space)

    def sweep(self, observers: list[PairObserver]) -> None:
        """Let observers see all pairs in another pass, which the companions join."""
        joining = [observer for companion in self.companions for observer in companion()]
        self._context.sweep([*observers, *joining])


# A histogram of distances: how near mates are, and others.


BINS = 60


def histogram(pool: Pooled, space: Space) -> Curve | None:
    """Shares of mates and of others in bins of distance; None where all distances are the same.

    `distance` is a bin's far end and `from` its near one. Bins are equal, and no narrower than the
    steps of float64, so that distances that hardly differ have fewer; of very many pairs only
    some numbers up to given distances are known: bins end at such as lie nearest, and are at least
    half as wide as equal ones.
    """
    kept = pool.all_distances()
    if kept is not None:
        parts = kept.unordered()
        low, high = min(part.min() for part in parts), max(part.max() for part in parts)
        ends = _distinct(np.linspace(low, high, BINS + 1), space)
        true = pool.positives.up_to(ends)
        false = _up_to(parts, ends) - true
    else:
        at = pool.cuts.at
        even = np.linspace(float(at[0]), float(at[-1]), BINS + 1)
        place = _apart(at, np.unique(np.searchsorted(at, even)), (even[1] - even[0]) / 2)
        ends, true, false = at[place], pool.true_accepts[place], pool.false_accepts[place]
    if not ends[0] < ends[-1]:
        return None
    shares = {}
    for kind, counts, every in (("mates", true, pool.genuine), ("others", false, pool.impostors)):
        counts = counts.copy()
        counts[0], counts[-1] = 0, every  # the first bin holds what is nearer, the last the rest
        shares[kind] = np.diff(counts) / every
    borders = space.in_unit(ends)
    return Curve("scores", {"distance": borders[1:], "from": borders[:-1], **shares})


def _distinct(ends: Distances, space: Space) -> Distances:
    """Ascending ends less those that rounding, also to the user's unit, makes equal to the last."""
    borders = space.in_unit(ends)
    return np.asarray(ends[np.append(True, borders[1:] != borders[:-1])], np.float64)


def _apart(at: Distances, places: npt.NDArray[np.int64], least: float) -> list[int]:
    """Places in ascending distances, the first and the last among them, that lie so far apart."""
    kept = [int(places[0])]
    for place in places[1:].tolist():
        if at[place] - at[kept[-1]] >= least:
            kept.append(place)
        elif place == places[-1] and len(kept) > 1:
            kept[-1] = place
    return kept


def _up_to(parts: list[Distances], thresholds: Distances) -> npt.NDArray[np.int64]:
    """How many distances each of ascending thresholds accepts."""
    cuts = Cuts.of(thresholds)
    counts = np.zeros((1, len(cuts) + 1), np.int64)
    for part in parts:
        tally(part[None, :], cuts, np.zeros(1, np.int64), counts, compiled=compiled())
    return np.asarray(np.cumsum(counts[0])[np.searchsorted(cuts.at, thresholds)], np.int64)


# Verification (1:1): every pair that may meet is a trial, a positive one if it is relevant.


@dataclass(frozen=True)
class PooledPairs:
    """All pairs as one pool, and how many trials they are to a user."""

    pool: Pooled
    units: Units
    both_orders: bool
    """Whether each pair is met twice."""

    @property
    def lacking(self) -> str | None:
        """Why nothing is defined on these pairs, None if they are of both kinds."""
        if not self.pool.genuine:
            return "not defined: no query has a relevant item in the gallery"
        if not self.pool.impostors:
            return "not defined: there are no pairs of different classes"
        return None

    @property
    def positives(self) -> int:
        """Number of positive trials."""
        return self._trials(self.pool.genuine)

    @property
    def negatives(self) -> int:
        """Number of negative trials."""
        return self._trials(self.pool.impostors)

    def score(self, metric: Metric) -> Score:
        """A metric's score on these pairs."""
        reason = self.lacking
        return measure(metric, self) if reason is None else undefined(metric, reason)

    def _trials(self, met: int) -> int:
        # In leave-one-out both orders of a pair are met (but for lopsided masks): one trial.
        return -(-met // (2 if self.both_orders else 1))


# The family of verification, as an evaluation uses it: all pairs as one pool.


class Verification(Family):
    """The metrics over all pairs that an evaluation asks for."""

    def __init__(self, context: Context, metrics: list[Metric], pairs: Pairs) -> None:
        super().__init__(context, metrics)
        self._pairs = pairs  # makes further passes for the pool, which does not hold it
        self.judged = PooledPairs(pairs.pool, context.units, context.both_orders)
        self.observers = [*pairs.pool.observers]

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return self.judged.score(metric)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        return curves(self.judged, self.metrics)

    def without(self, folds: FoldAssignment) -> VerificationFolds:
        """See Family."""
        return VerificationFolds(self.context, self.metrics, self.judged, folds)


# The curves of verification: ROC, DET, precision over recall, and those that its metrics draw.


def curves(pairs: PooledPairs, metrics: Iterable[Metric]) -> dict[str, Curve]:
    """All curves of pairs, and what else the metrics draw; nothing where pairs are of one kind."""
    if pairs.lacking is not None:
        return {}
    found = pairs.pool.curves(pairs.units.space)
    distances = histogram(pairs.pool, pairs.units.space)
    found |= {} if distances is None else {"scores": distances}
    for draw in dict.fromkeys(pair_metric(metric).curve for metric in metrics):
        if draw is not None:
            curve = draw(pairs)
            found[curve.name] = curve
    return found


# Operating points of all pairs and without each fold, from which metrics are computed again.


NEAR = (0.8, 1.25)
"""Shares of a rate between which many pairs say how rates, and thresholds, run at it."""


@dataclass(frozen=True)
class Points:
    """Operating points by threshold: a row for all pairs, then one without each fold."""

    at: Reals
    """Thresholds in the user's unit; the ends, nothing and everything, repeat their neighbors."""
    true: Reals
    """(1 + columns, points): share of positives accepted."""
    false: Reals
    """(1 + columns, points): share of negatives accepted."""
    positives: Reals
    """(1 + columns, 1): number of positives."""
    negatives: Reals
    """(1 + columns, 1): number of negatives."""

    def at_cuts(self, cuts: Integers) -> Points:
        """The operating points at some of the cuts, and at the ends."""
        return self._some(np.concatenate([[0], cuts + 1, [len(self.at) - 1]]))

    def at_cut(self, cut: int) -> Points:
        """The operating point at one cut."""
        return self._some(np.array([cut + 1]))

    def between(self, places: Reals) -> tuple[Reals, Reals]:
        """(1 + columns, places) each: shares of positives and of negatives accepted at places
        between two points, which are counted from 0."""
        return read_rows(self.true, places), read_rows(self.false, places)

    def true_at(self, rates: Reals) -> Reals:
        """(1 + columns, rates): share of positives accepted where negatives are at some rates.

        A threshold moves by what is accepted at it too much, or too little. Which positives lie
        next to it is an accident; so what a negative is worth is taken from all thresholds
        between four fifths and five fourths of the rate.
        """
        whole, number = self.false[0], np.arange(len(self.at), dtype=np.float64)
        true, false = self.between(np.interp(rates, whole, number))
        ends = [np.minimum(share * rates, 1.0) for share in NEAR]
        low, high = (np.interp(end, whole, self.true[0]) for end in ends)
        width = ends[1] - ends[0]
        worth = np.divide(high - low, width, out=np.zeros_like(width), where=width > 0)
        np.subtract(rates, false, out=false)
        false *= worth
        return np.add(true, false, out=true)

    def _some(self, points: Integers) -> Points:
        true, false = self.true[:, points], self.false[:, points]
        return Points(self.at[points], true, false, self.positives, self.negatives)


def read_rows(rows: Reals, places: Reals) -> Reals:
    """Every row at places between two of its numbers, which are counted from 0."""
    before = np.clip(places.astype(np.int64), 0, rows.shape[1] - 2)
    low, high = (np.take(rows, at, axis=1) for at in (before, before + 1))
    high -= low
    high *= places - before
    return np.add(low, high, out=low)


# Verification without each fold of the classes: pairs counted on cells, by fold of the query.


CELLS = 512
"""Cuts at quantiles of the positives, and as many at quantiles of a sample of the negatives."""
FARTHEST = 64
"""Cuts before and behind positives that are among the farthest: of few misses each one counts."""
FEWEST_BELOW = 20
"""A threshold set by fewer negatives than this has no interval: it jumps from one to the next."""


class VerificationFolds:
    """What the pass must count for verification, and the scores without each fold."""

    def __init__(
        self, context: Context, metrics: list[Metric], judged: PooledPairs, folds: FoldAssignment
    ) -> None:
        self._context, self._judged, self._folds = context, judged, folds
        thresholds = [self._cut(m) for m in metrics if m.get("tau") is not None]
        at = places(context.positives.ascending, context.foretold, CELLS)
        self.cuts = Cuts.of(np.concatenate([at, thresholds]))
        # Thresholds that other metrics are asked at must not move a score between cells.
        self._curve = np.unique(np.searchsorted(self.cuts.at, at))
        # One table serves both ways of the folds: its margins are the counts by fold.
        self._columns, self._owner = np.unique(folds.query, axis=0, return_inverse=True)
        self._owner = self._owner.ravel()
        rows = int(np.bincount(self._owner).max())
        most = rows * context.space.gallery
        self._tally = Tally(self.cuts, self._owner, len(self._columns), most=most)

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs."""
        return [self._tally]

    def moves(self, metric: Metric, score: Score) -> Moves:
        """The score without each fold, or why that cannot be told."""
        if metric.get("far") is not None:
            below = allowed(metric["far"], self._judged.negatives)
            if below < FEWEST_BELOW:
                return (
                    f"{count(below, 'negative pair')} below its threshold; an interval needs at "
                    f"least {FEWEST_BELOW}"
                )
        if metric.get("tau") is not None:
            points = self._points.at_cut(self.cuts.where(self._cut(metric)))
        else:
            points = self._points.at_cuts(self._curve)
        values = pair_metric(metric).at_points(points, metric)
        return self._folds.replicates(score.value + (values[1:] - values[0]))

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, BandMoves]:
        """See Without."""
        if self._judged.lacking is not None:  # then there is no curve either
            return {}
        moved = moved_curves(self._points.at_cuts(self._curve), curves, self._judged.negatives)
        own = self._folds.own
        return {
            name: tuple(one.moves(one.without[own]) for one in some) for name, some in moved.items()
        }

    def _cut(self, metric: Metric) -> float:
        """The threshold that a metric is asked at; pairs that never meet are beyond it."""
        return min(self._context.units.cut(metric["tau"]), LARGEST)

    @cached_property
    def _points(self) -> Points:
        cells = len(self.cuts) + 1
        ours = self._context.positives
        place = self._owner[ours.query] * cells
        place += np.searchsorted(self.cuts.at, ours.distance, side="left")
        owners = len(self._columns)
        positive = np.bincount(place, minlength=owners * cells).reshape(-1, cells)
        every = self._tally.counts
        true, positives = self._without(positive, np.ones(self._folds.columns))
        false, negatives = self._without(every - positive, self._gone)
        ends = self.cuts.at[[0, *range(len(self.cuts)), -1]]
        at = self._context.space.in_unit(ends)
        return Points(at, true, false, positives, negatives)

    def _without(self, table: Integers, times: Reals) -> tuple[Reals, Reals]:
        """(1 + columns, points), (1 + columns, 1): shares accepted, and how many pairs there are.

        The table has a row for each owner; a fold's pairs are taken away so many times.
        """
        by_fold = np.zeros((self._folds.columns, table.shape[1]), np.int64)
        for row, columns in zip(table, self._columns, strict=True):
            for column in columns:
                by_fold[column] += row
        # Integers are added up first: a cut more, for a threshold of another metric, moves no bit.
        parts, total = np.cumsum(by_fold, axis=1), np.cumsum(table.sum(axis=0))
        accepted = np.concatenate([total[None].astype(np.float64), total - times[:, None] * parts])
        every = accepted[:, -1:]
        rates = accepted / np.maximum(every, 1.0)
        return np.concatenate([np.zeros((len(rates), 1)), rates], axis=1), every

    @property
    def _gone(self) -> Reals:
        """How often each fold's negatives are to be taken away.

        Twice, in leave-one-out; a little less where pairs inside the fold would go twice as well.
        """
        columns = self._folds.columns
        if not self._folds.takes_items:
            return np.ones(columns)
        of_unit = self._folds.of_unit
        size = np.bincount(self._folds.query_codes, minlength=len(of_unit))
        rows, squares = np.zeros(columns), np.zeros(columns)
        for way in of_unit.T:
            rows += np.bincount(way, size, minlength=columns)
            squares += np.bincount(way, size * size, minlength=columns)
        met = rows * size.sum() - squares
        inside = np.divide(rows * rows - squares, met, out=np.zeros(columns), where=met > 0)
        return np.asarray(2 * (1 - inside), np.float64)


def places(positives: Distances, negatives: Distances, cells: int) -> Distances:
    """Cuts where ascending positives and negatives lie, finer where misses or false accepts are
    few."""
    parts = [np.zeros(0)]
    if len(positives):
        far = at_places(positives, 1 - np.geomspace(1 / len(positives), 1 / 8, FARTHEST))
        even = at_places(positives, np.linspace(0.0, 1.0, cells + 1))
        parts += [even, far, np.nextafter(far, positives[0])]
    if len(negatives):
        parts.append(at_places(negatives, np.geomspace(1 / len(negatives), 1.0, cells)))
    every = np.concatenate(parts)
    return every if len(every) else np.zeros(1)


# The curves of verification without each fold: read off the operating points without it.
#
# ROC and DET move at a rate of false accepts, as tar@far does; precision at a recall; F1 at a
# threshold; a histogram's bars between two of them.


FEWEST_BELOW_OF_CURVES = 10
"""With fewer negatives accepted than this, a curve over their rate has no simultaneous band."""
FEWEST_ALONE = 20
"""With fewer, a score at that rate has no interval."""
FEWEST_MISSED = 5
"""With fewer positives accepted, or rejected, than this, how a curve would move is not known."""


@dataclass(frozen=True)
class MovedCurve:
    """A curve of verification without each fold, of whatever kind."""

    column: str
    like: str | None
    rises: int
    without: Reals
    """(columns of folds, points): NaN where there are too few negatives."""
    sparse: npt.NDArray[np.bool_] | None = None
    bare: npt.NDArray[np.bool_] | None = None
    before: str = ""

    def moves(self, values: Reals, noise: Reals | None = None) -> CurveMoves:
        """The moves without some of the folds."""
        return CurveMoves(
            self.column,
            self.like,
            values,
            noise,
            sparse=self.sparse,
            bare=self.bare,
            rises=self.rises,
            before=self.before,
        )


def moved_curves(
    points: Points, curves: Mapping[str, Curve], negatives: int
) -> dict[str, tuple[MovedCurve, ...]]:
    """The curves that operating points tell of, by name; `negatives` is the number of trials."""
    found: dict[str, tuple[MovedCurve, ...]] = {}
    if "scores" in curves:
        found["scores"] = _moved_histogram(points, curves["scores"])
    for name, (column, like, rises, read) in _READ.items():
        if name in curves:
            curve = curves[name]
            rows = read(points, curve)
            values = curve[column] + (rows[1:] - rows[0])
            sparse = bare = None
            if "far" in curve:  # a point stands for all rates up to that of the next one
                reached = np.append(curve["far"][1:], np.inf) * negatives
                values[:, reached < FEWEST_BELOW_OF_CURVES] = np.nan
                away = np.minimum(curve[column], 1 - curve[column]) * points.positives[0]
                sparse = away < FEWEST_MISSED
                bare = reached < FEWEST_ALONE
            found[name] = (MovedCurve(column, like, rises, values, sparse, bare),)
    return found


def _moved_histogram(points: Points, curve: Curve) -> tuple[MovedCurve, ...]:
    """The bars of mates and those of others."""
    borders = np.append(curve["from"][:1], curve["distance"])
    found = []
    for column, rates, before in (("mates", points.true, ""), ("others", points.false, SECOND)):
        upto = _at_thresholds(points, rates, borders, ends_at=borders[-1])
        upto[:, 0], upto[:, -1] = 0.0, 1.0  # the first bin holds what is nearer, the last the rest
        rows = np.diff(upto, axis=1)
        values = curve[column] + (rows[1:] - rows[0])
        found.append(MovedCurve(column, None, 0, values, before=before))
    return tuple(found)


def _at_thresholds(
    points: Points, rates: Reals, thresholds: Reals, ends_at: float | None = None
) -> Reals:
    """Rates at some thresholds, a row for all pairs and one without each fold.

    Everything is accepted at `ends_at`. Without it, where the last cut is: that may be the farthest
    positive, or a threshold beyond all distances that somebody asked for.
    """
    sign = -1.0 if points.at[0] > points.at[-1] else 1.0  # similarities fall along the points
    wanted, at = sign * thresholds, sign * points.at
    if ends_at is not None:
        at = np.append(np.minimum(at[:-1], sign * ends_at), sign * ends_at)
    return read_rows(rates, np.interp(wanted, at, np.arange(len(at), dtype=np.float64)))


def _accepted(points: Points, curve: Curve) -> Reals:
    """TAR at each FAR of the curve, a row for all pairs and one without each fold."""
    return points.true_at(curve["far"])


def _rejected(points: Points, curve: Curve) -> Reals:
    return 1 - _accepted(points, curve)


def _precision(points: Points, curve: Curve) -> Reals:
    """Precision at each recall of the curve."""
    rows = zip(points.true, points.false, strict=True)
    false = np.stack([np.interp(curve["recall"], true, false) for true, false in rows])
    return _share(curve["recall"] * points.positives, false * points.negatives)


def _f1(points: Points, curve: Curve) -> Reals:
    """F1 at each threshold of the curve."""
    true = _at_thresholds(points, points.true, curve["threshold"]) * points.positives
    false = _at_thresholds(points, points.false, curve["threshold"]) * points.negatives
    return _share(2 * true, false + points.positives - true)


def _share(part: Reals, rest: Reals) -> Reals:
    whole = part + rest
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


_READ: dict[str, tuple[str, str, int, Callable[[Points, Curve], Reals]]] = {
    "roc": ("tar", "tar", 1, _accepted),
    "det": ("frr", "fnmr", -1, _rejected),
    "pr": ("precision", "best_f1", 0, _precision),
    "f1": ("f1", "best_f1", 0, _f1),
}
"""By the curve's name: the column that moves, the metric it is, its direction, and its values."""
