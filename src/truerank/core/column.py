"""A column: one metric's values of every query, as they come in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core import registry
from truerank.core.metric import Metric
from truerank.core.scale import Scale

__all__ = ["Column"]

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
