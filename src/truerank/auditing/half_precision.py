"""What becomes of a ranking whose scores are computed in half precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import tables
from truerank.auditing.findings import Found
from truerank.core.folds import random_numbers
from truerank.core.score import Score
from truerank.evaluation import evaluate_task
from truerank.space import Space, catalogue
from truerank.space.digests import classes_of_equals, row_digests
from truerank.space.fingerprint import Fingerprints, mix
from truerank.task import TaskRules
from truerank.wording import count

__all__ = ["rank_again"]

Array = npt.NDArray[Any]
Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating[Any]]

SAMPLE_NUMBERS = 1 << 23
"""Scores recomputed in half precision: as many rows as fit this."""


def rank_again(
    task: TaskRules, space: Space, rows: Array, distance: str, threads: int | None, seed: int
) -> Found:
    """Rank some queries again with scores as half-precision code computes them."""
    found = Found()
    queries = np.flatnonzero(task.mates > 0)
    if not len(queries):
        return found
    most = max(16, SAMPLE_NUMBERS // len(rows))
    key = mix(_contents(task, space)[queries] + random_numbers(seed, 1)[0])
    chosen = np.sort(queries[np.argsort(key, kind="stable")[:most]])
    directions = catalogue.find(distance).points == "directions"
    points = np.ascontiguousarray(rows, np.float64)
    if directions:
        norms = np.sqrt((points * points).sum(axis=1, keepdims=True))
        points = points / np.where(norms > 0, norms, 1.0)
    labels = task.query_codes
    every = np.arange(len(rows))
    some = TaskRules(labels[chosen], gallery_labels=labels, ids=chosen, gallery_ids=every)
    number, times = classes_of_equals(row_digests((points + 0.0).view(np.int64)))
    points = points[np.argsort(number, kind="stable")[np.cumsum(times) - times]]
    exact = _scores(points, number, chosen, directions)
    right = _mean_average_precision(some, exact, threads)
    others = np.where(every[None, :] == chosen[:, None], -np.inf, exact)
    for name, rounded in (("float16", _float16), ("bfloat16", _bfloat16)):
        scores = rounded(_scores(rounded(points), number, chosen, directions))
        narrow = _mean_average_precision(some, scores, threads)
        changed = _first_changed(others, np.where(np.isinf(others), -np.inf, scores))
        _say(found, name, chosen, changed, right, narrow)
    return found


def _contents(task: TaskRules, space: Space) -> Fingerprints:
    """A number for each row, of what it and its class hold: no order and no name shows in it."""
    rows = space.fingerprints()
    total = np.zeros(int(task.query_codes.max()) + 1, np.uint64)
    np.add.at(total, task.query_codes, mix(rows))
    return mix(rows + mix(total)[task.query_codes])


def _scores(points: Floats, number: Integers, chosen: Integers, directions: bool) -> Floats:
    """Of the chosen rows with all, in the precision of the points; larger is nearer.

    Points are distinct and in an order of their own, and each row has the number of its point: the
    last bits of a product of matrices follow from where its lines stand.
    """
    asked, line = np.unique(number[chosen], return_inverse=True)
    scores: Floats = points[asked] @ points.T
    if not directions:
        squares = (points * points).sum(axis=1)
        scores = 2 * scores - squares[asked][:, None] - squares[None, :]
    return scores[line][:, number]


def _mean_average_precision(task: TaskRules, scores: Floats, threads: int | None) -> Score:
    options: dict[str, Any] = {"metrics": ["map"], "threads": threads, "confidence": None}
    return evaluate_task(task, scores, None, distance="similarity", **options)["map"]


def _say(
    found: Found, name: str, chosen: Integers, changed: Booleans, exact: Score, narrow: Score
) -> None:
    """Note what a precision makes of the chosen queries, and flag it where that is much."""
    other = int(changed.sum())
    found.measure(
        f"{name} scoring",
        {
            "queries": len(chosen),
            "map": exact.value,
            "map, lower and upper": [narrow.lower, narrow.upper],
            "queries with another or a tied nearest row": other,
        },
        f"Scored in {name}, {count(len(chosen), 'query')} would have a leave-one-out mAP of "
        f"{tables.percent(narrow.lower)} to {tables.percent(narrow.upper)} % instead of "
        f"{tables.percent(exact.value)} %, and {other:,} of them another nearest row, or a "
        "tied one.",
    )
    if max(narrow.upper - narrow.lower, abs(narrow.expected - exact.value)) > 0.005:
        found.add(
            f"{name} scoring",
            "note",
            int(changed.sum()),
            [(int(row),) for row in chosen[changed]],
            f"Scores computed in {name} would put the leave-one-out mAP of {len(chosen)} rows "
            f"anywhere from {tables.percent(narrow.lower)} to {tables.percent(narrow.upper)} % "
            f"instead of {tables.percent(exact.value)} %.",
            f"Do not rank in {name}: store embeddings in it if you must, score in float32.",
        )


def _first_changed(exact: Floats, rounded: Floats) -> Booleans:
    """Whether the nearest row is another one, or shares its score.

    Of several that are nearest, the one counts that comes out best.
    """
    first = exact == exact.max(axis=1, keepdims=True)
    best = rounded.max(axis=1)
    found = np.where(first, rounded, -np.inf).max(axis=1)
    changed: Booleans = (found < best) | ((rounded == best[:, None]).sum(axis=1) > 1)
    return changed


def _float16(values: Array) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def _bfloat16(values: Array) -> npt.NDArray[np.float32]:
    """Round float32 to its upper 16 bits, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)
