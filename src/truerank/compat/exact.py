"""The five retrieval metrics of AccuracyCalculator by truerank.evaluate, query by query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.compat.sides import Sides
from truerank.evaluation import evaluate

__all__ = ["METRICS", "per_query"]

Reals = npt.NDArray[np.float64]

METRICS = {
    "mean_average_precision": "map",
    "mean_average_precision_at_r": "map@r",
    "mean_reciprocal_rank": "mrr",
    "precision_at_1": "precision@1",
    "r_precision": "r_precision",
}
SHORT = {"mean_average_precision_at_r": "map", "r_precision": "precision"}
"""What a metric at R becomes, at k, for queries with more than k mates."""


def per_query(
    sides: Sides, chosen: Sequence[str], depth: int, *, distance: str, device: str
) -> dict[str, Reals]:
    """The values of each query by metric, NaN for queries without a mate.

    Rankings end after `depth` items: what comes later is not found.
    """
    depth = max(depth, 1)
    whole = depth >= len(sides.reference) - int(sides.includes_query)
    cut_off = sides.mates > depth
    wanted: dict[str, list[str]] = {}
    for name in chosen:
        metric = METRICS[name]
        wanted[name] = [f"map@{depth}" if metric == "map" and not whole else metric]
        if name in SHORT and cut_off.any():
            wanted[name].append(f"{SHORT[name]}@{depth}")
    metrics = list(dict.fromkeys(metric for some in wanted.values() for metric in some))
    result = evaluate(
        sides.query,
        **_task(sides),
        distance=distance,
        metrics=metrics,
        device=device,
        confidence=None,
    )
    found = {}
    for name in chosen:
        first, *short = (_lower(result[metric], len(sides.query)) for metric in wanted[name])
        if short:
            first = np.where(cut_off, short[0], first)
        if name == "mean_reciprocal_rank":  # NaN stays: it is smaller than nothing
            first = np.where(first < 1 / depth, 0.0, first)
        found[name] = first
    return found


def _lower(score: Any, queries: int) -> Reals:
    rows: Reals = np.full(queries, np.nan) if score.per_query is None else score.per_query.lower
    return rows


def _task(sides: Sides) -> dict[str, Any]:
    """The arguments of evaluate but for the queries; a query and its own row share an id."""
    count, items = len(sides.query), len(sides.reference)
    first = 0 if sides.includes_query else count
    ids = {"query_ids": np.arange(count), "gallery_ids": np.arange(first, first + items)}
    if sides.compare is not None:
        relevance = sides.relevant(np.arange(count))
        return {"gallery": sides.reference, "relevance": relevance, **ids}
    own, others = sides.codes if sides.labels[0].ndim == 2 else sides.labels
    if sides.includes_query and sides.reference is sides.query:
        return {"labels": own}
    return {"labels": own, "gallery": sides.reference, "gallery_labels": others, **ids}
