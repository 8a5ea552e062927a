"""Several results of one task on a page: differences, groups, and who solves which query."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import tables
from truerank.comparison import Comparison, compare
from truerank.core import registry
from truerank.organise.board import groups
from truerank.report.cells import column, page_table
from truerank.result import Result

__all__ = ["comparison_data"]

MOST_MODELS = 6
"""Models of which every two are held against each other query by query."""
LISTED = 100
"""Queries listed of each kind."""


def comparison_data(results: list[Result], names: list[str]) -> dict[str, Any]:
    """Differences with their intervals, who cannot be told apart, and who solves which query."""
    found = compare(*results, names=names)
    return {
        "models": names,
        "scores": _scores(found),
        "differences": _differences(found),
        "notes": found.notes(),
        "solved": _solved(results, names),
    }


def _scores(found: Comparison) -> dict[str, Any]:
    """A row for each metric and model, with letters for those that cannot be told apart.

    A letter says that a test was made: where a metric lacks one, none of its rows has a letter.
    """
    rows = []
    for metric in dict.fromkeys(row.metric for row in found.standings):
        standing = [row for row in found.standings if row.metric == metric]
        tests = {
            frozenset((row.first, row.second)): row.adjusted_p
            for row in found.differences
            if row.metric == metric
        }
        apart = {two for two, p in tests.items() if p is not None and p < 1 - found.confidence}
        letters = groups([row.model for row in standing], apart)
        if None in tests.values():
            letters = dict.fromkeys(letters, _OPEN[True])
        shown = tables.number(metric)
        for row in standing:
            best, worst = row.ranks
            ends = row.interval
            rows.append(
                [
                    tables.marked(metric),
                    row.model,
                    shown(row.value),
                    "" if ends is None else f"{shown(ends[0])} to {shown(ends[1])}",
                    str(best) if best == worst else f"{best}-{worst}",
                    letters[row.model],
                ]
            )
    columns = [column("metric"), column("model")]
    columns += [column(name, "number") for name in ("score", "interval", "rank")]
    columns.append(column("group"))
    return page_table("Scores", columns, rows, file="comparison scores")


def _differences(found: Comparison) -> dict[str, Any]:
    """All differences: their text, and where they lie."""
    rows, places = [], []
    for row in found.differences:
        shown = tables.number(row.metric)
        ends = row.interval
        certain = row.adjusted_p is not None and row.adjusted_p < 1 - found.confidence
        higher = registry.find(row.metric).higher_is_better
        better = row.first if (row.value > 0) == higher else row.second
        rows.append(
            [
                tables.marked(row.metric),
                row.first,
                row.second,
                ("+" if row.value >= 0 else "-") + shown(abs(row.value)),
                "" if ends is None else f"{shown(ends[0])} to {shown(ends[1])}",
                _probability(row.p),
                _probability(row.adjusted_p),
                f"{better} is better" if certain else _OPEN[row.adjusted_p is None],
            ]
        )
        share = registry.find(row.metric).unit == "share"
        places.append([row.value, *(ends or (None, None))] if share else None)
    columns = [column(name) for name in ("metric", "first", "second")]
    columns += [column(name, "number") for name in ("difference", "interval", "p", "p (Holm)")]
    return page_table("Differences", [*columns, column("verdict")], rows) | {"places": places}


_OPEN = ("cannot be told apart", "no test")
"""What is said of a difference that is not certain, and of one that has no test."""


def _probability(p: float | None) -> str:
    return "" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _solved(results: list[Result], names: list[str]) -> dict[str, Any] | None:
    """For every two models, how many queries both solve, one of them, or none."""
    metric = next((m for m in ("precision@1", "hit@1") if all(m in one for one in results)), None)
    if metric is None:
        return None
    right = []
    for result in results[:MOST_MODELS]:
        rows = result[metric].per_query
        if rows is None:
            return None
        right.append(rows.lower)
    about = results[0].queries()
    pairs = [
        _pair(right[a], right[b], about) | {"first": names[a], "second": names[b]}
        for a, b in combinations(range(len(right)), 2)
    ]
    columns = ["query", *(name for name in ("id", "label", "group") if name in about)]
    return {"pairs": pairs, "columns": columns}


def _pair(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], about: dict[str, list[Any]]
) -> dict[str, Any]:
    counts = ~np.isnan(first) & ~np.isnan(second)
    one, other = first == 1.0, second == 1.0

    def listed(which: npt.NDArray[np.bool_]) -> list[list[Any]]:
        rows = np.flatnonzero(which & counts)[:LISTED].tolist()
        told = [about[name] for name in ("id", "label", "group") if name in about]
        return [[row, *(str(values[row]) for values in told)] for row in rows]

    return {
        "both": int((one & other & counts).sum()),
        "only_first": int((one & ~other & counts).sum()),
        "only_second": int((~one & other & counts).sum()),
        "neither": int((~one & ~other & counts).sum()),
        "first_list": listed(one & ~other),
        "second_list": listed(other & ~one),
    }
