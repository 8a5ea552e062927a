"""Negatives sampled for each class, so many for each of its positives, in place of all of them.

Rows and classes are put in an order made of their contents before anything is drawn, so that a seed
picks the same pairs however rows are arranged and labels are named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.families.family import Positives
from truerank.families.opis.classes import ClassTable
from truerank.pairs import PairList
from truerank.space import Distances, Space
from truerank.space.fingerprint import mix
from truerank.task import TaskRules

__all__ = ["SampledNegatives", "draw", "to_draw"]

Integers = npt.NDArray[np.int64]
_CHUNK = 1 << 20


@dataclass(frozen=True)
class SampledNegatives:
    """All positives of a leave-one-out task, and some negatives of every class that has any."""

    positives: Positives
    positive_code: Integers
    """Class of each positive."""
    code: Integers
    """Class of each negative that was drawn, in the order of their distances."""
    distance: Distances
    """Distance of each negative that was drawn, ascending."""

    @property
    def genuine(self) -> int:
        """Number of positives, in both orders."""
        return len(self.positives)

    @property
    def impostors(self) -> int:
        """Number of negatives."""
        return len(self.distance)

    def impostor(self, rank: int) -> float:
        """The rank-th smallest negative distance, infinite beyond the last."""
        return float(self.distance[rank - 1]) if rank <= len(self.distance) else np.inf

    def observed_below(self, distance: float) -> float | None:
        """The largest pair distance below this one; None if there is none."""
        below = [
            float(values[place - 1])
            for values in (self.positives.ascending, self.distance)
            if (place := int(np.searchsorted(values, distance)))
        ]
        return max(below, default=None)

    def table(self, low: float, high: float) -> ClassTable:
        """Counts of the classes at two distances."""
        cuts = np.array([low, high])
        count = int(self.positive_code.max(initial=-1)) + 1

        def up_to(code: Integers, distance: Distances, ends: Distances) -> Integers:
            return np.column_stack(
                [np.bincount(code[distance <= end], minlength=count) for end in ends]
            )

        every = np.append(cuts, np.inf)
        positives = up_to(self.positive_code, self.positives.distance, every)
        negatives = up_to(self.code, self.distance, every)
        kept = np.flatnonzero((positives[:, 2] > 0) & (negatives[:, 2] > 0))
        return ClassTable(
            kept,
            cuts,
            positives[kept, :2],
            negatives[kept, :2],
            positives[kept, 2],
            negatives[kept, 2],
        )

    def events(self, low: float, high: float) -> tuple[Integers, Distances]:
        """Classes and distances of the negatives in (low, high]."""
        first, last = np.searchsorted(self.distance, [low, high], side="right")
        return self.code[first:last], self.distance[first:last]


def to_draw(task: TaskRules, positives: Positives, each: int) -> Integers:
    """How many negatives are drawn for each class."""
    size = np.bincount(task.query_codes)
    pairs = np.bincount(task.query_codes[positives.query], minlength=len(size))
    wanted: Integers = np.minimum(each * -(-pairs // 2), size * (task.queries - size))
    return wanted


def draw(
    task: TaskRules, space: Space, positives: Positives, each: int, seed: int
) -> SampledNegatives:
    """Draw `each` negatives for every positive pair of a class, or all that there are.

    The pairs of a class with the others, in canonical order, are cut into as many stretches of
    equal length as are wanted, and one pair of each is drawn: none twice, every one with the same
    chance. Pairs that never meet are dropped from what was drawn.
    """
    order, start, size = _arranged(task, space)
    rows = len(order)
    available = size * (rows - size)
    wanted = to_draw(task, positives, each)
    turn = np.argsort(start, kind="stable")  # classes in canonical order share one stream
    behind = np.cumsum(wanted[turn])
    stream = np.random.Philox(key=seed)
    codes, distances = [np.empty(0, np.int64)], [np.empty(0)]
    for begin in range(0, int(behind[-1]), _CHUNK):
        draws = np.arange(begin, min(begin + _CHUNK, int(behind[-1])))
        at = np.searchsorted(behind, draws, side="right")
        number = turn[at]
        place = draws - (behind[at] - wanted[number])
        whole, rest = np.divmod(available[number], wanted[number])
        first = place * whole + place * rest // wanted[number]
        last = (place + 1) * whole + (place + 1) * rest // wanted[number]
        drawn = stream.random_raw(len(draws)) % (last - first).astype(np.uint64)
        member, other = np.divmod(first + drawn.astype(np.int64), rows - size[number])
        query = order[start[number] + member]
        item = order[other + np.where(other >= start[number], size[number], 0)]
        ours, position = np.unique(query, return_inverse=True)
        never = task.view.exclusions.covers(ours, PairList(position, item), task.view.items)
        codes.append(number[~never])
        distances.append(space.pairs(query[~never], item[~never]))
    code, distance = np.concatenate(codes), np.concatenate(distances)
    ascending = np.lexsort((code, distance))
    ours = task.query_codes[positives.query]
    return SampledNegatives(positives, ours, code[ascending], distance[ascending])


def _arranged(task: TaskRules, space: Space) -> tuple[Integers, Integers, Integers]:
    """Rows class by class in canonical order; where each class starts, and its size."""
    codes = task.query_codes
    size = np.bincount(codes)
    rows = mix(space.fingerprints() + mix(task.mates + 1))
    classes = np.zeros(len(size), np.uint64)
    np.add.at(classes, codes, rows)
    order = np.lexsort((rows, codes, mix(classes)[codes]))
    start = np.zeros(len(size), np.int64)
    held = codes[order]
    fresh = np.flatnonzero(np.append(True, held[1:] != held[:-1]))
    start[held[fresh]] = fresh
    return order, start, size
