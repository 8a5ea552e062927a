"""Chance: what a scorer that ignores its input gets, exactly, from the label structure alone.

Such a scorer ties everything, so chance is each metric's expected value with one tie group per
query. Queries with as many mates among as many candidates share it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truerank.engine.counts import TieGroups
from truerank.metrics.registry import Metric, definition

__all__ = ["chance_per_query"]

Integers = npt.NDArray[np.int64]


def chance_per_query(
    metric: Metric, mates: Integers, candidates: Integers
) -> npt.NDArray[np.float64]:
    """Expected value of every query under random order; all of them must have a mate."""
    if not len(mates):
        return np.empty(0)
    distinct, number = np.unique(np.column_stack([mates, candidates]), axis=0, return_inverse=True)
    columns = [np.ascontiguousarray(column) for column in distinct.T]
    groups = TieGroups.single(columns[0], columns[1])
    expected = definition(metric).per_query(groups, metric)[1]
    return np.asarray(expected[number.ravel()], np.float64)
