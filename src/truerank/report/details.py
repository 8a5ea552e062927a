"""What a page shows beyond scores and curves, computed from the rows and kept with the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from truerank.auditing import audit
from truerank.errors import TruerankWarning
from truerank.evaluation.first_found import NearestItem
from truerank.ranked import AtHand
from truerank.report.centres import map_of_centres
from truerank.report.collisions import tie_map
from truerank.report.confusion import most_confused
from truerank.report.queries import ranked_queries
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
