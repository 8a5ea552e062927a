"""Evidence: what threshold metrics are made of, counted in the same pass as the tie groups.

Metrics say what they need; the evidence hands watchers to the engine, keeps what they saw, and runs
a further pass only where a number cannot be known from the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import proxy

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.checkpoint import fill
from truerank.engine.counts import LocatedGroups
from truerank.engine.cuts import largest_float
from truerank.engine.watch import (
    Extent,
    Nearest,
    RankWatcher,
    Watcher,
    Witness,
    restore,
    states,
)
from truerank.evidence.axis import Axis
from truerank.evidence.classes import ClassTable, ClassTally, cells
from truerank.evidence.consistency import Formula, Utilities, measure, measure_sampled
from truerank.evidence.gom import Gom
from truerank.evidence.peaks import Peak, peaks
from truerank.evidence.pooled import Pooled, quantile_range
from truerank.evidence.positives import Positives, distances
from truerank.evidence.sampled import SampledNegatives, draw
from truerank.metrics import registry
from truerank.metrics.average import class_mean, mean
from truerank.metrics.registry import Metric
from truerank.settings import current_limits
from truerank.space import Distances, Space
from truerank.space.fingerprint import mix
from truerank.task import Task

if TYPE_CHECKING:
    from truerank.metrics.consistency import Consistency

__all__ = ["Evidence"]

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
HIGHEST = ("mrep_max", "mvp_max", "tau_max")
ROUGH_ROWS = 64


class Evidence:
    """What was seen of a task besides its tie groups."""

    def __init__(
        self,
        task: Task,
        space: Space,
        metrics: Iterable[Metric],
        *,
        average: str,
        device: str,
        threads: int | None,
        seed: int = 0,
    ) -> None:
        self.seed, self._limits = seed, current_limits()
        self.task, self.space, self.by_class = task, space, average == "class"
        self._device, self.threads = device, threads or engine.available_cores()
        self.metrics = list(metrics)
        families = {registry.definition(metric).family for metric in self.metrics}
        self._nearest = Nearest(task.queries)
        self.watchers: list[Witness] = []
        if "openset" in families or any(metric.name == "tau_nz" for metric in self.metrics):
            self.watchers.append(self._nearest)
        self.first = np.full(task.queries, np.inf)
        """Distance of every query's nearest relevant item, infinite if it has none."""
        ranks = {int(m.option("rank") or 1) for m in self.metrics if m.name == "dir"}
        self.hits = {rank: np.full((3, task.queries), np.nan) for rank in sorted(ranks)}
        """By rank: lower, expected and upper of whether a relevant item is among the first."""
        self.gom: dict[str, Gom | str] = {}
        """By scale: what was seen of GOM, or why it is not defined."""
        self._peaks: dict[str, list[Peak]] = {}
        self._plan_gom()
        self._class_tally: ClassTally | None = None
        self.has_pool = bool(families & {"verification", "consistency"})
        """Whether pairs are looked at as one pool."""
        if self.has_pool:
            self._class_tally = self._plan_classes()
            self.watchers += self.pool.watchers
        self._utilities: dict[tuple[object, ...], Utilities | None] = {}
        self._sampled: dict[tuple[int, int], SampledNegatives] = {}
        self.consistency: Consistency | None = None
        """Where OPIS was taken first, and what stands beside it."""

    def take(self, rows: npt.NDArray[np.int64], groups: LocatedGroups) -> None:
        """The tie groups, by the finest label, of queries that have a mate."""
        self.first[rows] = groups.distance[groups.offsets[:-1]]
        for rank, table in self.hits.items():
            metric = Metric("hit", rank)
            hit = registry.ranking(metric).per_query
            table[:, rows] = hit(groups, metric, registry.Scale(np.ones(1)))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What was seen so far, by name, while no pass is under way."""
        state = {name: array.copy() for name, array in self._of_groups().items()}
        return state | states(self.watchers)

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Go on from there; a KeyError or a ValueError says that it is no state of this task."""
        for name, array in self._of_groups().items():
            fill(array, state[name])
        restore(self.watchers, state)

    def _of_groups(self) -> dict[str, Reals]:
        return {"first": self.first} | {f"hits-{rank}": table for rank, table in self.hits.items()}

    # -- GOM ----------------------------------------------------------------------------------

    def _plan_gom(self) -> None:
        asked = [m for m in self.metrics if registry.definition(m).family == "gom"]
        for scale in sorted({metric.option("scale") or "fixed" for metric in asked}):
            some = [m for m in asked if (m.option("scale") or "fixed") == scale]
            axis = self._axis(scale)
            if axis is None:
                self.gom[scale] = (
                    "not defined: thresholds of GOM lie in [0, 1], which these distances leave; "
                    "ask for scale=minmax"
                )
                continue
            integrals = [
                m.option("integral") for m in some if m.name == "mrep" and not m.option("tau")
            ]
            small = self.pairs <= self._limits.breakpoints
            self.gom[scale] = Gom(
                axis,
                self.task.queries,
                self.space.gallery,
                exact="exact" in integrals or (None in integrals and small),
                bracketed=None in integrals and not small,
                limits=[int(m.option("b") or 3000) for m in some if m.name in ("mfr", "tau_nz")],
                taus=[Fraction(m.option("tau") or 0) for m in some if m.option("tau")],
                peaks=any(m.name in HIGHEST for m in some),
            )
        self.watchers += [gom for gom in self.gom.values() if isinstance(gom, Gom)]

    def peaks(self, scale: str) -> list[Peak]:
        """Where mVP and mReP are highest."""
        if scale not in self._peaks:
            self._peaks[scale] = peaks(self.gom_on(scale), self.sweep)
        return self._peaks[scale]

    def gom_on(self, scale: str) -> Gom:
        """What was seen of GOM on a scale on which it is defined."""
        gom = self.gom[scale]
        if isinstance(gom, str):
            raise LookupError(gom)
        return gom

    def _axis(self, scale: str) -> Axis | None:
        if scale == "minmax":
            extent = Extent()
            self.sweep([extent])
            low, high = extent.ends
            return Axis(low, (high - low) or 1.0)
        if self.space.unit_scale is None:
            return None
        return Axis(0.0, 1 / self.space.unit_scale)

    # -- classes ------------------------------------------------------------------------------

    def _plan_classes(self) -> ClassTally | None:
        """Cells around the default range, where a sample can foretell it."""
        asked = self._calibration
        if asked is None or not len(self.sample):
            return None
        ends = [quantile_range(self.sample, float(target)) for target in asked]
        cuts = self._cells(ends[0][0], ends[1][1])
        if self.pool.whole_curve:
            tally = ClassTally(self.task, self.positives, cuts)
            self.watchers.append(tally.tally)
        else:  # one tally serves both
            cuts = np.union1d(cuts, self.pool.cuts.at)
            tally = ClassTally(self.task, self.positives, cuts)
            self.pool.count_with(tally.tally, tally.times)
        return tally

    @property
    def _class_table(self) -> ClassTable | None:
        tally = self._class_tally
        return None if tally is None else tally.table(threads=self.threads)

    @cached_property
    def _calibration(self) -> list[Fraction] | None:
        """The FAR targets of the first OPIS whose range they set, if classes can be counted."""
        asked = [
            m
            for m in self.metrics
            if m.name == "opis" and not m.option("frr") and not m.option("negatives")
        ]
        if not asked or self.task.levels is None or not self.positives:
            return None
        text = asked[0].option("far") or registry.entry("opis").defaults["far"]
        return [Fraction(part) for part in text.split(":")]

    def _cells(self, low: float, high: float) -> Distances:
        return cells(low, high, len(np.unique(self.task.query_codes)))

    def _sweep_for_pool(self, watchers: list[Watcher]) -> None:
        """A pass that the pool needs; classes that no sample let us count join it."""
        asked = self._calibration
        if (
            asked is not None
            and self._class_tally is None
            and self.pairs > self._limits.breakpoints
        ):
            low, high = (self.pool.around(target) for target in asked)
            if -np.inf < low[0] < high[1] < np.inf:
                cuts = self._cells(low[0], high[1])
                self._class_tally = ClassTally(self.task, self.positives, cuts)
                watchers = [*watchers, self._class_tally.tally]
        self.sweep(watchers)

    def formula(self, metric: Metric) -> Formula:
        """Which utility OPIS is asked to compare."""
        weight = Fraction(metric.option("c") or 1)
        positive = 0.5 if self.task.leave_one_out else 1.0
        return Formula(
            float(weight * weight),
            positive if metric.option("utility") == "precision" else 0.0,
            metric.option("mean") == "pooled",
        )

    def utilities(self, metric: Metric, low: float, high: float) -> Utilities | None:
        """The classes between two distances."""
        exact = metric.option("integral") == "exact" or self.pairs <= self._limits.breakpoints
        formula = self.formula(metric)
        sample = self.sampled(metric)
        key = (low, high, formula, exact, metric.option("negatives"), metric.option("seed"))
        if key not in self._utilities and sample is not None:
            self._utilities[key] = measure_sampled(sample, self.space, low, high, formula)
        if key not in self._utilities:
            self._utilities[key] = measure(
                self.task,
                self.space,
                self.positives,
                low,
                high,
                formula,
                exact=exact,
                seen=self._class_table,
                sweep=self.sweep,
                threads=self.threads,
            )
        return self._utilities[key]

    def sampled(self, metric: Metric) -> SampledNegatives | None:
        """The negatives that OPIS is asked to sample, if it is."""
        if metric.option("negatives") is None:
            return None
        each, seed = int(metric.option("negatives") or 0), int(metric.option("seed") or 0)
        if (each, seed) not in self._sampled:
            sample = draw(self.task, self.space, self.positives, each, seed)
            self._sampled[each, seed] = sample
        return self._sampled[each, seed]

    # -- queries ------------------------------------------------------------------------------

    @property
    def with_mate(self) -> Flags:
        """Q+: queries that have something to find."""
        return np.asarray(self.task.mates > 0)

    @property
    def nearest(self) -> Distances:
        """Distance of every query's nearest candidate, relevant or not."""
        return self._nearest.distance

    def mean(self, values: Reals, counts: Flags) -> float:
        """The mean over the queries that count, or over their classes."""
        if self.by_class:
            return class_mean(values[counts], self.task.query_codes[counts])
        return mean(values[counts])

    # -- thresholds ---------------------------------------------------------------------------

    def cut(self, threshold: Fraction) -> float:
        """The largest distance that a threshold in the distance's own unit accepts."""
        return largest_float(self.space.raw(threshold))

    def in_unit(self, distance: float | None) -> float | None:
        """A distance in the user's unit."""
        if distance is None or not np.isfinite(distance):
            return None
        return float(self.space.in_unit(np.array([distance]))[0])

    # -- pairs --------------------------------------------------------------------------------

    @property
    def both_orders(self) -> bool:
        """Whether each pair is met twice."""
        return self.task.leave_one_out

    @cached_property
    def positives(self) -> Positives:
        """All relevant pairs."""
        return Positives.of(self.task.view, self.space, self.threads)

    @property
    def pairs(self) -> int:
        """Pairs that are looked at, those that never meet included."""
        return self.task.queries * self.space.gallery

    def sweep(self, watchers: list[Watcher]) -> None:
        """One more pass over all pairs."""
        engine.sweep(
            self.task.view, self.space, watchers, device=self._device, threads=self.threads
        )

    def look_again(self, watcher: RankWatcher, rows: npt.NDArray[np.int64]) -> None:
        """Show a few queries once more, with their tie groups by the finest label."""
        blocks = engine.tie_groups(
            self.task.view,
            self.space,
            device=self._device,
            threads=self.threads,
            watchers=[watcher],
            only=rows,
        )
        with closing(blocks):
            for _ in blocks:
                pass

    @cached_property
    def pool(self) -> Pooled:
        """All pairs as one, with the thresholds that metrics ask for."""
        mine = proxy(self)  # no cycle: what is held here goes with its last user
        targets = {
            Fraction(part)
            for metric in self.metrics
            for part in (
                metric.option("far") or registry.definition(metric).defaults.get("far", "")
            ).split(":")
            if part
        }
        return Pooled(
            self.positives,
            self.task.queries,
            sample=self.sample,
            pairs=self.pairs,
            targets=sorted(targets),
            thresholds=[
                self.cut(Fraction(tau))
                for metric in self.metrics
                if registry.definition(metric).family == "verification"
                and (tau := metric.option("tau")) is not None
            ],
            whole_curve=not len(self.sample)
            or any(registry.definition(m).family == "verification" for m in self.metrics),
            sweep=lambda watchers: mine._sweep_for_pool(watchers),
        )

    @cached_property
    def sample(self) -> Distances:
        """Distances of some irrelevant pairs, the same ones in whatever order rows come.

        Empty where the task is small or rows cannot be told apart by content.
        """
        prints = self.space.contents()
        rows = self._limits.sampled_rows
        if prints is None or self.pairs <= self._limits.sampled_from or not rows:
            return np.empty(0)
        query, item = (_choose(numbers, rows) for numbers in prints)
        return np.empty(0) if query is None or item is None else self._between(query, item)

    @cached_property
    def foretold(self) -> Distances:
        """The sample, or a rough one where it is empty: good enough to say where cells may lie."""
        if len(self.sample):
            return self.sample
        query = _choose(self.space.fingerprints().astype(np.int64), ROUGH_ROWS)
        if query is None:
            return np.empty(0)
        return self._between(query, np.arange(self.space.gallery))

    def _between(self, query: npt.NDArray[np.int64], item: npt.NDArray[np.int64]) -> Distances:
        """Distances of the irrelevant pairs of these rows, ascending."""
        block = self.task.view.block(query)
        never = np.zeros((len(query), self.space.gallery), bool)
        for part in (block.relevant, block.excluded):
            never[part.query, part.item] = True
        row, column = np.nonzero(~never[:, item])
        return np.sort(distances(self.space, query[row], item[column], self.threads))


def _choose(prints: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64] | None:
    """Some rows by their fingerprints, all those of one fingerprint or none; None if too many."""
    scrambled = mix(prints)
    last = np.sort(scrambled)[min(rows, len(prints)) - 1]
    chosen = np.flatnonzero(scrambled <= last)
    return chosen if len(chosen) <= 2 * rows else None
