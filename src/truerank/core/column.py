"""A column: one metric's values of every query, as they come in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.metric import Metric
from truerank.core.scale import Scale

__all__ = ["Column", "as_run", "put", "share_counts"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass
class Column:
    """One metric's values as they come in: grades of at least `grade` are relevant."""

    metric: Metric
    grade: int
    scale: Scale
    values: Reals
    totals: Integers
    candidates: Integers

    @staticmethod
    def of(metric: Metric, grade: int, scale: Scale, queries: int) -> Column:
        """An empty column."""
        graded = registry.definition(metric).graded and metric.get("level") is None
        grades = len(scale.values) if graded else 1
        return Column(
            metric,
            0 if graded else grade,
            scale if graded else Scale(np.ones(1)),
            np.full((3, queries), np.nan),
            np.zeros((queries, grades), np.int64),
            np.zeros(queries, np.int64),
        )


def share_counts(columns: list[Column]) -> None:
    """Let columns of one grade have their mates and candidates in the same arrays."""
    held: dict[tuple[int, tuple[int, ...]], Column] = {}
    for column in columns:
        first = held.setdefault((column.grade, column.totals.shape), column)
        column.totals, column.candidates = first.totals, first.candidates


def put(table: npt.NDArray[Any], rows: Integers | slice, values: npt.NDArray[Any]) -> None:
    """table[:, rows] = values, line by line: several at once are put element by element."""
    for line, own in zip(table, values, strict=True):
        line[rows] = own


def as_run(rows: Integers) -> Integers | slice:
    """The rows, as a slice where they follow one another, which is filled much sooner."""
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
