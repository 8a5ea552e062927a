"""Context: what the families of an evaluation share: its task, its space, ways to look again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import cached_property

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.core.average import class_mean, mean
from truerank.core.metric import Metric
from truerank.engine.watch import Nearest, RankWatcher, Watcher
from truerank.families.positives import Positives, distances
from truerank.families.units import Units
from truerank.settings import current_limits
from truerank.space import Distances, Space
from truerank.space.fingerprint import mix
from truerank.task import TaskRules

__all__ = ["Context"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
ROUGH_ROWS = 64


class Context:
    """One evaluation, as its families of threshold metrics see it.

    Parameters
    ----------
    metrics : all threshold metrics that are asked for, of whatever family
    seed : of what is dealt at random beside a score
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
        self.nearest = Nearest(task.queries)
        """Sees the distance of every query's nearest candidate, where a family shows it pairs."""

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

    # -- pairs --------------------------------------------------------------------------------

    @property
    def both_orders(self) -> bool:
        """Whether each pair is met twice."""
        return self.task.leave_one_out

    @property
    def pairs(self) -> int:
        """Pairs that are looked at, those that never meet included."""
        return self.task.queries * self.space.gallery

    @cached_property
    def positives(self) -> Positives:
        """All relevant pairs."""
        return Positives.of(self.task.view, self.space, self.threads)

    @cached_property
    def sample(self) -> Distances:
        """Distances of some irrelevant pairs, the same ones in whatever order rows come.

        Empty where the task is small or rows cannot be told apart by content.
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

    # -- further looks ------------------------------------------------------------------------

    def sweep(self, watchers: list[Watcher]) -> None:
        """One more pass over all pairs."""
        engine.sweep(
            self.task.view, self.space, watchers, device=self._device, threads=self.threads
        )

    def look_again(self, watcher: RankWatcher, rows: Integers) -> None:
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


def _choose(prints: Integers, rows: int) -> Integers | None:
    """Some rows by their fingerprints, all those of one fingerprint or none; None if too many."""
    scrambled = mix(prints)
    last = np.sort(scrambled)[min(rows, len(prints)) - 1]
    chosen = np.flatnonzero(scrambled <= last)
    return chosen if len(chosen) <= 2 * rows else None
