"""What a page shows beyond scores and curves, computed from the rows and kept with the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from truerank.auditing import audit
from truerank.errors import TruerankWarning
from truerank.evaluated import Evaluated
from truerank.evaluation.first_found import NearestItem
from truerank.report.centres import map_of_centres
from truerank.report.collisions import tie_map
from truerank.report.confusion import most_confused
from truerank.report.ranked import ranked_queries
from truerank.report.stops import collect_stops
from truerank.result import Result
from truerank.space import catalogue

__all__ = ["VERSION", "known_details", "look"]

VERSION = 1
MOST_AUDITED = 10_000
"""Rows up to which a page comes with an audit of them."""


def look(
    result: Result, progress: Callable[[int, int], None] | None = None
) -> Mapping[str, Any] | None:
    """The details of a result: those that it holds, or those of its rows, which it then holds."""
    if result.details is None and result.evaluated is not None:
        result.details = _of_rows(result, result.evaluated, progress)
    return known_details(result)


def known_details(result: Result) -> Mapping[str, Any] | None:
    """The details that a result holds, if this version can read them."""
    held = result.details
    return held if held is not None and held.get("version") == VERSION else None


def _of_rows(
    result: Result, evaluated: Evaluated, progress: Callable[[int, int], None] | None
) -> dict[str, Any]:
    task, space = evaluated.task, evaluated.space()
    nearest = NearestItem(task.view)
    stops = collect_stops(evaluated, space, [nearest], progress)
    return {
        "version": VERSION,
        "stops": stops,
        "confusions": most_confused(task, nearest),
        "ranked": ranked_queries(result, evaluated, space),
        "centres": map_of_centres(evaluated),
        "ties": tie_map(task, space),
        "audit": _audit(evaluated),
    }


def _audit(evaluated: Evaluated) -> dict[str, Any] | None:
    """Findings about the rows, or about the gallery's where there is one."""
    task, items = evaluated.task, evaluated.items
    rows = evaluated.rows if items is None else items
    pointed = evaluated.distance in catalogue.names(points=True)
    if not pointed or task.levels is None or len(rows) > MOST_AUDITED:
        return None
    finest = task.levels.finest
    codes = finest.codes[-1]
    if (codes < 0).any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        found = audit(rows, codes, distance=evaluated.distance, threads=evaluated.threads)
    return {
        "of": "embeddings" if items is None else "gallery",
        "findings": found.to_dict()["findings"],
        "measured": list(found.sentences),
    }
