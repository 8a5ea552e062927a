"""The plan of an evaluation: which passes its metrics need, and what each pass fills.

One pass over queries x gallery serves every metric that can share it: the levels of a tree all come
from the lengths of common paths. Labels that form no tree need a pass for each level asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.column import Column, share_counts
from truerank.core.groups import TieGroups
from truerank.core.metric import Metric
from truerank.core.scale import Scale
from truerank.growth.columns import GrownColumns
from truerank.relevance import GradeView, JudgedView, TreeView, View
from truerank.task import TaskRules
from truerank.task.levels import level_of

__all__ = ["Pass", "plan_passes", "try_out"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass
class Pass:
    """One pass over queries x gallery: its view and the columns filled from it."""

    view: View
    scale: Scale
    columns: list[Column] = field(default_factory=list)
    grown: GrownColumns | None = None
    """Columns at gallery sizes, if any were asked for."""

    def __post_init__(self) -> None:
        queries = self.view.queries
        self.seen = np.zeros(queries, bool)
        """Queries whose row of every column and of the arrays below is filled."""
        self.shown = np.zeros(queries, bool)
        """Queries that observers have seen, whether they have a mate or not."""
        self.ties = np.zeros(queries, np.int64)
        self.nearest = np.zeros(queries, np.int64)
        self.monotone = np.ones(queries, bool)
        self.findable = np.zeros(queries, bool)
        self.first = np.zeros((3, queries), np.int64)
        """Items before the tie group of the nearest mate, in it, and mates in it."""

    @property
    def finest(self) -> int:
        """The grade of an item with the query's own label."""
        return self.view.grades if isinstance(self.view, TreeView) else 1

    def goes_by_finest(self, task: TaskRules) -> bool:
        """Whether its finest grade is that of mates by the finest label.

        Without a tree, items of one label may have different paths.
        """
        is_tree = isinstance(self.view, TreeView) and task.named_levels.is_tree
        return self.view is task.view or is_tree

    @property
    def whole(self) -> bool:
        """Whether the pass covers all levels of a tree."""
        return isinstance(self.view, TreeView) and self.view.grades > 1

    @property
    def among_judged(self) -> bool:
        """Whether what nobody judged is left out of the lists."""
        return isinstance(self.view, JudgedView)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that fills up in the pass, by name."""
        names = ("seen", "shown", "ties", "nearest", "monotone", "findable", "first")
        state = {name: getattr(self, name) for name in names}
        for number, column in enumerate(self.columns):
            for name in ("values", "totals", "candidates"):
                state[f"{name}-{number}"] = getattr(column, name)
        return state if self.grown is None else state | {"grown": self.grown.values}


def plan_passes(task: TaskRules, metrics: list[Metric]) -> list[Pass]:
    """The passes that together fill a column for each of these metrics."""
    levels = {metric: level_of(task, metric) for metric in metrics}
    graded = [m for m in metrics if registry.definition(m).graded and m.get("level") is None]
    queries = task.queries
    view = task.view
    if isinstance(view, GradeView):
        scale = Scale(view.values.astype(np.float64), judged=True)
        among = task.judged_view
        narrow = [m for m in metrics if among is not None and registry.ranking(m).judged]
        found = []
        for of, some in ((view, [m for m in metrics if m not in narrow]), (among, narrow)):
            if of is not None and some:
                columns = [Column.of(metric, 1, scale, queries) for metric in some]
                share_counts(columns)
                found.append(Pass(of, scale, columns))
        return found
    named = task.named_levels
    depth = len(named)
    plain = [metric for metric in metrics if metric not in graded]
    scale = Scale(np.arange(1.0, depth + 1))
    lowest = 1 if graded else min(levels.values())
    if lowest < depth and named.is_tree:
        columns = [Column.of(metric, levels[metric], scale, queries) for metric in metrics]
        share_counts(columns)
        return [Pass(task.tree_view(lowest), scale, columns)]
    passes: dict[int, Pass] = {}
    for metric in plain:
        level = levels[metric]
        if level not in passes:
            passes[level] = Pass(task.level_view(level), Scale(np.ones(1)))
        passes[level].columns.append(Column.of(metric, 1, scale, queries))
    in_order = [passes[level] for level in sorted(passes, reverse=True)]
    if graded:
        columns = [Column.of(metric, 0, scale, queries) for metric in graded]
        in_order.append(Pass(task.tree_view(), scale, columns))
    for current in in_order:
        share_counts(current.columns)
    return in_order


def try_out(passes: list[Pass]) -> None:
    """Try each metric on one query with one mate: options that do not suit are refused now,
    not once everything has been counted."""
    for current in passes:
        if not current.view.mates.any():
            continue
        graded = np.zeros((1, current.view.grades), np.int32)
        graded[0, -1] = 1
        one = np.ones(1, np.int64)
        groups = TieGroups(np.array([0, 1]), 0 * one, one, graded, one)
        for column in current.columns:
            some = groups.at_least(column.grade)[1] if column.grade else groups
            some.values(column.metric, column.scale, registry.ranking(column.metric))
