"""Counts of each class over thresholds: what the consistency of one threshold is judged by.

Class i has as positives its relevant pairs and as negatives the pairs with exactly one end in i.
Positives are kept exactly. Negatives are counted on cells of the range of thresholds (which
brackets every class's utility), or kept as events where there are few enough.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.engine.cuts import Cuts
from truerank.engine.distance_block import DistanceBlock
from truerank.engine.observers import PairObserver, Part, Tally
from truerank.engine.threads import PerThread
from truerank.families.family import Positives
from truerank.jit import kernel
from truerank.space import Distances, Rows
from truerank.task import TaskRules

__all__ = ["ClassEvents", "ClassTable", "ClassTally", "cells"]

Integers = npt.NDArray[np.int64]
CELLS = 2048
MOST_NUMBERS = 1 << 23
"""Most counters of classes x cells."""
TOGETHER = 256
"""Classes whose counts a thread adds up at a time."""


@dataclass(frozen=True)
class ClassTable:
    """Counts of every class that has positives and negatives, at ascending cuts.

    In leave-one-out positives are counted in both orders, negatives once for each class.
    """

    classes: Integers
    """Codes of the classes."""
    cuts: Distances
    positives: Integers
    """(classes, cuts): positives accepted at each cut."""
    negatives: Integers
    """(classes, cuts): negatives accepted at each cut."""
    genuine: Integers
    """(classes,): all positives of a class."""
    impostors: Integers
    """(classes,): all negatives of a class."""


class ClassTally:
    """Counts classes at cuts while a pass goes by."""

    def __init__(self, task: TaskRules, positives: Positives, cuts: Distances) -> None:
        self._task, self._positives = task, positives
        self._count = int(max(task.query_codes.max(), task.gallery_codes.max())) + 1
        items = None
        if not task.leave_one_out:  # items without a label get a class beyond all others
            items = np.where(task.gallery_codes < 0, self._count, task.gallery_codes)
        largest = np.bincount(task.query_codes).max() * task.items
        if items is not None:
            largest += np.bincount(items).max() * task.queries
        self.tally = Tally(
            Cuts.of(cuts), task.query_codes, self._count + 1, items, most=int(largest)
        )
        self.times = 1 if items is None else 2
        """How often a pair is counted."""

    def table(self, *, without_positives: bool = False, threads: int = 1) -> ClassTable:
        """The counts, once the pass is over; with classes that have no positives if asked for."""
        cuts = self.tally.cuts.at
        counts = np.empty((self._count, len(cuts) + 1), np.int64)
        code = self._task.query_codes[self._positives.query]
        place = np.searchsorted(cuts, self._positives.distance, side="left")
        true = np.bincount(code * counts.shape[1] + place, minlength=counts.size)
        true = true.reshape(counts.shape)
        times = 1 if self._task.leave_one_out else 2  # met from the query's and the item's side

        def add_up(start: int) -> None:
            some = slice(start, min(start + TOGETHER, self._count))
            counts[some] = self.tally.counts_of(some)
            _accumulate(counts[some], true[some], times)

        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(add_up, range(0, self._count, TOGETHER)):
                pass
        genuine, impostors = true[:, -1], counts[:, -1]
        kept = np.flatnonzero(((genuine > 0) | without_positives) & (impostors > 0))
        if len(kept) < self._count:
            counts, true = counts[kept], true[kept]
        ends = (true[:, -1], counts[:, -1])
        return ClassTable(kept, cuts, true[:, :-1], counts[:, :-1], *ends)


@kernel
def _accumulate(counts: Any, true: Any, times: int) -> None:
    """From pairs and positives in each cell to negatives and positives accepted at each cut."""
    for i in range(counts.shape[0]):
        positives = 0
        negatives = 0
        for k in range(counts.shape[1]):
            positives += true[i, k]
            negatives += counts[i, k] - times * true[i, k]
            true[i, k] = positives
            counts[i, k] = negatives


class ClassEvents(PairObserver):
    """Collects every negative pair in (low, high], by class and distance.

    With a gallery a pair is there for the query's class and again for the item's.
    """

    def __init__(self, task: TaskRules, low: float, high: float) -> None:
        self._task, self._low, self._high = task, low, high
        self._parts = PerThread[list[tuple[Integers, Distances]]](list)

    def observe(self, block: DistanceBlock) -> None:
        """See PairObserver."""
        inside = block.distances <= self._high
        inside &= block.distances > self._low
        row, item = np.nonzero(inside)
        query = self._task.query_codes[block.rows[row]]
        other = self._task.gallery_codes[item + block.first]
        differ = query != other
        distance = block.distances[row[differ], item[differ]]
        mine = self._parts.mine()
        mine.append((query[differ], distance))
        if not self._task.leave_one_out:
            labelled = other[differ] >= 0
            mine.append((other[differ][labelled], distance[labelled]))

    def part(self, rows: Rows) -> Part:
        """See Observer."""
        return dict(zip(("code", "distance"), self.events(), strict=True))

    def add(self, rows: Rows, part: Part) -> None:
        """See Observer."""
        self._parts.mine().append((part["code"], part["distance"]))

    def events(self) -> tuple[Integers, Distances]:
        """Classes and distances, in no particular order."""
        parts = [part for thread in self._parts.all() for part in thread]
        return (
            np.concatenate([code for code, _ in parts] or [np.empty(0, np.int64)]),
            np.concatenate([distance for _, distance in parts] or [np.empty(0)]),
        )


def cells(low: float, high: float, classes: int) -> Distances:
    """Equal cells from low to high, both included, as many as memory allows."""
    count = min(CELLS, max(64, MOST_NUMBERS // max(1, classes)))
    return np.unique(np.concatenate([np.linspace(low, high, count + 1), [low, high]]))
