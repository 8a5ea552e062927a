"""A collection: the families that an evaluation asks for, side by side in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import fill
from truerank.core import registry
from truerank.core.curve import Curve
from truerank.core.curve_moves import BandMoves
from truerank.core.folds import FoldAssignment
from truerank.core.groups import LocatedGroups
from truerank.core.metric import FAMILIES, Metric
from truerank.core.score import Score
from truerank.engine.observers import ResumableObserver, restore, states
from truerank.families.family import Context, Family, Moves, Without
from truerank.families.pool import Pairs
from truerank.growth.values import Growth

__all__ = ["Collection", "CollectionWithout"]

Array = npt.NDArray[Any]


# A family is imported once it is asked for: all of them are a tenth of what a first call takes.


def _open_set(context: Context, metrics: list[Metric], pairs: Pairs) -> Family:
    from truerank.families.openset.family import OpenSet

    return OpenSet(context, metrics)


def _gom(context: Context, metrics: list[Metric], pairs: Pairs) -> Family:
    from truerank.families.gom.family import GomFamily

    return GomFamily(context, metrics)


def _opis(context: Context, metrics: list[Metric], pairs: Pairs) -> Family:
    from truerank.families.opis.family import Opis

    return Opis(context, metrics, pairs)


def _verification(context: Context, metrics: list[Metric], pairs: Pairs) -> Family:
    from truerank.families.verification.family import Verification

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

    def __init__(self, families: dict[str, Without], folds: FoldAssignment) -> None:
        self._families, self.folds = families, folds

    def moves(self, metric: Metric, score: Score) -> Moves:
        """A score that exists without each fold, or why that cannot be told."""
        return self._families[registry.definition(metric).family].moves(metric, score)

    def moves_at(self, metric: Metric, place: int) -> Moves:
        """The same of its score at one of the gallery sizes."""
        from truerank.families.openset.folds import OpenSetFolds

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


def _once(owners: Iterable[Family | Without]) -> list[ResumableObserver]:
    """The observers of all owners, each once: some families share one."""
    found: dict[int, ResumableObserver] = {}
    for owner in owners:
        for observer in owner.observers:
            found.setdefault(id(observer), observer)
    return list(found.values())
