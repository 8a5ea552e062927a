"""The level of the labels that a metric goes by: 1 the coarsest."""

from __future__ import annotations

from truerank.core.metric import Metric
from truerank.errors import InputError
from truerank.task.rules import TaskRules

__all__ = ["depth", "level_of", "level_parts"]


def depth(task: TaskRules) -> int:
    """The number of levels; 1 without labels."""
    return 1 if task.levels is None else len(task.levels)


def level_of(task: TaskRules, metric: Metric) -> int:
    """The number of the level that a metric is asked for; the finest if none is named."""
    text = metric.get("level")
    levels = depth(task)
    if text is None:
        return levels
    names = [] if task.levels is None else task.levels.names
    if text.isdecimal() and len(text) < 10 and 1 <= int(text) <= levels:
        return int(text)
    if text in names:
        return names.index(text) + 1
    known = ", ".join(names) if names else "1"
    raise InputError(f"there is no level {text!r} in {metric}; the levels are {known}.")


def level_parts(task: TaskRules, metric: Metric) -> list[Metric]:
    """The metric at each level, if it is a mean over levels; else the metric itself."""
    if metric.get("level") != "mean":
        return [metric]
    return [metric.at_level(level) for level in range(1, depth(task) + 1)]
