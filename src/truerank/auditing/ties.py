"""How much of a score the order of tied rows decides, where the rows are searched in themselves.

The metric is called by a name that says so: beside it may stand a result of queries that search
these rows, with another value under the plain name.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import tables
from truerank.auditing.findings import Found
from truerank.errors import TruerankWarning
from truerank.evaluation import evaluate_task
from truerank.task import TaskRules

__all__ = ["left_open"]

Array = npt.NDArray[Any]


def left_open(task: TaskRules, rows: Array, distance: str, threads: int | None) -> Found:
    """The metric of which ties leave most open."""
    found = Found()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        result = evaluate_task(
            task, rows, None, distance=distance, threads=threads, confidence=None
        )
    gaps = {name: score.upper - score.lower for name, score in result.items()}
    worst = max(gaps, key=lambda name: gaps[name], default=None)
    gap = 0.0 if worst is None else gaps[worst]
    name = f"leave-one-out {worst}"
    found.measure(
        "largest gap left open by ties",
        gap,
        f"Ties leave at most {tables.percent(gap)} points of a metric open"
        + (f" ({name})." if gap else "."),
    )
    tied = None if worst is None else result[worst].per_query
    if worst is None or gaps[worst] == 0 or tied is None:
        return found
    score = result[worst]
    open_rows = np.flatnonzero(tied.lower < tied.upper)
    found.add(
        "ties",
        "error" if gaps[worst] > 0.01 else "warning" if gaps[worst] > 0.001 else "note",
        len(open_rows),
        [(int(row),) for row in open_rows],
        f"The {name} of these rows is anywhere from {tables.percent(score.lower)} to "
        f"{tables.percent(score.upper)} % for ties: row order alone can gain "
        f"{tables.percent(score.upper - score.lower)} points in a tool that sorts.",
        "Report the lower bound; look for equal rows, coarse scores or too low a precision.",
    )
    return found
