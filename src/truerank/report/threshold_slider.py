"""The threshold slider of a page: what each of 1,001 thresholds leads to, from one pass.

A slider position is a short decimal in the unit of the distance. Its values are those that
evaluate gives for metrics at that threshold (fmr, fnmr, tar, dir, far, mvp, mrep), bit for bit.
The classes that a threshold serves worst are judged as choose_threshold judges them: by their
pairs, or with a gallery by their searches.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from itertools import product
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.threads import PerThread
from truerank._util.types import Integers, Reals
from truerank.analysis.operating_points import WORST, pair_rates
from truerank.core import registry
from truerank.core.metric import Metric, Scale
from truerank.core.tie_groups import LocatedGroups
from truerank.distance import catalogue
from truerank.engine import runner
from truerank.engine.blocks import Cuts, DistanceBlock
from truerank.engine.reducers import Observer, RankObserver
from truerank.metrics.thresholds.family import Context, Positives
from truerank.metrics.thresholds.gom import Axis, Profiles
from truerank.report.threshold_slider_kernels import LIMBS, add_shares
from truerank.result.ranked_rows import AtHand
from truerank.task.task import TaskRules

STOPS = 1001
MOST_COUNTS = 1 << 25
"""Most counters of classes x stops; with more classes, the served worst are not named."""


def collect_stops(
    found: AtHand,
    others: list[Observer],
    *,
    average: str,
    device: str,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """The stops as plain values; the `others` join the pass over all pairs."""
    task, space, threads = found.task, found.space, found.threads
    context = Context(task, space, [], average=average, device=device, threads=threads)
    thresholds = _thresholds(context)
    seen = _Seen(context, np.array([context.units.cut(Fraction(text)) for text in thresholds]))
    blocks = runner.tie_groups(
        task.view,
        space,
        device=device,
        threads=threads,
        observers=[seen, *others],
        progress=progress,
        keep=False,
    )
    with closing(blocks):
        for _ in blocks:
            pass
    return {"threshold": thresholds, **seen.values()}


def _thresholds(context: Context) -> list[str]:
    """Decimals from the nearest mates on to where every mate, or many others, are accepted."""
    space = context.space
    turn = -1 if catalogue.find(space.facts.distance).larger_is_nearer else 1
    mates, others = context.positives.ascending, context.foretold
    others = others[np.isfinite(others)]
    ends = [*mates[[0, -1]]] if len(mates) else []
    ends += [others[0], others[len(others) // 10]] if len(others) else []
    unit = turn * space.in_unit(np.array(ends or [0.0]))
    stops = stops_between(float(min(unit)), float(max(unit)), STOPS)
    return [f"{turn * stop if stop else stop:f}" for stop in stops]


class _Seen(RankObserver):
    """Observes every row with its tie groups, for all that stops show."""

    def __init__(self, context: Context, cuts: Reals) -> None:
        self._context = context
        self._at, place = np.unique(cuts, return_inverse=True)
        self._place, self._cuts = place, Cuts.of(self._at)
        task, stops = context.task, len(self._at)
        self._first = np.full(task.queries, np.inf)
        self._hits = np.zeros(task.queries)
        self._nearest = np.full(task.queries, np.inf)
        mates = context.with_mate
        codes = task.query_codes
        self._with_mate = ExactMean(codes, mates, by_class=context.by_class)
        self._unmated = ExactMean(codes, ~mates, by_class=context.by_class)
        buckets = self._with_mate.buckets
        self._shares = PerThread(lambda: np.zeros((buckets, stops, 2, LIMBS), np.int64))
        classes = 0 if task.levels is None else len(task.levels.finest.values)
        self.counts_classes = task.leave_one_out and 0 < classes * (stops + 1) <= MOST_COUNTS
        self._counts = np.zeros((classes if self.counts_classes else 1, stops + 1), np.int64)
        self._lock = Lock()

    def observe(self, block: DistanceBlock, groups: LocatedGroups) -> None:
        """See RankObserver."""
        rows = block.rows
        table = np.zeros((len(rows), len(self._cuts) + 1), np.int64)
        block.tally(self._cuts, np.arange(len(rows)), lambda: nullcontext(table))
        owner = self._context.task.query_codes[rows] if self.counts_classes else 0 * rows
        with self._lock:
            np.add.at(self._counts, owner, table)
        self._nearest[rows] = block.least()
        held = np.flatnonzero(np.diff(groups.offsets))
        if not len(held):
            return
        some, chosen = groups.some(held), rows[held]
        steps = Profiles.of(some, Axis(0.0, 1.0))
        accepted = np.cumsum(table[held, :-1], axis=1)
        add_shares(
            steps.offsets, steps.distance, steps.sums, steps.found, accepted, self._at,
            self._with_mate.bucket[chosen], self._shares.mine(),
        )  # fmt: skip
        self._first[chosen] = some.distance[some.offsets[:-1]]
        hit = Metric("hit", 1)
        self._hits[chosen] = registry.ranking(hit).per_query(some, hit, Scale(np.ones(1)))[0]

    def values(self) -> dict[str, Any]:
        """All columns at every stop, and the classes served worst."""
        context, task = self._context, self._context.task
        accepted = np.cumsum(self._counts.sum(axis=0))
        positives = context.positives
        true = positives.up_to(self._at)
        false = accepted[:-1] - true
        genuine, impostors = len(positives), int(accepted[-1]) - len(positives)
        columns: dict[str, list[float | None]] = {}
        if impostors:
            columns["far"] = (false / impostors).tolist()
        if genuine:
            columns["frr"] = ((genuine - true) / genuine).tolist()
            columns["tar"] = (true / genuine).tolist()
        mates = context.with_mate
        identified = np.where(self._hits == 1, self._first, np.inf)
        columns["dir"] = self._with_mate.up_to(identified, self._at)
        columns["open_set_far"] = self._unmated.up_to(self._nearest, self._at)
        if context.space.unit_scale is not None:
            shares = np.sum(self._shares.all(), axis=0)
            columns["vp"] = self._with_mate.of_limbs(shares[:, :, 0])
            columns["rep"] = self._with_mate.of_limbs(shares[:, :, 1])
        kept = {
            name: [values[at] for at in self._place.tolist()]
            for name, values in columns.items()
            if values and values[0] is not None
        }
        served = None
        if task.levels is not None and self.counts_classes:
            served = by_pairs(task, positives, self._counts, self._at)
        elif task.levels is not None and not task.leave_one_out:
            served = by_searches(task, mates, identified, self._nearest, self._at)
        if served is not None:
            served["worst"] = [served["worst"][at] for at in self._place.tolist()]
            served["median"] = [served["median"][at] for at in self._place.tolist()]
        trials = {"positive": genuine, "negative": impostors}
        if task.leave_one_out:  # every pair was met twice
            trials = {name: number // 2 for name, number in trials.items()}
        return {"values": kept, "trials": trials, "served": served}


# Where a slider stops: short decimals at equal steps, so that anyone can type one in.


STEPS = [Decimal(text) for text in ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")]
NEAR_ZERO = 0.2
"""A range that begins this near to 0, as a share of its end, begins there."""


def stops_between(low: float, high: float, count: int) -> list[Decimal]:
    """So many decimals at a round step that cover a range, as closely as such a step can.

    Examples
    --------
    >>> [str(stop) for stop in stops_between(0.013, 0.29, 4)]
    ['0.0', '0.1', '0.2', '0.3']
    """
    if 0 <= low <= NEAR_ZERO * high:
        low = 0.0
    first, last = Decimal(low), Decimal(high)
    span = last - first or abs(last) or Decimal(1)
    exponent = (span / (count - 1)).adjusted()
    for power, size in product(range(exponent, exponent + 3), STEPS):
        step = size.scaleb(power)
        start = (first / step).to_integral_value(ROUND_FLOOR) * step
        if start + (count - 1) * step >= last:
            break
    return [(start + number * step).quantize(step) for number in range(count)]


# The classes that each threshold serves worst, as choose_threshold judges them.
#
# Without a gallery a class is judged by its pairs; with one by its searches: the share of its
# queries that do not find and accept their mate, or, where they have none, accept a stranger.


def by_pairs(
    task: TaskRules, positives: Positives, counts: Integers, cuts: Reals
) -> dict[str, Any] | None:
    """Worst classes by pairs; `counts` are the pairs of each class between two cuts."""
    code = task.query_codes[positives.query]
    place = np.searchsorted(cuts, positives.distance, side="left")
    true = np.zeros(counts.shape, np.int64)
    np.add.at(true, (code, place), 1)
    true = np.cumsum(true, axis=1)
    false = np.cumsum(counts, axis=1) - true
    genuine, impostors = true[:, -1], false[:, -1]
    judged = np.flatnonzero((genuine > 0) & (impostors > 0))
    utility = np.empty((len(cuts), len(judged)))
    for stop in range(len(cuts)):
        utility[stop] = pair_rates(
            true[judged, stop], genuine[judged], false[judged, stop], impostors[judged]
        )[2]
    return _worst("pairs", task, judged, utility, (true, false), (genuine, impostors))


def by_searches(
    task: TaskRules,
    with_mate: npt.NDArray[np.bool_],
    identified: Reals,
    nearest: Reals,
    cuts: Reals,
) -> dict[str, Any] | None:
    """Worst classes by searches: `identified` is where a query's mate is found and accepted."""
    codes = task.query_codes
    classes = len(task.named_levels.finest.values)
    sides = []
    for counts, distance in ((with_mate, identified), (~with_mate, nearest)):
        table = np.zeros((classes, len(cuts) + 1), np.int64)
        np.add.at(table, (codes[counts], np.searchsorted(cuts, distance[counts])), 1)
        sides.append(np.cumsum(table, axis=1))
    searches, strangers = (side[:, -1] for side in sides)
    missed, accepted = searches[:, None] - sides[0], sides[1]
    judged = np.unique(codes)
    utility = np.empty((len(cuts), len(judged)))
    for stop in range(len(cuts)):
        rates = [
            np.divide(errors[judged, stop], trials[judged], out=np.zeros(len(judged)),
                      where=trials[judged] > 0)
            for errors, trials in ((missed, searches), (accepted, strangers))
        ]  # fmt: skip
        utility[stop] = 1 - np.maximum(*rates)
    return _worst("searches", task, judged, utility, (missed, accepted), (searches, strangers))


def _worst(
    kind: str,
    task: TaskRules,
    judged: Integers,
    utility: Reals,
    counts: tuple[Integers, Integers],
    trials: tuple[Integers, Integers],
) -> dict[str, Any] | None:
    """The few classes of lowest utility at each stop, as text: a place in `labels`, two counts."""
    if not len(judged):
        return None
    chosen = [judged[np.lexsort((judged, row))[:WORST]] for row in utility]
    named = np.unique(np.concatenate(chosen))
    names = task.named_levels.finest.values
    middle = int(np.ceil(0.5 * (len(judged) - 1)))
    return {
        "kind": kind,
        "classes": len(judged),
        "labels": [str(names[code]) for code in named.tolist()],
        "trials": [[int(side[code]) for side in trials] for code in named.tolist()],
        "worst": [
            ";".join(f"{place} {first} {second}" for place, first, second in zip(
                np.searchsorted(named, some), *(side[some, stop] for side in counts), strict=True
            ))
            for stop, some in enumerate(chosen)
        ],
        "median": np.sort(utility, axis=1)[:, middle].tolist(),
    }  # fmt: skip


# Means over queries, or over classes, at many thresholds: exact sums, rounded once.


class ExactMean:
    """The mean of some queries' values, as an evaluation takes it.

    Classes of one size weigh alike, so their values are added up in one bucket.
    """

    def __init__(
        self, codes: Integers, counts: npt.NDArray[np.bool_], *, by_class: bool = False
    ) -> None:
        self._rows = np.flatnonzero(counts)
        self.bucket = np.zeros(len(codes), np.int64)
        self._weights = [Fraction(1, max(1, len(self._rows)))]
        if by_class and len(self._rows):
            _, number, size = np.unique(codes[counts], return_inverse=True, return_counts=True)
            sizes = np.unique(size)
            self.bucket[self._rows] = np.searchsorted(sizes, size[number])
            self._weights = [Fraction(1, one * len(size)) for one in sizes.tolist()]

    @property
    def buckets(self) -> int:
        """How many sums there are."""
        return len(self._weights)

    def up_to(self, distances: Reals, cuts: Reals) -> list[float | None]:
        """The share of queries whose distance is at most each cut; None if no query counts."""
        if not len(self._rows):
            return [None] * len(cuts)
        found = np.empty((self.buckets, len(cuts)), np.int64)
        for bucket in range(self.buckets):
            mine = self._rows[self.bucket[self._rows] == bucket]
            found[bucket] = np.searchsorted(np.sort(distances[mine]), cuts, side="right")
        return [self._mean([*map(Fraction, column)]) for column in found.T.tolist()]

    def of_limbs(self, limbs: Integers) -> list[float | None]:
        """Means from sums (bucket, cut, limb), each limb 32 bits behind the one before."""
        if not len(self._rows):
            return [None] * limbs.shape[1]
        count = limbs.shape[2]
        whole = [
            [sum(int(one) << (32 * (count - 1 - n)) for n, one in enumerate(cell)) for cell in row]
            for row in limbs.tolist()
        ]
        one = 1 << (32 * count)
        return [
            self._mean([Fraction(total, one) for total in column])
            for column in zip(*whole, strict=True)
        ]

    def _mean(self, sums: list[Fraction]) -> float:
        total = sum(
            (part * weight for part, weight in zip(sums, self._weights, strict=True)), Fraction(0)
        )
        return total.numerator / total.denominator
