"""What a family of threshold metrics is to an evaluation: named hooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from truerank.core.curve import Curve
from truerank.core.folds import Dealing
from truerank.core.groups import LocatedGroups
from truerank.core.metric import Metric
from truerank.core.replicates import Replicates
from truerank.core.score import Score
from truerank.engine.watch import Witness
from truerank.families.context import Context

__all__ = ["Family", "Moves", "Without"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Moves = Reals | tuple[Replicates, Replicates] | str
"""How far a score moves without each share, or its replicates, or why there are none."""


class Without(Protocol):
    """A family without each share of the classes."""

    @property
    def watchers(self) -> list[Witness]:
        """Who must see all pairs of the first pass for it."""

    def moves(self, metric: Metric, score: Score) -> Moves:
        """What becomes of a score that exists."""


class Family(ABC):
    """The metrics of one family that an evaluation asks for."""

    watchers: list[Witness]
    """Who must see all pairs of the first pass."""

    def __init__(self, context: Context, metrics: list[Metric]) -> None:
        self.context, self.metrics = context, metrics

    def take(self, rows: Integers, groups: LocatedGroups) -> None:  # noqa: B027 (most need none)
        """The tie groups, by the finest label, of queries that have a mate."""

    def taken(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that `take` fills, by name: a checkpoint keeps them."""
        return {}

    @abstractmethod
    def score(self, metric: Metric) -> Score:
        """Once the first pass is over; it may look once more."""

    def curves(self) -> dict[str, Curve]:
        """Every curve that what was seen can be drawn as."""
        return {}

    def report(self) -> Any:
        """What is to be told besides scores and curves, None if nothing is."""
        return None

    @abstractmethod
    def without(self, dealing: Dealing) -> Without:
        """The same without each share of the classes; before the first pass."""
