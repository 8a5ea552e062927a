"""The base of a family of threshold metrics: hooks for an evaluation, and the context it is given.

The context holds the task, the space and the positives, and lets observers see pairs again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.cached import cached_property
from truerank.core.average import class_mean, mean
from truerank.core.curve import Curve
from truerank.core.curve_moves import BandMoves
from truerank.core.folds import FoldAssignment
from truerank.core.groups import LocatedGroups
from truerank.core.metric import Metric
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.engine.cuts import largest_float
from truerank.engine.observers import NearestDistance, PairObserver, RankObserver, ResumableObserver
from truerank.growth.values import Growth
from truerank.relevance import View
from truerank.settings import current_limits
from truerank.space import Distances, Rows, Space
from truerank.space.fingerprint import mix
from truerank.task import TaskRules

__all__ = ["Context", "Family", "Moves", "Positives", "Units", "Without", "distances"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Moves = tuple[Replicates, Replicates] | str
"""A score without each of the own and of the paired folds, or why that cannot be told."""
Flags = npt.NDArray[np.bool_]
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
        self.threads, self._device = threads or engine.available_cores(), device
        self.limits, self.units = current_limits(), Units(space)
        self.nearest = NearestDistance(task.queries)
        """Observes every query's nearest candidate, if a family lists it among its observers."""

    # -- queries ------------------------------------------------------------------------------

    @property
    def with_mate(self) -> Flags:
        """Q+: queries that have something to find."""
        return np.asarray(self.task.mates > 0)

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
        engine.sweep(
            self.task.view, self.space, observers, device=self._device, threads=self.threads
        )

    def observe_again(self, observer: RankObserver, rows: Integers) -> None:
        """Let an observer see a few queries once more, with tie groups by the finest label."""
        blocks = engine.tie_groups(
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


class Without(Protocol):
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
    def without(self, folds: FoldAssignment) -> Without:
        """The family without each fold of the classes; to be asked for before the first pass."""
