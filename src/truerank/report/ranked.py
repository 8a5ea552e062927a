"""Queries served worst and best, each with the items that it finds first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.evaluated import Evaluated
from truerank.labels import Encoded
from truerank.result import Result
from truerank.space import Space
from truerank.task import TaskRules

__all__ = ["preferred_metric", "ranked_queries"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
EACH = 8
"""Queries of either end."""
NEIGHBOURS = 10
PREFERRED = ("map@r", "map", "precision@1", "hit@1")
"""Metrics that queries are ordered by, where the result has them."""


def ranked_queries(result: Result, evaluated: Evaluated, space: Space) -> dict[str, Any] | None:
    """The worst and the best queries by one metric, with their nearest items."""
    task = evaluated.task
    metric = preferred_metric(result)
    if metric is None:
        return None
    score = result[metric]
    assert score.per_query is not None
    sign = 1 if registry.definition(registry.parse(metric)).higher_is_better else -1
    values = sign * score.per_query.lower
    rows = np.flatnonzero(~np.isnan(values) & (task.mates > 0))
    if not len(rows):
        return None
    # Among the worst those with many mates come first: they had the best chances.
    ascending = rows[np.lexsort((rows, -task.mates[rows], values[rows]))]
    descending = rows[np.lexsort((rows, -task.mates[rows], -values[rows]))]
    best = [row for row in descending[:EACH].tolist() if row not in ascending[:EACH]]
    return {
        "metric": metric,
        "worst": [_look(task, space, row, sign * values[row]) for row in ascending[:EACH].tolist()],
        "best": [_look(task, space, row, sign * values[row]) for row in best],
    }


def preferred_metric(result: Result) -> str | None:
    """The metric by which single queries and classes are ordered, if a result has any."""
    held = [name for name, score in result.items() if score.per_query is not None]
    preferred = [name for name in PREFERRED if name in held]
    ranking = [name for name in held if registry.find(name).with_mate]
    return next(iter([*preferred, *ranking]), None)


def _look(task: TaskRules, space: Space, row: int, value: float) -> dict[str, Any]:
    """One query: who it is, what it finds first, and where its mates stand."""
    at = np.array([row])
    distances = space.block(at)(0, space.gallery)[0].copy()
    block = task.view.block(at)
    distances[block.excluded.item] = np.inf
    mate = np.zeros(len(distances), bool)
    mate[block.relevant.item] = True
    met = np.flatnonzero(np.isfinite(distances))
    # Of items at one distance those that are no mates come first, as the score has it.
    order = met[np.lexsort((met, mate[met], distances[met]))]
    first = order[:NEIGHBOURS]
    shown = space.in_unit(distances[first])
    ranks = np.flatnonzero(mate[order])
    return {
        **_named(task, 0, row),
        "value": float(value),
        "mates": int(mate.sum()),
        "first_mate": int(ranks[0]) + 1 if len(ranks) else None,
        "neighbours": [
            {
                **_named(task, -1, int(item)),
                "distance": float(distance),
                "shares": "right" if mate[item] else _shared(task, row, int(item)),
            }
            for item, distance in zip(first, shown, strict=True)
        ],
    }


def _named(task: TaskRules, side: int, place: int) -> dict[str, Any]:
    """The row of an item (among all rows of its side), its label, id and group."""
    row = place if side == 0 or task.columns is None else int(task.columns[place])
    found: dict[str, Any] = {"row": row}
    finest = None if task.levels is None else task.levels.finest
    for name, encoded in (("label", finest), ("id", task.id_names), ("group", task.group_names)):
        if encoded is not None:
            found[name] = _text(encoded, side, row)
    return found


def _text(encoded: Encoded, side: int, row: int) -> str | None:
    code = int(encoded.codes[side][row])
    return None if code < 0 else str(encoded.values[code])


def _shared(task: TaskRules, row: int, place: int) -> str | None:
    """The finest level at which a wrong item is still right; None if at none."""
    if task.levels is None or len(task.levels) == 1:
        return None
    item = place if task.columns is None else int(task.columns[place])
    shared = None
    for name, path in zip(task.levels.names[:-1], task.levels.paths[:-1], strict=True):
        code = path.codes[0][row]
        if code >= 0 and code == path.codes[-1][item]:
            shared = str(name)
    return shared
