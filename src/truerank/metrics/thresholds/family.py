"""Base class of a family of threshold metrics, its context, and the families of one evaluation.

The context holds the task, the distances and the relevant pairs, and lets reducers see pairs
again in another pass. A collection has all families that an evaluation asks for, side by side
in one pass. The nearest candidate of every query without each jackknife group is here too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.checkpoint import fill
from truerank._util.settings import current_limits
from truerank._util.threads import available_cores
from truerank._util.types import Array, Flags, Integers, Reals
from truerank.core import registry
from truerank.core.average import class_mean, mean
from truerank.core.curve import BandMoves, Curve
from truerank.core.jackknife import FoldAssignment, Replicates
from truerank.core.metric import FAMILIES, Metric
from truerank.core.score import Score
from truerank.core.tie_groups import LocatedGroups
from truerank.distance.base import Distances, Rows, Space
from truerank.distance.digests import mix
from truerank.engine import runner
from truerank.engine.blocks import largest_float
from truerank.engine.reducers import (
    NearestByFold,
    NearestDistance,
    PairObserver,
    RankObserver,
    ResumableObserver,
    restore,
    states,
)
from truerank.metrics.gallery_sizes import Growth
from truerank.task.relevance import View
from truerank.task.task import TaskRules

if TYPE_CHECKING:
    from truerank.metrics.thresholds.pair_pool import Pairs


Moves = tuple[Replicates, Replicates] | str
"""A score without each of the own and of the paired folds, or why that cannot be told."""
ROUGH_ROWS = 64
_LISTED, _PAIRS = 1 << 22, 1 << 13
"""Pairs that are listed, and whose distances are taken, at a time."""


@dataclass(frozen=True)
class Units:
    """Conversion from the unit of a distance to the numbers of a space, and back."""

    space: Space

    def cut(self, threshold: Fraction) -> float:
        """The largest distance that a threshold in the distance's own unit accepts."""
        return largest_float(self.space.raw(threshold))

    def in_unit(self, distance: float | None) -> float | None:
        """A distance in the user's unit; None if there is none."""
        if distance is None or not np.isfinite(distance):
            return None
        return float(self.space.in_unit(np.array([distance]))[0])


@dataclass(frozen=True)
class Positives:
    """Relevant pairs by query; in leave-one-out each unordered pair stands here twice."""

    query: Rows
    distance: Distances

    @staticmethod
    def of(view: View, space: Space, threads: int = 1) -> Positives:
        """All relevant pairs of a view, their distances by integer arithmetic."""

        parts = []
        step = max(1, _LISTED // max(1, int(view.mates.max(initial=0))))
        for start in range(0, view.queries, step):
            rows = np.arange(start, min(start + step, view.queries))
            pairs = view.relevant(rows)
            query = rows[pairs.query]
            parts.append((query, distances(space, query, pairs.item, threads)))
        query, distance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Positives(query, distance)

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def ascending(self) -> Distances:
        """The distances in ascending order."""
        return np.sort(self.distance)

    def up_to(self, thresholds: Distances) -> npt.NDArray[np.int64]:
        """Relevant pairs accepted at each threshold."""
        return np.searchsorted(self.ascending, thresholds, side="right")


class Context:
    """One evaluation, as its families of threshold metrics see it.

    Parameters
    ----------
    metrics : all threshold metrics that are asked for, of whatever family
    seed : seed of what is shuffled beside a score, such as the noise of OPIS
    """

    def __init__(
        self,
        task: TaskRules,
        space: Space,
        metrics: Sequence[Metric],
        *,
        average: str,
        device: str,
        threads: int | None,
        seed: int = 0,
    ) -> None:
        self.task, self.space, self.metrics = task, space, list(metrics)
        self.by_class, self.seed = average == "class", seed
        self.threads, self._device = threads or available_cores(), device
        self.limits, self.units = current_limits(), Units(space)
        self.nearest = NearestDistance(task.queries)
        """Observes every query's nearest candidate, if a family lists it among its observers."""

    # -- queries ------------------------------------------------------------------------------

    @property
    def with_mate(self) -> Flags:
        """Q+: queries that have something to find."""
        return np.asarray(self.task.n_relevant > 0)

    def mean(self, values: Reals, counts: Flags) -> float:
        """The mean over the queries that count, or over their classes."""
        if self.by_class:
            return class_mean(values[counts], self.task.query_codes[counts])
        return mean(values[counts])

    def weights(self, counts: Flags) -> Reals:
        """How much each query counts in a mean: alike, or such that its class does."""
        found = np.ones(len(counts))
        if self.by_class:
            rows = np.flatnonzero(counts)
            codes = self.task.query_codes
            found[rows] = 1.0 / np.bincount(codes[rows])[codes[rows]]
        return found

    # -- pairs --------------------------------------------------------------------------------

    @property
    def both_orders(self) -> bool:
        """Whether each pair is met twice, once from either side."""
        return self.task.leave_one_out

    @property
    def pairs(self) -> int:
        """Number of all pairs of a query and an item, those that never meet included."""
        return self.task.queries * self.space.gallery

    @cached_property
    def positives(self) -> Positives:
        """All relevant pairs."""
        return Positives.of(self.task.view, self.space, self.threads)

    @cached_property
    def sample(self) -> Distances:
        """Distances of some irrelevant pairs, the same ones in whatever order rows come.

        Empty where the task is small or rows cannot be distinguished by content.
        """
        prints, rows = self.space.contents(), self.limits.sampled_rows
        if prints is None or self.pairs <= self.limits.sampled_from or not rows:
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

    def _between(self, query: Integers, item: Integers) -> Distances:
        """Distances of the irrelevant pairs of these rows, ascending."""
        block = self.task.view.block(query)
        never = np.zeros((len(query), self.space.gallery), bool)
        for part in (block.relevant, block.excluded):
            never[part.query, part.item] = True
        row, column = np.nonzero(~never[:, item])
        return np.sort(distances(self.space, query[row], item[column], self.threads))

    # -- further passes -----------------------------------------------------------------------

    def sweep(self, observers: list[PairObserver]) -> None:
        """Let observers see all pairs in one more pass."""
        runner.sweep(
            self.task.view, self.space, observers, device=self._device, threads=self.threads
        )

    def observe_again(self, observer: RankObserver, rows: Integers) -> None:
        """Let an observer see a few queries once more, with tie groups by the finest label."""
        blocks = runner.tie_groups(
            self.task.view,
            self.space,
            device=self._device,
            threads=self.threads,
            observers=[observer],
            only=rows,
        )
        with closing(blocks):
            for _ in blocks:
                pass


def _choose(prints: Integers, rows: int) -> Integers | None:
    """Some rows by their fingerprints, all those of one fingerprint or none; None if too many."""
    scrambled = mix(prints)
    last = np.sort(scrambled)[min(rows, len(prints)) - 1]
    chosen = np.flatnonzero(scrambled <= last)
    return chosen if len(chosen) <= 2 * rows else None


def distances(space: Space, query: Rows, item: Rows, threads: int) -> Distances:
    """The distances of single pairs, by several threads."""

    def some(start: int) -> Distances:
        part = slice(start, start + _PAIRS)
        return space.pairs(query[part], item[part])

    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate([*pool.map(some, range(0, len(query), _PAIRS)), np.empty(0)])


class FamilyReplicates(Protocol):
    """A family without each fold of the classes."""

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs of the first pass."""

    def moves(self, metric: Metric, score: Score) -> Moves:
        """A score that exists without each fold, or why that cannot be told."""

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, BandMoves]:
        """Each of the family's curves without each fold, by name, or why that cannot be told."""


class Family(ABC):
    """The metrics of one family that an evaluation asks for."""

    observers: list[ResumableObserver]
    """The observers that must see all pairs of the first pass."""

    def __init__(self, context: Context, metrics: list[Metric]) -> None:
        self.context, self.metrics = context, metrics

    def collect(self, rows: Integers, groups: LocatedGroups) -> None:  # noqa: B027 (most need none)
        """Collect from the tie groups, by the finest label, of queries that have a mate."""

    def collected(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that `collect` fills, by name: a checkpoint keeps them."""
        return {}

    @abstractmethod
    def score(self, metric: Metric) -> Score:
        """A metric's score, once the first pass is over; another pass may be made for it."""

    def widen(self, growth: Growth) -> None:  # noqa: B027 (most have no law)
        """Collect what scores at gallery sizes need as well; to be asked for before the pass."""

    def score_at(self, metric: Metric, place: int) -> Score | None:
        """A metric's score at one of the gallery sizes, None if it has none there."""
        return None

    def curves(self) -> dict[str, Curve]:
        """Every curve that can be drawn from what was collected, by name."""
        return {}

    def report(self) -> Any:
        """What the family reports besides scores and curves, None if nothing."""
        return None

    @abstractmethod
    def without(self, folds: FoldAssignment) -> FamilyReplicates:
        """The family without each fold of the classes; to be asked for before the first pass."""


# A collection: the families that an evaluation asks for, side by side in one pass.


# A family is imported once it is asked for: all of them are a tenth of what a first call takes.


def _open_set(context: Context, metrics: list[Metric], pairs: Pairs) -> Family:
    from truerank.metrics.thresholds.open_set import OpenSet

    return OpenSet(context, metrics)


def _gom(context: Context, metrics: list[Metric], pairs: Pairs) -> Family:
    from truerank.metrics.thresholds.gom_replicates import GomFamily

    return GomFamily(context, metrics)


def _opis(context: Context, metrics: list[Metric], pairs: Pairs) -> Family:
    from truerank.metrics.thresholds.consistency_replicates import Opis

    return Opis(context, metrics, pairs)


def _verification(context: Context, metrics: list[Metric], pairs: Pairs) -> Family:
    from truerank.metrics.thresholds.pair_pool import Verification

    return Verification(context, metrics, pairs)


_MAKERS: dict[str, Callable[[Context, list[Metric], Pairs], Family]] = {
    "openset": _open_set,
    "gom": _gom,
    "consistency": _opis,
    "verification": _verification,
}
"""By name, in the order in which checkpoints number their observers."""


class Collection:
    """The families of an evaluation: their observers of the first pass, scores and curves."""

    def __init__(self, context: Context) -> None:
        self.context = context
        asked: dict[str, list[Metric]] = {}
        for metric in context.metrics:
            asked.setdefault(registry.definition(metric).family, []).append(metric)
        from truerank.metrics.thresholds.pair_pool import Pairs

        pairs = Pairs(context)
        self._families = {
            name: make(context, asked[name], pairs)
            for name, make in _MAKERS.items()
            if name in asked
        }
        self.observers: list[ResumableObserver] = _once(self._families.values())

    def collect(self, rows: npt.NDArray[np.int64], groups: LocatedGroups) -> None:
        """Hand all families the tie groups, by the finest label, of queries that have a mate."""
        for family in self._families.values():
            family.collect(rows, groups)

    def score(self, metric: Metric) -> Score:
        """A metric's score, once the first pass is over."""
        return self._families[registry.definition(metric).family].score(metric)

    def widen(self, growth: Growth) -> None:
        """Let all families collect what scores at gallery sizes need."""
        for family in self._families.values():
            family.widen(growth)

    def score_at(self, metric: Metric, place: int) -> Score | None:
        """A metric's score at one of the gallery sizes, None if it has none there."""
        return self._families[registry.definition(metric).family].score_at(metric, place)

    def curves(self) -> dict[str, Curve]:
        """Every curve that can be drawn from what was collected, by name."""
        return {
            name: curve
            for family in self._families.values()
            for name, curve in family.curves().items()
        }

    def reports(self) -> dict[str, Any]:
        """What families report besides scores and curves, by the name of the family."""
        found = {name: family.report() for name, family in self._families.items()}
        return {name: report for name, report in found.items() if report is not None}

    def without(self, folds: FoldAssignment) -> CollectionWithout:
        """The families without each fold of the classes; their observers join the first pass."""
        found = {name: family.without(folds) for name, family in self._families.items()}
        in_order = sorted(found, key=list(FAMILIES).index)
        self.observers += _once(found[name] for name in in_order)
        return CollectionWithout(found, folds)

    def state(self) -> dict[str, Array]:
        """What was collected so far, as arrays by name, while no pass is under way."""
        return {name: array.copy() for name, array in self._collected().items()} | states(
            self.observers
        )

    def restore(self, state: dict[str, Array]) -> None:
        """Go on from a state; a KeyError or a ValueError says that it is no state of this task."""
        for name, array in self._collected().items():
            fill(array, state[name])
        restore(self.observers, state)

    def _collected(self) -> dict[str, Array]:
        return {k: v for family in self._families.values() for k, v in family.collected().items()}


class CollectionWithout:
    """How the scores of all families move without each fold of the classes."""

    def __init__(self, families: dict[str, FamilyReplicates], folds: FoldAssignment) -> None:
        self._families, self.folds = families, folds

    def moves(self, metric: Metric, score: Score) -> Moves:
        """A score that exists without each fold, or why that cannot be told."""
        return self._families[registry.definition(metric).family].moves(metric, score)

    def moves_at(self, metric: Metric, place: int) -> Moves:
        """The same of its score at one of the gallery sizes."""
        from truerank.metrics.thresholds.open_set import OpenSetFolds

        family = self._families[registry.definition(metric).family]
        if not isinstance(family, OpenSetFolds):
            raise TypeError(f"{metric} has no law of gallery size")
        return family.moves_at(metric, place)

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, BandMoves]:
        """Every curve without each fold, by name, or why that cannot be told."""
        return {
            name: moves
            for family in self._families.values()
            for name, moves in family.curve_moves(curves).items()
        }


def _once(owners: Iterable[Family | FamilyReplicates]) -> list[ResumableObserver]:
    """The observers of all owners, each once: some families share one."""
    found: dict[int, ResumableObserver] = {}
    for owner in owners:
        for observer in owner.observers:
            found.setdefault(id(observer), observer)
    return list(found.values())


# The nearest candidate of every query without each fold of the classes, exactly.
#
# Where the queries are their own gallery a fold leaves both, and a query's nearest item may go
# with it; a gallery of its own stays.


class NearestWithout:
    """What the pass must see of every fold, and the nearest candidates without each.

    `limit` is a distance for each query: items of every fold up to it are counted as well.
    """

    def __init__(self, context: Context, folds: FoldAssignment, limit: Distances) -> None:
        self._context, self._folds = context, folds
        self._split = (
            NearestByFold(limit, folds.items, folds.columns) if folds.takes_items else None
        )

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs."""
        return [] if self._split is None else [self._split]

    def nearest(self, column: int) -> Distances:
        """The distance of every query's nearest candidate, without a fold."""
        if self._split is None:
            return self._context.nearest.distance
        number = int(column >= self._folds.own.stop)
        first, second, which = self.two_nearest(number)
        mine = column - self.ways[number].start
        return np.asarray(np.where(which == mine, second, first), np.float64)

    @property
    def ways(self) -> list[slice]:
        """The columns of each way in which the gallery is cut into folds; one if it is not."""
        folds = self._folds
        if self._split is None:
            return [slice(0, folds.columns)]
        return [folds.own] if folds.own == folds.paired else [folds.own, folds.paired]

    def two_nearest(self, way: int) -> tuple[Distances, Distances, Integers]:
        """Of every query: the nearest item, that of another fold, and the fold of the nearest."""
        if self._split is None:
            nearest = self._context.nearest.distance
            return nearest, nearest, np.full(len(nearest), -1)
        return self._two_nearest[way]

    @cached_property
    def within(self) -> Integers:
        """(queries, columns): items of every fold up to the query's limit."""
        if self._split is None:
            raise LookupError("a gallery of its own has no folds")
        return self._split.within

    @cached_property
    def _two_nearest(self) -> list[tuple[Distances, Distances, Integers]]:
        found = []
        assert self._split is not None
        every = self._split.least
        for way in self.ways:
            table, rows = every[:, way], np.arange(len(every))
            which = np.argmin(table, axis=1)
            least = table[rows, which]
            table[rows, which] = np.inf
            found.append((least, table.min(axis=1), which))
        return found
