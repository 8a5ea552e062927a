"""The stops of the threshold slider: what each of 1,001 thresholds leads to, from one pass.

A stop is a short decimal in the distance's own unit, and its values are those that evaluate gives
for metrics at that threshold (fmr, fnmr, tar, dir, far, mvp, mrep), bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from fractions import Fraction
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.core import registry
from truerank.core.groups import LocatedGroups
from truerank.core.metric import Metric
from truerank.core.scale import Scale
from truerank.engine.cuts import Cuts
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import Observer, RankObserver
from truerank.engine.threads import PerThread
from truerank.families.family import Context
from truerank.families.gom.axis import Axis
from truerank.families.gom.profiles import Profiles
from truerank.ranked import AtHand
from truerank.report.exact_means import ExactMean
from truerank.report.places import stops_between
from truerank.report.served import by_pairs, by_searches
from truerank.report.stop_kernels import LIMBS, add_shares
from truerank.space import catalogue

__all__ = ["STOPS", "collect_stops"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
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
    blocks = engine.tie_groups(
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
        self._no_mate = ExactMean(codes, ~mates, by_class=context.by_class)
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
        columns["open_set_far"] = self._no_mate.up_to(self._nearest, self._at)
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
