"""All pairs of a task as one pool: how many positives and negatives each threshold accepts.

Where the whole ROC curve is wanted, the cuts are the distinct positive distances and the float64
just below each: between two of them only negatives lie, so that counts tell it all. Order
statistics of the negatives are looked up in ranges that a sample foretold, or collected in a second
pass; either way they are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from weakref import proxy

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.core import registry
from truerank.core.curve import POINTS, Curve
from truerank.engine.cuts import Cuts
from truerank.engine.distance_block import DistanceRange
from truerank.engine.observers import Collector, PairObserver, Tally
from truerank.families.family import Context, Positives
from truerank.families.thresholds import allowed, far_targets
from truerank.settings import current_limits, current_settings
from truerank.space import Distances, Space

__all__ = ["Pairs", "Pooled", "quantile_range"]

Integers = npt.NDArray[np.int64]
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
