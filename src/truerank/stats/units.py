"""Units of intervals: what could have been others, and so leaves, or is drawn, as a whole.

They are the classes of the coarsest level that a metric's relevance uses: all that is relevant to
a query is of its own unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.metric import Metric, RankingDefinition
from truerank.task import TaskRules
from truerank.task.levels import depth, level_of

__all__ = ["Unit", "finest_unit", "unit_of"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Unit:
    """The classes of one level (1 the coarsest), or the queries where there are no labels."""

    level: int
    by_path: bool = False
    """Whether a class is a path from the root, where labels form no tree."""

    def codes(self, task: TaskRules) -> tuple[Integers, Integers]:
        """The unit of each query and of each gallery item, by number."""
        if task.levels is None:
            return np.arange(task.queries), np.empty(0, np.int64)
        if self == finest_unit(task):
            return task.query_codes, task.gallery_codes
        columns = task.levels.paths if self.by_path else task.levels.columns
        codes = columns[self.level - 1].codes
        item = codes[-1]
        return codes[0], item if task.columns is None else item[task.columns]

    def above(self, task: TaskRules) -> list[Unit]:
        """The levels of whose classes a unit is a part, the unit's own the last."""
        if not self.by_path and not task.named_levels.is_tree:
            return [self]
        return [Unit(level, self.by_path) for level in range(1, self.level + 1)]

    def below(self, task: TaskRules) -> list[Unit]:
        """The finer levels, the finest the last."""
        between = [Unit(level, self.by_path) for level in range(self.level + 1, depth(task))]
        return [*between, finest_unit(task)]

    def counts(self, task: TaskRules) -> npt.NDArray[np.bool_]:
        """Queries with a mate in their own unit, and those that count without one."""
        view = task.view
        if task.levels is not None and self != finest_unit(task):
            of_level = task.tree_view if self.by_path else task.level_view
            view = of_level(self.level)
        return np.asarray((view.mates > 0) | (task.no_mate == "zero"))

    def named(self, task: TaskRules) -> str:
        """Which level it is, in words; empty where there is only one."""
        if task.levels is None or depth(task) == 1:
            return ""
        name = task.levels.names[self.level - 1]
        return f" of level {self.level}" + ("" if name == str(self.level) else f" ({name})")


def finest_unit(task: TaskRules) -> Unit:
    """The classes by the finest label."""
    return Unit(depth(task))


def unit_of(task: TaskRules, metric: Metric) -> Unit:
    """The unit of a metric's intervals."""
    known = registry.definition(metric)
    if task.levels is None or not isinstance(known, RankingDefinition):
        return finest_unit(task)
    if metric.get("level") == "mean":
        return Unit(1)
    if metric.get("level") is not None or not known.graded:
        return Unit(level_of(task, metric))
    worth = metric.get("rel") or metric.get("weights") or ()
    used = [level for level, value in enumerate(worth, 1) if value > 0]
    return Unit(used[0] if used else 1, by_path=not task.named_levels.is_tree)
