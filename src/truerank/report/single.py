"""One result as a page shows it: plain values, section by section."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping
from typing import Any

from truerank import tables
from truerank.core import registry
from truerank.operating_marks import marks_of
from truerank.parts import Parts
from truerank.report.cells import column, metric_column, page_table, shortened
from truerank.report.details import known_details
from truerank.report.queries import preferred_metric
from truerank.report.words import in_words
from truerank.result import Result
from truerank.severity import NONE
from truerank.wording import level_name

__all__ = ["model_data"]

MOST_ROWS = 5000
"""Classes that a table lists."""
MOST_METRICS = 8
SHARED = {"rows that share an id": "ids", "mates of the query's own group": "groups"}
"""What a rule of a task is made from."""
NEEDS_ROWS = (
    "The embeddings are not at hand, so the page has no thresholds to slide over, no confused "
    "classes, no neighbours, no map and no ties; evaluate with --report, or call to_html on a "
    "fresh result whose embeddings are still in memory, to have them."
)
IS_PUBLIC = "This is a public result of a hidden task: it names scores, and nothing of queries."


def model_data(result: Result, name: str) -> dict[str, Any]:
    """All sections of a result."""
    details = known_details(result) or {}
    return {
        "name": name,
        "facts": _facts(result),
        "headline": _headline(result),
        "notes": tables.summary(result),
        "missing": _missing(result, details),
        "curves": _curves(result),
        "marks": _marks(result),
        "stops": details.get("stops"),
        "distance": result.provenance.get("distance", {}).get("distance"),
        "parts": _parts(result),
        "confusions": _confusions(details.get("confusions")),
        "ranked": details.get("ranked"),
        "severity": _severity(result),
        "centres": _centres(result, details.get("centres")),
        "ties": details.get("ties"),
        "audit": details.get("audit"),
        "provenance": _provenance(result),
    }


def _missing(result: Result, details: Mapping[str, Any]) -> str | None:
    if result.public:
        return IS_PUBLIC
    if details or "trials" in result.provenance:
        return None
    return NEEDS_ROWS


def _facts(result: Result) -> list[list[str]]:
    """What was evaluated, in a few numbers."""
    facts = result.provenance
    if "trials" in facts:
        shown = {"trials": f"{sum(facts['trials'].values()):,}"}
    else:
        shown = {"queries": f"{facts['queries']:,}", "gallery": f"{facts['gallery']:,}"}
        if facts.get("dimensions"):
            shown["dimensions"] = f"{facts['dimensions']:,}"
        if result.units is not None and not facts.get("part"):
            shown["classes"] = f"{len(set(result.units.tolist())):,}"
    shown["distance"] = str(facts["distance"]["distance"])
    return [[name, text] for name, text in shown.items()]


def _headline(result: Result) -> dict[str, Any]:
    """The printed table with a line of words for each metric, and where its numbers lie."""
    header, rows = tables.cells(result)
    lines = []
    for (name, score), cells in zip(result.items(), rows, strict=True):
        known = registry.find(name)
        low, high = score.interval or (None, None)
        places = {
            "value": _number(score.value),
            "low": _number(low),
            "high": _number(high),
            "chance": _number(score.chance),
            "upper": _number(score.upper) if score.tied else None,
        }
        share = known.unit == "share" and known.range == (0.0, 1.0)
        lines.append(
            {
                "cells": cells,
                "title": known.title,
                "words": in_words(name),
                "reason": score.reason,
                "places": places if share else None,
            }
        )
    return {"header": header, "rows": lines, "csv": tables.as_csv(result)}


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _curves(result: Result) -> dict[str, Any]:
    """Every curve as it is saved: with as many points as it takes to draw it."""
    saved = result.to_dict(per_query=False).get("curves") or {}
    found = dict(saved.get("curves", {}))
    if "levels" in result.curves:
        bars = {name: _plain(values) for name, values in result.curve("levels").items()}
        found["levels"] = {"points": len(bars["level"]), "columns": bars}
    return found


def _plain(values: Any) -> list[Any]:
    return [None if value != value else value for value in values.tolist()]


def _marks(result: Result) -> dict[str, list[list[Any]]]:
    """Where scores were taken on each curve: their name, the place, and the threshold."""
    found = {name: marks_of(result, name) for name in result.curves}
    return {
        name: [[mark.metric, mark.x, mark.y, mark.threshold] for mark in marks]
        for name, marks in found.items()
        if marks
    }


def _parts(result: Result) -> list[dict[str, Any]]:
    """Tables of classes, of coarser levels and of groups, the worst first."""
    held = [name for name, score in result.items() if score.per_query is not None]
    if not held or result.provenance.get("part"):
        return []
    found = []
    levels = (result.provenance.get("hierarchy") or {}).get("levels", [])
    left_out = {"id", *levels[-1:]} - {"label"}  # the finest level is the label, by another name
    for attribute in result.attributes:
        if attribute in left_out:
            continue
        parts = Parts.of_result(result, attribute, MOST_ROWS)
        metrics = parts.metrics[:MOST_METRICS]
        columns = [column(attribute), column("queries", "count"), *map(metric_column, metrics)]
        decimals = [one["decimals"] for one in columns[2:]]
        rows = [
            [str(value), int(part.provenance["queries"])]
            + [shortened(part[m].value, d) for m, d in zip(metrics, decimals, strict=True)]
            for value, part in parts.rows
        ]
        note = ""
        if parts.of > len(parts.rows):
            note = f"The {len(parts.rows):,} of {parts.of:,} that are worst in {metrics[0]}."
        higher = registry.find(metrics[0]).higher_is_better
        level = f"Level {attribute}" if attribute.isdigit() else attribute
        title = {"label": "Classes", "group": "Groups"}.get(attribute, level)
        order = (2, "ascending" if higher else "descending")
        found.append(
            page_table(title, columns, rows, note=note, sorted_by=order, file=f"by {attribute}")
        )
    return sorted(found, key=lambda table: table["title"] != "Classes")


def _confusions(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    columns = [
        column("class of the query"),
        column("class found first"),
        column("times", "count"),
        column("queries of the class", "count"),
        column("share", "percent"),
    ]
    rows = [[*row, shortened(row[2] / row[3])] for row in found["rows"]]
    note = (
        f"{found['errors']:,} queries find a wrong class first, {found['pairs']:,} pairs of "
        "classes in all"
    )
    note += "." if found["pairs"] == len(rows) else f"; the {len(rows):,} most frequent are listed."
    order = (2, "descending")
    return page_table("Confused classes", columns, rows, note=note, sorted_by=order)


def _severity(result: Result) -> dict[str, Any] | None:
    """Top-1 errors by the finest level shared, the mildest first."""
    facts = result.provenance.get("severity")
    if facts is None or not facts["errors"]:
        return None
    levels = list(result.provenance["hierarchy"]["levels"])[:-1]
    shown = [*reversed(levels), NONE]
    counts = [int(facts["by_level"].get(name, 0)) for name in shown]
    curve = result.curve("severity") if "severity" in result.curves else None
    band = {}
    if curve is not None and "low" in curve:  # the mildest first, in queries
        ends = {end: (curve[end][::-1] * facts["queries"]).tolist() for end in ("low", "high")}
        band = {end: [v if v == v else None for v in values] for end, values in ends.items()}
    return {
        **band,
        "band_reason": None if curve is None else curve.band_reason,
        "names": [
            "shares nothing" if name == NONE else f"shares {level_name(name)}" for name in shown
        ],
        "errors": counts,
        "queries": facts["queries"],
    }


def _centres(result: Result, found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The map, with each class's score for its colour."""
    if found is None:
        return None
    metric = preferred_metric(result)
    if metric is None:
        return dict(found)
    parts = result.by("label", metrics=[metric])
    values = {str(label): part[metric].value for label, part in parts.items()}
    scores = [shortened(values.get(label)) for label in found["labels"]]
    return {**found, "metric": metric, "scores": scores}


def _provenance(result: Result) -> dict[str, Any]:
    """Facts for those who run it again."""
    facts = result.provenance
    distance = facts["distance"]
    intervals = facts.get("intervals") or {}
    shown = {
        "truerank": facts["version"],
        "distance": distance["distance"],
        "grid": distance.get("grid"),
        "digest of the embeddings": distance.get("input_digest"),
        "digest of the task": facts.get("task_digest") or facts.get("task_commitment"),
        "mean over": {"class": "classes", "query": "queries"}.get(facts.get("average", "")),
        "without a mate": facts.get("no_mate_option"),
        "never ranked": ", ".join(facts.get("excluded", [])) or None,
        "intervals": intervals.get("method"),
        "seed": intervals.get("seed"),
        "device": facts.get("device"),
        "seconds": facts.get("seconds"),
    }
    return {
        "facts": [[name, str(value)] for name, value in shown.items() if value not in (None, "")],
        "again": _again(result),
    }


def _again(result: Result) -> str:
    """Lines of Python that give the same numbers from the same rows."""
    facts = result.provenance
    if "trials" in facts or facts.get("part") or result.public:
        return ""
    sides = ["query"] if facts["leave_one_out"] else ["query", "gallery"]
    given = ["labels"] if "label" in result.attributes else ["relevance=relevance"]
    of_lists = "lists" in facts
    if len(sides) > 1:
        more = [] if of_lists else ["gallery=gallery"]
        given += [*more, *(["gallery_labels=gallery_labels"] if given == ["labels"] else [])]
    for rule, name in SHARED.items():
        if rule in facts["excluded"]:
            given += [f"{side}_{name}={side}_{name}" for side in sides]
    listed = textwrap.fill(
        ", ".join(json.dumps(metric) for metric in result),
        80,
        initial_indent=" " * 8,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )
    options = [] if of_lists else [f'distance="{facts["distance"]["distance"]}"']
    options.append(f"metrics=[\n{listed},\n    ]")
    for name, usual in (("average", "query"), ("no_mate", "report")):
        value = facts["no_mate_option" if name == "no_mate" else name]
        options += [] if value == usual else [f'{name}="{value}"']
    intervals = facts.get("intervals")
    if intervals is None:
        options.append("confidence=None")
    else:
        options += [f"confidence={intervals['confidence']}, seed={intervals['seed']}"]
    lines = ",\n    ".join(["neighbours" if of_lists else "embeddings", *given, *options])
    head = f"import truerank  # {facts['version']}\n\n"
    function = "evaluate_lists" if of_lists else "evaluate"
    return f"{head}result = truerank.{function}(\n    {lines},\n)\n"
