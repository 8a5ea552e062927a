"""Submissions: rows in any order with their ids, put into the order of the task and scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_matrix, as_plain, name_rows
from truerank.errors import InputError, shortened
from truerank.evaluation import evaluate_task
from truerank.labels import MISSING, encode, missing_rows
from truerank.result import Result
from truerank.space import catalogue
from truerank.storage import take
from truerank.task import TaskRules

__all__ = ["align", "check_finite", "evaluate_submission", "places", "rows_in_order"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


def evaluate_submission(
    task: TaskRules, embeddings: Any, ids: Any, *, gallery: Any = None, **options: Any
) -> Result:
    """Align a submission to the task and score it; the result holds everything."""
    if catalogue.find(options.get("distance", "cosine")).given:
        matrix, items = _matrix_in_order(task, embeddings, ids, gallery), None
        return evaluate_task(task, matrix, items, **options)
    rows, items = rows_in_order(task, embeddings, ids, gallery)
    return evaluate_task(task, rows, items, **options)


def rows_in_order(
    task: TaskRules, embeddings: Any, ids: Any = None, gallery: Any = None
) -> tuple[Array, Array | None]:
    """The rows of the queries and of a separate gallery, each in the order of the task."""
    rows = as_matrix(embeddings, "embeddings")
    place = places(task, rows, ids, gallery)
    check_finite(rows, ids)
    known = task.id_names
    if known is None or place is None:
        items = None if gallery is None else as_matrix(gallery, "gallery")
        if (items is None) != task.leave_one_out:
            need = "takes no gallery" if task.leave_one_out else "needs gallery= as well"
            raise InputError(f"this task {need}.")
        return rows, items
    items = None if task.leave_one_out else take(rows, place[known.codes[-1]])
    return take(rows, place[known.codes[0]]), items


def check_finite(rows: Array, ids: Any) -> None:
    """Refuse NaN and infinity by the rows as they were submitted, and their ids."""
    if rows.dtype.kind != "f":
        return
    step = max(1, (1 << 22) // rows.shape[1])
    starts = range(0, len(rows), step)
    bad = np.concatenate(
        [
            np.flatnonzero(~np.isfinite(rows[start : start + step]).all(axis=1)) + start
            for start in starts
        ]
    )
    if not len(bad):
        return
    named = "" if ids is None else f" (id {shortened(as_plain(ids[bad[0]]))})"
    if named and len(bad) > 1:
        named = named.replace("(id", "(the first has id")
    raise InputError(
        f"NaN or infinity in {name_rows(bad)} of the {len(rows):,} submitted{named}; rows count "
        "from 0, and every number must be finite: compute those rows again."
    )


def _matrix_in_order(task: TaskRules, matrix: Any, ids: Any, gallery: Any) -> Array:
    """A matrix of distances, its rows and columns in the order of the task."""
    rows = as_matrix(matrix, "embeddings")
    known, place = task.id_names, places(task, rows, ids, gallery)
    if known is None or place is None:
        if gallery is not None:
            raise InputError("this task takes no gallery.")
        return rows
    if rows.shape[1] != len(rows):
        raise InputError(
            f"a matrix submitted with ids must be square, one row and one column for each id. "
            f"Got {rows.shape}."
        )
    ordered: Array = rows[np.ix_(place[known.codes[0]], place[known.codes[-1]])]
    return ordered


def places(task: TaskRules, rows: Array, ids: Any, gallery: Any = None) -> Integers | None:
    """For each id of the task the submitted row that carries it; None for a task without ids."""
    known = task.id_names
    if known is None:
        if ids is not None:
            raise InputError("this task has no ids, so its rows are taken in order; leave ids out.")
        return None
    if ids is None:
        raise InputError(
            "this task aligns submissions by id, and this one has none; save a column or "
            "array id beside the embeddings, or pass ids=, one for each row."
        )
    if gallery is not None:
        raise InputError("a submission to a task with ids is one array; leave gallery out.")
    for codes in known.codes:
        if len(np.unique(codes)) < len(codes):
            raise InputError(
                "this task repeats ids, so one embedding for each id cannot be told apart; "
                "organisers need distinct ids."
            )
    return align(known.values, ids, len(rows))


def align(wanted: Sequence[Any], ids: Any, count: int) -> Integers:
    """For each wanted id the row of the submission that carries it."""
    submitted = encode((ids, wanted), ("ids", "the task's ids"))
    rows, targets = submitted.codes
    if len(rows) != count:
        raise InputError(f"ids must have one value a row ({count}). Got {len(rows)}.")
    if (rows == MISSING).any():
        raise InputError(f"None or NaN in ids {missing_rows(rows)}; give each row its id.")
    names = submitted.values
    repeated = [names[code] for code, times in Counter(rows.tolist()).items() if times > 1]
    missing = [names[code] for code in np.setdiff1d(targets, rows)]
    extra = [names[code] for code in np.setdiff1d(rows, targets)]
    problems = [
        f"{len(found)} {what} ({', '.join(map(shortened, found[:3]))}{', ...' * (len(found) > 3)})"
        for what, found in (("repeated", repeated), ("missing", missing), ("unknown", extra))
        if found
    ]
    if problems:
        raise InputError(
            f"the submission's ids do not match the task's {len(wanted)}: {'; '.join(problems)}."
        )
    place = np.empty(len(names), np.int64)
    place[rows] = np.arange(count)
    result: Integers = place[targets]
    return result
