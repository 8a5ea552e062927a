"""What a page shows beyond scores and curves, computed from the rows and kept with the result.

A map of class centres (PCA), a map of ties down the rankings after the second figure of
Nicolaou et al. (2018), pairs of confused classes, an audit, and the queries that are served
worst and best.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from truerank._util.errors import TruerankWarning
from truerank._util.types import Integers, Reals
from truerank.analysis.audit import audit
from truerank.analysis.principal import principal_axes
from truerank.core import registry
from truerank.distance import catalogue
from truerank.distance.base import Space
from truerank.evaluation.evaluate import NearestItem
from truerank.report.threshold_slider import collect_stops
from truerank.result.ranked_rows import AtHand, NeighborList, rank
from truerank.result.result import Result
from truerank.task.task import TaskRules

VERSION = 1
MOST_AUDITED = 10_000
"""Rows up to which a page comes with an audit of them."""


def look(
    result: Result, progress: Callable[[int, int], None] | None = None
) -> Mapping[str, Any] | None:
    """The details of a result: those that it holds, or those of its rows, which it then holds."""
    held = result.held
    if result.details is None and held is not None and held.missing() is None:
        result.details = _of_rows(result, held.at_hand(), progress)
    return known_details(result)


def known_details(result: Result) -> Mapping[str, Any] | None:
    """The details that a result holds, if this version can read them."""
    held = result.details
    return held if held is not None and held.get("version") == VERSION else None


def _of_rows(
    result: Result, found: AtHand, progress: Callable[[int, int], None] | None
) -> dict[str, Any]:
    nearest = NearestItem(found.task.view)
    facts = result.provenance
    stops = collect_stops(
        found, [nearest], average=facts["average"], device=facts["device"], progress=progress
    )
    return {
        "version": VERSION,
        "stops": stops,
        "confusions": most_confused(found.task, nearest),
        "ranked": ranked_queries(result, found),
        "centres": map_of_centres(found),
        "ties": tie_map(found.task, found.space),
        "audit": _audit(found),
    }


def _audit(found: AtHand) -> dict[str, Any] | None:
    """Findings about the rows, or about the gallery's where there is one."""
    task, distance = found.task, found.space.facts.distance
    rows = found.rows if found.items is None else found.items
    pointed = distance in catalogue.names(points=True)
    if not pointed or task.levels is None or len(rows) > MOST_AUDITED:
        return None
    codes = task.levels.finest.codes[-1]
    if (codes < 0).any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        seen = audit(rows, codes, distance=distance, threads=found.threads)
    return {
        "of": "embeddings" if found.items is None else "gallery",
        "findings": seen.to_dict()["findings"],
        "measured": list(seen.sentences),
    }


# A map of the classes: their centres, on the two axes along which they differ most (PCA).


MOST_CLASSES = 2000


def map_of_centres(found: AtHand) -> dict[str, Any] | None:
    """The centres of the queries' classes in two dimensions, the largest classes first.

    Rows count by their directions where distances do. None where there are no classes, or no
    points whose distances are those of the ranking.
    """
    task, points = found.task, found.space.vectors()
    if points is None or task.levels is None:
        return None
    classes, number, size = np.unique(task.query_codes, return_inverse=True, return_counts=True)
    if len(classes) < 3:
        return None
    centres = np.zeros((len(classes), points.shape[1]))
    np.add.at(centres, number, points)
    centres /= size[:, None]
    places, share = principal_axes(centres)
    order = np.lexsort((classes, -size))[:MOST_CLASSES]
    names = task.levels.finest.values
    scale = float(np.abs(places).max()) or 1.0
    return {
        "labels": [str(names[code]) for code in classes[order].tolist()],
        "x": np.round(places[order, 0] / scale, 5).tolist(),
        "y": np.round(places[order, 1] / scale, 5).tolist(),
        "queries": size[order].tolist(),
        "classes": len(classes),
        "share": [round(one, 5) for one in share],
    }


# The tie map: where, down the ranking of each query, items stand at one and the same distance.
#
# After the second figure of Nicolaou et al. (2018), which draws a row for each query and a column
# for each rank; here queries and ranks are binned, and items collide only if they are exactly
# tied.


MOST_QUERIES = 400
TOGETHER = 16
"""Queries whose distances are held at a time."""
LINES = 40
"""Bins of queries."""
COLUMNS = 60
"""Bins of ranks, equal on a logarithmic axis; the first ranks have one each."""


def tie_map(task: TaskRules, space: Space) -> dict[str, Any] | None:
    """The share of tied items by bin of queries (in order of their labels) and of ranks."""
    order = np.lexsort((np.arange(task.queries), task.query_codes))
    some = np.linspace(0, task.queries - 1, min(MOST_QUERIES, task.queries)).round()
    rows = order[some.astype(np.int64)]
    edges = _edges(task.items)
    lines = min(LINES, len(rows))
    line = np.arange(len(rows)) * lines // len(rows)
    tied = np.zeros((lines, len(edges) - 1))
    met = np.zeros_like(tied)
    for start in range(0, len(rows), TOGETHER):
        some_rows = rows[start : start + TOGETHER]
        block = space.block(some_rows)(0, space.gallery).copy()
        excluded = task.view.block(some_rows).excluded
        block[excluded.query, excluded.item] = np.inf
        for place, distances in enumerate(block, start):
            ranked = np.sort(distances[np.isfinite(distances)])
            equal = ranked[1:] == ranked[:-1]
            collides = np.append(equal, False) | np.append(False, equal)
            ends = np.minimum(edges, len(ranked))
            tied[line[place]] += np.diff(np.append(0, np.cumsum(collides))[ends])
            met[line[place]] += np.diff(ends)
    with np.errstate(invalid="ignore"):
        share = np.round(tied / met, 4)
    return {
        "ranks": (edges[:-1] + 1).tolist(),
        "share": [[None if one != one else one for one in row] for row in share.tolist()],
        "queries": len(rows),
        "tied": float(tied.sum() / max(1.0, met.sum())),
    }


def _edges(items: int) -> Any:
    """Where bins of ranks begin, from 0 on; the last end is that of the gallery."""
    return np.unique(np.rint(np.geomspace(1, items + 1, COLUMNS + 1)).astype(np.int64)) - 1


# Which classes are taken for which: the items found first that are wrong, by pair of classes.


MOST_PAIRS = 200


def most_confused(task: TaskRules, nearest: NearestItem) -> dict[str, Any] | None:
    """Pairs of a query's class and that of a wrong item found first, the most frequent first.

    Only queries that have a mate to find count. Of items at one distance one that is no mate is
    found first, as the score sees it.
    """
    if task.levels is None:
        return None
    counts = (task.mates > 0) & (nearest.item >= 0)
    query = task.query_codes[counts]
    found = task.gallery_codes[nearest.item[counts]]
    wrong = (query != found) & (found >= 0)
    names = task.levels.finest.values
    pairs = query[wrong] * len(names) + found[wrong]
    pair, times = np.unique(pairs, return_counts=True)
    queries = np.bincount(query, minlength=len(names))
    order = np.lexsort((pair, -times))[:MOST_PAIRS]
    rows = [
        [str(names[a]), str(names[b]), count, int(queries[a])]
        for a, b, count in zip(
            (pair[order] // len(names)).tolist(),
            (pair[order] % len(names)).tolist(),
            times[order].tolist(),
            strict=True,
        )
    ]
    return {"rows": rows, "pairs": len(pair), "errors": int(wrong.sum())}


# Queries served worst and best, each with the items that it finds first.


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


def _plain(one: NeighborList, mates: int, value: float, levels: list[str]) -> dict[str, Any]:
    """A query with its neighbors as plain values."""
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
