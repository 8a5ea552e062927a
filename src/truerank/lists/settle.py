"""The smallest k that settles a metric: its lower and upper are no further apart than asked."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.average import plain_mean
from truerank.core.metric import Metric
from truerank.errors import InputError, shortened
from truerank.lists.places import Places
from truerank.scoring import fill_passes
from truerank.scoring.score import column_bounds
from truerank.task import TaskRules
from truerank.task.levels import level_parts

__all__ = ["check_width", "smallest_k"]


def check_width(width: Any) -> float | None:
    """A width that a user asks for, as a share; None for none."""
    if width is None:
        return None
    is_number = isinstance(width, (int, float, np.number)) and not isinstance(width, bool)
    if not is_number or not 0 <= width < 1:
        raise InputError(
            "The 'settle' parameter must be a width from 0 to below 1, such as 0.01, or None. "
            f"Got {shortened(width)} instead."
        )
    return float(width)


def smallest_k(
    places: Places,
    task: TaskRules,
    metrics: list[Metric],
    width: float,
    *,
    average: str,
    threads: int,
) -> dict[str, Any]:
    """For each metric the smallest k from which on the bounds are near enough, or None.

    No bound moves outward as k grows (Places.cut), so that halving finds it. But items that are
    repeated or unknown push others back: with such, every k is looked at, the largest first.
    """
    whole = _widths(places, task, metrics, average, threads)
    most = {metric: places.asked if gap <= width else None for metric, gap in whole.items()}
    """Enough; None where even the whole lists are not."""
    least = dict.fromkeys(whole, 0)
    """Not enough."""
    by_halves = not places.strangers.any()
    while True:
        unsure: dict[int, list[Metric]] = {}
        for metric, enough in most.items():
            if enough is not None and enough - least[metric] > 1:
                k = (enough + least[metric]) // 2 if by_halves else enough - 1
                unsure.setdefault(k, []).append(metric)
        if not unsure:
            break
        for k, some in unsure.items():
            for metric, gap in _widths(places.cut(k), task, some, average, threads).items():
                if gap <= width:
                    most[metric] = k
                else:
                    least[metric] = k
    return {"width": width, "k": {str(metric): k for metric, k in most.items()}}


def _widths(
    places: Places, task: TaskRules, metrics: list[Metric], average: str, threads: int
) -> dict[Metric, float]:
    """Upper less lower of each metric; nothing to settle where no query counts."""
    passes = fill_passes(task, metrics, places.blocks, threads)
    bounds = {
        column.metric: column_bounds(column, task, average)
        for current in passes
        for column in current.columns
    }
    found = {}
    for metric in metrics:
        parts = [bounds[part] for part in level_parts(task, metric)]
        lower, _, upper = (plain_mean(ends) for ends in zip(*parts, strict=True))
        if lower == lower:
            found[metric] = upper - lower
    return found
