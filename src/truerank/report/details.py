"""What a page shows beyond scores and curves, computed from the rows and kept with the result.

A map of the rows (PCA), a map of ties down the rankings after the second figure of Nicolaou et
al. (2018), pairs of confused classes, an audit, the queries that are served worst and best, and
those that one model of several solves and another does not.
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

VERSION = 2
READABLE = (1, VERSION)
"""Versions whose details are shown; those of 1 have class centres in place of a map of rows."""
MOST_AUDITED = 10_000
"""Rows up to which a page comes with an audit of them."""


def look(
    result: Result, progress: Callable[[int, int], None] | None = None
) -> Mapping[str, Any] | None:
    """The details of a result: those that it holds, or those of its rows, which it then holds."""
    if result.details is None and result.held is not None and _at_hand(result):
        result.details = _of_rows(result, result.held.at_hand(), progress)
    return known_details(result)


def known_details(result: Result) -> Mapping[str, Any] | None:
    """The details that a result holds, if this version can read them."""
    held = result.details
    return held if held is not None and held.get("version") in READABLE else None


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
        "map": map_of_rows(found),
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


# A map of the rows: where they lie on the two axes along which they differ most (PCA).


MOST_POINTS = 3000


def map_of_rows(found: AtHand) -> dict[str, Any] | None:
    """Places of the queries, or of evenly spaced ones, on their first two principal axes.

    Rows count by their directions where distances do. None where there are no points whose
    distances are those of the ranking.
    """
    points = found.space.vectors()
    if points is None or len(points) < 3:
        return None
    rows = spaced_rows(len(points))
    places, share = principal_axes(np.asarray(points[rows], np.float64))
    return {"rows": rows.tolist(), **scaled(places), "share": [round(one, 5) for one in share]}


def spaced_rows(rows: int) -> Integers:
    """Row numbers at equal steps, at most MOST_POINTS."""
    return np.linspace(0, rows - 1, min(MOST_POINTS, rows)).round().astype(np.int64)


def scaled(places: Reals) -> dict[str, list[float]]:
    """Places in two dimensions, with the farthest coordinate at 1."""
    scale = float(np.abs(places).max()) or 1.0
    x, y = np.round(places / scale, 4).T.tolist()
    return {"x": x, "y": y}


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
IN_MATRIX = 40
"""Classes up to which the page draws a matrix, for which all pairs are kept."""
WITH_EXAMPLE = 10
"""Pairs of which a query and the item that it found are named."""


def most_confused(task: TaskRules, nearest: NearestItem) -> dict[str, Any] | None:
    """Pairs of a query's class and that of an irrelevant item found first, frequent ones first.

    Only mated queries count. Of items at one distance an irrelevant one is found first, as the
    score has it.
    """
    if task.levels is None:
        return None
    rows = np.flatnonzero((task.n_relevant > 0) & (nearest.item >= 0))
    query = task.query_codes[rows]
    found = task.gallery_codes[nearest.item[rows]]
    wrong = (query != found) & (found >= 0)
    names = task.levels.finest.values
    pairs = query[wrong] * len(names) + found[wrong]
    pair, first, times = np.unique(pairs, return_index=True, return_counts=True)
    queries = np.bincount(query, minlength=len(names))
    classes = np.flatnonzero(queries)
    small = len(classes) <= IN_MATRIX
    order = np.lexsort((pair, -times))[: None if small else MOST_PAIRS]
    listed = [
        [str(names[a]), str(names[b]), count, int(queries[a])]
        for a, b, count in zip(
            (pair[order] // len(names)).tolist(),
            (pair[order] % len(names)).tolist(),
            times[order].tolist(),
            strict=True,
        )
    ]
    examples = rows[wrong][first[order[:WITH_EXAMPLE]]]
    found_first = nearest.item[examples]
    if task.columns is not None:
        found_first = task.columns[found_first]
    of_classes = [[str(names[code]), int(queries[code])] for code in classes.tolist()]
    return {
        "rows": listed,
        "pairs": len(pair),
        "errors": int(wrong.sum()),
        "examples": [
            [_known(task, 0, row), _known(task, -1, item)]
            for row, item in zip(examples.tolist(), found_first.tolist(), strict=True)
        ],
        "classes": of_classes if small else None,
    }


def _known(task: TaskRules, side: int, row: int) -> dict[str, Any]:
    """The number of a row, and its id if it has one."""
    names = task.id_names
    known = None if names is None else {"id": _text(names.values[names.codes[side][row]])}
    return {"row": row, **(known or {})}


# Queries served worst and best, and those that one model solves, with the items found first.


EACH = 8
"""Queries of either end."""
NEIGHBOURS = 9
PREFERRED = ("map@r", "map", "precision@1", "hit@1")
"""Metrics that queries are ordered by, where the result has them."""


def ranked_queries(result: Result, found: AtHand) -> dict[str, Any] | None:
    """The worst and the best queries by one metric, with their nearest items."""
    metric = preferred_metric(result)
    if metric is None:
        return None
    score, mates = result[metric], found.task.n_relevant
    assert score.per_query is not None
    sign = 1 if registry.find(metric).higher_is_better else -1
    values = sign * score.per_query.lower
    rows = np.flatnonzero(~np.isnan(values) & (mates > 0))
    if not len(rows):
        return None
    worst, best = (_first(rows, end * values, found.task) for end in (1, -1))
    ends = {"worst": worst, "best": best[~np.isin(best, worst)]}
    shown = {name: strips(found, some) for name, some in ends.items()}
    for some in shown.values():
        for query in some:
            query["value"] = float(sign * values[query["row"]])
    # Of queries with one value, the one that finds its first relevant item last is the worst.
    shown["worst"].sort(key=lambda query: (sign * query["value"], -query["first_mate"]))
    return {"metric": metric, **shown}


def _first(rows: Integers, values: Reals, task: TaskRules) -> Integers:
    """The queries of the lowest values.

    Of those with one value, one of each class comes before a second of any, those with many
    relevant items first, which had the best chances; and with levels, classes of the coarsest
    level take turns.
    """
    value, mates = values[rows], -task.n_relevant[rows]
    codes = task.query_codes[rows]
    turn = _turns((value, codes), (mates, rows))
    coarse = codes if task.levels is None else task.levels.paths[0].codes[0][rows]
    round_ = _turns((value, coarse), (turn, mates, rows))
    return rows[np.lexsort((rows, mates, turn, round_, value))][:EACH]


def _turns(groups: tuple[Any, ...], order: tuple[Any, ...]) -> Integers:
    """The place of each row among those of its group, in the given order."""
    ordered = np.lexsort((*order[::-1], *groups[::-1]))
    new = np.ones(len(ordered), bool)
    new[1:] = np.any([part[ordered][1:] != part[ordered][:-1] for part in groups], axis=0)
    place = np.arange(len(ordered))
    turn = np.empty(len(ordered), np.int64)
    turn[ordered] = place - np.maximum.accumulate(np.where(new, place, 0))
    return turn


def strips(found: AtHand, rows: Integers, k: int = NEIGHBOURS) -> list[dict[str, Any]]:
    """Queries with their k nearest items, and the first relevant one, as plain values."""
    seen = rank(found.task, found.space, rows, k)
    return [_plain(one, seen.levels) for one in seen]


EACH_SOLVES = 3
"""Queries shown that only one of two models solves,"""
NEAREST_EACH = 5
"""and the items of each model that are shown beside them."""


def solved_strips(
    first: Result, second: Result, first_right: Reals, second_right: Reals
) -> list[list[dict[str, Any]]] | None:
    """Queries that only the first model solves and that only the second does, as both see them.

    Of each kind those with the largest difference in the preferred metric, where classes of the
    coarsest level take turns. None where the rows of either model are not in memory.
    """
    results = first, second
    metric = preferred_metric(first)
    if metric is None or metric not in second or not all(map(_at_hand, results)):
        return None
    found = [result.held.at_hand() for result in results]  # type: ignore[union-attr]
    values = [result[metric].per_query for result in results]
    if None in values:
        return None
    ahead = values[0].lower - values[1].lower  # type: ignore[union-attr]
    kinds = []
    for sign, one, other in ((1, first_right, second_right), (-1, second_right, first_right)):
        rows = np.flatnonzero((one == 1.0) & (other == 0.0))
        chosen = _first(rows, -sign * ahead, found[0].task)[:EACH_SOLVES]
        both = (strips(each, chosen, NEAREST_EACH) for each in found)
        kinds.append([{"first": a, "second": b} for a, b in zip(*both, strict=True)])
    return kinds


def _at_hand(result: Result) -> bool:
    return result.held is not None and result.held.missing() is None


def preferred_metric(result: Result) -> str | None:
    """The metric by which single queries and classes are ordered, if a result has any."""
    held = [name for name, score in result.items() if score.per_query is not None]
    preferred = [name for name in PREFERRED if name in held]
    ranking = [name for name in held if registry.find(name).with_mate]
    return next(iter([*preferred, *ranking]), None)


def _plain(one: NeighborList, levels: list[str]) -> dict[str, Any]:
    """A query with its neighbors as plain values."""
    known = {"label": one.label, "id": one.id, "group": one.group}
    # Relevant items come last among items at one distance, as the score has it.
    tied = one.relevant.distance == one.relevant.distance[0]
    first_rank = int(one.relevant.last[0]) - int(tied.sum()) + 1
    items, relevant = ([_item(about) for about in some.plain(levels)] for some in (
        one.nearest, one.relevant,
    ))  # fmt: skip
    return {
        "row": one.query,
        **{name: _text(text) for name, text in known.items() if text is not None},
        "mates": len(one.relevant),
        "first_mate": first_rank,
        "first": relevant[0],
        "neighbours": items,
    }


def _item(about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: _text(about[name]) for name in ("label", "id", "group") if name in about},
        "row": about["row"],
        "distance": about["distance"],
        "shares": "right" if about["verdict"] == "right" else about.get("level"),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
