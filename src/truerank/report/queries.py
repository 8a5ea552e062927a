"""Queries served worst and best, each with the items that it finds first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.ranked import AtHand, NeighbourList, rank
from truerank.result import Result
from truerank.task import TaskRules

__all__ = ["preferred_metric", "ranked_queries"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
EACH = 8
"""Queries of either end."""
NEIGHBOURS = 10
PREFERRED = ("map@r", "map", "precision@1", "hit@1")
"""Metrics that queries are ordered by, where the result has them."""


def ranked_queries(result: Result, found: AtHand) -> dict[str, Any] | None:
    """The worst and the best queries by one metric, with their nearest items."""
    metric = preferred_metric(result)
    if metric is None:
        return None
    score, mates = result[metric], found.task.mates
    assert score.per_query is not None
    sign = 1 if registry.find(metric).higher_is_better else -1
    values = sign * score.per_query.lower
    rows = np.flatnonzero(~np.isnan(values) & (mates > 0))
    if not len(rows):
        return None
    worst, best = (_first(rows, end * values, found.task) for end in (1, -1))
    ends = {"worst": worst, "best": best[~np.isin(best, worst)]}
    shown = {
        name: [
            _plain(one, len(one.mates), float(sign * values[one.query]), seen.levels)
            for one in seen
        ]
        for name, some in ends.items()
        for seen in [rank(found.task, found.space, some, NEIGHBOURS)]
    }
    return {"metric": metric, **shown}


def _first(rows: Integers, values: Reals, task: TaskRules) -> Integers:
    """The queries of the lowest values.

    Of those with one value, queries with many mates come first, which had the best chances, and of
    these one of each class before a second of any.
    """
    key = values[rows], -task.mates[rows], task.query_codes[rows]
    order = np.lexsort((rows, *key[::-1]))
    new = np.ones(len(rows), bool)
    new[1:] = np.any([part[order][1:] != part[order][:-1] for part in key], axis=0)
    place = np.arange(len(rows))
    turn = np.empty(len(rows), np.int64)
    turn[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return rows[np.lexsort((rows, turn, key[1], key[0]))][:EACH]


def preferred_metric(result: Result) -> str | None:
    """The metric by which single queries and classes are ordered, if a result has any."""
    held = [name for name, score in result.items() if score.per_query is not None]
    preferred = [name for name in PREFERRED if name in held]
    ranking = [name for name in held if registry.find(name).with_mate]
    return next(iter([*preferred, *ranking]), None)


def _plain(one: NeighbourList, mates: int, value: float, levels: list[str]) -> dict[str, Any]:
    """A query with its neighbours as plain values."""
    known = {"label": one.label, "id": one.id, "group": one.group}
    first = one.mates.distance == one.mates.distance[0]
    items = [
        {
            **{name: _text(about[name]) for name in ("label", "id", "group") if name in about},
            "row": about["row"],
            "distance": about["distance"],
            "shares": "right" if about["verdict"] == "right" else about.get("level"),
        }
        for about in one.nearest.plain(levels)
    ]
    return {
        "row": one.query,
        **{name: _text(text) for name, text in known.items() if text is not None},
        "value": value,
        "mates": mates,
        # Mates come last among items at one distance, as the score has it.
        "first_mate": int(one.mates.last[0]) - int(first.sum()) + 1,
        "neighbours": items,
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
