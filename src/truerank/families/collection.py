"""The families that an evaluation asks for, side by side in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.checkpoint import fill
from truerank.core import registry
from truerank.core.curve import Curve
from truerank.core.folds import Dealing
from truerank.core.groups import LocatedGroups
from truerank.core.metric import FAMILIES, Metric
from truerank.core.score import Score
from truerank.engine.watch import Witness, restore, states
from truerank.families.family import Context, Family, Moves, Without
from truerank.families.gom.family import GomFamily
from truerank.families.openset.family import OpenSet
from truerank.families.opis.family import Opis
from truerank.families.pool import Pairs
from truerank.families.verification.family import Verification

__all__ = ["Collection", "CollectionWithout"]

Array = npt.NDArray[Any]


class Collection:
    """Everybody who watches the first pass, and what came of it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        asked: dict[str, list[Metric]] = {}
        for metric in context.metrics:
            asked.setdefault(registry.definition(metric).family, []).append(metric)
        pairs = Pairs(context)
        # In the order in which checkpoints number their watchers.
        makers: dict[str, Callable[[list[Metric]], Family]] = {
            "openset": lambda some: OpenSet(context, some),
            "gom": lambda some: GomFamily(context, some),
            "consistency": lambda some: Opis(context, some, pairs),
            "verification": lambda some: Verification(context, some, pairs),
        }
        self._families = {name: make(asked[name]) for name, make in makers.items() if name in asked}
        self.watchers: list[Witness] = _once(self._families.values())

    def take(self, rows: npt.NDArray[np.int64], groups: LocatedGroups) -> None:
        """The tie groups, by the finest label, of queries that have a mate."""
        for family in self._families.values():
            family.take(rows, groups)

    def score(self, metric: Metric) -> Score:
        """Once the first pass is over."""
        return self._families[registry.definition(metric).family].score(metric)

    def curves(self) -> dict[str, Curve]:
        """Every curve that what was seen can be drawn as."""
        return {
            name: curve
            for family in self._families.values()
            for name, curve in family.curves().items()
        }

    def reports(self) -> dict[str, Any]:
        """What families tell besides, by the name of the family."""
        found = {name: family.report() for name, family in self._families.items()}
        return {name: report for name, report in found.items() if report is not None}

    def without(self, dealing: Dealing) -> CollectionWithout:
        """The same families without each share; their watchers join."""
        found = {name: family.without(dealing) for name, family in self._families.items()}
        in_order = sorted(found, key=list(FAMILIES).index)
        self.watchers += _once(found[name] for name in in_order)
        return CollectionWithout(found, dealing)

    def state(self) -> dict[str, Array]:
        """What was seen so far, by name, while no pass is under way."""
        return {name: array.copy() for name, array in self._taken().items()} | states(self.watchers)

    def restore(self, state: dict[str, Array]) -> None:
        """Go on from there; a KeyError or a ValueError says that it is no state of this task."""
        for name, array in self._taken().items():
            fill(array, state[name])
        restore(self.watchers, state)

    def _taken(self) -> dict[str, Array]:
        return {k: v for family in self._families.values() for k, v in family.taken().items()}


class CollectionWithout:
    """How the scores of all families move without each share of the classes."""

    def __init__(self, families: dict[str, Without], dealing: Dealing) -> None:
        self._families, self.dealing = families, dealing

    def moves(self, metric: Metric, score: Score) -> Moves:
        """What becomes of a score that exists."""
        return self._families[registry.definition(metric).family].moves(metric, score)


def _once(owners: Iterable[Family | Without]) -> list[Witness]:
    """Everybody's watchers; some families share one."""
    found: dict[int, Witness] = {}
    for owner in owners:
        for watcher in owner.watchers:
            found.setdefault(id(watcher), watcher)
    return list(found.values())
