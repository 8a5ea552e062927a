"""Jackknife replicates of OPIS, and OPIS as a family of an evaluation.

Without a jackknife group its classes are not compared, the others lose the negative pairs with
it, and the range of thresholds is found again. Positives are exact, negatives known at the
borders of cells, between which the spread of utilities is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from truerank._util.cached import cached_property
from truerank._util.text import count
from truerank._util.types import Integers, Reals
from truerank.core.curve import BandMoves, Curve
from truerank.core.jackknife import FoldAssignment
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.engine.blocks import Cuts
from truerank.engine.reducers import ResumableObserver, Tally, TallyByFold
from truerank.metrics.thresholds.consistency import (
    Consistency,
    CountedClasses,
    Formula,
    class_mean,
    class_utility,
    combine,
    report,
    utility_curve,
)
from truerank.metrics.thresholds.definitions import at_places, measure
from truerank.metrics.thresholds.family import Context, FamilyReplicates, Moves
from truerank.task.task import TaskRules

# OPIS without each fold of the classes: counts of every class on cells, by fold of the others.
#
# Without a fold its classes are no longer compared, the others have lost the negative pairs with
# it, and the range of thresholds is found again. Positives are known exactly, negatives at the
# cells' borders, between which the spread of utilities is taken to be a straight line.


MOST_CELLS, FEWEST_CELLS = 64, 16
MOST_COLUMNS, MOST_NUMBERS = 400, 1 << 23
"""Most folds, and counters of classes x folds x cells, but not fewer cells than that."""
FEWEST_COMPARED = 30
"""With fewer classes, intervals were seen to hold the truth too rarely."""
CHUNK = 1024
REACH = 2.0
"""Cells reach this many times beyond the FAR targets on either side."""


@dataclass(frozen=True)
class FoldCounts:
    """Pairs of every class that counts: those accepted at each cut, and all."""

    true: Reals
    false: Reals
    genuine: Reals
    impostors: Reals
    met: Reals
    """(points + 1,): negative pairs of the pool accepted at each cut, and all of them."""

    def at_cuts(self, cuts: Integers) -> FoldCounts:
        """The counts at some of the cuts."""
        true, false = self.true[:, cuts], self.false[:, cuts]
        return replace(self, true=true, false=false, met=self.met[np.append(cuts, -1)])


def why_few(classes: int) -> str:
    """Why so few classes to compare have no interval."""
    return (
        f"{count(classes, 'class')} to compare; an interval of how far classes are apart "
        f"needs at least {FEWEST_COMPARED}"
    )


class Unlabelled:
    """OPIS without folds where judgements name no classes: no score, nothing to count for it."""

    observers: ClassVar[list[ResumableObserver]] = []

    def moves(self, metric: Metric, score: Score) -> str:
        """See Without."""
        return "judgements name no classes"

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, BandMoves]:
        """See Without."""
        return {}


class OpisFolds:
    """What the pass must count for OPIS, and the scores without each fold."""

    def __init__(self, family: CountedClasses, folds: FoldAssignment) -> None:
        self._family, self._context = family, family.context
        task = family.context.task
        self._count = int(max(task.query_codes.max(), task.gallery_codes.max())) + 1
        folds = self._folds = folds.coarser(
            min(MOST_COLUMNS, MOST_NUMBERS // (FEWEST_CELLS * self._count))
        )
        columns = folds.columns
        sides: tuple[Integers, npt.NDArray[np.integer]] = (task.query_codes, folds.items)
        if not folds.takes_items:
            sides = (task.gallery_codes, folds.query)
        self._met = _met(task, *sides, self._count, columns)
        tables = self._count * columns
        self._places = {_range(m): _places(family.context, m, tables) for m in family.metrics}
        self._cuts = Cuts.of(np.concatenate([*self._places.values()]))
        turned = not folds.takes_items
        self._split = TallyByFold(
            self._cuts, sides[0], self._count, sides[1], columns, turned=turned
        )
        self._rows = Tally(self._cuts, task.query_codes, self._count) if turned else None

    @property
    def observers(self) -> list[ResumableObserver]:
        """The observers that must see all pairs."""
        return [self._split] if self._rows is None else [self._split, self._rows]

    def moves(self, metric: Metric, score: Score) -> Moves:
        """The score without each fold, or why that cannot be told."""
        reason = self._why_not(metric, score.n)
        if reason is not None:
            return reason
        every = self._value(metric, -1)
        columns = range(self._folds.columns)
        with ThreadPoolExecutor(self._context.threads) as pool:
            without = list(pool.map(lambda column: self._value(metric, column), columns))
        return self._folds.replicates(score.value + (np.array(without) - every))

    def _why_not(self, metric: Metric, classes: int) -> str | None:
        if metric["negatives"] is not None:
            return "its negatives are a sample; opis over all of them has one"
        return why_few(classes) if classes < FEWEST_COMPARED else None

    def curve_moves(self, curves: Mapping[str, Curve]) -> dict[str, BandMoves]:
        """See Without: the curve of utilities has no band."""
        return {}

    @cached_property
    def _tables(self) -> tuple[Integers, Integers, Integers]:
        """Counts of classes on cells: positives, negatives as rows, all negatives."""
        task, ours = self._context.task, self._context.positives
        cells = len(self._cuts) + 1
        place = task.query_codes[ours.query] * cells
        place += np.searchsorted(self._cuts.at, ours.distance, side="left")
        true = np.bincount(place, minlength=self._count * cells).reshape(-1, cells)
        own = self._folds.own
        met = self._with_beyond(self._split.summed(own), self._beyond[:, own].sum(axis=1))
        if self._rows is None:
            return true, met - true, met - true
        rows = self._rows.counts
        return true, rows - true, rows + met - 2 * true

    @cached_property
    def _beyond(self) -> Integers:
        """(classes, columns): pairs of each class and each fold beyond the last cut."""
        return self._met - self._split.every

    @cached_property
    def _accepted(self) -> tuple[Integers, Integers]:
        """Positives and negatives of each class accepted at each cut, and all."""
        true, _, false = self._tables
        return np.cumsum(true, axis=1), np.cumsum(false, axis=1)

    def _with_beyond(self, near: Integers, beyond: Integers) -> Integers:
        return np.concatenate([near, beyond[:, None]], axis=1)

    def _left(self, column: int) -> FoldCounts:
        """The counts of the classes that are left without a fold; of all classes for column -1."""
        _, met, _ = self._tables
        true, false = self._accepted
        stays = np.ones(self._count, bool)
        pooled = met.sum(axis=0)
        if column >= 0:
            lost = self._with_beyond(self._split.counts_in(column), self._beyond[:, column])
            false = false - np.cumsum(lost, axis=1)
            of_unit = self._folds.of_unit
            stays[: len(of_unit)] = (of_unit != column).all(axis=1)
            gone = np.flatnonzero(~stays)
            pooled = pooled - met[gone].sum(axis=0)
            if self._rows is None:
                pooled = pooled - lost.sum(axis=0) + lost[gone].sum(axis=0)
        kept = stays & (true[:, -1] > 0) & (false[:, -1] > 0)
        accepted = [table[kept].astype(np.float64) for table in (true, false)]
        return FoldCounts(
            accepted[0][:, :-1],
            accepted[1][:, :-1],
            accepted[0][:, -1:],
            accepted[1][:, -1:],
            met=np.cumsum(pooled).astype(np.float64),
        )

    def _value(self, metric: Metric, column: int) -> float:
        # other metrics' ranges must not move this one's cells
        own = np.unique(np.searchsorted(self._cuts.at, self._places[_range(metric)]))
        left = self._left(column).at_cuts(own)
        at = self._context.space.linear(self._cuts.at[own])
        (first, second), frr = _range(metric)
        false = left.met[:-1] / max(left.met[-1], 1.0)
        low, high = (float(np.interp(target, false, at)) for target in (first, second))
        if frr is not None:
            true = left.true.sum(axis=0) / left.genuine.sum()
            low = float(np.interp(1 - frr, true, at))
        if not low < high or not len(left.genuine):
            return float("nan")
        formula = self._family.formula(metric)
        if metric["eps"] is None:
            spread = _spread(left, formula)
        else:
            spread = _gap(left, formula, metric["eps"], (at, low, high))
        return float(_mean(spread, at, low, high))


def _met(
    task: TaskRules, owner: Integers, fold: npt.NDArray[np.integer], owners: int, columns: int
) -> Integers:
    """(owners, columns): pairs of each class on one side and each fold on the other that meet."""
    view, turned = task.view, not task.leave_one_out
    size = np.bincount(owner[owner >= 0], minlength=owners)
    met = np.outer(size, np.bincount(fold.ravel(), minlength=columns))
    for start in range(0, view.queries, CHUNK):
        rows = np.arange(start, min(start + CHUNK, view.queries))
        excluded = view.exclusions.pairs(rows, view.items)
        query, item = rows[excluded.query], excluded.item
        ours, others = (item, query) if turned else (query, item)
        code = owner[ours]
        for way in fold[others[code >= 0]].T:
            np.subtract.at(met, (code[code >= 0], way), 1)
    return met


def _range(metric: Metric) -> tuple[tuple[float, float], float | None]:
    """The FAR targets, and the FRR target if one sets the lower end."""
    first, second = metric["far"]
    frr = metric["frr"]
    return (float(first), float(second)), None if frr is None else float(frr)


def _places(context: Context, metric: Metric, tables: int) -> Reals:
    """Borders of equal cells over the range that the targets probably set, and beyond."""
    cells = min(MOST_CELLS, max(FEWEST_CELLS, MOST_NUMBERS // max(1, tables)))
    ours = context.positives.ascending
    known = context.foretold if len(context.foretold) else ours
    if not len(known):
        return np.zeros(1)
    (first, second), frr = _range(metric)
    rates = np.array([first / REACH, min(1.0, second * REACH)])
    ends = [*at_places(known, rates)]
    if frr is not None and len(ours):
        ends += [*at_places(ours, np.clip([1 - REACH * frr, 1 - frr / REACH], 0.0, 1.0))]
    return np.linspace(min(ends), max(ends), cells + 1)


def _spread(left: FoldCounts, formula: Formula) -> Reals:
    """Mean squared deviation of the classes' utilities at each cut."""
    utility = class_utility(left.true, left.false, left.genuine, left.impostors, formula)
    centre = class_mean(utility)
    return np.maximum(class_mean(utility * utility) - centre * centre, 0.0)


def _gap(
    left: FoldCounts, formula: Formula, share: Fraction, over: tuple[Reals, float, float]
) -> Reals:
    """Squared gap between the utilities of the best and the worst share of the classes."""
    utility = class_utility(left.true, left.false, left.genuine, left.impostors, formula)
    areas = _mean(utility, *over)
    sides = []
    for sign in (1, -1):
        weights, wanted = _outermost(sign * areas, share)
        group, held = weights[:, None], wanted / len(weights)
        sensitivity = class_mean(group * (left.true / left.genuine)) / held
        false = class_mean(group * (left.false / left.impostors)) / held
        sides.append(combine(sensitivity, 1 - false, formula.square))
    return np.asarray((sides[0] - sides[1]) ** 2, np.float64)


def _outermost(areas: Reals, share: Fraction) -> tuple[Reals, float]:
    """Weights of the lowest share of the classes, and their sum; the last one, or those tied there,
    count in part.

    Rounding the number of classes up, as the score does, would hide what a class less means.
    """
    places, count = np.unique(areas, return_inverse=True, return_counts=True)[1:]
    before = np.concatenate([[0], np.cumsum(count)[:-1]])
    wanted = math.ceil(share * len(areas)) if len(areas) * share < 1 else float(share) * len(areas)
    return np.asarray(np.clip((wanted - before) / count, 0.0, 1.0)[places], np.float64), wanted


def _mean(values: Reals, at: Reals, low: float, high: float) -> Reals:
    """The mean from low to high of straight lines between values at places, along the last axis."""
    inside = (at > low) & (at < high)
    ends = []
    for end in (low, high):
        place = min(max(int(np.searchsorted(at, end)) - 1, 0), len(at) - 2)
        part = (end - at[place]) / (at[place + 1] - at[place])
        ends.append((1 - part) * values[..., place] + part * values[..., place + 1])
    points = np.concatenate([[low], at[inside], [high]])
    first, last = (end[..., None] for end in ends)
    held = np.concatenate([first, values[..., inside], last], axis=-1)
    areas = (held[..., :-1] + held[..., 1:]) / 2 * np.diff(points)
    return np.asarray(areas.sum(axis=-1) / (high - low), np.float64)


# The family of OPIS, as an evaluation uses it.


class Opis(CountedClasses):
    """The family of OPIS: the variance of classes' utilities, or the gap from best to worst."""

    def score(self, metric: Metric) -> Score:
        """See Family."""
        return measure(metric, self)

    def curves(self) -> dict[str, Curve]:
        """See Family."""
        found = (utility_curve(self, metric) for metric in self.metrics)
        utility = next((one for one in found if one is not None), None)
        return self.pairs.curves() | ({} if utility is None else {"utility": utility})

    def report(self) -> Consistency | None:
        """See Family: where the first OPIS that is defined was taken, and what stands beside it."""
        found = (report(self, metric) for metric in self.metrics)
        return next((one for one in found if one is not None), None)

    def without(self, folds: FoldAssignment) -> FamilyReplicates:
        """See Family."""
        if self.context.task.levels is None:
            return Unlabelled()
        return OpisFolds(self, folds)
