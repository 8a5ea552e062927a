"""The sections of a page about one result or several: plain values, with a line per metric."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.text import count, level_name, plural, reworded
from truerank.analysis.compare import Comparison
from truerank.analysis.differences import Difference
from truerank.competition.board import groups
from truerank.core import registry
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.report.details import (
    known_details,
    scaled,
    solved_strips,
    spaced_rows,
)
from truerank.report.page import column, metric_column, named, page_table, shortened
from truerank.result import tables
from truerank.result.curves import NONE, marks_of
from truerank.result.result import Result
from truerank.result.tables import Parts

# One result as a page shows it: plain values, section by section.


MOST_ROWS = 5000
"""Classes that a table lists."""
MOST_METRICS = 8
FEW_QUERIES = 4
"""Queries per class below which coarser parts are shown before classes."""
SHARED = {"rows that share an id": "ids", "mates of the query's own group": "groups"}
"""What a rule of a task is made from."""
NEEDS_ROWS = (
    "The embeddings are not at hand, so the page has no threshold slider, confusions, neighbors, "
    "map or ties. To have them, evaluate with --report, or call to_html while the embeddings are "
    "still in memory."
)
IS_PUBLIC = "This is a public result of a hidden task: it names scores, and no queries."


def model_data(
    result: Result, name: str, coordinates: npt.NDArray[np.float64] | None = None
) -> dict[str, Any]:
    """All sections of a result; its map shows the given coordinates, if there are some."""
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
        "ranked": _ranked(details.get("ranked")),
        "severity": _severity(result),
        "map": _map(result, details.get("map"), coordinates),
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
    """A row for each metric: its cells, a line of words, and where its numbers lie."""
    scores = list(result.values())
    columns: dict[str, Callable[[Score], str]] = {
        "metric": lambda score: named(score.metric),
        "score": lambda score: tables.number(score.metric)(score.value),
    }
    if any(score.interval is not None for score in scores):
        level = (result.provenance.get("intervals") or {}).get("confidence")
        columns[f"{100 * level:g} % interval" if level else "interval"] = _interval
    if any(score.tied for score in scores):
        columns["upper bound"] = lambda score: (
            tables.number(score.metric)(score.upper) if score.tied else ""
        )
    if any(score.chance is not None for score in scores):
        columns["chance"] = lambda score: (
            "" if score.chance is None else tables.number(score.metric)(score.chance)
        )
    units = {score.counted for score in scores if score.n} or {"query"}
    alike = len(units) == 1
    columns[plural(*units) if alike else "counted"] = lambda score: (
        f"{score.n:,}" if alike or not score.n else count(score.n, score.counted)
    )
    lines, on_axis = [], []
    for name, score in result.items():
        known = registry.find(name)
        low, high = score.interval or (None, None)
        places = {
            "value": _number(score.value),
            "low": _number(low),
            "high": _number(high),
            "chance": _number(score.chance),
        }
        share = known.unit == "share" and known.range == (0.0, 1.0)
        on_axis += [name] if share else []
        lines.append(
            {
                "metric": name,
                "cells": [shown(score) for shown in columns.values()],
                "interval": _interval(score),
                "words": in_words(name),
                "reason": score.reason,
                "places": places if share else None,
            }
        )
    return {
        "header": list(columns),
        "rows": lines,
        "first": headline_metrics(on_axis),
        "csv": tables.as_csv(result),
    }


def _interval(score: Score) -> str:
    shown = tables.number(score.metric)
    ends = score.interval
    return "" if ends is None else f"{shown(ends[0])} to {shown(ends[1])}"


HEADLINES = ("precision@1", "hit@1", "map@r", "h_ap", "tar@far", "eer", "auc", "accuracy", "mrr",
             "map", "dir@far", "mrep")  # fmt: skip
"""Metrics that say most at a glance, where a result has them."""


def headline_metrics(metrics: Iterable[str]) -> list[str]:
    """The few metrics that stand above all others."""

    def place(text: str) -> int:
        name = text.partition("=")[0]
        return HEADLINES.index(name) if name in HEADLINES else len(HEADLINES)

    return sorted(metrics, key=place)[:4]


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
        name: [
            [registry.display_name(mark.metric), mark.x, mark.y, mark.threshold] for mark in marks
        ]
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
        first = column(level_name(attribute)) | {"in_files": attribute}
        columns = [first, column("queries", "count"), *map(metric_column, metrics)]
        decimals = [one["decimals"] for one in columns[2:]]
        rows = [
            [str(value), int(part.provenance["queries"])]
            + [shortened(part[m].value, d) for m, d in zip(metrics, decimals, strict=True)]
            for value, part in parts.rows
        ]
        note = ""
        if parts.of > len(parts.rows):
            note = f"The {len(parts.rows):,} of {parts.of:,} that are worst in {named(metrics[0])}."
        higher = registry.find(metrics[0]).higher_is_better
        level = f"Level {attribute}" if attribute.isdigit() else attribute
        title = {"label": "Classes", "group": "Groups"}.get(attribute, level)
        order = (2, "ascending" if higher else "descending")
        found.append(
            page_table(title, columns, rows, note=note, sorted_by=order, file=f"by {attribute}")
        )
    few = result.provenance["queries"] < FEW_QUERIES * len(set(result.queries().get("label", ())))
    return sorted(found, key=lambda table: (table["title"] == "Classes") == few)


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
    table = page_table("Confusions", columns, rows, note=note, sorted_by=(2, "descending"))
    return {
        "table": table,
        "classes": found.get("classes"),
        "examples": found.get("examples") or [],
    }


def _ranked(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Queries with their neighbors, and the name of the metric that ordered them."""
    return None if found is None else {**found, "shown": named(found["metric"])}


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


MOST_KINDS = 12
"""Values that the map's colors and symbols distinguish."""


def _map(
    result: Result, found: Mapping[str, Any] | None, given: npt.NDArray[np.float64] | None
) -> dict[str, Any] | None:
    """Places of rows, what is known about them, and the values that may color them."""
    if given is not None:
        rows = spaced_rows(len(given))
        found = {"rows": rows.tolist(), **scaled(given[rows]), "share": None}
    if found is None or result.provenance.get("part"):
        return None
    about = {
        name: [str(values[row]) for row in found["rows"]]
        for name, values in result.queries(levels=True).items()
    }
    rows = np.asarray(found["rows"], np.int64)
    levels = (result.provenance.get("hierarchy") or {}).get("levels", [])
    kinds = {}
    for name in dict.fromkeys([*levels[:1], "label", "group"]):
        values = sorted(set(about.get(name, ())))
        if 1 < len(values) <= MOST_KINDS:
            codes = [values.index(value) for value in about[name]]
            kinds[name] = {"values": values, "codes": codes}
    first = _solved_by(result)
    if first is not None:
        outcome = np.where(np.isnan(first[rows]), 2, np.where(first[rows] == 1.0, 0, 1))
        values = ["relevant", "irrelevant", "unmated query"]
        kinds["nearest item"] = {"values": values, "codes": outcome.tolist()}
    titles = about.get("label", about.get("id"))
    return {**found, "titles": titles, "kinds": kinds, "queries": result.provenance["queries"]}


def _solved_by(result: Result) -> npt.NDArray[np.float64] | None:
    """1 per query whose nearest item is relevant, 0 per other one, NaN where that is undefined."""
    metric = next((name for name in ("precision@1", "hit@1") if name in result), None)
    scores = None if metric is None else result[metric].per_query
    return None if scores is None else scores.lower


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
        "unmated queries": facts.get("no_mate_option"),
        "never ranked": ", ".join(map(reworded, facts.get("excluded", []))) or None,
        "intervals": tables.reworded_method(intervals.get("method") or ""),
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
    lines = ",\n    ".join(["neighbors" if of_lists else "embeddings", *given, *options])
    head = f"import truerank  # {facts['version']}\n\n"
    function = "evaluate_lists" if of_lists else "evaluate"
    return f"{head}result = truerank.{function}(\n    {lines},\n)\n"


# Several results of one task on a page: differences, groups, and who solves which query.


MOST_MODELS = 6
"""Models of which every two are held against each other query by query."""
LISTED = 100
"""Queries listed of each kind."""


def comparison_data(results: list[Result], names: list[str], found: Comparison) -> dict[str, Any]:
    """Differences with their intervals, models that are not distinguishable, and who solves what.

    The letters for models without a significant difference are for three models or more: for two
    the differences say it.
    """
    return {
        "models": names,
        "scores": _scores(found) if len(names) > 2 else None,
        "differences": _differences(found),
        "notes": found.notes,
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
                    named(metric),
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
    return page_table("Scores and groups", columns, rows, file="comparison scores")


def _differences(found: Comparison) -> dict[str, Any]:
    """All differences: their text, where they lie, and both scores."""
    values = {(row.metric, row.model): row.value for row in found.standings}
    rows, places, scores = [], [], []
    for row in found.differences:
        shown = tables.number(row.metric)
        ends = row.interval
        better = _better(row, found.confidence)
        rows.append(
            [
                named(row.metric),
                row.first,
                row.second,
                ("+" if row.value >= 0 else "-") + shown(abs(row.value)),
                "" if ends is None else f"{shown(ends[0])} to {shown(ends[1])}",
                _probability(row.p),
                _probability(row.adjusted_p),
                f"{better} is better" if better else _OPEN[row.adjusted_p is None],
            ]
        )
        share = registry.find(row.metric).unit == "share"
        places.append([row.value, *(ends or (None, None))] if share else None)
        scores.append([shown(values[row.metric, name]) for name in (row.first, row.second)])
    columns = [column(name) for name in ("metric", "first", "second")]
    columns += [column(name, "number") for name in ("difference", "interval", "p", "p (Holm)")]
    table = page_table("Differences", [*columns, column("verdict")], rows)
    words = [in_words(row.metric) for row in found.differences]
    return table | {
        "places": places,
        "scores": scores,
        "words": words,
        "confidence": f"{100 * found.confidence:g} %",
    }


def _better(row: Difference, confidence: float) -> str | None:
    """The model with the significantly better score, if either has it."""
    if row.adjusted_p is None or row.adjusted_p >= 1 - confidence:
        return None
    higher = registry.find(row.metric).higher_is_better
    return row.first if (row.value > 0) == higher else row.second


_OPEN = ("no significant difference", "no test")
"""What is said of a difference that is not certain, and of one that has no test."""


def _probability(p: float | None) -> str:
    return "" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _solved(results: list[Result], names: list[str]) -> dict[str, Any] | None:
    """For every two models, how many queries both solve, one of them, or none."""
    right = [_solved_by(result) for result in results[:MOST_MODELS]]
    known = [rows for rows in right if rows is not None]
    if len(known) < len(right):
        return None
    about = results[0].queries()
    pairs: list[dict[str, Any]] = []
    for a, b in combinations(range(len(known)), 2):
        pair = _pair(known[a], known[b], about) | {"first": names[a], "second": names[b]}
        if len(pairs) < WITH_STRIPS:
            pair["strips"] = solved_strips(results[a], results[b], known[a], known[b])
        pairs.append(pair)
    columns = ["query", *(name for name in ("id", "label", "group") if name in about)]
    return {"pairs": pairs, "columns": columns}


WITH_STRIPS = 3
"""Pairs of models of which some queries are shown with their neighbors."""


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


# What a page concludes, in a few sentences at its top.


def conclusion(result: Result, model: Mapping[str, Any]) -> list[str]:
    """Sentences about one result: its headline, what was not scored, and what the checks found."""
    found = []
    headline = model["headline"]["first"]
    if headline:
        score = result[headline[0]]
        shown = tables.number(headline[0])
        words = [f"{named(headline[0])} is {shown(score.value)} %"]
        if score.interval is not None:
            level = f"{100 * result.provenance['intervals']['confidence']:g} %"
            words.append(f"({level} interval {_interval(score)})")
        if score.chance is not None:
            words[-1] += ";"
            words.append(f"the chance level is {shown(score.chance)} %")
        found.append(" ".join(words) + ".")
    facts = result.provenance
    unmated = sum((facts.get("no_mate") or {}).values())
    if unmated:
        mated = facts["queries"] - unmated
        found.append(
            f"{mated:,} of {facts['queries']:,} queries have a relevant item in the gallery; "
            f"{unmated:,} are unmated."
        )
    findings = (model["audit"] or {}).get("findings", [])
    problems = sum(one["severity"] != "note" for one in findings)
    if problems:
        what = "1 problem" if problems == 1 else f"{problems} problems"
        found.append(f"The data checks report {what}: see Checks.")
    return found


# One line of plain words for each metric: what a reader who never met it may take it for.


WORDS = {
    "r_precision": "Of the R nearest items, the share that are relevant; R is the number of "
    "relevant items.",
    "mrr": "One over the rank of the first relevant item.",
    "minp": "How early the last relevant item is found.",
    "bpref": "How rarely an irrelevant item stands before a relevant one.",
    "h_ap": "Average precision in which a near miss counts in part.",
    "sum_wap": "Average precision at every level of the labels, weighted.",
    "asi": "How far the first items are the best that could stand there, over all depths.",
    "auc": "How often a positive pair is nearer than a negative pair.",
    "eer": "The error rate at the threshold where both kinds of error are equally frequent.",
    "best_f1": "The best balance of precision and recall that one threshold gives.",
    "min_dcf": "The least cost of errors over all thresholds.",
    "mrep": "Ranking and accepting at once, over all thresholds.",
    "mfr": "How much unmated queries accept, over all thresholds.",
    "mrep_max": "Ranking and accepting at once, at the best threshold.",
    "mvp_max": "How clean and complete the accepted items are, at the best threshold.",
    "opis": "How unevenly one threshold serves the classes.",
    "nmi": "How well clusters of the embeddings agree with the classes.",
    "ami": "How well clusters of the embeddings agree with the classes, less chance.",
    "pairwise_f1": "How well pairs in one cluster are pairs of one class.",
}


def in_words(text: str) -> str:
    """What a metric says, in one line.

    Examples
    --------
    >>> in_words("hit@5")
    'How often a relevant item is among the 5 nearest.'
    """
    metric = registry.of_result(text)
    level = metric.get("level")
    known = _with_cut(metric) or _with_rate(metric) or WORDS.get(metric.name)
    if known is None:
        definition = registry.definition(metric).definition
        known = f"{definition[0].upper()}{definition[1:]}."
    return known if level is None else f"{known[:-1]} (level {metric.text('level')} of the labels)."


def _with_cut(metric: Metric) -> str | None:
    """Metrics up to a rank."""
    cut = metric.cut
    if (metric.name, cut) in (("precision", 1), ("hit", 1)):
        return "How often the nearest item is relevant."
    if metric.name == "precision":
        return f"Of the {cut} nearest items, the share that are relevant."
    if metric.name == "hit":
        return f"How often a relevant item is among the {cut} nearest."
    if metric.name == "recall":
        return f"The share of the relevant items that are among the {cut} nearest."
    if metric.name == "map":
        if cut == "r":
            return (
                "The share of relevant items among the R nearest, early ones count more; R exist."
            )
        within = "" if cut is None else f" within the first {cut} items"
        return f"How early all relevant items are found{within}."
    if metric.name == "mrr" and cut is not None:
        return (
            f"One over the rank of the first relevant item, 0 if it is not among the first {cut}."
        )
    if metric.name == "ndcg":
        within = "" if cut is None else f", within the first {cut} items"
        return f"How near the order is to the best one, sooner counts more{within}."
    return None


def _with_rate(metric: Metric) -> str | None:
    """Metrics at a rate of false accepts."""
    far = metric.get("far")
    if far is None or isinstance(far, tuple):
        return None
    rate = f"{100 * float(far):g} %"
    falsely = "false accepts of unmated queries"
    return {
        "tar": f"Positive pairs accepted while {rate} of the negative pairs are.",
        "fnmr": f"Positive pairs rejected while {rate} of the negative pairs are accepted.",
        "threshold": f"The distance up to which to accept, for {rate} of false accepts.",
        "dir": f"Relevant item found first and accepted at {rate} {falsely}.",
        "fnir": f"Mated queries not identified while {rate} of the unmated ones are accepted.",
        "ttr": f"Mated queries that accept any item at {rate} {falsely}.",
        "mrep": f"Ranking and accepting at once, at {rate} {falsely}.",
        "mvp": f"How clean and complete the accepted items are, at {rate} {falsely}.",
        "mrp": f"How early accepted relevant items are found, at {rate} {falsely}.",
        "mfr": f"How much unmated queries accept, where {rate} of them accept any item.",
    }.get(metric.name)
